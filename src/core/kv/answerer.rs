//! Who answers a worker's request, decided in one place. `node` and the simulator ask the same
//! question for each request, and the same one for each message that [`Flights`] makes of it. May
//! touch what `kv` may; keeps nothing.

use super::Slices;
use super::flights::{AheadSlice, Flights, Outgoing};
use crate::values::KeyRange;
use crate::wire::{Meta, NodeId};

/// Who answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The worker's own model, while deltas travel (docs/nbsync.md). It is asked on the customer's
    /// turn.
    Local,
    /// The servers that have the keys, each its slice.
    Servers,
    /// Nobody is asked: all values came with the answers to earlier pushes. They are kept until
    /// the request's turn ([`super::WorkerRequests::on_ahead`]).
    Ahead(Vec<AheadSlice>),
}

impl Answerer {
    /// Of a request that is about to begin, cut for these ranges. `local`: this worker trains on a
    /// local model. `flights`: if keys may move in this job.
    pub fn of(
        local: bool,
        flights: Option<&mut Flights>,
        meta: &Meta,
        slices: &Slices,
        ranges: &[KeyRange],
    ) -> Self {
        if local {
            return Self::Local;
        }
        let ahead = flights.and_then(|flights| flights.pulled_ahead(meta, slices, ranges));
        ahead.map_or(Self::Servers, Self::Ahead)
    }
}

impl Outgoing {
    /// True if this worker's own relay takes the message: it goes along a tree.
    #[must_use]
    pub const fn is_for_relay(&self, me: NodeId) -> bool {
        self.meta.recver == me
    }
}
