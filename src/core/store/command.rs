//! The commands that MXNet's workers send to servers (kvstore_dist_server.h:45).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use super::elastic::marks::is_later;
use super::error::StoreError;
use super::mxnet::Store;
use super::name::Customer;
use super::optimizer::Optimizer;
use super::pickle;
use crate::values::{SHARED, Space};
use crate::wire::NodeId;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// `kController`: the optimizer, as a pickle.
    Controller,
    /// `kSetMultiPrecision`.
    MultiPrecision,
    /// `kStopServer`.
    Stop,
    /// `kSyncMode`: this is `dist_sync`.
    SyncMode,
    /// `kSetGradientCompression`.
    Compression,
    /// `kSetProfilerParams`.
    Profiler,
    /// Ours: what this worker makes, which all workers have to say alike ([`super::agreement`]).
    Agree,
    /// Another number: MXNet answers it and does nothing.
    Other(i32),
}

impl From<i32> for Head {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::Controller,
            1 => Self::MultiPrecision,
            2 => Self::Stop,
            3 => Self::SyncMode,
            4 => Self::Compression,
            5 => Self::Profiler,
            100 => Self::Agree,
            other => Self::Other(other),
        }
    }
}

impl Head {
    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Controller => 0,
            Self::MultiPrecision => 1,
            Self::Stop => 2,
            Self::SyncMode => 3,
            Self::Compression => 4,
            Self::Profiler => 5,
            Self::Agree => 100,
            Self::Other(other) => other,
        }
    }

    /// True if it is in force until another one of its kind comes: servers that come later obey it
    /// too.
    #[must_use]
    pub const fn stays(self) -> bool {
        match self {
            Self::Controller | Self::MultiPrecision | Self::SyncMode | Self::Compression => true,
            Self::Stop | Self::Profiler | Self::Agree | Self::Other(_) => false,
        }
    }
}

/// Former optimizers that are kept, for copies of what a server owns that has not heard of the
/// newest.
const KEPT_MAX: usize = 4;

/// Which optimizers came from whom. Every worker sends each one: the n-th from any worker is
/// generation n, and only the first arrival of a generation counts. In MXNet each arrival replaces
/// the optimizer and forgets its states.
#[derive(Debug, Default)]
pub(super) struct Generations {
    sent: BTreeMap<Customer, Sent>,
    applied: u64,
    /// The last ones.
    kept: BTreeMap<u64, Arc<Optimizer>>,
    /// By what the one was read that was read last.
    read: Option<(usize, u64)>,
}

/// What a customer has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// How many optimizers.
    pub(super) count: u64,
    /// With what timestamp the last of them, if that is known.
    pub(super) last: Option<i32>,
}

impl Generations {
    /// True if what this customer sends now is a generation that nobody has sent before. A command
    /// whose timestamp is known counts once, on whatever ways it comes.
    pub(super) fn is_new(&mut self, from: Customer, timestamp: Option<i32>) -> bool {
        let sent = self.sent.entry(from).or_default();
        if let (Some(timestamp), Some(last)) = (timestamp, sent.last)
            && !is_later(timestamp, last)
        {
            return false;
        }
        *sent = Sent { count: sent.count.saturating_add(1), last: timestamp.or(sent.last) };
        let new = sent.count > self.applied;
        self.applied = self.applied.max(sent.count);
        new
    }

    /// True if a command says what was read last, and is none that [`Self::is_new`] would call new:
    /// nothing would come of reading it.
    fn is_read(&self, from: Customer, body: &[u8]) -> bool {
        self.sent(from).count < self.applied && self.read == Some(fingerprint(body))
    }

    /// Which generation applies gradients now; 0: none.
    pub(super) const fn current(&self) -> u64 {
        self.applied
    }

    /// Another server says that this generation applies now. True if that is news.
    pub(super) const fn advance(&mut self, generation: u64) -> bool {
        let new = generation > self.applied;
        if new {
            self.applied = generation;
        }
        new
    }

    /// Another server says what a customer has sent. True if that is news.
    pub(super) fn learn(&mut self, from: Customer, news: Sent) -> bool {
        let sent = self.sent.entry(from).or_default();
        let new = news.count > sent.count;
        if new {
            *sent = news;
        }
        new
    }

    /// What a customer has sent.
    pub(super) fn sent(&self, from: Customer) -> Sent {
        self.sent.get(&from).copied().unwrap_or_default()
    }

    /// The optimizer of the current generation.
    pub(super) fn keep(&mut self, optimizer: Arc<Optimizer>) {
        self.kept.insert(self.applied, optimizer);
        while self.kept.len() > KEPT_MAX {
            self.kept.pop_first();
        }
    }

    /// An optimizer that came after those that followed it: what others did by it may still come.
    /// One that is older than all of the last ones is not kept.
    pub(super) fn keep_former(&mut self, generation: u64, optimizer: Arc<Optimizer>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.entry(generation).or_insert(optimizer);
        }
    }

    /// The optimizer of a generation, if it is one of the last.
    pub(super) fn optimizer(&self, generation: u64) -> Option<&Arc<Optimizer>> {
        self.kept.get(&generation)
    }

    /// Somebody else has that id from now on, and begins anew.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.sent.retain(|sender, _| sender.worker != node);
    }
}

/// All workers send the same optimizer, as a rule: it is read once, not once for each of them.
fn fingerprint(body: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    (body.len(), hasher.finish())
}

impl Store {
    /// Obeys a command other than stop and the optimizer, which are its owner's.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn command(&mut self, space: Space, head: Head, body: &[u8]) -> Result<(), StoreError> {
        match head {
            Head::SyncMode => self.set_sync(space),
            Head::MultiPrecision => self.set_multi_precision(space),
            Head::Compression => self.set_compression(space, body),
            Head::Controller | Head::Stop | Head::Profiler | Head::Agree | Head::Other(_) => Ok(()),
        }
    }

    /// The pickled optimizer that a worker's customer sent. It counts if its generation is new
    /// here.
    ///
    /// # Errors
    /// It is malformed, or none that runs here; the optimizer before it stays.
    pub fn optimizer(&mut self, from: (NodeId, i32), body: &[u8]) -> Result<(), StoreError> {
        let (worker, customer) = from;
        let from = Customer { worker, customer, life: 0 };
        self.optimizer_at(SHARED, (from, None), body).map(|_| ())
    }

    /// The same of a command whose timestamp is known. True if it counts.
    pub(super) fn optimizer_at(
        &mut self,
        space: Space,
        (from, timestamp): (Customer, Option<i32>),
        body: &[u8],
    ) -> Result<bool, StoreError> {
        let generations = &mut self.modes.change(space)?.generations;
        if generations.is_read(from, body) {
            return Ok(generations.is_new(from, timestamp));
        }
        let optimizer = self.read_optimizer(space, body)?;
        let generations = &mut self.modes.change(space)?.generations;
        generations.read = Some(fingerprint(body));
        let new = generations.is_new(from, timestamp);
        if new {
            self.set_optimizer(space, optimizer)?;
        }
        Ok(new)
    }

    /// Reads an optimizer that can update what is here of a space.
    pub(super) fn read_optimizer(
        &self,
        space: Space,
        body: &[u8],
    ) -> Result<Optimizer, StoreError> {
        self.check_no_exchange()?;
        let refused = |reason: String| StoreError::Optimizer(reason);
        let value = pickle::read(body).map_err(|error| refused(error.to_string()))?;
        let optimizer =
            Optimizer::from_value(&value).map_err(|error| refused(error.to_string()))?;
        if let Some(unfit) = self.unfit_key(space, &optimizer) {
            return Err(unfit);
        }
        if optimizer.wants_float32() {
            self.may_widen(space)?;
        }
        if !optimizer.is_elementwise()
            && let Some(key) = self.cut_key(space)
        {
            let class = optimizer.class();
            let reason = format!("{class} needs whole tensors, and key {key} has been cut");
            return Err(refused(reason));
        }
        Ok(optimizer)
    }

    /// The node is gone, or another process has its id.
    pub fn forget_node(&mut self, node: NodeId) {
        self.modes.forget(node);
        self.agreements.forget(node);
        self.forget_worker(node);
        self.look_at_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_each_generation_counts() {
        let mut generations = Generations::default();
        let order = [(9, true), (11, false), (11, true), (13, false), (9, false), (13, false)];
        for (worker, new) in order {
            assert_eq!(generations.is_new(first_life(worker), None), new, "{worker}");
        }
        generations.forget(9);
        assert!(!generations.is_new(first_life(9), None), "one that comes late resets nothing");
        let back = Customer { life: 7, ..first_life(11) };
        assert!(!generations.is_new(back, Some(0)), "nor one that was started again");
        assert!(!generations.is_new(back, Some(4)), "it counts on its own");
        assert!(generations.is_new(back, Some(5)));
    }

    #[test]
    fn what_was_read_is_not_read_again_unless_it_is_new() {
        let mut generations = Generations::default();
        assert!(!generations.is_read(first_life(9), b"sgd"));
        generations.read = Some(fingerprint(b"sgd"));
        assert!(!generations.is_read(first_life(9), b"sgd"), "nobody has sent one");
        assert!(generations.is_new(first_life(9), Some(5)));
        assert!(generations.is_read(first_life(11), b"sgd"));
        assert!(!generations.is_read(first_life(11), b"adam"), "it may be malformed");
        assert!(!generations.is_read(first_life(9), b"sgd"), "its second one begins anew");
    }

    fn first_life(worker: NodeId) -> Customer {
        Customer { worker, customer: 0, life: 0 }
    }

    #[test]
    fn a_command_that_comes_on_two_ways_counts_once() {
        let mut generations = Generations::default();
        assert!(generations.is_new(first_life(9), Some(5)));
        assert!(!generations.is_new(first_life(9), Some(5)));
        assert_eq!(generations.sent(first_life(9)), Sent { count: 1, last: Some(5) });
        let second = Sent { count: 2, last: Some(8) };
        assert!(
            generations.learn(first_life(9), second) && !generations.learn(first_life(9), second)
        );
        assert!(generations.advance(2) && !generations.advance(2));
        assert!(
            !generations.is_new(first_life(9), Some(8))
                && generations.is_new(first_life(9), Some(9))
        );
        assert_eq!(generations.current(), 3);
    }
}
