//! How a customer handles answers to its requests, and losses of nodes whose answers will not come.
//! One item at a time: the caller has the turn. May touch the customer.

use std::thread;
use std::time::Duration;

use super::{RequestEnd, WorkerCustomer};
use crate::delivery::Delivery;
use crate::sync::lock;
use pslite_core::kv::Finished;
use pslite_core::kv::messages::pairs_of;
use pslite_core::wire::word::Policy;
use pslite_core::wire::{Message, NodeId};
use pslite_core::worker::WorkerOutput;

/// How long the customer's thread rests between two looks at a call that has not returned.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

impl WorkerCustomer {
    /// An answer to a request.
    pub(crate) fn response(&self, message: Message) {
        if !message.meta.simple_app && self.is_attached() {
            return self.values(message);
        }
        let meta = &message.meta;
        let (timestamp, sender) = (meta.timestamp, meta.sender);
        let error = message.meta.error.clone();
        (self.base.handler)(message);
        let mut out = WorkerOutput::default();
        let mut state = lock(&self.requests);
        state.side.obeyed(timestamp, sender, &error, &mut out);
        self.perform(None, state, out);
        self.tell_waiters(lock(&self.requests));
    }

    /// A response to a KVWorker's request (kv_app.h:616).
    fn values(&self, message: Message) {
        let meta = message.meta;
        let pairs = pairs_of(message.data);
        let mut out = WorkerOutput::default();
        let mut state = lock(&self.requests);
        // Where keys stay, an answer makes nothing be sent and is not timed.
        let node = if state.side.follows() { self.node().ok() } else { None };
        let now = node.as_ref().map_or(Duration::ZERO, |node| node.now());
        state.side.answered(now, &meta, pairs, &mut out);
        self.perform(node.as_ref(), state, out);
    }

    /// A request awaits nothing more: runs its end, or leaves it to the customer's thread.
    pub(super) fn finish(&self, finished: Finished<RequestEnd>) {
        let timestamp = finished.ts;
        match self.calls.keep_early(finished) {
            Some(finished) => self.end(finished),
            None => self.look_again(timestamp),
        }
    }

    /// On the customer's thread: has the call returned?
    pub(crate) fn early(&self, timestamp: i32) {
        if let Some(finished) = self.calls.take(timestamp, false) {
            return self.end(finished);
        }
        thread::sleep(LOOK_AGAIN);
        self.look_again(timestamp);
    }

    fn look_again(&self, timestamp: i32) {
        if self.base.queue.push(i32::MIN, Delivery::Early(timestamp)) {
            return;
        }
        // The application ends a customer of which a call is under way. The end runs nevertheless.
        if let Some(finished) = self.calls.take(timestamp, true) {
            self.end(finished);
        }
    }

    /// A node is gone.
    pub(crate) fn node_lost(&self, id: NodeId, reason: &str) {
        let node = self.node().ok();
        let now = node.as_ref().map_or(Duration::ZERO, |node| node.now());
        let mut out = WorkerOutput::default();
        let mut state = lock(&self.requests);
        state.side.lost(now, id, reason, &mut out);
        self.perform(node.as_ref(), state, out);
        self.tell_waiters(lock(&self.requests));
    }

    /// By a new policy servers are released: commands do not wait for those.
    pub(crate) fn released(&self, policy: &Policy) {
        if lock(&self.requests).side.follows() {
            self.commands_by_policy(&policy.released);
        }
    }

    /// Nothing is answered any more.
    pub(crate) fn all_lost(&self, reason: &str) {
        let mut out = WorkerOutput::default();
        let mut state = lock(&self.requests);
        state.side.fail_all(reason, &mut out);
        self.perform(None, state, out);
    }
}
