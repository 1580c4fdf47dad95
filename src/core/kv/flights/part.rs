//! A part of a slice: its owner, the way to it, and its state. Pure.

use std::time::Duration;

use bytes::Bytes;

use crate::wire::NodeId;

/// Elements of a slice's key that one piece has.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) from: u64,
    /// 0: all, whatever that is.
    pub(super) to: u64,
    pub(super) term: u64,
    pub(super) owner: NodeId,
    pub(super) state: PartState,
}

/// Where a part stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartState {
    /// On that way, and not answered.
    Sent(Way),
    /// To be sent, from then on, once it may.
    Waiting(Duration),
    /// Answered, with these values.
    Done(Bytes),
}

/// Which way a part goes to its owner, and its answer back. What goes the same way keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The node that is given the part, and that gives the answer.
    pub(super) next: NodeId,
}

impl Part {
    /// Which way it goes if it is sent now: straight to its owner.
    pub(super) const fn way(&self) -> Way {
        Way { next: self.owner }
    }

    /// On which way it is.
    pub(super) const fn sent(&self) -> Option<Way> {
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
    /// now.
    pub(super) fn overtakes(&self, other: &Self) -> bool {
        let apart =
            self.to != 0 && other.to != 0 && (other.to <= self.from || self.to <= other.from);
        let under_way = match other.state {
            PartState::Sent(way) => way != self.way(),
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
