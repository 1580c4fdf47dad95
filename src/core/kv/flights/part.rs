//! A part of a slice: its owner, the way to it, and its state. Pure.

use std::time::Duration;

use bytes::Bytes;

use crate::values::KeyPart;
use crate::wire::trees::Ticket;
use crate::wire::{Key, NodeId};

/// Elements of a slice's key that one piece has.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) from: u64,
    /// 0: all, whatever that is.
    pub(super) to: u64,
    pub(super) term: u64,
    pub(super) owner: NodeId,
    /// It may have counted: its owner is asked before its values are sent again.
    pub(super) asks: bool,
    /// The newest overlay, and the term, under which an owner was asked how to push it, or has
    /// said that no tree takes it.
    pub(super) asked: (u64, u64),
    pub(super) state: PartState,
}

/// Where a part stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartState {
    /// On that way, and not answered.
    Sent(PartWay),
    /// To be sent, from then on, once it may.
    Waiting(Duration),
    /// Answered, with these values.
    Done(Bytes),
}

/// Which way a part goes to its owner, and its answer back. What goes the same way keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartWay {
    /// The node that is given the part, and that gives the answer. Of a tree it is this node: its
    /// relay.
    pub(super) next: NodeId,
    pub(super) by: By,
}

/// How a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Straight to its owner.
    Itself,
    /// As a question for its owner: has it counted?
    Name,
    /// Along a tree, in a sum.
    Tree(Ticket),
}

impl Part {
    /// Its elements, of its slice's key.
    pub(super) const fn of_key(&self, key: Key) -> KeyPart {
        KeyPart { key, from: self.from, to: self.to }
    }

    /// Which way it goes if it is sent now, and not along a tree.
    pub(super) const fn way(&self) -> PartWay {
        PartWay { next: self.owner, by: if self.asks { By::Name } else { By::Itself } }
    }

    /// On which way it is.
    pub(super) const fn sent(&self) -> Option<PartWay> {
        match self.state {
            PartState::Sent(way) => Some(way),
            PartState::Waiting(_) | PartState::Done(_) => None,
        }
    }

    /// True if an answer that this node gives is the one that is awaited.
    pub(super) fn awaits(&self, from: NodeId) -> bool {
        self.sent().is_some_and(|way| way.next == from)
    }

    /// True if it is under way and will never be answered: its owner is gone, or who was to bring
    /// it there.
    pub(super) fn is_lost_with(&self, server: NodeId) -> bool {
        self.sent().is_some_and(|way| way.next == server || self.owner == server)
    }

    /// True if it would overtake what another push of the same elements brings, if it were sent
    /// that way now. Along a tree, whose relays have one round at a time, it waits for the answer.
    pub(super) fn overtakes(&self, way: PartWay, other: &Self) -> bool {
        let apart =
            self.to != 0 && other.to != 0 && (other.to <= self.from || self.to <= other.from);
        let under_way = match other.state {
            PartState::Sent(others) => others != way || matches!(way.by, By::Tree(_)),
            PartState::Waiting(_) => true,
            PartState::Done(_) => false,
        };
        !apart && under_way
    }

    /// True if it is waiting, for whatever.
    pub(super) const fn waits(&self) -> bool {
        matches!(self.state, PartState::Waiting(_))
    }
}
