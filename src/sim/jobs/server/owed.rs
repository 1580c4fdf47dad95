//! Answers that a server whose keys stay owes: a push that waits for a worker that has left can
//! never be answered, and its sender is told (`node/server/stuck.rs`).

use std::time::Duration;

use bytes::Bytes;

use crate::app::{APP, View};
use pslite_core::kv::Unanswered;
use pslite_core::kv::unanswered::Stuck;
use pslite_core::values::key_at;
use pslite_core::wire::{Message, Meta, NodeId};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owed {
    unanswered: Unanswered,
    /// Some worker has left.
    left: bool,
}

impl Owed {
    pub(super) fn asked(&mut self, meta: &Meta, frames: &[Bytes], now: Duration) {
        // The first of MXNet's two keys of a compressed push is a length (docs/mxnet.md).
        let keys = frames.first().map_or(&[][..], |keys| keys);
        let key = key_at(keys, 1).or_else(|| key_at(keys, 0)).unwrap_or(0);
        self.unanswered.received(meta, key, now);
    }

    pub(super) fn answered(&mut self, request: &Meta) {
        self.unanswered.answered(request.sender, request.customer_id, request.timestamp);
    }

    pub(super) fn left(&mut self, id: NodeId, customer_id: i32) {
        self.unanswered.customer_left(id, customer_id);
        self.left = true;
    }

    pub(super) fn forget(&mut self, id: NodeId) {
        self.unanswered.forget_node(id);
    }

    /// What those are told who wait for a worker that has left.
    pub(super) fn end_stuck(&mut self, view: &View<'_>) -> Vec<Message> {
        if !self.left {
            return Vec::new();
        }
        let mut told = Vec::new();
        for Stuck { request, left } in self.unanswered.stuck() {
            let who: Vec<String> =
                left.iter().map(|(node, _)| view.cluster.describe(*node)).collect();
            let error = format!("{} left without the push that others wait for", who.join(", "));
            self.unanswered.answered(request.sender, request.customer_id, request.timestamp);
            let meta = Meta {
                head: request.head,
                app_id: APP,
                customer_id: request.customer_id,
                timestamp: request.timestamp,
                recver: request.sender,
                push: request.push,
                pull: request.pull,
                error,
                ..Meta::default()
            };
            told.push(Message { meta, ..Message::default() });
        }
        told
    }
}
