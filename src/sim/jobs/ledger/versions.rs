//! A pull after round t brings version t, to the bit: what a single server would have. While the
//! next round is under way elements may be of that already.

use bytes::Bytes;

/// What is wrong with pulled values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The first element that is of an older version than it must be, and that version.
    pub(super) old: Option<(usize, u64)>,
    /// The first element that is of no version at all.
    pub(super) none: Option<usize>,
}

/// Compares values with all versions that are known; those from `from` up to and with `to` are
/// right.
pub(super) fn wrong(values: &[u8], known: &[Bytes], from: u64, to: u64) -> Wrong {
    let whole = |version: &u64| known.get(*version as usize).is_some_and(|known| known == values);
    if (from..=to).any(|version| whole(&version)) {
        return Wrong::default();
    }
    let mut wrong = Wrong::default();
    for (at, element) in values.chunks(4).enumerate() {
        let is = |version: &u64| {
            let known = known.get(*version as usize);
            known.and_then(|known| known.get(at * 4..at * 4 + 4)) == Some(element)
        };
        if (from..=to).any(|version| is(&version)) {
            continue;
        }
        match (0..from).rev().find(is) {
            Some(version) => wrong.old = wrong.old.or(Some((at, version))),
            None => wrong.none = wrong.none.or(Some(at)),
        }
    }
    wrong
}

/// Elements that are of no version.
pub(super) fn check(name: &str, wrong: &Wrong, from: u64, to: u64) -> Option<String> {
    let at = wrong.none?;
    Some(format!("{name}, element {at}: of no version, where {from} to {to} are right"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_may_be_of_different_versions_but_not_of_any() {
        let value =
            |elements: [u32; 2]| Bytes::copy_from_slice(bytemuck::cast_slice::<u32, u8>(&elements));
        let known = [value([1, 10]), value([2, 20]), value([3, 30])];
        let look = |elements, from, to| wrong(&value(elements), &known, from, to);
        assert_eq!(look([2, 20], 1, 1), Wrong::default());
        assert_eq!(look([2, 30], 1, 2), Wrong::default());
        assert_eq!(look([2, 10], 1, 2), Wrong { old: Some((1, 0)), none: None });
        assert_eq!(look([3, 20], 1, 1), Wrong { old: None, none: Some(0) });
        assert_eq!(look([2, 31], 0, 2), Wrong { old: None, none: Some(1) });
    }
}
