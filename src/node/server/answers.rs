//! The answers of a customer that serves: by its application, or by what stands in its place. May
//! touch the customer.

use bytes::Bytes;

use super::{HAND_OVER, ServerCustomer};
use crate::base::with_data;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::values::KvPairs;
use pslite_core::wire::{Frames, Message, Meta, NodeId};
use pslite_observe::log::{self, Level};

impl ServerCustomer {
    /// Answers a push or pull (kv_app.h:507); data go along only if there are keys. An error in
    /// `request` says why it could not be served.
    ///
    /// # Errors
    /// The asker is lost, or a stock node that takes every answer for a success; or the node is
    /// not started.
    pub(crate) fn respond(&self, request: &Meta, kv: KvPairs) -> Result<()> {
        self.respond_over(&self.node(), request, kv)
    }

    /// As [`Self::respond`], where the caller has asked for the node already.
    pub(super) fn respond_over(
        &self,
        node: &Result<NodeRef>,
        request: &Meta,
        kv: KvPairs,
    ) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let kv = self.watch_answer(node, request, kv);
        self.settle(request.sender, request);
        let node = node.as_ref().map_err(Clone::clone)?;
        if !request.error.is_empty() && !node.is_ours(request.sender) {
            return Err(NodeError::Invalid(format!(
                "node {} is a stock ps-lite and cannot be told of an error: {}",
                request.sender, request.error
            )));
        }
        let (mut meta, kv) = match self.movable() {
            None => (response_meta(request, &kv, self.base.app_id), kv),
            Some(movable) => match movable.answered(self, node, (request, kv)) {
                None => return Ok(()),
                Some((request, kv)) => (response_meta(&request, &kv, self.base.app_id), kv),
            },
        };
        // What the application says of its values, not what the asker said of its own.
        meta.value_type = request.value_type;
        meta.devices = request.devices;
        node.send(with_data(meta, kv))
    }

    /// The application sends an answer by itself.
    pub(crate) fn note_answer(&self, answer: &Meta) {
        self.settle(answer.recver, answer);
        self.gate_answered(&Meta { sender: answer.recver, ..answer.clone() });
    }

    /// That node's request is answered.
    fn settle(&self, asker: NodeId, meta: &Meta) {
        if let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.answered(asker, meta.customer_id, meta.timestamp);
        }
    }

    /// Answers a request that the application's handler did not get.
    pub(super) fn send_answer(&self, node: &NodeRef, request: &Meta, kv: KvPairs) {
        let meta = response_meta(request, &kv, self.base.app_id);
        if let Err(error) = node.send(with_data(meta, kv)) {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// Answers a command; an `error` makes it fail at a sender of ours.
    ///
    /// # Errors
    /// The asker is lost, or the node is not started.
    pub(crate) fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let node = self.node()?;
        let told = if node.is_ours(request.sender) { error } else { "" };
        let meta = Meta {
            head: request.head,
            body,
            simple_app: true,
            app_id: self.base.app_id,
            customer_id: request.customer_id,
            timestamp: request.timestamp,
            recver: request.sender,
            error: told.to_owned(),
            ..Meta::default()
        };
        node.send(Message { meta, data: Frames::new() })
    }
}

fn response_meta(request: &Meta, kv: &KvPairs, app_id: i32) -> Meta {
    Meta {
        head: request.head,
        app_id,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        recver: request.sender,
        push: request.push,
        pull: request.pull,
        error: request.error.clone(),
        // Without values it is waited for by somebody who then asks for more.
        overtakes: request.placed.is_some() && !request.pull && kv.keys.is_empty(),
        placed: request.placed.clone(),
        ..Meta::default()
    }
}
