//! A worker's part in rounds along trees (`docs/trees.md`): its relay, joined with its requests.
//! Decides nothing. May touch the customer.

use std::sync::Arc;

use super::{Payload, Requests, WorkerCustomer};
use crate::base::pairs_of;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Finished;
use pslite_core::kv::flights::Outgoing;
use pslite_core::store::SumOrder;
use pslite_core::trees::{Relay, Step};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::{Message, NodeId};

fn new_relay(node: &NodeRef) -> Relay {
    let mut relay = Relay::new(node.my_id());
    if node.settings().sum_order == SumOrder::Trees {
        relay.keep_order();
    }
    relay
}

impl Requests {
    /// These trees are in force. What the relay does then goes to `steps`. False if newer ones are
    /// known.
    pub(super) fn set_trees(
        &mut self,
        node: &NodeRef,
        overlay: &Overlay,
        steps: &mut Vec<Step>,
    ) -> bool {
        let me = node.my_id();
        let Some(flights) = &mut self.flights else { return false };
        let relay = self.relay.get_or_insert_with(|| new_relay(node));
        let is_new = relay.overlay(overlay, steps);
        if is_new {
            flights.set_trees(node.now(), me, Arc::clone(relay.trees()));
        }
        is_new
    }

    /// Parts that go along a tree are given to the relay: what it sends takes their place.
    pub(super) fn join_tree(&mut self, me: NodeId, messages: &mut Vec<Outgoing>) {
        let Some(relay) = &mut self.relay else { return };
        if !messages.iter().any(|message| message.is_for_relay(me)) {
            return;
        }
        let mut steps = Vec::new();
        let (own, others) =
            std::mem::take(messages).into_iter().partition(|message| message.is_for_relay(me));
        *messages = others;
        let own: Vec<Outgoing> = own;
        for Outgoing { mut meta, kv } in own {
            meta.sender = me;
            relay.push(meta, kv, &mut steps);
        }
        // A push is answered by what comes down, never at once.
        messages.extend(steps.into_iter().filter_map(|step| match step {
            Step::Send(meta, kv) => Some(Outgoing { meta, kv }),
            Step::Answer(..) | Step::Void(..) => None,
        }));
    }

    /// What the relay did when this worker began to follow trees.
    pub(super) fn take_owed(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.owed)
    }

    /// Does what the relay says: what is to be sent, and the requests that are over.
    pub(super) fn do_steps(
        &mut self,
        node: &NodeRef,
        steps: Vec<Step>,
        out: &mut Vec<Outgoing>,
    ) -> Vec<Finished<Payload>> {
        let mut finished = Vec::new();
        for step in steps {
            match step {
                Step::Send(meta, kv) => out.push(Outgoing { meta, kv }),
                Step::Answer(meta, kv) => {
                    let is_open =
                        self.flights.as_ref().is_some_and(|flights| flights.has(meta.timestamp));
                    if is_open {
                        finished.extend(self.part_answered(node.now(), &meta, kv, out));
                    }
                }
                Step::Void(part, void) => {
                    if let Some(flights) = &mut self.flights {
                        flights.void_ticket(part, void);
                    }
                }
            }
        }
        self.join_tree(node.my_id(), out);
        finished
    }
}

impl WorkerCustomer {
    /// These trees are in force.
    pub(crate) fn overlay(&self, overlay: &Overlay) {
        let Ok(node) = self.node() else { return };
        if !self.is_attached() {
            return;
        }
        let (mut steps, mut out) = (Vec::new(), Vec::new());
        let mut state = lock(&self.requests);
        if !state.set_trees(&node, overlay, &mut steps) {
            return;
        }
        let finished = state.do_steps(&node, steps, &mut out);
        drop(state);
        self.send_again(&node, out);
        finished.into_iter().for_each(|finished| self.finish(finished));
        self.flights_step(|flights, now, out| flights.retry(now, out));
    }

    /// Something came along a tree.
    pub(crate) fn hop(&self, message: Message) {
        let Ok(node) = self.node() else { return };
        let Message { meta, data } = message;
        let kv = pairs_of(data);
        let (mut steps, mut out) = (Vec::new(), Vec::new());
        let mut state = lock(&self.requests);
        state.follow_pieces(&node, self.makes_keys());
        steps.append(&mut state.take_owed());
        state.relay.get_or_insert_with(|| new_relay(&node)).came(meta, kv, &mut steps);
        let finished = state.do_steps(&node, steps, &mut out);
        self.note_waits(&state);
        drop(state);
        self.send_again(&node, out);
        finished.into_iter().for_each(|finished| self.finish(finished));
    }
}
