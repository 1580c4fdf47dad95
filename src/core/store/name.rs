//! Who pushes, and how one push is told from all others. Pure.
//!
//! A *name* is all that marks, rounds and replicas need to know of a push; a message that hands in
//! the sum of several pushes brings several names.

use crate::wire::elastic::Mark;
use crate::wire::trees::PushName;
use crate::wire::{Meta, NodeId};

/// One customer of one process. A worker's id may become another process's, whose timestamps begin
/// anew: that is another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Customer {
    pub(super) worker: NodeId,
    pub(super) customer: i32,
    /// Which one of the worker's lives (`Placed::life`).
    pub(super) life: u64,
}

impl Customer {
    /// Whose request that is.
    pub(super) fn of(request: &Meta) -> Self {
        let life = request.placed.as_ref().map_or(0, |placed| placed.life);
        Self { worker: request.sender, customer: request.customer_id, life }
    }
}

/// One push of one customer to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) who: Customer,
    /// The customer's number of the request.
    pub(super) timestamp: i32,
    /// One more than the timestamp of this customer's push of the key before it; 0: there was none
    /// (`Placed::after`).
    pub(super) after: u32,
    /// Which slice of the request (`Placed::slice`). `None`: its worker does not follow pieces. It
    /// sends nothing twice, and its timestamps are compared with nothing.
    pub(super) slice: Option<u32>,
}

impl Name {
    /// That of a worker's own push.
    pub(super) fn of(push: &Meta) -> Self {
        let placed = push.placed.as_ref();
        Self {
            who: Customer::of(push),
            timestamp: push.timestamp,
            after: placed.map_or(0, |placed| placed.after),
            slice: placed.map(|placed| placed.slice),
        }
    }

    /// That of a push in a sum.
    pub(super) const fn in_sum(name: &PushName) -> Self {
        let PushName { worker, customer, life, timestamp, after, slice, .. } = *name;
        let who = Customer { worker, customer, life };
        Self { who, timestamp, after, slice: Some(slice) }
    }

    /// The timestamp of the push before this one, if there was one.
    pub(super) fn before(&self) -> Option<i32> {
        i32::try_from(self.after.checked_sub(1)?).ok()
    }

    /// Its mark, once it has counted, if it is ever looked up.
    pub(super) fn mark(&self) -> Option<Mark> {
        let Customer { worker, customer, life } = self.who;
        self.slice.map(|_| Mark { worker, customer, timestamp: self.timestamp, life })
    }
}
