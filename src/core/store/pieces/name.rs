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
pub(in crate::store) struct Customer {
    pub(in crate::store) worker: NodeId,
    pub(in crate::store) customer: i32,
    /// Which one of the worker's lives (`PartAsk::life`).
    pub(in crate::store) life: u64,
}

impl Customer {
    /// Whose request that is.
    pub(in crate::store) fn of(request: &Meta) -> Self {
        let life = request.ask().map(|ask| ask.life);
        let life = life.or_else(|| request.reply().map(|reply| reply.life)).unwrap_or(0);
        Self { worker: request.sender, customer: request.customer_id, life }
    }
}

/// One push of one customer to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Name {
    pub(in crate::store) who: Customer,
    /// The customer's number of the request.
    pub(in crate::store) timestamp: i32,
    /// One more than the timestamp of this customer's push of the key before it; 0: there was none
    /// (`PartAsk::after`).
    pub(in crate::store) after: u32,
    /// Which slice of the request (`PartAsk::slice`). `None`: its worker does not follow pieces. It
    /// sends nothing twice, and its timestamps are compared with nothing.
    pub(in crate::store) slice: Option<u32>,
}

impl Name {
    /// That of a worker's own push. One that is being answered does not say any more which push was
    /// before it.
    pub(in crate::store) fn of(push: &Meta) -> Self {
        let (ask, slice) = (push.ask(), push.reply().map(|reply| reply.slice));
        Self {
            who: Customer::of(push),
            timestamp: push.timestamp,
            after: ask.map_or(0, |ask| ask.after),
            slice: ask.map(|ask| ask.slice).or(slice),
        }
    }

    /// That of a push in a sum.
    pub(in crate::store) const fn in_sum(name: &PushName) -> Self {
        let PushName { worker, customer, life, timestamp, after, slice, .. } = *name;
        let who = Customer { worker, customer, life };
        Self { who, timestamp, after, slice: Some(slice) }
    }

    /// The timestamp of the push before this one, if there was one.
    pub(in crate::store) fn before(&self) -> Option<i32> {
        i32::try_from(self.after.checked_sub(1)?).ok()
    }

    /// Its mark, once it has counted, if it is ever looked up.
    pub(in crate::store) fn mark(&self) -> Option<Mark> {
        let Customer { worker, customer, life } = self.who;
        self.slice.map(|_| Mark { worker, customer, timestamp: self.timestamp, life })
    }
}
