//! Which server owns which keys. Pure arithmetic; applications compute keys from these numbers and
//! cache them, so they are stock's, bit for bit.

use crate::keys::range_width;
use crate::wire::Key;

/// The keys `begin..end` of one server (range.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first key.
    pub begin: u64,
    /// One past the last key.
    pub end: u64,
}

impl KeyRange {
    /// True if the key lies in this range.
    #[must_use]
    pub const fn contains(&self, key: Key) -> bool {
        self.begin <= key && key < self.end
    }

    /// The number of keys.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Elements of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPart {
    /// The wire key.
    pub key: Key,
    /// The first element.
    pub from: u64,
    /// One past the last element; 0: all of a key whose length its worker does not know.
    pub to: u64,
}

/// The ranges of `n` servers, by rank (postoffice.cc:169-180). The division comes first and is
/// whole, so up to `n - 1` of the largest keys, and `u64::MAX` always, belong to nobody.
#[must_use]
pub fn server_key_ranges(n: usize) -> Vec<KeyRange> {
    let Some(width) = range_width(n) else { return Vec::new() };
    (0..n as u64).map(|i| KeyRange { begin: width * i, end: width * (i + 1) }).collect()
}

/// True if the one length is that of an array and the other one what MXNet puts of it on the
/// server of that rank: it cuts arrays from a bound on (kvstore_dist.h, EncodeDefaultKey). Two
/// workers with unequal bounds disagree like that. In elements.
#[must_use]
pub fn is_whole_and_cut(one: u64, other: u64, rank: usize, servers: usize) -> bool {
    let (whole, part) = (one.max(other), one.min(other));
    // Doubles, as there.
    let border = |rank: usize| (whole as f64 / servers as f64 * rank as f64).round() as u64;
    servers > 1 && whole > part && border(rank + 1).saturating_sub(border(rank)) == part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_and_its_slice_are_told_from_two_arrays() {
        assert!(is_whole_and_cut(2001, 1001, 0, 2) && is_whole_and_cut(1000, 2001, 1, 2));
        assert!(!is_whole_and_cut(2000, 900, 0, 2) && !is_whole_and_cut(7, 7, 0, 2));
        assert!(!is_whole_and_cut(2000, 1000, 0, 1), "nothing is cut for one server");
    }

    #[test]
    fn ranges_are_those_of_stock() {
        assert!(server_key_ranges(0).is_empty());
        assert_eq!(server_key_ranges(1), [KeyRange { begin: 0, end: u64::MAX }]);
        assert_eq!(
            server_key_ranges(2),
            [
                KeyRange { begin: 0, end: 9_223_372_036_854_775_807 },
                KeyRange { begin: 9_223_372_036_854_775_807, end: 18_446_744_073_709_551_614 },
            ]
        );
        let three = server_key_ranges(3);
        assert_eq!(three[1].begin, 6_148_914_691_236_517_205);
        assert_eq!(three[2], KeyRange { begin: 12_297_829_382_473_034_410, end: u64::MAX });
        // 7 * 2635249153387078802 = 2^64 - 2: one key more than kMaxKey is left to nobody.
        assert_eq!(server_key_ranges(7)[6].end, 18_446_744_073_709_551_614);
    }

    #[test]
    fn ranges_follow_each_other() {
        for n in 1..200 {
            let ranges = server_key_ranges(n);
            assert_eq!(ranges.len(), n);
            assert_eq!(ranges[0].begin, 0);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].begin));
            assert!(u64::MAX - ranges[n - 1].end < n as u64);
            assert!(!ranges[n - 1].contains(u64::MAX));
        }
    }
}
