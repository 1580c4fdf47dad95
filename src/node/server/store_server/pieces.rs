//! A server's store and pieces that move (`docs/elastic.md`): messages of the scheduler and
//! transfers of other servers go in; answers, transfers and claims come out. Decides nothing.

use std::sync::atomic::Ordering;

use super::sending::send;
use super::{Head, Serving, StoreServer};
use crate::server::front::{Front, HAND_OVER};
use crate::sync::lock;
use pslite_core::cluster::said::Said;
use pslite_core::cluster::{Difference, Event};
use pslite_core::store::SumOrder;
use pslite_core::store::elastic::Due;
use pslite_core::store::{News, Outbound, Store, StoreError};
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
        front: &Front,
        serving: &Serving,
        message: &Message,
        transfer: &Transfer,
    ) {
        let mut out = Outbound::default();
        let from = message.meta.sender;
        let taken = lock(&serving.store).transfer(from, transfer, &message.data, &mut out);
        send(front, &front.node(), out);
        if let Err(error) = taken {
            let text = format!("server {from} sent a piece that cannot be used: {error}");
            log::write(Level::Error, &text);
            (self.on_stop)(Err(text));
        }
        self.claim_news(front, true);
    }

    /// A new policy.
    pub(in crate::server) fn policy(&self, front: &Front, word: &SchedulerMessage) {
        self.with_store(front, |store, out| store.policy(word, out));
        self.claim_changes(front);
    }

    /// These trees are in force.
    pub(in crate::server) fn overlay(&self, front: &Front, overlay: &Overlay) {
        let in_order = front.node().is_ok_and(|node| node.settings().sum_order == SumOrder::Ranks);
        if in_order
            && !overlay.trees.is_empty()
            && !self.says_in_order.swap(true, Ordering::Relaxed)
        {
            let text = "PSLITE_DETERMINISTIC: this server sums in the order of ranks, so no round \
                        goes along a tree; `tree` sums along trees";
            log::write(Level::Info, text);
        }
        self.with_store(front, |store, out| store.overlay(overlay, out));
    }

    /// A worker's customer sends no more. Rounds that waited for it alone may end.
    pub(in crate::server) fn customer_left(&self, front: &Front, node: NodeId, left: i32) {
        if front.node().is_ok_and(|node| node.is_elastic()) {
            self.with_store(front, |store, out| store.customer_left(node, left, out));
            self.claim_changes(front);
        }
    }

    /// The scheduler orders moves.
    pub(in crate::server) fn orders(&self, front: &Front, orders: &[Order]) {
        self.with_store(front, |store, out| store.orders(orders, out));
        self.claim_changes(front);
    }

    /// The scheduler asks what is here, since servers are lost.
    pub(in crate::server) fn collect(&self, front: &Front, word: &SchedulerMessage) {
        let mut claims = Vec::new();
        self.with_store(front, |store, _| claims = store.collect(word));
        let Some(serving) = self.served.get() else { return };
        let difference = lock(&serving.said).tell(None);
        self.say(front, word.epoch, (claims, difference));
    }

    /// Tells the scheduler what is here, if that has changed since it was told.
    pub(in crate::server) fn claim_changes(&self, front: &Front) {
        self.claim_news(front, false);
    }

    /// As [`Self::claim_changes`]; with `can_wait` few changes among much that is held wait for the
    /// next tick.
    fn claim_news(&self, front: &Front, can_wait: bool) {
        let (Ok(node), Some(serving)) = (front.node(), self.served.get()) else { return };
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
        self.say(front, epoch, (claims, difference));
    }

    fn say(&self, front: &Front, epoch: u64, (claims, difference): (Vec<Claim>, Difference)) {
        let Ok(node) = front.node() else { return };
        let fixed = self.handed_over.load(Ordering::Acquire).then(|| HANDED_OVER.to_owned());
        node.event(Event::Claims { epoch, claims, difference, fixed, opaque: false });
    }

    /// This server was emptied, or the job is over: its program is to end.
    pub(in crate::server) fn stop(&self, front: &Front) {
        (self.on_stop)(Ok(()));
        if self.has_application && !self.stopped.swap(true, Ordering::AcqRel) {
            let head = Head::Stop.number();
            let meta = Meta {
                head,
                sender: HAND_OVER,
                request: true,
                simple_app: true,
                app_id: front.base.app_id,
                ..Meta::default()
            };
            front.pass(Message { meta, data: Frames::new() });
        }
    }

    /// Makes the store if it is not there yet: a server that joins gets transfers first.
    fn with_store(&self, front: &Front, step: impl FnOnce(&mut Store, &mut Outbound)) {
        let Ok(serving) = self.serving(front) else { return };
        if self.handed_over.load(Ordering::Acquire) {
            return;
        }
        let mut out = Outbound::default();
        step(&mut lock(&serving.store), &mut out);
        send(front, &front.node(), out);
    }

    /// Obeys a command. In a job whose pieces move its answer may have to wait for servers that
    /// joined.
    pub(super) fn obey(
        &self,
        front: &Front,
        serving: &Serving,
        meta: &Meta,
    ) -> Result<Due, StoreError> {
        let mut out = Outbound::default();
        let due = lock(&serving.store).obey(meta, &mut out);
        send(front, &front.node(), out);
        due
    }
}
