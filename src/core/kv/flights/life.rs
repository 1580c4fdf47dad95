//! What a worker adds to its requests if another process had its id before (docs/elastic.md,
//! "Workers"): which life of the id this is, and which pushes only create keys that all others know
//! already.

use std::collections::BTreeSet;

use crate::wire::Key;

/// See the module. By default: the first life, in which every push counts.
#[derive(Clone, Debug, Default)]
pub(super) struct PushLife {
    since: u64,
    /// Keys of which the first push is answered, where the first push of each is to make it.
    made: Option<BTreeSet<Key>>,
}

impl PushLife {
    /// The one that began with that policy. `makes_keys`: the first push of each key is to make it.
    pub(super) fn new(since: u64, makes_keys: bool) -> Self {
        Self { since, made: (since > 0 && makes_keys).then(BTreeSet::new) }
    }

    /// As requests say it.
    pub(super) const fn number(&self) -> u64 {
        self.since
    }

    /// True if a push before which no other one of its key is known is to make the key.
    pub(super) fn makes(&self, key: Key) -> bool {
        self.made.as_ref().is_some_and(|made| !made.contains(&key))
    }

    /// A push was answered. True if it was the one that made the key: it counted nowhere, so the
    /// next one must not name it as the one before.
    pub(super) fn has_made(&mut self, key: Key) -> bool {
        self.made.as_mut().is_some_and(|made| made.insert(key))
    }
}
