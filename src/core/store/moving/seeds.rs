//! What a new replica has yet to get, and what is on its way there (docs/elastic.md, "Replicas").
//! Pure.

use std::collections::{BTreeMap, VecDeque};

use super::limits::SEED_BYTES_MAX;
use crate::invariant::{Valid, require};
use crate::values::KeyPart;

/// Pieces that a new replica is to get.
#[derive(Debug, Default)]
pub(super) struct Seeds {
    queue: VecDeque<KeyPart>,
    /// What is on its way, with its bytes.
    under_way: BTreeMap<KeyPart, usize>,
    /// The sum of those bytes.
    bytes: usize,
}

impl Seeds {
    /// The replica is another one: nothing is on its way there.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What waits is listed anew.
    pub(super) fn begin(&mut self) {
        self.queue.clear();
    }

    pub(super) fn push(&mut self, what: KeyPart) {
        self.queue.push_back(what);
    }

    pub(super) fn next(&mut self) -> Option<KeyPart> {
        if self.bytes < SEED_BYTES_MAX { self.queue.pop_front() } else { None }
    }

    pub(super) fn sent(&mut self, what: KeyPart, bytes: usize) {
        let before = self.under_way.insert(what, bytes);
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
    }

    /// The bytes that are on their way are those of what is on its way.
    pub(super) fn validate(&self) -> Valid {
        let (counted, walked) = (self.bytes, self.under_way.values().sum::<usize>());
        require(counted == walked, || {
            format!("pieces of {walked} bytes are on their way to the replica, not of {counted}")
        })
    }

    pub(super) fn arrived(&mut self, what: KeyPart) {
        self.bytes -= self.under_way.remove(&what).unwrap_or(0);
    }
}
