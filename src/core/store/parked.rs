//! Requests that wait at a server, for a piece, a policy, or for the end of others: by key, in the
//! order in which they came, and bounded in number and bytes. Pure.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::wire::{Key, Meta, NodeId};

/// Requests that wait; whoever brings more is answered *again* (docs/elastic.md).
pub const PARKED_MAX: usize = 1 << 14;
/// Bytes of their frames.
pub const PARKED_BYTES_MAX: usize = 256 << 20;

/// Requests that wait.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// In the order in which they came.
    of: BTreeMap<Key, VecDeque<(Meta, Vec<Bytes>)>>,
    count: usize,
    bytes: usize,
}

impl Parked {
    /// False if there is no room.
    pub(super) fn push(&mut self, key: Key, request: &Meta, frames: &[Bytes]) -> bool {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        if self.count >= PARKED_MAX || self.bytes.saturating_add(bytes) > PARKED_BYTES_MAX {
            return false;
        }
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        self.of.entry(key).or_default().push_back((request.clone(), frames.to_vec()));
        true
    }

    /// All that waits for a key.
    pub(super) fn take(&mut self, key: Key) -> VecDeque<(Meta, Vec<Bytes>)> {
        let requests = self.of.remove(&key).unwrap_or_default();
        let frames = requests.iter().flat_map(|(_, frames)| frames);
        self.bytes -= frames.map(Bytes::len).sum::<usize>();
        self.count -= requests.len();
        requests
    }

    /// The keys that something waits for.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.of.keys().copied().collect()
    }

    /// True if something of that customer waits for a key.
    pub(super) fn has(&self, key: Key, (sender, customer): (NodeId, i32)) -> bool {
        let waits = |request: &Meta| (request.sender, request.customer_id) == (sender, customer);
        self.of.get(&key).is_some_and(|all| all.iter().any(|(request, _)| waits(request)))
    }

    /// What a worker asked for, nobody waits for any more.
    pub(super) fn forget(&mut self, worker: NodeId) {
        for key in self.keys() {
            for (request, frames) in self.take(key) {
                if request.sender != worker {
                    self.push(key, &request, &frames);
                }
            }
        }
    }
}
