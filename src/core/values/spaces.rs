//! Key spaces: where the keys of each customer lie that has keys of its own.
//!
//! Two kvstores of one process both count their keys from 0 and mean different arrays. So the
//! worker puts the keys of a further one elsewhere in the range of the same server, before anything
//! else looks at them: whatever cuts, routes, moves, copies or sums knows no customers, only keys.
//! The store takes the space off again where the application's own number counts: for the
//! optimizer, and for people.
//!
//! Space 0 begins where the range does, and so its keys are those that stock has. Pure arithmetic.
//! May touch `wire` types and the frames of keys only.

use bytes::Bytes;

use super::ranges::server_key_ranges;
use super::{KEY_SIZE, iter_keys};
pub use crate::keys::{SHARED, SPACE_KEYS, Space, space_begin};
use crate::wire::Key;

/// Why keys cannot be put into a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// It would lie in the next space.
    #[error(
        "key {key} is {offset} behind the begin of its server's range: a worker with keys of its \
         own has 2^40 for each server"
    )]
    TooLarge {
        /// The key.
        key: Key,
        /// Its distance from the begin of the range.
        offset: u64,
    },
    /// The range of a server has no room for it.
    #[error(
        "customer {customer} cannot have keys of its own: the numbers of keys suffice for \
         {customers} customers with {servers} servers, counted from 0"
    )]
    NoRoom {
        /// Its number.
        customer: i32,
        /// How many there may be.
        customers: u64,
        /// Servers of the job.
        servers: usize,
    },
}

/// The space of one customer, in the ranges of that many servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpace {
    /// Where it begins in each range.
    begin: u64,
    /// Keys of one range.
    width: u64,
    ranges: u64,
}

impl KeySpace {
    /// The space of a customer.
    ///
    /// # Errors
    /// Its number is none of a further customer, or one for which ranges have no room.
    pub fn of_customer(customer: i32, servers: usize) -> Result<Self, SpaceError> {
        let width = server_key_ranges(servers).first().map_or(0, |range| range.size());
        let customers = width / SPACE_KEYS;
        let space = u64::try_from(customer).ok().filter(|space| (1..customers).contains(space));
        let space = space.ok_or(SpaceError::NoRoom { customer, customers, servers })?;
        Ok(Self { begin: space * SPACE_KEYS, width, ranges: servers as u64 })
    }

    /// The keys, in this space. What is no whole number of keys, or in nobody's range, stays as it
    /// is: it is refused where requests are cut.
    ///
    /// # Errors
    /// The first key that is too large.
    pub fn place(&self, keys: &Bytes) -> Result<Bytes, SpaceError> {
        if !keys.len().is_multiple_of(KEY_SIZE) {
            return Ok(keys.clone());
        }
        let mut placed = Vec::with_capacity(keys.len());
        for key in iter_keys(keys) {
            placed.extend_from_slice(&self.place_one(key)?.to_ne_bytes());
        }
        Ok(Bytes::from(placed))
    }

    fn place_one(&self, key: Key) -> Result<Key, SpaceError> {
        if key / self.width >= self.ranges {
            return Ok(key);
        }
        let offset = key % self.width;
        if offset >= SPACE_KEYS {
            return Err(SpaceError::TooLarge { key, offset });
        }
        // Below the width, since the space has room: so it stays in its range.
        Ok(key + self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(keys: &[Key]) -> Bytes {
        Bytes::copy_from_slice(bytemuck::cast_slice(keys))
    }

    #[test]
    fn keys_stay_with_their_server_and_in_their_order() {
        let space = KeySpace::of_customer(3, 2).unwrap();
        let second = server_key_ranges(2)[1].begin;
        let placed = space.place(&frame(&[7, 9, second, second + 5])).unwrap();
        let at = 3 * SPACE_KEYS;
        assert_eq!(placed, frame(&[at + 7, at + 9, second + at, second + at + 5]));
        assert_eq!(space_begin(at + 7, 0), at);
        assert_eq!(space_begin(second + at + 5, second), second + at);
        assert_eq!(space_begin(second + 5, second), second, "that of those who share");
    }

    #[test]
    fn what_would_lie_in_the_next_space_is_refused() {
        let space = KeySpace::of_customer(1, 1).unwrap();
        assert!(space.place(&frame(&[SPACE_KEYS - 1])).is_ok());
        let error = space.place(&frame(&[0, SPACE_KEYS])).unwrap_err();
        assert_eq!(error, SpaceError::TooLarge { key: SPACE_KEYS, offset: SPACE_KEYS });
        assert_eq!(space.place(&frame(&[u64::MAX])).unwrap(), frame(&[u64::MAX]), "nobody's");
    }

    #[test]
    fn a_customer_that_has_no_room_is_refused() {
        for (customer, servers) in [(0, 1), (-1, 1), (1 << 24, 1), (1, 1 << 24), (1, 0)] {
            let error = KeySpace::of_customer(customer, servers).unwrap_err();
            assert!(matches!(error, SpaceError::NoRoom { .. }), "{error}");
        }
        assert!(KeySpace::of_customer(1000, 1000).is_ok());
    }

    proptest! {
        /// No key of one customer is one of another, and none changes its server.
        #[test]
        fn spaces_are_apart(
            servers in 1..300_usize,
            rank in 0..300_usize,
            (one, other) in (1..50_i32, 1..50_i32),
            (key, more) in (0..SPACE_KEYS, 0..SPACE_KEYS),
        ) {
            let range = server_key_ranges(servers)[rank % servers];
            let placed = |customer, key| {
                KeySpace::of_customer(customer, servers).unwrap().place_one(range.begin + key)
            };
            let (here, there) = (placed(one, key).unwrap(), placed(other, more).unwrap());
            prop_assert!(range.contains(here) && range.contains(there));
            prop_assert_eq!(here == there, (one, key) == (other, more));
            prop_assert_eq!((here - range.begin) / SPACE_KEYS, one as u64);
        }
    }
}
