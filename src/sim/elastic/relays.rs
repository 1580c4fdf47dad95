//! The relay of a simulated worker, joined with its requests as `node` joins them.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::Ledger;
use super::requests::{Over, Requests, send};
use crate::app::{Output, pairs, with_data};
use pslite_core::kv::KvError;
use pslite_core::kv::flights::Outgoing;
use pslite_core::trees::Step;
use pslite_core::values::key_at;
use pslite_core::wire::trees::{HopKind, Overlay};
use pslite_core::wire::{Message, NodeId, id_to_rank};

/// Every second worker asks about values of so many bytes.
const LEAST_ASKED: u64 = 96;

impl<D> Requests<D> {
    /// It has that id from now on.
    pub(super) fn set_id(&mut self, me: NodeId) {
        self.me = me;
        self.relay = pslite_core::trees::Relay::new(me);
        // Every second one sums in the order of its children.
        if id_to_rank(me) % 2 == 0 {
            self.relay.keep_order();
        }
    }

    /// These trees are in force.
    ///
    /// # Errors
    /// What waits does not fit its pieces.
    pub(super) fn overlay(
        &mut self,
        now: Duration,
        overlay: &Overlay,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<Vec<Over<D>>, KvError> {
        ledger.overlay(overlay);
        let mut steps = Vec::new();
        if !self.relay.overlay(overlay, &mut steps) {
            return Ok(Vec::new());
        }
        // Values are short here, and workers need not agree from where on they ask.
        self.flights.set_asks_from(if self.me / 2 % 2 == 0 { 0 } else { LEAST_ASKED });
        self.flights.set_trees(now, self.me, Arc::clone(self.relay.trees()));
        let over = self.steps(now, steps, ledger, out);
        self.retry(now, ledger, out).map(|()| over)
    }

    /// Something came along a tree.
    pub(super) fn hop(
        &mut self,
        now: Duration,
        message: Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let Message { meta, data } = message;
        if meta.customer_id != self.customer() {
            // A node drops what is for no customer of its own.
            return Vec::new();
        }
        let mut steps = Vec::new();
        if let Some((meta, kv)) =
            self.sabotage.hop_in((meta, pairs(data)), self.relay.trees().number())
        {
            self.relay.came(meta, kv, &mut steps);
        }
        self.steps(now, steps, ledger, out)
    }

    /// Sends what flights say: to others, or by this worker's relay.
    pub(super) fn dispatch(
        &mut self,
        messages: Vec<Outgoing>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        for message in messages {
            if !message.is_for_relay(self.me) {
                send(message, out);
                continue;
            }
            let Outgoing { mut meta, kv } = message;
            meta.sender = self.me;
            // Of a compressed push the first key says how many elements there are.
            let key = key_at(&kv.keys, kv.key_count().saturating_sub(1)).unwrap_or_default();
            ledger.pushed_by_tree(&meta, &kv, key);
            let mut steps = Vec::new();
            self.relay.push(meta, kv, &mut steps);
            // What it answers at once, if somebody planted that, waits for the next tick.
            for step in self.sabotage.steps(steps) {
                match step {
                    Step::Send(meta, kv) => self.send_hop(meta, kv, ledger, out),
                    later => self.later.push(later),
                }
            }
        }
    }

    fn send_hop(
        &self,
        mut meta: pslite_core::wire::Meta,
        kv: pslite_core::values::KvPairs,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        meta.sender = self.me;
        ledger.sent_by_tree(&meta, &kv);
        let is_up = meta.hop.as_ref().is_some_and(|hop| hop.kind() == HopKind::Up);
        debug_assert!(is_up == meta.request);
        out.push(Output::Send(Box::new(with_data(meta, kv))));
    }

    /// Does what the relay says.
    fn steps(
        &mut self,
        now: Duration,
        steps: Vec<Step>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let mut over = Vec::new();
        for step in self.sabotage.steps(steps) {
            match step {
                Step::Send(meta, kv) => self.send_hop(meta, kv, ledger, out),
                Step::Answer(meta, kv) => {
                    over.extend(self.answered(now, with_data(meta, kv), ledger, out));
                }
                Step::Void(part, void) => {
                    self.flights.void_ticket(part, void);
                }
            }
        }
        over
    }

    /// Does what was put off.
    pub(super) fn tick(
        &mut self,
        now: Duration,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let later = std::mem::take(&mut self.later);
        later
            .into_iter()
            .filter_map(|step| match step {
                Step::Answer(meta, kv) => self.answered(now, with_data(meta, kv), ledger, out),
                Step::Send(..) | Step::Void(..) => None,
            })
            .collect()
    }
}
