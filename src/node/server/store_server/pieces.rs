//! A server's store and pieces that move (`docs/elastic.md`): passes messages of the scheduler and
//! transfers of other servers to the side of this server, and does what that says. Decides nothing.

use std::sync::atomic::Ordering;

use super::sending::perform;
use super::{Head, Serving, StoreServer};
use crate::server::front::{Front, HAND_OVER};
use crate::sync::lock;
use pslite_core::server::{ServerOutput, ServerSide};
use pslite_core::store::moving::Due;
use pslite_core::store::{StoreError, SumOrder};
use pslite_core::wire::elastic::Order;
use pslite_core::wire::transfer::Transfer;
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
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
        let mut out = ServerOutput::default();
        let from = message.meta.sender;
        let taken = lock(&serving.side).transfer(from, transfer, &message.data, &mut out);
        self.perform(front, out);
        if let Err(error) = taken {
            let text = format!("server {from} sent a piece that cannot be used: {error}");
            log::write(Level::Error, &text);
            (self.on_stop)(Err(text));
        }
    }

    /// A new policy.
    pub(in crate::server) fn policy(&self, front: &Front, policy: &RoutedPolicy) {
        self.step(front, |side, out| side.policy(policy, out));
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
        self.step(front, |side, out| side.overlay(overlay, out));
    }

    /// A worker's customer sends no more. Rounds that waited for it alone may end.
    pub(in crate::server) fn customer_left(&self, front: &Front, node: NodeId, left: i32) {
        if front.node().is_ok_and(|node| node.is_elastic()) {
            self.step(front, |side, out| side.customer_left(node, left, out));
        }
    }

    /// The scheduler orders moves.
    pub(in crate::server) fn orders(&self, front: &Front, orders: &[Order]) {
        self.step(front, |side, out| side.orders(orders, out));
    }

    /// The scheduler asks what is here, since servers are lost. One that was handed over has given
    /// away all, and says so.
    pub(in crate::server) fn collect(&self, front: &Front, epoch: u64, lost: &[NodeId]) {
        let Ok(serving) = self.serving(front) else { return };
        let mut out = ServerOutput::default();
        lock(&serving.side).collect(epoch, lost, &mut out);
        self.perform(front, out);
    }

    /// Tells the scheduler what is here, if that has changed since it was told.
    pub(in crate::server) fn tick(&self, front: &Front) {
        let Some(serving) = self.served.get() else { return };
        let mut out = ServerOutput::default();
        lock(&serving.side).tick(&mut out);
        self.perform(front, out);
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

    /// Makes the store if it is not there yet: a server that joins gets transfers first. One that
    /// was handed over only tells what it has told nobody yet.
    fn step(&self, front: &Front, step: impl FnOnce(&mut ServerSide, &mut ServerOutput)) {
        let Ok(serving) = self.serving(front) else { return };
        let mut out = ServerOutput::default();
        if self.handed_over.load(Ordering::Acquire) {
            lock(&serving.side).tick(&mut out);
        } else {
            step(&mut lock(&serving.side), &mut out);
        }
        self.perform(front, out);
    }

    /// Does what the side says.
    fn perform(&self, front: &Front, out: ServerOutput) {
        let fixed = self.handed_over.load(Ordering::Acquire).then_some(HANDED_OVER);
        perform(front, &front.node(), out, fixed);
    }

    /// Obeys a command. In a job whose pieces move its answer may have to wait for servers that
    /// joined.
    pub(super) fn obey(
        &self,
        front: &Front,
        serving: &Serving,
        meta: &Meta,
    ) -> Result<Due, StoreError> {
        let mut out = ServerOutput::default();
        let due = lock(&serving.side).command(meta, &mut out);
        self.perform(front, out);
        due
    }
}
