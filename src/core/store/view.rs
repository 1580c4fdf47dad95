//! The application's view of keys: each lies in the range of one rank, there in the space of one
//! customer or of all that share theirs, and the application counts it from the begin of that. May
//! touch `values`' ranges and spaces; must not know which server keeps what.

use crate::keys::KeyName;
use crate::values::spaces::space_begin;
use crate::values::{SPACE_KEYS, Space, server_key_ranges};
use crate::wire::Key;

/// The ranges of all ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankRanges {
    /// Keys of one rank (postoffice.cc:169-180).
    width: u64,
    ranks: usize,
}

impl RankRanges {
    /// The view of a job of so many servers, at least one.
    pub(super) fn new(servers: usize) -> Self {
        let ranges = server_key_ranges(servers.max(1));
        Self { width: ranges.first().map_or(u64::MAX, |range| range.size()), ranks: ranges.len() }
    }

    /// How many ranks there are.
    pub(super) const fn ranks(&self) -> usize {
        self.ranks
    }

    /// The rank in whose range the key lies; the largest keys are nobody's.
    pub(super) fn rank(&self, key: Key) -> Option<usize> {
        let rank = usize::try_from(key / self.width).ok()?;
        (rank < self.ranks).then_some(rank)
    }

    /// The space of a key.
    pub(super) const fn space(&self, key: Key) -> Space {
        (key % self.width / SPACE_KEYS) as Space
    }

    /// The first key of its space in the range in which a key lies.
    pub(super) const fn begin(&self, key: Key) -> Key {
        space_begin(key, key / self.width * self.width)
    }

    /// The key, for people.
    pub(super) const fn name(&self, key: Key) -> KeyName {
        KeyName::new(self.local(key), self.space(key))
    }

    /// The same where an application's handler serves it: it knows no spaces.
    pub(super) fn name_of_handler(&self, key: Key) -> KeyName {
        KeyName::of_handler(key, self.ranks)
    }

    /// The key as the application knows it, if it is anybody's.
    pub(super) fn checked_local(&self, key: Key) -> Option<i64> {
        self.rank(key).map(|_| self.local(key))
    }

    /// The key as the application knows it, of one that was checked.
    pub(super) const fn local(&self, key: Key) -> i64 {
        (key - self.begin(key)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_from_the_begin_of_their_rank() {
        for servers in 1..20 {
            let view = RankRanges::new(servers);
            for (rank, range) in server_key_ranges(servers).iter().enumerate() {
                for (key, local) in [(range.begin, 0), (range.begin + 7, 7)] {
                    assert_eq!(
                        (view.rank(key), view.checked_local(key)),
                        (Some(rank), Some(local))
                    );
                    assert_eq!((view.local(key), view.begin(key)), (local, range.begin));
                }
                assert_eq!(view.rank(range.end - 1), Some(rank));
                let further = range.begin + 5 * SPACE_KEYS + 7;
                assert_eq!((view.space(further), view.local(further)), (5, 7));
                assert_eq!((view.rank(further), view.space(range.begin)), (Some(rank), 0));
            }
            assert_eq!((view.rank(u64::MAX), view.checked_local(u64::MAX)), (None, None));
        }
    }
}
