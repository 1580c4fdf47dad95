//! What each customer of a worker has asked of one opaque key: from that follows whether the key
//! may leave, and which requests must still get through so that it soon may. Pure; knows nothing of
//! time.

use std::collections::BTreeMap;

use crate::invariant::{Valid, require};
use crate::wire::{Meta, NodeId};

/// A customer of a worker.
pub(super) type Customer = (NodeId, i32);

/// Who asked.
pub(super) const fn who(request: &Meta) -> Customer {
    (request.sender, request.customer_id)
}

/// Requests that the application was given, of one customer. Where nothing is kept between rounds
/// the first push is none: it only makes the key.
#[derive(Clone, Copy, Debug, Default)]
struct Visitor {
    pushes: u64,
    pulls: u64,
    /// How many of its pushes were given before the newest of its pulls whose answer has arrived.
    fetched: u64,
}

/// All customers that have asked for a key since it is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Visitors {
    of: BTreeMap<Customer, Visitor>,
}

impl Visitors {
    /// Those that have made a key that comes: they have nothing under way.
    pub(super) fn of(all: impl Iterator<Item = Customer>) -> Self {
        Self { of: all.map(|customer| (customer, Visitor::default())).collect() }
    }

    /// True if that customer has asked for the key before.
    pub(super) fn knows(&self, customer: Customer) -> bool {
        self.of.contains_key(&customer)
    }

    /// The application is given a request. How many pushes the customer has then made: to be said
    /// again with [`Self::fetched`].
    pub(super) fn given(&mut self, request: &Meta, stateless: bool) -> u64 {
        let first = !self.knows(who(request));
        let visitor = self.of.entry(who(request)).or_default();
        visitor.pushes += u64::from(request.push && !(first && stateless));
        visitor.pulls += u64::from(request.pull);
        visitor.pushes
    }

    /// The answer to a request that asked for values has arrived. (It may be of one that had this
    /// name before.)
    pub(super) fn fetched(&mut self, customer: Customer, pushes: u64) {
        if let Some(visitor) = self.of.get_mut(&customer) {
            visitor.fetched = visitor.fetched.max(pushes.min(visitor.pushes));
        }
    }

    /// True between rounds: all have pushed equally often, and pulled since.
    pub(super) fn are_between_rounds(&self) -> bool {
        let pushes = self.of.values().next().map_or(0, |visitor| visitor.pushes);
        self.of.values().all(|visitor| visitor.pushes == pushes && visitor.fetched == pushes)
    }

    /// True if others may wait for that request: who asks has not yet asked as often as they. Where
    /// nothing is kept between rounds a pull, and the push that makes the key, are always waited
    /// for.
    pub(super) fn is_behind(&self, request: &Meta, stateless: bool) -> bool {
        let visitor = self.of.get(&who(request)).copied();
        if stateless && (visitor.is_none() || !request.push) {
            return true;
        }
        let own = visitor.unwrap_or_default();
        if request.push {
            self.of.values().any(|other| other.pushes > own.pushes)
        } else {
            self.of.values().any(|other| other.pulls > own.pulls)
        }
    }

    /// Nobody has got what was pushed after all that it pushed.
    pub(super) fn validate(&self) -> Valid {
        let wrong = self.of.iter().find(|(_, visitor)| visitor.fetched > visitor.pushes);
        require(wrong.is_none(), || format!("it has got more than it pushed for: {wrong:?}"))
    }

    /// The worker is gone, or its id is another process's.
    pub(super) fn forget(&mut self, worker: NodeId) {
        self.of.retain(|(sender, _), _| *sender != worker);
    }
}
