//! Does what `core::worker` says: sends messages, and runs the ends of requests. May touch the
//! customer and the node.

use std::mem::take;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::ahead::longest;
use super::{RequestEnd, Requests, WorkerCustomer};
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::flights::Outgoing;
use pslite_core::kv::messages::with_data;
use pslite_core::values::kind::form_of;
use pslite_core::values::{Form, KvPairs};
use pslite_core::wire::{Key, Meta};
use pslite_core::worker::{AnsweredBy, WorkerOutput};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};

/// Bytes of an element of a slice that is cut into pieces; 0: it is not cut.
pub(super) fn element_of(meta: &Meta, kv: &KvPairs, first: Key) -> u64 {
    match form_of(meta, kv, first).0 {
        Form::Dense { size } => size,
        Form::TwoBit { .. } | Form::Whole => 0,
    }
}

impl Requests {
    /// Counts how long servers took.
    fn count(&self, answered: &[AnsweredBy]) {
        let Some(traffic) = &self.traffic else { return };
        for AnsweredBy { server, asked, command, push, pull } in answered {
            let kind = MessageKind::of_flags(*command, *push, *pull);
            traffic.answered(*server, kind, *asked);
        }
    }
}

impl WorkerCustomer {
    /// Begins the slices of a request where keys may move, and sends what goes at once. Unlocks
    /// the requests.
    pub(super) fn begin_and_send(
        &self,
        node: &NodeRef,
        mut state: MutexGuard<'_, Requests>,
        meta: &Meta,
        slices: impl Iterator<Item = (usize, KvPairs)>,
    ) -> Result<()> {
        if meta.push {
            state.side.set_longest_ahead(longest(node));
        }
        let mut out = WorkerOutput::default();
        let begun = state.side.begin(node.now(), meta, slices, &mut out);
        let messages = state.side.messages(&mut out);
        self.note_waits(&state);
        drop(state);
        begun.map_err(|error| NodeError::Invalid(error.to_string()))?;
        self.send_outgoing(node, messages)
    }

    /// Sends parts, and what a relay passes on. A server that is lost meanwhile answers nothing:
    /// parts wait then. If another relay is gone, the scheduler says what follows from that.
    ///
    /// # Errors
    /// The job is over, also if there is nothing to send: parts that wait would wait for ever.
    fn send_outgoing(&self, node: &NodeRef, messages: Vec<Outgoing>) -> Result<()> {
        node.failure().map_or(Ok(()), Err)?;
        for Outgoing { meta, kv } in messages {
            let (to, is_hop) = (meta.recver, meta.payload.is_hop());
            if let Err(error) = node.send(with_data(meta, kv)) {
                node.failure().map_or(Ok(()), Err)?;
                if is_hop && matches!(error, NodeError::PeerLost(_)) {
                    log::write(Level::Verbose, &error.to_string());
                    continue;
                }
                if !matches!(error, NodeError::PeerLost(_)) {
                    return Err(error);
                }
                let mut state = lock(&self.requests);
                state.side.unsent(node.now(), to);
                self.note_waits(&state);
            }
        }
        Ok(())
    }

    /// Does all of it, on the thread that handles what came. Unlocks the requests. Without a node
    /// nothing is sent.
    pub(super) fn perform(
        &self,
        node: Option<&NodeRef>,
        state: MutexGuard<'_, Requests>,
        out: WorkerOutput<RequestEnd>,
    ) {
        self.perform_for(None, node, state, out);
    }

    /// The same, for that request: it fails if something cannot be sent.
    pub(super) fn perform_for(
        &self,
        request: Option<i32>,
        node: Option<&NodeRef>,
        mut state: MutexGuard<'_, Requests>,
        mut out: WorkerOutput<RequestEnd>,
    ) {
        let messages = state.side.messages(&mut out);
        if state.side.follows() {
            self.note_waits(&state);
        }
        state.count(&out.answered);
        drop(state);
        if let Some(node) = node {
            take(&mut out.reports).into_iter().for_each(|report| self.report(node, report));
        }
        if let Some(node) = node
            && let Err(error) = self.send_outgoing(node, messages)
        {
            match request {
                Some(timestamp) => {
                    lock(&self.requests).side.fail(timestamp, &error.to_string(), &mut out);
                }
                // Only threads that wait could be told, and the failure of the job tells them.
                None => log::write(Level::Verbose, &error.to_string()),
            }
        }
        out.over.into_iter().for_each(|finished| self.finish(finished));
        if out.has_failed {
            self.tell_waiters(lock(&self.requests));
        }
    }

    pub(super) fn note_waits(&self, state: &Requests) {
        self.waits.store(state.side.waits(), Ordering::Relaxed);
    }
}
