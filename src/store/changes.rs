//! Of which keys a server has something new to claim (`docs/elastic.md`, "Claims"), so that what it says costs no more
//! than what is new, however much it holds. Pure books: what is claimed of a key is for those who hold it to say.

use std::collections::BTreeSet;

use crate::wire::Key;
use crate::wire::elastic::Claim;

/// Keys of which something is new since the last word.
#[derive(Debug, Default)]
pub(super) struct Changes {
    keys: BTreeSet<Key>,
    /// Perhaps of any key.
    all: bool,
    /// Changes so far.
    number: u64,
}

/// What a server claims now and did not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// All that it holds.
    All(Vec<Claim>),
    /// What it holds of some keys.
    Some {
        /// All claims of each key of which something is left.
        claims: Vec<Claim>,
        /// Keys of which nothing is left, ascending.
        gone: Vec<Key>,
    },
}

impl Changes {
    /// Something may be new of that key.
    pub(super) fn of(&mut self, key: Key) {
        self.number += 1;
        if !self.all {
            self.keys.insert(key);
        }
    }

    /// Something may be new of any key.
    pub(super) fn of_all(&mut self) {
        self.number += 1;
        self.all = true;
        self.keys.clear();
    }

    /// How many there have ever been.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Keys of which something may be new; all of those `held`, if that is not known.
    pub(super) fn count(&self, held: usize) -> usize {
        if self.all { held.max(1) } else { self.keys.len() }
    }

    /// All was said now.
    pub(super) fn clear(&mut self) {
        (self.keys, self.all) = (BTreeSet::new(), false);
    }

    /// The keys that are to be said now; `None`: all.
    pub(super) fn take(&mut self) -> Option<BTreeSet<Key>> {
        let keys = std::mem::take(&mut self.keys);
        (!std::mem::take(&mut self.all)).then_some(keys)
    }
}

impl News {
    /// What is new of some keys; `list` adds the claims of one.
    pub(super) fn of(keys: BTreeSet<Key>, mut list: impl FnMut(Key, &mut Vec<Claim>)) -> Self {
        let (mut claims, mut gone) = (Vec::new(), Vec::new());
        for key in keys {
            let before = claims.len();
            list(key, &mut claims);
            if claims.len() == before {
                gone.push(key);
            }
        }
        Self::Some { claims, gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_new_no_more() {
        let mut changes = Changes::default();
        for key in [5, 3, 5] {
            changes.of(key);
        }
        assert_eq!((changes.count(100), changes.number()), (2, 3));
        let news = News::of(changes.take().unwrap(), |key, claims| {
            claims.extend((key == 3).then(|| Claim { key, ..Claim::default() }));
        });
        let claims = vec![Claim { key: 3, ..Claim::default() }];
        assert_eq!(news, News::Some { claims, gone: vec![5] });
        assert_eq!(changes.count(100), 0);
        changes.of_all();
        changes.of(3);
        assert_eq!((changes.count(100), changes.take(), changes.count(100)), (100, None, 0));
    }
}
