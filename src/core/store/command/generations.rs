//! Which optimizers workers have sent: the same one comes from each of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use pslite_optimizers::Optimizer;

use crate::store::pieces::marks::is_later;
use crate::store::pieces::name::Customer;
use crate::wire::NodeId;

/// Former optimizers that are kept, for copies of what a server owns that has not heard of the
/// newest.
const KEPT_MAX: usize = 4;

/// Which optimizers came from whom. Every worker sends each one: the n-th from any worker is
/// generation n, and only the first arrival of a generation counts. In MXNet each arrival replaces
/// the optimizer and forgets its states.
#[derive(Debug, Default)]
pub(in crate::store) struct Generations {
    sent: BTreeMap<Customer, Sent>,
    applied: u64,
    /// The last ones.
    kept: BTreeMap<u64, Arc<Optimizer>>,
    /// By what the one was read that was read last.
    read: Option<(usize, u64)>,
}

/// What a customer has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Sent {
    /// How many optimizers.
    pub(in crate::store) count: u64,
    /// With what timestamp the last of them, if that is known.
    pub(in crate::store) last: Option<i32>,
}

impl Generations {
    /// True if what this customer sends now is a generation that nobody has sent before. A command
    /// whose timestamp is known counts once, on whatever ways it comes.
    pub(in crate::store) fn is_new(&mut self, from: Customer, timestamp: Option<i32>) -> bool {
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
    pub(in crate::store) fn is_read(&self, from: Customer, body: &[u8]) -> bool {
        self.sent(from).count < self.applied && self.read == Some(fingerprint(body))
    }

    /// Which generation applies gradients now; 0: none.
    pub(in crate::store) const fn current(&self) -> u64 {
        self.applied
    }

    /// Another server says that this generation applies now. True if that is news.
    pub(in crate::store) const fn advance(&mut self, generation: u64) -> bool {
        let new = generation > self.applied;
        if new {
            self.applied = generation;
        }
        new
    }

    /// Another server says what a customer has sent. True if that is news.
    pub(in crate::store) fn learn(&mut self, from: Customer, news: Sent) -> bool {
        let sent = self.sent.entry(from).or_default();
        let new = news.count > sent.count;
        if new {
            *sent = news;
        }
        new
    }

    /// What a customer has sent.
    pub(in crate::store) fn sent(&self, from: Customer) -> Sent {
        self.sent.get(&from).copied().unwrap_or_default()
    }

    /// The optimizer of the current generation.
    pub(in crate::store) fn keep(&mut self, optimizer: Arc<Optimizer>) {
        self.kept.insert(self.applied, optimizer);
        while self.kept.len() > KEPT_MAX {
            self.kept.pop_first();
        }
    }

    /// An optimizer that came after those that followed it: what others did by it may still come.
    /// One that is older than all of the last ones is not kept.
    pub(in crate::store) fn keep_former(&mut self, generation: u64, optimizer: Arc<Optimizer>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.entry(generation).or_insert(optimizer);
        }
    }

    /// The optimizer of a generation, if it is one of the last.
    pub(in crate::store) fn optimizer(&self, generation: u64) -> Option<&Arc<Optimizer>> {
        self.kept.get(&generation)
    }

    /// Somebody else has that id from now on, and begins anew.
    pub(in crate::store) fn forget(&mut self, node: NodeId) {
        self.sent.retain(|sender, _| sender.worker != node);
    }

    /// A command was read that says that.
    pub(in crate::store) fn note_read(&mut self, body: &[u8]) {
        self.read = Some(fingerprint(body));
    }
}

/// All workers send the same optimizer, as a rule: it is read once, not once for each of them.
fn fingerprint(body: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    (body.len(), hasher.finish())
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
