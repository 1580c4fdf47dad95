//! What a customer that serves sends: answers of its application, or of what stands in its place,
//! and transfers to other servers. May touch the node.

use bytes::Bytes;

use super::front::{Front, HAND_OVER};
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use pslite_core::kv::messages::with_data;
use pslite_core::server::messages;
use pslite_core::store::Outgoing;
use pslite_core::values::KvPairs;
use pslite_core::wire::Meta;
use pslite_observe::log::{self, Level};

impl Front {
    /// Answers a push or pull (kv_app.h:507); data go along only if there are keys. An error in
    /// `request` says why it could not be served.
    ///
    /// # Errors
    /// The asker is lost, or a stock node that takes every answer for a success; or the node is
    /// not started.
    pub(super) fn respond(
        &self,
        node: &Result<NodeRef>,
        request: &Meta,
        kv: KvPairs,
    ) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let (node, kv) = self.settled(node, request, kv)?;
        self.send_response(node, request, request, kv)
    }

    /// A request is answered with these values: nobody is owed that any more, and the gate hears of
    /// it. What is to be sent, and by whom.
    ///
    /// # Errors
    /// As [`Self::respond`].
    pub(super) fn settled<'a>(
        &self,
        node: &'a Result<NodeRef>,
        request: &Meta,
        kv: KvPairs,
    ) -> Result<(&'a NodeRef, KvPairs)> {
        let kv = self.gating.watch(node, request, kv);
        self.settle(request.sender, request);
        let node = node.as_ref().map_err(Clone::clone)?;
        if !request.error.is_empty() && !node.is_ours(request.sender) {
            return Err(NodeError::Invalid(format!(
                "node {} is a stock ps-lite and cannot be told of an error: {}",
                request.sender, request.error
            )));
        }
        Ok((node, kv))
    }

    /// Sends the answer to a request. `known`: the request as its sender knows it; `request`: as
    /// the application was given it.
    ///
    /// # Errors
    /// The asker is lost.
    pub(super) fn send_response(
        &self,
        node: &NodeRef,
        known: &Meta,
        request: &Meta,
        kv: KvPairs,
    ) -> Result<()> {
        let mut meta = messages::answer(known, &kv, self.base.app_id);
        // What the application says of its values, not what the asker said of its own.
        meta.value_type = request.value_type;
        meta.devices = request.devices;
        node.send(with_data(meta, kv))
    }

    /// The application sends an answer by itself.
    pub(super) fn note_answer(&self, answer: &Meta) {
        self.settle(answer.recver, answer);
        self.gating.answered(&Meta { sender: answer.recver, ..answer.clone() });
    }

    /// Answers a request that the application's handler did not get.
    pub(super) fn send_answer(&self, node: &NodeRef, request: &Meta, kv: KvPairs) {
        let meta = messages::answer(request, &kv, self.base.app_id);
        if let Err(error) = node.send(with_data(meta, kv)) {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// Answers a command; an `error` makes it fail at a sender of ours.
    ///
    /// # Errors
    /// The asker is lost, or the node is not started.
    pub(super) fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let node = self.node()?;
        let told = if node.is_ours(request.sender) { error } else { "" };
        node.send(messages::command_answer(request, self.base.app_id, body, told))
    }

    /// Sends another server something.
    pub(super) fn send_transfer(&self, outgoing: Outgoing) {
        let Ok(node) = self.node() else { return };
        // A server that is gone: the scheduler says what follows from that.
        if let Err(error) = node.send(messages::transfer(outgoing, self.base.app_id)) {
            log::write(Level::Verbose, &error.to_string());
        }
    }
}
