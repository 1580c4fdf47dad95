//! The server's ledger of requests that its application holds and has not answered.
//!
//! In `dist_sync` an application answers a push when every worker has pushed. A worker that leaves
//! without its push (MXNet skips queued pushes at interpreter exit) makes the others wait for
//! ever; the ledger finds those, so that they can be answered with an error that says who left.
//!
//! Pure: it does not know whether the application is merely slow. The caller asks
//! [`Unanswered::stuck`] only when the request handler has been idle, with nothing queued, for a
//! while.

use crate::keys::KeyName;
use crate::values::key_at;
use crate::wire::{Key, Meta, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How many unanswered requests are remembered; those beyond are not watched. A worker has a few
/// for each of its keys.
pub const UNANSWERED_KEPT: usize = 65_536;

/// How many customers that left are remembered; the oldest go first.
pub const LEFT_KEPT: usize = 4096;

/// A customer of a node.
pub type Requester = (NodeId, i32);

/// What names a request at the server: sender, customer, timestamp.
type RequestName = (NodeId, i32, i32);

/// One request that the application holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Who asked.
    pub sender: NodeId,
    /// Its customer.
    pub customer_id: i32,
    /// Its timestamp.
    pub timestamp: i32,
    /// The application's command, to be echoed.
    pub head: i32,
    /// It carries values.
    pub push: bool,
    /// It asks for values.
    pub pull: bool,
    /// The key it is about.
    pub key: Key,
    /// When the application got it.
    pub since: Duration,
}

/// A push that waits for somebody who has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The push that waits.
    pub request: Held,
    /// Who left without a push of that key, in order.
    pub left: Vec<Requester>,
}

impl Stuck {
    /// The request as it is answered: refused, since `who` left. `key`: its key, for people.
    #[must_use]
    pub fn refused(&self, who: &str, key: KeyName) -> Meta {
        let Held { sender, customer_id, timestamp, head, push, pull, .. } = self.request;
        let error = format!("{who} left without the push of key {key} that others wait for");
        Meta { head, customer_id, timestamp, sender, push, pull, error, ..Meta::default() }
    }
}

/// The ledger of one server customer.
#[derive(Clone, Debug, Default)]
pub struct Unanswered {
    held: BTreeMap<RequestName, Held>,
    /// How many unanswered pushes of a key each customer has.
    pushes: BTreeMap<(Key, NodeId, i32), u32>,
    left: BTreeSet<Requester>,
    left_order: VecDeque<Requester>,
    unwatched: u64,
}

impl Unanswered {
    /// An empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A request goes to the application, with these frames. Who asks is not gone: an id that is
    /// used again starts afresh.
    pub fn asked(&mut self, meta: &Meta, frames: &[Bytes], now: Duration) {
        let keys = frames.first().map_or(&[][..], |keys| keys);
        // The first of MXNet's two keys of a compressed push is a length (docs/mxnet.md).
        let key = key_at(keys, 1).or_else(|| key_at(keys, 0)).unwrap_or(0);
        self.received(meta, key, now);
    }

    fn received(&mut self, meta: &Meta, key: Key, now: Duration) {
        let requester = (meta.sender, meta.customer_id);
        if self.left.remove(&requester) {
            self.left_order.retain(|left| *left != requester);
        }
        if self.held.len() >= UNANSWERED_KEPT {
            self.unwatched = self.unwatched.saturating_add(1);
            return;
        }
        let held = Held {
            sender: meta.sender,
            customer_id: meta.customer_id,
            timestamp: meta.timestamp,
            head: meta.head,
            push: meta.push,
            pull: meta.pull,
            key,
            since: now,
        };
        let name = (held.sender, held.customer_id, held.timestamp);
        if let Some(former) = self.held.insert(name, held) {
            self.uncount(&former);
        }
        if held.push {
            let count = self.pushes.entry((key, held.sender, held.customer_id)).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// The application answers. False if the request is not in the ledger: answered before, never
    /// received, or beyond [`UNANSWERED_KEPT`] (see [`Self::unwatched`]).
    pub fn answered(&mut self, sender: NodeId, customer_id: i32, timestamp: i32) -> bool {
        let Some(held) = self.held.remove(&(sender, customer_id, timestamp)) else { return false };
        self.uncount(&held);
        true
    }

    fn uncount(&mut self, held: &Held) {
        if !held.push {
            return;
        }
        let name = (held.key, held.sender, held.customer_id);
        if let Some(count) = self.pushes.get_mut(&name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.pushes.remove(&name);
            }
        }
    }

    /// A customer of a worker sends no more requests.
    pub fn customer_left(&mut self, node: NodeId, customer_id: i32) {
        if !self.left.insert((node, customer_id)) {
            return;
        }
        self.left_order.push_back((node, customer_id));
        if self.left_order.len() > LEFT_KEPT
            && let Some(oldest) = self.left_order.pop_front()
        {
            self.left.remove(&oldest);
        }
    }

    /// A node is gone or has been replaced: nobody there waits for an answer.
    pub fn forget_node(&mut self, node: NodeId) {
        let names: Vec<RequestName> = self
            .held
            .range((node, i32::MIN, i32::MIN)..=(node, i32::MAX, i32::MAX))
            .map(|(name, _)| *name)
            .collect();
        for (sender, customer_id, timestamp) in names {
            self.answered(sender, customer_id, timestamp);
        }
        self.left.retain(|(left, _)| *left != node);
        self.left_order.retain(|(left, _)| *left != node);
    }

    /// The pushes that wait for somebody who has left: unanswered, their own customer still here,
    /// while the same customer of another node left and none of its pushes of that key is here.
    /// Other customers do not count: several kvstores of one process end at different times.
    #[must_use]
    pub fn stuck(&self) -> Vec<Stuck> {
        if self.left.is_empty() {
            return Vec::new();
        }
        self.held.values().filter_map(|held| self.stuck_one(held)).collect()
    }

    fn stuck_one(&self, held: &Held) -> Option<Stuck> {
        if !held.push || self.left.contains(&(held.sender, held.customer_id)) {
            return None;
        }
        let owes = |(node, customer): &Requester| {
            *customer == held.customer_id
                && *node != held.sender
                && !self.pushes.contains_key(&(held.key, *node, *customer))
        };
        let left: Vec<Requester> = self.left.iter().filter(|left| owes(left)).copied().collect();
        (!left.is_empty()).then_some(Stuck { request: *held, left })
    }

    /// All that the application holds, by sender, customer and timestamp.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// How many requests the application holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if every request is answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Requests that found the ledger full.
    #[must_use]
    pub const fn unwatched(&self) -> u64 {
        self.unwatched
    }
}

#[cfg(test)]
#[path = "unanswered_tests.rs"]
mod tests;
