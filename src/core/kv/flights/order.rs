//! For each key: its open pushes, in the order in which they began, and the last one that
//! succeeded.
//!
//! Pure; knows names and keys only.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::SliceName;
use crate::invariant::{Valid, require};
use crate::wire::Key;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PushOrder {
    keys: BTreeMap<Key, KeyPushes>,
}

/// The pushes of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyPushes {
    open: SmallVec<[SliceName; 2]>,
    /// The timestamp of the last one that was answered as a whole.
    done: Option<i32>,
}

impl PushOrder {
    /// A push begins.
    pub(super) fn add(&mut self, key: Key, name: SliceName) {
        self.keys.entry(key).or_default().open.push(name);
    }

    /// A push is over. `well`: it was answered, and later pushes name it as the one before.
    pub(super) fn end(&mut self, key: Key, name: SliceName, well: bool) {
        let Some(pushes) = self.keys.get_mut(&key) else { return };
        let before = pushes.open.len();
        pushes.open.retain(|other| *other != name);
        if well && pushes.open.len() < before {
            pushes.done = Some(name.0);
        }
        if pushes.open.is_empty() && pushes.done.is_none() {
            self.keys.remove(&key);
        }
    }

    /// The pushes of a key, if there were some.
    pub(super) fn of(&self, key: Key) -> Option<&KeyPushes> {
        self.keys.get(&key)
    }

    /// These are the open pushes. `all`: by key, in the order in which they began.
    pub(super) fn validate(&self, all: impl Iterator<Item = (Key, SliceName)>) -> Valid {
        let mut walked: BTreeMap<Key, SmallVec<[SliceName; 2]>> = BTreeMap::new();
        all.for_each(|(key, name)| walked.entry(key).or_default().push(name));
        let open = || self.keys.iter().filter(|(_, pushes)| !pushes.open.is_empty());
        let same = open().map(|(key, pushes)| (key, &pushes.open)).eq(&walked);
        require(same, || {
            let listed = |key| self.of(key).map(|pushes| &pushes.open);
            let wrong = walked.iter().find(|(key, names)| listed(**key) != Some(names));
            let (walked, open) = (walked.len(), open().count());
            format!("pushes of {walked} keys are open, listed are {open}; {wrong:?} is not listed")
        })
    }
}

impl KeyPushes {
    /// True if some push is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if that one is open.
    pub(super) fn has(&self, name: SliceName) -> bool {
        self.open.contains(&name)
    }

    /// Open pushes that began before that one, in order.
    pub(super) fn before(
        &self,
        name: SliceName,
    ) -> impl DoubleEndedIterator<Item = SliceName> + '_ {
        let until = self.open.iter().position(|other| *other == name);
        self.open[..until.unwrap_or(self.open.len())].iter().copied()
    }

    /// The timestamp of the push before that one.
    pub(super) fn previous(&self, name: SliceName) -> Option<i32> {
        self.before(name).next_back().map(|(timestamp, _)| timestamp).or(self.done)
    }
}
