//! In which order parts go along trees. Pure.

use crate::wire::Key;

/// The class of the part of a key that begins at element `from`, on its way along a tree: of two
/// messages to one peer the one of the higher class goes first. Every node sends first what comes
/// first in the round, by its key and its place within: else a worker's own pushes, which are all
/// there at once, hold up the sums that come from below (docs/trees.md).
#[must_use]
pub fn place_in_round(key: Key, from: u64, servers: usize) -> i32 {
    /// Elements that are in one class, and classes of a key.
    const ELEMENTS: u64 = 1 << 14;
    const OF_KEY: u64 = 1 << 10;
    const KEYS: u64 = 1 << 20;
    // An application numbers its keys alike within the ranges of all servers.
    let position = key % (Key::MAX / servers.max(1) as u64).max(1);
    let place = position.min(KEYS - 1) * OF_KEY + (from / ELEMENTS).min(OF_KEY - 1);
    i32::try_from(place).map_or(i32::MIN, |place| -place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_keys_and_earlier_parts_go_first() {
        let range = Key::MAX / 3;
        let of = |key, from| place_in_round(key, from, 3);
        assert!(of(0, 0) > of(0, 1 << 14) && of(0, 1 << 20) > of(1, 0));
        assert_eq!(of(range + 7, 5), of(7, 9), "the same place at another server");
        assert!(of(range - 1, u64::MAX) < of(1 << 19, 0) && of(0, 0) <= 0);
    }
}
