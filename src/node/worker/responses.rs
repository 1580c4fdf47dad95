//! How a customer handles answers to its requests, and losses of nodes whose answers will not come.
//! One item at a time: the caller has the turn. May touch the customer.

use std::thread;
use std::time::Duration;

use super::flights::without_keys;
use super::{Payload, Requests, WorkerCustomer};
use crate::base::pairs_of;
use crate::delivery::Delivery;
use crate::sync::lock;
use pslite_core::kv::Finished;
use pslite_core::kv::worker::Response;
use pslite_core::values::KvPairs;
use pslite_core::wire::elastic::SchedulerMessage;
use pslite_core::wire::{Message, Meta, NodeId};
use pslite_observe::MessageKind;

/// How long the customer's thread rests between two looks at a call that has not returned.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

impl WorkerCustomer {
    /// An answer to a request.
    pub(crate) fn response(&self, message: Message) {
        if !message.meta.simple_app && self.is_attached() {
            return self.values(message);
        }
        let meta = &message.meta;
        let (timestamp, sender, kind) =
            (meta.timestamp, meta.sender, MessageKind::of_request(meta));
        let error = message.meta.error.clone();
        (self.base.handler)(message);
        let response = Response { error: &error, ..Response::default() };
        let mut state = lock(&self.requests);
        if error.is_empty() {
            state.commands.obeyed(timestamp, sender);
        } else {
            state.commands.forget(timestamp);
        }
        let finished = state.answered((timestamp, sender, kind), response);
        drop(state);
        if let Some(finished) = finished {
            self.finish(finished);
        }
        self.tell_waiters(lock(&self.requests));
    }

    /// A response to a KVWorker's request (kv_app.h:616).
    fn values(&self, message: Message) {
        let meta = message.meta;
        let pairs = pairs_of(message.data);
        let mut state = lock(&self.requests);
        if state.flights.is_some() {
            return self.part_response(state, meta, pairs);
        }
        let finished = state.whole_answered(meta, pairs);
        drop(state);
        if let Some(finished) = finished {
            self.finish(finished);
        }
    }

    /// A request awaits nothing more: runs its end, or leaves it to the customer's thread.
    pub(super) fn finish(&self, finished: Finished<Payload>) {
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
        let finished = {
            let mut state = lock(&self.requests);
            match &mut state.flights {
                None => state.requests.fail_node(id, reason),
                Some(flights) => {
                    if let Ok(node) = self.node() {
                        flights.lost(node.now(), id);
                    }
                    self.note_waits(&state);
                    state.end_commands(id)
                }
            }
        };
        finished.into_iter().for_each(|finished| self.finish(finished));
        self.tell_waiters(lock(&self.requests));
    }

    /// By a new policy servers are released: commands do not wait for those.
    pub(crate) fn released(&self, word: &SchedulerMessage) {
        if lock(&self.requests).flights.is_some() {
            self.commands_by_policy(&word.released);
        }
    }

    /// Nothing is answered any more.
    pub(crate) fn all_lost(&self, reason: &str) {
        let finished = lock(&self.requests).requests.fail_all(reason.to_owned());
        finished.into_iter().for_each(|finished| self.finish(finished));
        self.tell_waiters(lock(&self.requests));
    }
}

impl Requests {
    /// One server has answered its slice.
    pub(super) fn whole_answered(
        &mut self,
        meta: Meta,
        pairs: KvPairs,
    ) -> Option<Finished<Payload>> {
        let kind = MessageKind::of_request(&meta);
        let mut error = meta.error;
        if meta.pull && pairs.keys.is_empty() && error.is_empty() {
            error = without_keys(meta.sender);
        }
        let response = Response { pairs, error: &error, ..Response::default() };
        self.answered((meta.timestamp, meta.sender, kind), response)
    }
}
