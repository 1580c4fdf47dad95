//! Pulls whose values came with the answers to pushes (`kv`, values ahead): nobody is asked, and
//! the request ends on the customer's turn as any other. May touch the customer and its queue.

use super::WorkerCustomer;
use crate::delivery::Delivery;
use crate::landing::LANDS_MIN;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::wire::Meta;
use pslite_core::worker::WorkerOutput;

/// The longest values that pushes ask for. Where every connection is fast, long values that are
/// asked for by a pull are received into the application's memory; those that come ahead would be
/// copied there. Over a slow connection that copy costs nothing beside the way of a request.
pub(super) fn longest(node: &NodeRef) -> usize {
    let slow = node.native().is_some_and(|native| native.has_slow_connections());
    if slow { usize::MAX } else { LANDS_MIN - 1 }
}

impl WorkerCustomer {
    /// Ends that pull soon, on the customer's turn.
    pub(super) fn end_with_ahead(&self, meta: &Meta) {
        let item = Delivery::Ahead(meta.timestamp);
        self.base.queue.push(meta.priority, item);
    }

    /// The turn of a pull whose values came ahead.
    pub(crate) fn ahead(&self, timestamp: i32) {
        let mut out = WorkerOutput::default();
        lock(&self.requests).side.end_ahead(timestamp, &mut out);
        out.over.into_iter().for_each(|finished| self.finish(finished));
    }

    /// Other workers may go on without this one.
    pub(crate) fn drop_ahead(&self) {
        lock(&self.requests).side.drop_ahead();
    }
}
