//! A server's store and pieces that move (`docs/elastic.md`): messages of the scheduler and
//! transfers of other servers go in; answers, transfers and claims come out. Decides nothing.

use std::sync::atomic::Ordering;

use super::{Head, Serving, StoreServer, respond};
use crate::base::with_data;
use crate::running::NodeRef;
use crate::server::ServerCustomer;
use crate::sync::lock;
use pslite_core::cluster::said::Said;
use pslite_core::cluster::{Difference, Event};
use pslite_core::store::SumOrder;
use pslite_core::store::elastic::Due;
use pslite_core::store::{News, Outbound, Outgoing, Store, StoreError};
use pslite_core::values::KvPairs;
use pslite_core::wire::elastic::{Claim, Order, SchedulerMessage, Transfer};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::{Frames, Message, Meta, NodeId};
use pslite_observe::log::{self, Level};

/// Why the values of a server that was handed over do not move.
const HANDED_OVER: &str = "MXNet's own server, in Python, keeps its values";

impl StoreServer {
    /// Another server sent something.
    pub(super) fn transfer(
        &self,
        customer: &ServerCustomer,
        serving: &Serving,
        message: &Message,
        transfer: &Transfer,
    ) {
        let mut out = Outbound::default();
        let from = message.meta.sender;
        let taken = lock(&serving.store).transfer(from, transfer, &message.data, &mut out);
        send(customer, &customer.node(), out);
        if let Err(error) = taken {
            let text = format!("server {from} sent a piece that cannot be used: {error}");
            log::write(Level::Error, &text);
            (self.on_stop)(Err(text));
        }
        self.claim_news(customer, true);
    }

    /// A new policy.
    pub(crate) fn policy(&self, customer: &ServerCustomer, word: &SchedulerMessage) {
        self.with_store(customer, |store, out| store.policy(word, out));
        self.claim_changes(customer);
    }

    /// These trees are in force.
    pub(crate) fn overlay(&self, customer: &ServerCustomer, overlay: &Overlay) {
        let in_order =
            customer.node().is_ok_and(|node| node.settings().sum_order == SumOrder::Ranks);
        if in_order
            && !overlay.trees.is_empty()
            && !self.says_in_order.swap(true, Ordering::Relaxed)
        {
            let text = "PSLITE_DETERMINISTIC: this server sums in the order of ranks, so no round \
                        goes along a tree; `tree` sums along trees";
            log::write(Level::Info, text);
        }
        self.with_store(customer, |store, out| store.overlay(overlay, out));
    }

    /// A worker's customer sends no more. Rounds that waited for it alone may end.
    pub(crate) fn customer_left(&self, customer: &ServerCustomer, node: NodeId, left: i32) {
        if customer.node().is_ok_and(|node| node.is_elastic()) {
            self.with_store(customer, |store, out| store.customer_left(node, left, out));
            self.claim_changes(customer);
        }
    }

    /// The scheduler orders moves.
    pub(crate) fn orders(&self, customer: &ServerCustomer, orders: &[Order]) {
        self.with_store(customer, |store, out| store.orders(orders, out));
        self.claim_changes(customer);
    }

    /// The scheduler asks what is here, since servers are lost.
    pub(crate) fn collect(&self, customer: &ServerCustomer, word: &SchedulerMessage) {
        let mut claims = Vec::new();
        self.with_store(customer, |store, _| claims = store.collect(word));
        let Some(serving) = self.served.get() else { return };
        let difference = lock(&serving.said).tell(None);
        self.say(customer, word.epoch, (claims, difference));
    }

    /// Tells the scheduler what is here, if that has changed since it was told.
    pub(crate) fn claim_changes(&self, customer: &ServerCustomer) {
        self.claim_news(customer, false);
    }

    /// As [`Self::claim_changes`]; with `can_wait` few changes among much that is held wait for the
    /// next tick.
    fn claim_news(&self, customer: &ServerCustomer, can_wait: bool) {
        let (Ok(node), Some(serving)) = (customer.node(), self.served.get()) else { return };
        if !node.is_elastic() {
            return;
        }
        let mut said = lock(&serving.said);
        let mut store = lock(&serving.store);
        if !Said::is_due(store.changes(), store.held(), can_wait) {
            return;
        }
        // The policy that the store follows. The node may know a newer one, which waits here.
        let (epoch, News { claims, gone }) = (store.epoch(), store.news());
        let difference = said.tell(gone);
        drop((store, said));
        self.say(customer, epoch, (claims, difference));
    }

    fn say(
        &self,
        customer: &ServerCustomer,
        epoch: u64,
        (claims, difference): (Vec<Claim>, Difference),
    ) {
        let Ok(node) = customer.node() else { return };
        let fixed = self.handed_over.load(Ordering::Acquire).then(|| HANDED_OVER.to_owned());
        node.event(Event::Claims { epoch, claims, difference, fixed, opaque: false });
    }

    /// This server was emptied, or the job is over: its program is to end.
    pub(crate) fn stop(&self, customer: &ServerCustomer) {
        (self.on_stop)(Ok(()));
        if self.has_application && !self.stopped.swap(true, Ordering::AcqRel) {
            let head = Head::Stop.number();
            let meta = Meta {
                head,
                sender: super::HAND_OVER,
                request: true,
                simple_app: true,
                app_id: customer.base.app_id,
                ..Meta::default()
            };
            (customer.base.handler)(Message { meta, data: Frames::new() });
        }
    }

    /// Makes the store if it is not there yet: a server that joins gets transfers first.
    fn with_store(&self, customer: &ServerCustomer, step: impl FnOnce(&mut Store, &mut Outbound)) {
        let Ok(serving) = self.serving(customer) else { return };
        if self.handed_over.load(Ordering::Acquire) {
            return;
        }
        let mut out = Outbound::default();
        step(&mut lock(&serving.store), &mut out);
        send(customer, &customer.node(), out);
    }

    /// Obeys a command. In a job whose pieces move its answer may have to wait for servers that
    /// joined.
    pub(super) fn obey(
        &self,
        customer: &ServerCustomer,
        serving: &Serving,
        meta: &Meta,
    ) -> Result<Due, StoreError> {
        let mut out = Outbound::default();
        let due = lock(&serving.store).obey(meta, &mut out);
        send(customer, &customer.node(), out);
        due
    }
}

/// Sends what the store says, in order: answers first.
pub(super) fn send(customer: &ServerCustomer, node: &crate::error::Result<NodeRef>, out: Outbound) {
    for answer in out.answers {
        respond(customer, node, answer);
    }
    for (meta, kv) in out.downs {
        send_down(customer, meta, kv);
    }
    for transfer in out.transfers {
        send_transfer(customer, transfer);
    }
}

/// Sends values down a tree. A worker that is gone: the scheduler says what follows from that.
fn send_down(customer: &ServerCustomer, mut meta: Meta, kv: KvPairs) {
    // What says that a ticket is void answers no request.
    meta.app_id = customer.base.app_id;
    let sent = customer.node().and_then(|node| node.send(with_data(meta, kv)));
    if let Err(error) = sent {
        log::write(Level::Verbose, &error.to_string());
    }
}

/// Sends another server something.
pub(in crate::server) fn send_transfer(customer: &ServerCustomer, outgoing: Outgoing) {
    let Ok(node) = customer.node() else { return };
    let Outgoing { to, transfer, frames } = outgoing;
    let meta = Meta {
        app_id: customer.base.app_id,
        customer_id: customer.base.app_id,
        recver: to,
        request: true,
        // A round waits for it, and the sender's own copies may fill the way for a second.
        overtakes: transfer.is_confirmation(),
        transfer: Some(Box::new(transfer)),
        ..Meta::default()
    };
    let message = Message { meta, data: frames.into_iter().collect() };
    // A server that is gone: the scheduler says what follows from that.
    if let Err(error) = node.send(message) {
        log::write(Level::Verbose, &error.to_string());
    }
}
