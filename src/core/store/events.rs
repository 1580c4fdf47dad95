//! What comes to a store beside requests: commands, transfers of other servers, words of the
//! scheduler. Each goes to the rooms that it is for, and then to what waited for it.

use bytes::Bytes;

use super::command::Head;
use super::error::StoreError;
use super::moving::Due;
use super::moving::changes::{Claimant, News};
use super::outbound::Outbound;
use super::state::Store;
use crate::values::{SHARED, Space};
use crate::wire::elastic::{Claim, Order};
use crate::wire::transfer::Transfer;
use crate::wire::trees::Overlay;
use crate::wire::word::RoutedPolicy;
use crate::wire::{Key, Meta, NodeId};

impl Store {
    /// A command of a worker: obeys it, unless it is stop or the profiler's, which are its owner's.
    /// In a job whose pieces move it sees to it that servers that joined obey it before it is
    /// answered.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn obey(&mut self, request: &Meta, out: &mut Outbound) -> Result<Due, StoreError> {
        let due = self.mover(out).obey(request);
        self.look_at_commands();
        due
    }

    /// Obeys a command other than stop and the optimizer, which are its owner's.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn command(&mut self, space: Space, head: Head, body: &[u8]) -> Result<(), StoreError> {
        self.held.command(space, head, body)
    }

    /// True while pushes wait for others.
    #[must_use]
    pub fn has_open_rounds(&self) -> bool {
        self.held.pieces().any(|piece| piece.round.is_open())
    }

    /// True if no customer has keys of its own here.
    #[must_use]
    pub fn is_shared_by_all(&self) -> bool {
        let is_shared = |key: &Key| self.held.view.space(*key) == SHARED;
        !self.held.modes.has_further() && self.held.tensors.keys().all(is_shared)
    }

    /// What another server sent. Of one that is gone nothing counts.
    ///
    /// # Errors
    /// It is malformed, or cannot be: the two servers do not agree any more, and the job cannot go
    /// on.
    pub fn transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if !self.moves() {
            return Err(StoreError::Transfer("no piece moves in this job"));
        }
        self.mover(out).transfer(from, transfer, frames)?;
        self.serve_due(out);
        self.look_at(transfer.piece().map(|piece| piece.key));
        Ok(())
    }

    /// The scheduler orders moves, or takes orders back. Moves begin when the open rounds end;
    /// those that nobody can follow, because what they are about is not here or the new owner is
    /// not known, are forgotten.
    pub fn orders(&mut self, orders: &[Order], out: &mut Outbound) {
        if self.moves() {
            self.mover(out).orders(orders);
            self.look_at(orders.iter().map(|order| order.key));
        }
    }

    /// Servers are dead: takes nothing from them any more, and says what it holds. Until the policy
    /// comes that follows from it, no new keys are made here, and no former owner is told that its
    /// piece has come. Nor, if it holds nothing, is a copy confirmed that comes now: that policy
    /// may let it go.
    pub fn collect(&mut self, epoch: u64, lost: &[NodeId]) -> Vec<Claim> {
        if !self.moves() {
            return Vec::new();
        }
        let claims = self.mover(&mut Outbound::default()).collect(epoch, lost);
        self.look_at_all();
        claims
    }

    /// A new policy: who lives, where new keys go, where pieces are. Takes over what is this
    /// server's now, chooses another replica if the former one is gone, and serves what waited for
    /// the policy. One that is older than what is known is ignored.
    pub fn policy(&mut self, routed: &RoutedPolicy, out: &mut Outbound) {
        if let Some(spec) = &routed.policy.exchange {
            // If it cannot be done, each push says why.
            let _ = self.exchange(spec);
        }
        if !self.moves() || !self.mover(out).policy(routed) {
            return;
        }
        self.serve_due(out);
        self.mover(out).settle_all();
        self.close_rounds(out);
        self.serve_all_parked(out);
        self.look_at_all();
    }

    /// An overlay came: rounds go by its trees from now on. What waited for it is looked at.
    pub fn overlay(&mut self, overlay: &Overlay, out: &mut Outbound) {
        if self.moves() && self.mover(out).overlay(overlay) {
            self.serve_all_parked(out);
        }
    }

    /// A customer of a worker sends no more: in a job that goes on without workers that die, rounds
    /// do not wait for it either.
    pub fn customer_left(&mut self, node: NodeId, customer: i32, out: &mut Outbound) {
        if !self.moves() || !self.held.attendance.leaves(node, customer) {
            return;
        }
        if self.held.attendance.workers().is_some() {
            self.close_rounds(out);
            self.look_at_all();
        }
        self.mover(out).void_tickets_of(node, customer);
    }

    /// The node is gone, or another process has its id.
    pub fn forget_node(&mut self, node: NodeId) {
        self.held.modes.forget(node);
        self.held.agreements.forget(node);
        self.held.attendance.forget(node);
        if self.moves() {
            self.mover(&mut Outbound::default()).forget_worker(node);
        } else {
            self.held.pieces_mut().for_each(|piece| piece.round.died(node));
        }
        self.look_at_all();
    }

    // ---- what the scheduler is told -------------------------------------------------------------

    /// What it holds, but for keys whose first push is not answered yet: those may still turn out
    /// never to have been.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        self.whereabouts().claims(false)
    }

    /// [`Self::claims`] of one key.
    #[must_use]
    pub fn claims_of(&self, key: Key) -> Vec<Claim> {
        let mut claims = Vec::new();
        self.whereabouts().list_of(key, false, &mut claims);
        claims
    }

    /// The newest policy that it knows.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.known.servers.epoch
    }

    /// True if it owns nothing and keeps nothing for others: a drained server may go.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.whereabouts().is_drained()
    }
}

impl Claimant for Store {
    fn changes(&self) -> usize {
        if self.moves() { self.known.changes.count(self.held()) } else { 0 }
    }

    fn held(&self) -> usize {
        self.whereabouts().held()
    }

    fn news(&mut self) -> News {
        match self.known.changes.take() {
            Some(keys) => {
                News::of(keys, |key, claims| self.whereabouts().list_of(key, false, claims))
            }
            None => News::all(self.claims()),
        }
    }
}
