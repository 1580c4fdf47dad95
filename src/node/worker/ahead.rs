//! Pulls whose values came with the answers to pushes (`kv`, values ahead): nobody is asked, and
//! the request ends on the customer's turn as any other. May touch the customer and its queue.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{Requests, WorkerCustomer};
use crate::delivery::Delivery;
use crate::landing::LANDS_MIN;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Slices;
use pslite_core::kv::flights::Brought;
use pslite_core::kv::worker::Response;
use pslite_core::values::Form;
use pslite_core::values::kind::form_of;
use pslite_core::wire::{Key, Meta, server_id};

/// The values of pulls that have not ended yet: by timestamp those of each rank.
pub(super) type Here = BTreeMap<i32, Vec<(u32, Brought)>>;

/// The longest values that pushes ask for. Where every connection is fast, long values that are
/// asked for by a pull are received into the application's memory; those that come ahead would be
/// copied there. Over a slow connection that copy costs nothing beside the way of a request.
pub(super) fn longest(node: &NodeRef) -> usize {
    let slow = node.native().is_some_and(|native| native.has_slow_connections());
    if slow { usize::MAX } else { LANDS_MIN - 1 }
}

impl Requests {
    /// Takes the values of a pull, if all came ahead. They are kept until its turn.
    pub(super) fn take_ahead(&mut self, meta: &Meta, slices: &Slices) -> bool {
        let Some(flights) = &mut self.flights else { return false };
        if meta.push {
            return false;
        }
        let mut asked: SmallVec<[(u32, Key); 4]> = SmallVec::new();
        for (rank, kv) in slices.iter().enumerate() {
            let Some(kv) = kv else { continue };
            let first = self.ranges.get(rank).map_or(0, |range| range.begin);
            let (Form::Dense { .. }, key) = form_of(meta, kv, first) else { return false };
            asked.push((rank as u32, key));
        }
        let keys: SmallVec<[Key; 4]> = asked.iter().map(|(_, key)| *key).collect();
        let Some(brought) = flights.pulled_ahead(&keys) else { return false };
        let by_rank = asked.iter().map(|(rank, _)| *rank).zip(brought);
        self.here.insert(meta.timestamp, by_rank.collect());
        true
    }
}

impl WorkerCustomer {
    /// Ends that pull soon, on the customer's turn.
    pub(super) fn end_with_ahead(&self, meta: &Meta) {
        let item = Delivery::Ahead(meta.timestamp);
        self.base.queue.push(meta.priority, item);
    }

    /// The turn of a pull whose values came ahead.
    pub(crate) fn ahead(&self, timestamp: i32) {
        let mut state = lock(&self.requests);
        let brought = state.here.remove(&timestamp).unwrap_or_default();
        let mut finished = None;
        for (rank, Brought { pairs, more }) in brought {
            let response = Response { pairs, more, ..Response::default() };
            let from = server_id(rank as usize);
            finished = state.requests.on_response(timestamp, from, response).or(finished);
        }
        drop(state);
        if let Some(finished) = finished {
            self.finish(finished);
        }
    }

    /// Other workers may go on without this one.
    pub(crate) fn drop_ahead(&self) {
        if let Some(flights) = &mut lock(&self.requests).flights {
            flights.drop_ahead();
        }
    }
}
