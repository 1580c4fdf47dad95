//! What a customer does with what reaches it: requests go to the side that serves, responses to the
//! side that asks, losses to both. One item at a time (`work_queue`), on the customer's thread or
//! on the one that receives.

use std::time::Duration;

use super::CustomerShared;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::recipient::{Finish, Recipient};
use pslite_core::kv::rounds::Round;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::save::{SaveAsked, SaveTold};
use pslite_core::wire::{Message, Meta, Payload, Role};

impl Recipient for CustomerShared {
    fn handle(&self, item: Delivery) {
        match item {
            Delivery::Message(message) => self.message(message),
            Delivery::Released(message) => self.server.released(message),
            Delivery::GateTick => self.server.gate_tick(),
            Delivery::NodeLost { id, reason } => {
                self.server.node_lost(id);
                self.worker.node_lost(id, &reason);
            }
            Delivery::CustomerLeft { id, customer_id } => {
                self.server.customer_left(id, customer_id);
            }
            Delivery::Policy(routed) => {
                self.worker.policy(&routed);
                self.server.policy(&routed);
                self.worker.released(&routed.policy);
            }
            Delivery::Routes(routes) => self.worker.routes(&routes),
            Delivery::Overlay(overlay) => {
                self.server.overlay(&overlay);
                self.worker.overlay(&overlay);
            }
            Delivery::Collect { epoch, lost } => self.server.collect(epoch, &lost),
            Delivery::Orders(orders) => self.server.orders(&orders),
            Delivery::Leave => self.server.leave(),
            Delivery::Stop => self.server.stop(),
            Delivery::Ahead(timestamp) => self.worker.ahead(timestamp),
            Delivery::Early(timestamp) => self.worker.early(timestamp),
            Delivery::Ask(timestamp) => self.worker.asked_here(timestamp),
            Delivery::Rest => self.worker.rest(),
            Delivery::Word(word) => self.worker.told(&word),
            Delivery::Beat => self.worker.beat(),
            Delivery::Retry => {
                self.worker.retry();
                self.server.advance();
            }
            Delivery::Failed(error) => {
                self.server.all_lost();
                self.worker.all_lost(&error.to_string());
            }
        }
        self.server.end_stuck_requests();
    }

    fn note_answer(&self, answer: &Meta) {
        self.server.note_answer(answer);
    }

    fn take_rounds(&self) -> Vec<Round> {
        self.worker.take_rounds()
    }

    fn drop_ahead(&self) {
        self.worker.drop_ahead();
    }

    fn finish_exchange(&self, finish: Finish) -> Result<()> {
        self.worker.finish_exchange(finish)
    }

    fn exchange_report(&self, now: Duration) -> Option<ExchangeReport> {
        self.worker.exchange_report(now)
    }

    fn wants_beat(&self, now: Duration) -> bool {
        self.worker.wants_beat(now)
    }

    fn pull_global(&self, on: bool) {
        self.worker.pull_global(on);
    }

    fn busy(&self) -> Option<Duration> {
        self.server.busy()
    }

    fn saved(&self, asked: SaveAsked) -> Option<SaveTold> {
        self.server.saved(asked)
    }

    fn keeps_keys_apart(&self, in_front: bool) -> bool {
        self.server.keeps_keys_apart(in_front)
    }

    fn moves_keys(&self) -> bool {
        self.server.decide_movable();
        self.server.serves_by_itself()
    }

    fn wants_retry(&self) -> bool {
        self.worker.take_waits() || self.server.serves_by_itself()
    }

    fn wants_gate_tick(&self) -> bool {
        self.server.wants_gate_tick()
    }

    fn report_stalls(&self) {
        if !self.server.report_stalls() {
            self.worker.report_oldest();
        }
    }
}

impl CustomerShared {
    /// The customer's thread.
    pub(super) fn serve(&self) {
        while let Some((turn, item)) = self.base.queue.next() {
            self.handle(item);
            drop(turn);
        }
    }

    fn message(&self, message: Message) {
        if self.is_odd(&message) {
            return;
        }
        // It may come before the application's KVWorker is there.
        let is_worker = || self.base.node().is_ok_and(|node| node.settings().role == Role::Worker);
        match message.meta.payload {
            Payload::Up(..) | Payload::Down(..) if self.worker.is_attached() || is_worker() => {
                self.worker.hop(message);
            }
            _ if message.meta.request => self.server.request(message),
            _ => self.worker.response(message),
        }
    }
}
