//! The side of a customer that serves with the store: what the scheduler, workers and other servers
//! say goes in; answers, transfers, values for trees and claims come out. `node` and the simulator
//! have one of these for each customer, and do what it says.
//!
//! Pure. May touch the store and `claims`; decides nothing that the store does not decide, but when
//! the scheduler is told of it.

use bytes::Bytes;
use smallvec::SmallVec;

use super::claims::Claims;
use crate::store::moving::Due;
use crate::store::{Outbound, Store, StoreConfig, StoreError};
use crate::wire::elastic::Order;
use crate::wire::transfer::Transfer;
use crate::wire::trees::Overlay;
use crate::wire::word::{ClaimWord, RoutedPolicy};
use crate::wire::{Meta, NodeId};

/// See the module.
pub struct ServerSide {
    store: Store,
    claims: Claims,
}

/// What is to be done after one or more calls: messages first, in the order of [`Outbound`].
#[derive(Debug, Default)]
pub struct ServerOutput {
    /// Messages.
    pub sent: Outbound,
    /// Words to the scheduler, in order.
    pub claimed: SmallVec<[ClaimWord; 1]>,
}

impl ServerSide {
    /// A side that holds nothing yet.
    #[must_use]
    pub fn new(config: StoreConfig) -> Self {
        Self { store: Store::new(config), claims: Claims::default() }
    }

    /// The store, to look at.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The store, for what concerns it alone. What is new by that is told by the next call.
    pub const fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// A push or a pull ([`Store::serve`]). What is new by it is told with the next tick.
    pub fn request(&mut self, request: Meta, frames: &[Bytes], out: &mut ServerOutput) {
        self.store.serve(request, frames, &mut out.sent);
    }

    /// A command ([`Store::obey`]). What is new by it is told with the next tick.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn command(&mut self, request: &Meta, out: &mut ServerOutput) -> Result<Due, StoreError> {
        self.store.obey(request, &mut out.sent)
    }

    /// Another server sent something ([`Store::transfer`]). Transfers come in crowds, so few of
    /// them are not told at once.
    ///
    /// # Errors
    /// It cannot be used: this server cannot go on.
    pub fn transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut ServerOutput,
    ) -> Result<(), StoreError> {
        let taken = self.store.transfer(from, transfer, frames, &mut out.sent);
        self.claim(true, out);
        taken
    }

    /// A new policy ([`Store::policy`]).
    pub fn policy(&mut self, policy: &RoutedPolicy, out: &mut ServerOutput) {
        self.store.policy(policy, &mut out.sent);
        self.claim(false, out);
    }

    /// The scheduler orders moves ([`Store::orders`]).
    pub fn orders(&mut self, orders: &[Order], out: &mut ServerOutput) {
        self.store.orders(orders, &mut out.sent);
        self.claim(false, out);
    }

    /// These trees are in force ([`Store::overlay`]).
    pub fn overlay(&mut self, overlay: &Overlay, out: &mut ServerOutput) {
        self.store.overlay(overlay, &mut out.sent);
    }

    /// The scheduler asks what is here, since servers are lost ([`Store::collect`]).
    pub fn collect(&mut self, epoch: u64, lost: &[NodeId], out: &mut ServerOutput) {
        let claims = self.store.collect(epoch, lost);
        out.claimed.push(self.claims.all(epoch, claims));
    }

    /// A worker's customer sends no more ([`Store::customer_left`]).
    pub fn customer_left(&mut self, node: NodeId, customer: i32, out: &mut ServerOutput) {
        self.store.customer_left(node, customer, &mut out.sent);
        self.claim(false, out);
    }

    /// Time has passed: what is new is told.
    pub fn tick(&mut self, out: &mut ServerOutput) {
        self.claim(false, out);
    }

    fn claim(&mut self, can_wait: bool, out: &mut ServerOutput) {
        let epoch = self.store.epoch();
        out.claimed.extend(self.claims.news(epoch, &mut self.store, can_wait));
    }
}
