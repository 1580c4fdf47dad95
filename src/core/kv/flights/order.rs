//! The open pushes of a key, in the order in which they began, and the last one that succeeded.
//!
//! Pure; knows numbers and keys only.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::invariant::{Valid, require};
use crate::wire::Key;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    open: BTreeMap<Key, SmallVec<[u64; 2]>>,
    /// The timestamp of the last one that was answered as a whole.
    done: BTreeMap<Key, i32>,
}

impl Order {
    /// A push begins; numbers ascend.
    pub(super) fn add(&mut self, key: Key, number: u64) {
        self.open.entry(key).or_default().push(number);
    }

    /// It is over, if it was a push.
    pub(super) fn remove(&mut self, key: Key, number: u64) {
        let Some(open) = self.open.get_mut(&key) else { return };
        open.retain(|other| *other != number);
        if open.is_empty() {
            self.open.remove(&key);
        }
    }

    /// True if some push of the key is open.
    pub(super) fn is_open(&self, key: Key) -> bool {
        self.open.contains_key(&key)
    }

    /// It ended well.
    pub(super) fn done(&mut self, key: Key, timestamp: i32) {
        self.done.insert(key, timestamp);
    }

    /// The timestamp of the last one that ended well.
    pub(super) fn last(&self, key: Key) -> Option<i32> {
        self.done.get(&key).copied()
    }

    /// These are the open pushes, by key in the order in which they began. `all`: in the order of
    /// numbers.
    pub(super) fn validate(&self, all: impl Iterator<Item = (Key, u64)>) -> Valid {
        let mut walked: BTreeMap<Key, SmallVec<[u64; 2]>> = BTreeMap::new();
        all.for_each(|(key, number)| walked.entry(key).or_default().push(number));
        require(walked == self.open, || {
            let wrong = walked.iter().find(|(key, numbers)| self.open.get(key) != Some(numbers));
            let (walked, open) = (walked.len(), self.open.len());
            format!("pushes of {walked} keys are open, listed are {open}; {wrong:?} is not listed")
        })
    }

    /// Open pushes of the key that began before that one, in order.
    pub(super) fn before(&self, key: Key, number: u64) -> impl Iterator<Item = u64> + '_ {
        let open = self.open.get(&key).into_iter().flatten().copied();
        open.take_while(move |other| *other < number)
    }
}
