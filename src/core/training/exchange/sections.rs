//! Tensors that are exchanged together. Pure arithmetic on keys and sizes.

use std::collections::BTreeMap;

use crate::wire::Key;

/// Ranges of keys, in ascending order.
///
/// All workers go through their keys in the same order, over and over. That alone is why rounds
/// end: of all tensors that some have sent and others have not, one comes next at each worker that
/// has not sent it. So two workers need not have cut alike. And so a key that comes later is in the
/// section in whose range it lies, not in the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sections {
    /// The first key of each section but the first, which begins with the lowest key there is.
    begins: Vec<Key>,
}

impl Sections {
    /// One with everything.
    pub(super) const fn whole() -> Self {
        Self { begins: Vec::new() }
    }

    /// At most `most` of them, of about as many bytes each: one ends where its share of all bytes
    /// is reached.
    pub(super) fn cut(bytes: &BTreeMap<Key, u64>, most: u32) -> Self {
        let total: u128 = bytes.values().map(|bytes| u128::from(*bytes)).sum();
        let most = u128::from(most.max(1));
        let (mut begins, mut before) = (Vec::new(), 0_u128);
        for (key, bytes) in bytes {
            let ended = begins.len() as u128 + 1;
            if before > 0 && ended < most && before * most >= total * ended {
                begins.push(*key);
            }
            before += u128::from(*bytes);
        }
        Self { begins }
    }

    /// How many there are; at least one.
    pub(super) const fn count(&self) -> u64 {
        self.begins.len() as u64 + 1
    }

    /// Which one a key is in.
    pub(super) fn of(&self, key: Key) -> u64 {
        self.begins.partition_point(|begin| *begin <= key) as u64
    }

    /// The keys of a section: from the first one up to the second one, if there is one.
    pub(super) fn range(&self, section: u64) -> (Key, Option<Key>) {
        let at = section as usize;
        let begin = at.checked_sub(1).and_then(|at| self.begins.get(at)).copied();
        (begin.unwrap_or(0), self.begins.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[u64], most: u32) -> Vec<u64> {
        let bytes: BTreeMap<Key, u64> = (10..).zip(sizes.iter().copied()).collect();
        let sections = Sections::cut(&bytes, most);
        let of: Vec<u64> = bytes.keys().map(|key| sections.of(*key)).collect();
        for (key, section) in bytes.keys().zip(&of) {
            let (begin, end) = sections.range(*section);
            assert!(begin <= *key && end.is_none_or(|end| *key < end), "{key} in {section}");
        }
        assert!(sections.count() <= u64::from(most.max(1)));
        assert!(of.last().is_none_or(|last| last + 1 == sections.count()), "none is empty: {of:?}");
        of
    }

    #[test]
    fn sections_have_about_as_many_bytes_each() {
        assert_eq!(cut(&[1, 1, 1, 1], 2), [0, 0, 1, 1]);
        assert_eq!(cut(&[1, 1, 1, 1], 8), [0, 1, 2, 3]);
        assert_eq!(cut(&[1, 1, 1, 1, 1], 2), [0, 0, 0, 1, 1]);
        assert_eq!(cut(&[10, 1, 1, 1], 2), [0, 1, 1, 1]);
        assert_eq!(cut(&[1, 1, 10, 1], 4), [0, 0, 0, 1]);
        assert_eq!(cut(&[100, 1, 1, 1], 4), [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_and_tensors_without_elements_are_in_one() {
        assert_eq!(cut(&[], 4), Vec::<u64>::new());
        assert_eq!(cut(&[0, 0, 0], 4), [0, 0, 0]);
        assert_eq!(cut(&[u64::MAX, u64::MAX], 2), [0, 1]);
        assert_eq!(cut(&[3, 4], 0), [0, 0]);
    }

    /// Whatever they have cut, two workers go through keys in one order.
    #[test]
    fn later_keys_lie_between_those_that_were_there() {
        let sections = Sections::cut(&[(10, 5), (20, 5), (30, 5)].into(), 3);
        assert_eq!([5, 10, 15, 20, 25, 30, 99].map(|key| sections.of(key)), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(Sections::whole().of(77), 0);
        assert_eq!(Sections::whole().range(0), (0, None));
    }
}
