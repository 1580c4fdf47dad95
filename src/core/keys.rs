//! How keys are named for people. On the wire a key lies in the range of a rank, and there in the
//! space of one customer or of all that share theirs; its application counts from the begin of that
//! and knows no other number. Every text about a key goes through [`KeyName`]. Pure arithmetic, on
//! which `values::ranges` and `values::spaces` build; must not know what lies under a key.

use std::fmt;

/// A key space: the number of the customer whose keys are in it.
pub type Space = u32;

/// The space of all customers that have no keys of their own: their keys are as the application
/// made them.
pub const SHARED: Space = 0;

/// Keys that one space has in the range of one server. MXNet's have 31 bits, rows come on top.
pub const SPACE_KEYS: u64 = 1 << 40;

/// Keys of each rank of that many servers (postoffice.cc:169-180); `None` of no server.
#[must_use]
pub fn range_width(servers: usize) -> Option<u64> {
    u64::try_from(servers).ok().and_then(|servers| u64::MAX.checked_div(servers))
}

/// The first key of the space in which a key lies, of a range that begins at `first`.
#[must_use]
pub const fn space_begin(key: u64, first: u64) -> u64 {
    first + key.saturating_sub(first) / SPACE_KEYS * SPACE_KEYS
}

/// A key as its application knows it: `3`, or `3 of customer 1` of one with keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName {
    key: u64,
    space: Space,
}

impl KeyName {
    /// The application's number, and the space it is in.
    #[must_use]
    pub const fn new(key: i64, space: Space) -> Self {
        Self { key: key.cast_unsigned(), space }
    }

    /// The name of a wire key in a job of so many servers, whose stores keep spaces apart. A key of
    /// nobody's range has the number that the wire has.
    #[must_use]
    pub fn of(key: u64, servers: usize) -> Self {
        let whole = Self::of_handler(key, servers);
        let space = Space::try_from(whole.key / SPACE_KEYS);
        match space.ok().filter(|_| Self::is_somebodys(key, servers)) {
            Some(space) => Self { key: whole.key % SPACE_KEYS, space },
            None => whole,
        }
    }

    /// The same where an application's own handler serves keys: it knows no spaces.
    #[must_use]
    pub fn of_handler(key: u64, servers: usize) -> Self {
        let width = range_width(servers).filter(|_| Self::is_somebodys(key, servers));
        Self { key: width.map_or(key, |width| key % width), space: SHARED }
    }

    fn is_somebodys(key: u64, servers: usize) -> bool {
        range_width(servers).is_some_and(|width| key / width < servers as u64)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            SHARED => write!(f, "{}", self.key),
            customer => write!(f, "{} of customer {customer}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: u64, servers: usize) -> String {
        KeyName::of(key, servers).to_string()
    }

    #[test]
    fn a_key_is_named_with_its_customer_if_that_matters() {
        assert_eq!(KeyName::new(3, 0).to_string(), "3");
        assert_eq!(KeyName::new(3, 1).to_string(), "3 of customer 1");
    }

    #[test]
    fn a_wire_key_is_named_as_its_application_counts_it() {
        for servers in [1, 2, 3, 7, 300] {
            let width = range_width(servers).unwrap();
            for rank in 0..servers as u64 {
                let begin = rank * width;
                assert_eq!(
                    (name(begin, servers), name(begin + 5, servers)),
                    ("0".into(), "5".into())
                );
                assert_eq!(name(begin + 2 * SPACE_KEYS + 5, servers), "5 of customer 2");
                let handler = KeyName::of_handler(begin + 2 * SPACE_KEYS + 5, servers);
                assert_eq!(handler.to_string(), (2 * SPACE_KEYS + 5).to_string());
            }
        }
    }

    #[test]
    fn a_key_of_nobody_has_its_own_number() {
        for servers in [0, 1, 2, 7] {
            assert_eq!(name(u64::MAX, servers), u64::MAX.to_string());
            let handler = KeyName::of_handler(u64::MAX, servers);
            assert_eq!(handler.to_string(), u64::MAX.to_string());
        }
    }
}
