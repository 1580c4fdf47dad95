//! Requests that wait at a server, for a piece, a policy, or for the end of others: by key, in the
//! order in which they came, and bounded in number and bytes. Pure.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::invariant::{Valid, require};
use crate::wire::{Key, Meta, NodeId};

/// Requests that wait; whoever brings more is answered *again* (docs/elastic.md).
const PARKED_MAX: usize = 1 << 14;
/// Bytes of their frames.
const PARKED_BYTES_MAX: usize = 256 << 20;

/// Requests that wait.
#[derive(Debug, Default)]
pub(in crate::store) struct Parked {
    /// In the order in which they came.
    of: BTreeMap<Key, VecDeque<(Meta, Vec<Bytes>)>>,
    count: usize,
    bytes: usize,
}

impl Parked {
    /// False if there is no room.
    pub(in crate::store) fn push(&mut self, key: Key, request: &Meta, frames: &[Bytes]) -> bool {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        if self.count >= PARKED_MAX || self.bytes.saturating_add(bytes) > PARKED_BYTES_MAX {
            return false;
        }
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        self.of.entry(key).or_default().push_back((request.clone(), frames.to_vec()));
        true
    }

    /// All that waits for a key.
    pub(in crate::store) fn take(&mut self, key: Key) -> VecDeque<(Meta, Vec<Bytes>)> {
        let requests = self.of.remove(&key).unwrap_or_default();
        let frames = requests.iter().flat_map(|(_, frames)| frames);
        self.bytes -= frames.map(Bytes::len).sum::<usize>();
        self.count -= requests.len();
        requests
    }

    /// The keys that something waits for.
    pub(in crate::store) fn keys(&self) -> Vec<Key> {
        self.of.keys().copied().collect()
    }

    /// True if something of the customer of that request waits for a key.
    pub(in crate::store) fn has(&self, key: Key, of: &Meta) -> bool {
        let who = |request: &Meta| (request.sender, request.customer_id);
        let waits = |request: &Meta| who(request) == who(of);
        self.of.get(&key).is_some_and(|all| all.iter().any(|(request, _)| waits(request)))
    }

    /// What waits for a key, in order.
    pub(in crate::store) fn of(&self, key: Key) -> impl Iterator<Item = &Meta> {
        self.of.get(&key).into_iter().flatten().map(|(request, _)| request)
    }

    /// The counters are what a walk over all finds, and within their limits.
    pub(in crate::store) fn validate(&self) -> Valid {
        let all = self.of.values().flatten();
        let bytes: usize = all.flat_map(|(_, frames)| frames).map(Bytes::len).sum();
        let count: usize = self.of.values().map(VecDeque::len).sum();
        let counted = (self.count, self.bytes);
        require((count, bytes) == counted, || {
            format!("{count} requests of {bytes} bytes wait, and {counted:?} are counted")
        })?;
        require(count <= PARKED_MAX && bytes <= PARKED_BYTES_MAX, || {
            format!("{count} requests of {bytes} bytes wait: more than may")
        })?;
        let empty = self.of.iter().find(|(_, all)| all.is_empty());
        require(empty.is_none(), || format!("nothing waits for {empty:?}, and it is kept"))
    }

    /// One is counted that is not there, for the test of [`Self::validate`].
    #[cfg(test)]
    pub(in crate::store) const fn spoil(&mut self) {
        self.count += 1;
    }

    /// What a worker asked for, nobody waits for any more.
    pub(in crate::store) fn forget(&mut self, worker: NodeId) {
        for key in self.keys() {
            for (request, frames) in self.take(key) {
                if request.sender != worker {
                    self.push(key, &request, &frames);
                }
            }
        }
    }
}
