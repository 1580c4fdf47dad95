//! What a customer does with what reaches it: messages to the application's handler, responses to
//! the requests that they answer, losses to those who wait for the lost. One item at a time
//! (`line`), on the customer's thread or on the one that receives.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::customer::{Payload, Requests, Shared};
use super::delivery::Delivery;
use super::error::NodeError;
use super::landing::Landings;
use super::line::Line;
use super::movable::Movable;
use super::recipient::Recipient;
use super::shell::{Owner, Shell};
use super::sync::lock;
use pslite_core::kv::rounds::Round;
use pslite_core::kv::unanswered::{Held, Stuck};
use pslite_core::kv::worker::Response;
use pslite_core::kv::{Finished, Unanswered};
use pslite_core::text;
use pslite_core::values::{KvPairs, key_at, server_key_ranges};
use pslite_core::wire::elastic::Word;
use pslite_core::wire::{Message, Meta, NodeId};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};

impl Recipient for Shared {
    fn line(&self) -> &Line<Delivery> {
        &self.line
    }

    fn handle(&self, item: Delivery) {
        self.handle_item(item);
    }

    fn landings(&self) -> &Landings {
        &self.landings
    }

    fn note_answer(&self, answer: &Meta) {
        self.answered_by_application(answer);
    }

    fn take_rounds(&self) -> Vec<Round> {
        std::mem::take(&mut lock(&self.requests).measured)
    }

    fn busy(&self) -> Option<Duration> {
        self.shell.get().map(Shell::busy)
    }

    fn moves_keys(&self) -> bool {
        self.decide_movable();
        self.serves_by_itself()
    }

    fn wants_retry(&self) -> bool {
        self.waits.swap(false, Ordering::Relaxed) || self.serves_by_itself()
    }

    fn wants_gate_tick(&self) -> bool {
        self.gating.is_due()
    }

    fn report_stalls(&self) {
        match self.shell.get() {
            Some(shell) => shell.report_stalls(self),
            None => self.report_oldest(),
        }
    }
}

impl Shared {
    /// The customer's thread.
    pub(crate) fn serve(&self) {
        while let Some((turn, item)) = self.line.next() {
            self.handle(item);
            drop(turn);
        }
    }

    fn handle_item(&self, item: Delivery) {
        match item {
            Delivery::Message(message) => self.message(message),
            Delivery::Released(message) => (self.handler)(message),
            Delivery::GateTick => self.gate_tick(),
            Delivery::NodeLost { id, reason } => self.node_lost(id, &reason),
            Delivery::CustomerLeft { id, customer_id } => {
                // Nobody here waits for those who push to other nodes of this process.
                let awaited = self.node().is_ok_and(|node| node.deals_with(id));
                if awaited && let Some(ledger) = &mut lock(&self.requests).ledger {
                    ledger.customer_left(id, customer_id);
                    self.left.store(true, Ordering::Relaxed);
                }
                self.gate_customer_left(id, customer_id);
                self.with_shell(|shell| shell.customer_left(self, id, customer_id));
            }
            Delivery::Policy(word) => self.new_policy(&word),
            Delivery::Collect(word) => {
                self.with_shell(|shell| shell.collect(self, &word));
                self.with_movable(|movable| movable.collect(self, &word));
            }
            Delivery::Orders(orders) => {
                self.with_shell(|shell| shell.orders(self, &orders));
                self.with_movable(|movable| movable.orders(self, &orders));
            }
            Delivery::Leave => {
                self.with_shell(|shell| shell.stop(self));
                self.with_movable(Movable::leave);
            }
            Delivery::Stop => self.with_shell(|shell| shell.stop(self)),
            Delivery::Retry => {
                self.retry();
                self.with_shell(|shell| shell.claim_changes(self));
                self.with_movable(|movable| movable.advance(self));
            }
            Delivery::Failed(error) => self.all_lost(&error),
        }
        self.end_stuck_requests();
    }

    fn message(&self, message: Message) {
        if self.is_odd(&message) {
            return;
        }
        let meta = &message.meta;
        let (request, timestamp, sender) = (meta.request, meta.timestamp, meta.sender);
        let is_kv = !meta.simple_app;
        let kind = MessageKind::of_request(meta);
        if !request && is_kv && lock(&self.requests).value_size.is_some() {
            return self.response(message);
        }
        if request
            && let Some(movable) = self.movable()
            && movable.take(self, &message) == Owner::Store
        {
            return;
        }
        if request && is_kv && message.meta.transfer.is_none() {
            self.note_request(&message);
        }
        if request
            && let Some(shell) = self.shell.get()
            && shell.take(self, &message) == Owner::Store
        {
            return;
        }
        if request {
            return self.give(message);
        }
        let error = message.meta.error.clone();
        (self.handler)(message);
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

    /// A request goes to the application, or to the store in its place.
    pub(super) fn note_request(&self, message: &Message) {
        let Ok(node) = self.node() else { return };
        if let Some(ledger) = &mut lock(&self.requests).ledger {
            let keys = message.data.first().map_or(&[][..], |keys| keys);
            // The first of MXNet's two keys of a compressed push is a length (docs/mxnet.md).
            let key = key_at(keys, 1).or_else(|| key_at(keys, 0)).unwrap_or(0);
            ledger.received(&message.meta, key, node.now());
        }
    }

    /// A response to a KVWorker's request (kv_app.h:616).
    fn response(&self, message: Message) {
        let meta = message.meta;
        let mut frames = message.data.into_iter();
        let pairs = match (frames.next(), frames.next(), frames.next()) {
            (Some(keys), Some(vals), lens) => {
                KvPairs { keys, vals, lens: lens.unwrap_or_default() }
            }
            _ => KvPairs::default(),
        };
        let mut state = lock(&self.requests);
        if state.flights.is_some() {
            drop(state);
            return self.part_response(meta, pairs);
        }
        let finished = state.whole_answered(meta, pairs);
        drop(state);
        if let Some(finished) = finished {
            self.finish(finished);
        }
    }

    fn node_lost(&self, id: NodeId, reason: &str) {
        if let Some(shell) = self.shell.get() {
            shell.forget_node(id);
        }
        self.with_movable(|movable| movable.forget_node(id));
        self.gate_forget(id);
        let finished = {
            let mut state = lock(&self.requests);
            if let Some(ledger) = &mut state.ledger {
                ledger.forget_node(id);
            }
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

    fn new_policy(&self, word: &Word) {
        if lock(&self.requests).value_size.is_some() {
            self.policy(word);
        }
        self.with_shell(|shell| shell.policy(self, word));
        self.decide_movable();
        self.with_movable(|movable| movable.policy(self, word));
        if lock(&self.requests).flights.is_some() {
            self.commands_by_policy(&word.released);
        }
    }

    fn with_shell(&self, step: impl FnOnce(&Shell)) {
        if let Some(shell) = self.shell.get() {
            step(shell);
        }
    }

    fn with_movable(&self, step: impl FnOnce(&Movable)) {
        if let Some(movable) = self.movable() {
            step(movable);
        }
    }

    fn all_lost(&self, error: &NodeError) {
        self.gating.clear();
        let finished = lock(&self.requests).requests.fail_all(error.to_string());
        finished.into_iter().for_each(|finished| self.finish(finished));
        self.tell_waiters(lock(&self.requests));
    }

    /// A push that waits for a worker that has left can never be answered: its sender is told,
    /// instead of waiting for ever. Only when nothing else is left to do, because until then the
    /// answer may still come.
    fn end_stuck_requests(&self) {
        if !self.left.load(Ordering::Relaxed) || !self.line.is_empty() {
            return;
        }
        let stuck = lock(&self.requests).ledger.as_ref().map(Unanswered::stuck);
        let (Some(stuck), Ok(node)) = (stuck, self.node()) else { return };
        if node.policy().is_some_and(|policy| !policy.live.is_empty()) {
            return; // Rounds do not wait for those who left.
        }
        for Stuck { request, left } in stuck {
            let who = text::few(
                left.iter().map(|(id, _)| node.with_cluster(|cluster, _| cluster.describe(*id))),
            );
            let text = format!(
                "{} left without the push of key {} that others wait for",
                who,
                local_key(request.key, node.settings().server_groups()),
            );
            log::write(Level::Error, &text);
            // A stock worker would take any answer for a success: it goes on waiting, as before.
            if let Err(error) = self.respond(&refused(&request, text), KvPairs::default()) {
                log::write(Level::Verbose, &error.to_string());
            }
        }
    }
}

/// A request that cannot be answered, and why.
fn refused(request: &Held, error: String) -> Meta {
    Meta {
        head: request.head,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        sender: request.sender,
        push: request.push,
        pull: request.pull,
        error,
        ..Meta::default()
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
            error = format!("node {} answered a pull without keys", meta.sender);
        }
        let response = Response { pairs, error: &error, ..Response::default() };
        self.answered((meta.timestamp, meta.sender, kind), response)
    }
}

/// A key as the application knows it: counted from the start of its range.
fn local_key(key: u64, servers: usize) -> u64 {
    let ranges = server_key_ranges(servers);
    ranges.iter().find(|range| range.contains(key)).map_or(key, |range| key - range.begin)
}
