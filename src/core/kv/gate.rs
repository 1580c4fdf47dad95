//! Holds a worker's push back at the server until the round before it is over, for applications
//! whose servers work in rounds and answer pulls out of the memory that the next round's first push
//! overwrites: BytePS's. (There each worker pushes a key, and once that is answered pulls it; the
//! server takes the next round's first push as soon as all have *pushed*. A worker whose pull is
//! not answered yet, or whose answer is not written yet, then gets another round's values.)
//!
//! Pure: takes requests as they come and what became of the answers, returns what the application
//! may be given. It counts for each key what each worker has pushed and pulled:
//!
//! - A worker that pushes, has pulled since its last push, and then pushes again has begun another
//!   round. Its push waits until the pulls of all workers that have pushed as often as it are
//!   answered, and those answers are out of our memory.
//! - A worker that pushes again without having pulled did not mean a round: so do the pushes with
//!   which BytePS makes a key, or says how it compresses. Those never wait.
//! - A worker that has pushed less often than another does not make that one wait: if a pull can be
//!   answered before all have pushed, there are no rounds (BytePS's asynchronous mode).
//! - What a worker asks of a key while a push of it to the same key waits, waits behind it: so for
//!   each worker and key all stays in order. Other keys go on.
//!
//! An application of another kind could wait for ever for one that never pulls. So nothing waits
//! longer than [`PATIENCE`]: then the key is not watched any more, and somebody is told. That is
//! why the gate is for those who ask for it (`PSLITE_HOLD_PUSHES`, `PSLITE_SERVER_STATELESS`, the
//! stateless attach of the C ABI) or speak BytePS's wire, and not for all.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::unanswered::Requester;
use crate::values::{KEY_SIZE, key_at};
use crate::wire::{Key, Message, Meta, NodeId};

/// How long a push waits for others at most: as long as a silent node counts as alive by default.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Keys that are watched; requests for others pass.
pub const KEYS_MAX: usize = 1 << 20;
/// Requests that wait; others pass.
pub const HELD_MAX: usize = 65_536;
/// Pulls that the application has not answered and that are watched.
pub const OPEN_MAX: usize = 65_536;

/// A pull whose answer is on its way: to be given back by [`Gate::flushed`] once its values are not
/// needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedAnswer {
    key: Key,
    requester: Requester,
}

/// Why a key is not watched any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// The key.
    pub key: Key,
    /// Whose pulls did not come or were not answered.
    pub awaited: Vec<NodeId>,
}

/// What one worker has done with a key.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerProgress {
    pushes: u64,
    /// Pulls since its last push.
    pulls: u32,
    /// Pulls whose answers are not out of our memory.
    open: u32,
}

impl WorkerProgress {
    const fn is_done(self) -> bool {
        self.pulls > 0 && self.open == 0
    }
}

#[derive(Debug, Default)]
struct Watched {
    workers: BTreeMap<Requester, WorkerProgress>,
    held: VecDeque<(Duration, Message)>,
    /// It is not watched any more.
    off: bool,
}

/// See the module. One for each server customer.
#[derive(Debug, Default)]
pub struct Gate {
    keys: BTreeMap<Key, Watched>,
    /// The pulls that the application has: sender, customer, timestamp.
    open: BTreeMap<(NodeId, i32, i32), Key>,
    held: usize,
}

impl Gate {
    /// A request has come: it is given back if the application may have it now.
    pub fn take(&mut self, now: Duration, message: Message) -> Option<Message> {
        let Some(key) = key_of(&message) else { return Some(message) };
        if !self.keys.contains_key(&key) && self.keys.len() >= KEYS_MAX {
            return Some(message);
        }
        let watched = self.keys.entry(key).or_default();
        let requester = requester(&message.meta);
        let waits = watched.has_held(requester)
            || (message.meta.push && watched.awaited(requester).next().is_some());
        if waits && !watched.off && self.held < HELD_MAX {
            watched.held.push_back((now, message));
            self.held += 1;
            return None;
        }
        self.given(key, &message.meta);
        Some(message)
    }

    /// The application answers a request. Some: a pull, that is over when its values are not needed
    /// any more.
    pub fn answered(&mut self, request: &Meta) -> Option<GatedAnswer> {
        let name = (request.sender, request.customer_id, request.timestamp);
        let key = self.open.remove(&name)?;
        Some(GatedAnswer { key, requester: requester(request) })
    }

    /// The values of an answer are not needed any more. What the application may have now, in
    /// order.
    pub fn flushed(&mut self, answer: GatedAnswer) -> Vec<Message> {
        let GatedAnswer { key, requester } = answer;
        let worker = self.keys.get_mut(&key).and_then(|key| key.workers.get_mut(&requester));
        let Some(worker) = worker else { return Vec::new() };
        worker.open = worker.open.saturating_sub(1);
        self.release(key)
    }

    /// A worker is gone, or another process has its id: nobody waits for it, and what it asked is
    /// forgotten.
    pub fn forget_node(&mut self, node: NodeId) -> Vec<Message> {
        self.forget(|(sender, _)| sender == node)
    }

    /// A customer sends no more requests: nobody waits for it.
    pub fn customer_left(&mut self, node: NodeId, customer_id: i32) -> Vec<Message> {
        self.forget(|requester| requester == (node, customer_id))
    }

    fn forget(&mut self, is_gone: impl Fn(Requester) -> bool) -> Vec<Message> {
        self.open.retain(|(sender, customer, _), _| !is_gone((*sender, *customer)));
        for watched in self.keys.values_mut() {
            watched.workers.retain(|requester, _| !is_gone(*requester));
            let before = watched.held.len();
            watched.held.retain(|(_, message)| !is_gone(requester(&message.meta)));
            self.held -= before - watched.held.len();
        }
        self.release_all()
    }

    /// Time has passed: what the application may have now, and the keys that are not watched any
    /// more.
    pub fn tick(&mut self, now: Duration) -> (Vec<Message>, Vec<GaveUp>) {
        let (mut out, mut gave_up) = (Vec::new(), Vec::new());
        if self.held == 0 {
            return (out, gave_up);
        }
        let late = |watched: &Watched| {
            let first = watched.held.front();
            first.is_some_and(|(since, _)| now >= since.saturating_add(PATIENCE))
        };
        let keys: Vec<Key> =
            self.keys.iter().filter(|(_, watched)| late(watched)).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(watched) = self.keys.get_mut(&key) else { continue };
            let first = watched.held.front().map(|(_, message)| requester(&message.meta));
            let awaited = first.map(|first| watched.awaited(first).map(|(node, _)| node).collect());
            gave_up.push(GaveUp { key, awaited: awaited.unwrap_or_default() });
            watched.off = true;
            out.extend(self.release(key));
        }
        (out, gave_up)
    }

    /// True if something waits.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.held > 0
    }

    fn given(&mut self, key: Key, meta: &Meta) {
        let Some(watched) = self.keys.get_mut(&key) else { return };
        let worker = watched.workers.entry(requester(meta)).or_default();
        if meta.push {
            worker.pushes += 1;
            worker.pulls = 0;
        }
        if meta.pull && self.open.len() < OPEN_MAX {
            let name = (meta.sender, meta.customer_id, meta.timestamp);
            if self.open.insert(name, key).is_none() {
                worker.pulls = worker.pulls.saturating_add(1);
                worker.open = worker.open.saturating_add(1);
            }
        }
    }

    /// What waited for a key and need not any more, in order for each worker.
    fn release(&mut self, key: Key) -> Vec<Message> {
        let mut out = Vec::new();
        while let Some(message) = self.keys.get_mut(&key).and_then(Watched::next) {
            self.held -= 1;
            self.given(key, &message.meta);
            out.push(message);
        }
        out
    }

    fn release_all(&mut self) -> Vec<Message> {
        if self.held == 0 {
            return Vec::new();
        }
        let waits = |(key, watched): (&Key, &Watched)| (!watched.held.is_empty()).then_some(*key);
        let keys: Vec<Key> = self.keys.iter().filter_map(waits).collect();
        keys.into_iter().flat_map(|key| self.release(key)).collect()
    }
}

impl Watched {
    fn has_held(&self, who: Requester) -> bool {
        self.held.iter().any(|(_, message)| requester(&message.meta) == who)
    }

    /// Whose pulls a push of that worker waits for.
    fn awaited(&self, who: Requester) -> impl Iterator<Item = Requester> {
        let own = self.workers.get(&who).copied().unwrap_or_default();
        let begins_round = own.pulls > 0;
        let waits = move |other: &WorkerProgress| {
            begins_round && other.pushes == own.pushes && !other.is_done()
        };
        self.workers.iter().filter(move |(_, other)| waits(other)).map(|(other, _)| *other)
    }

    /// The first that waits for nothing any more.
    fn next(&mut self) -> Option<Message> {
        let mut earlier = Vec::new();
        for (at, (_, message)) in self.held.iter().enumerate() {
            let who = requester(&message.meta);
            let free = self.off || !message.meta.push || self.awaited(who).next().is_none();
            if free && !earlier.contains(&who) {
                return self.held.remove(at).map(|(_, message)| message);
            }
            earlier.push(who);
        }
        None
    }
}

const fn requester(meta: &Meta) -> Requester {
    (meta.sender, meta.customer_id)
}

/// The key of a request that is about one key: others are not BytePS's.
fn key_of(message: &Message) -> Option<Key> {
    let keys = message.data.first().filter(|keys| keys.len() == KEY_SIZE)?;
    (message.meta.push || message.meta.pull).then(|| key_at(keys, 0)).flatten()
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
