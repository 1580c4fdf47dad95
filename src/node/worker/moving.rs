//! What a customer hears of a job whose keys may move: where pieces are, which servers there are,
//! along which trees rounds go. Gives it to `core::worker`, which decides. May touch the customer
//! and the node.

use std::time::Duration;

use super::{RequestEnd, Requests, WorkerCustomer};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::messages::pairs_of;
use pslite_core::store::SumOrder;
use pslite_core::wire::elastic::KeyRoute;
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{Message, Role, id_to_rank, server_id};
use pslite_core::worker::{Begins, Follower, WorkerOutput, WorkerSide};

impl Requests {
    /// From now on, if this job's keys may move.
    pub(super) fn follow_pieces(&mut self, node: &NodeRef, makes_keys: bool) {
        if self.side.follows() || !node.is_elastic() {
            return;
        }
        let (life, rank) =
            node.with_cluster(|cluster, _| (cluster.my_life(), id_to_rank(cluster.me().id)));
        // MXNet's rank 0 pushes each initial value, whether others train already or not
        // (kvstore_dist.h, InitImpl).
        let makes_keys = rank == 0 && makes_keys;
        self.side.follow(Follower {
            me: node.my_id(),
            homes: (0..node.settings().num_servers).map(server_id).collect(),
            life,
            makes_keys,
            keeps_order: node.settings().sum_order == SumOrder::Trees,
        });
        let policy = node.policy();
        if let Some(policy) = &policy {
            let mut nothing = WorkerOutput::default();
            self.side.policy(node.now(), policy, &mut nothing);
            debug_assert!(nothing.parts().is_empty(), "no slice was begun");
        }
        let trains = node.settings().role == Role::Worker;
        if let Some(spec) = policy.and_then(|routed| routed.policy.exchange).filter(|_| trains) {
            self.here.begin(&spec, node, Begins { makes_keys, is_back: life > 0 });
        }
        for overlay in node.state().overlays() {
            // Others' sums and values may have come before: what the relay does with them is done
            // with the next step.
            self.side.know_trees(node.now(), &overlay);
        }
    }
}

impl WorkerCustomer {
    /// True if this customer pushes initial values: of those that share their keys the first one.
    pub(super) fn makes_keys(&self) -> bool {
        self.base.customer_id == 0 || self.has_own_keys()
    }

    /// A new policy, at a worker.
    pub(crate) fn policy(&self, policy: &RoutedPolicy) {
        if self.is_attached() {
            self.step(|side, now, out| side.policy(now, policy, out));
        }
    }

    /// Where pieces are that have moved.
    pub(crate) fn routes(&self, routes: &[KeyRoute]) {
        if self.is_attached() {
            self.step(|side, now, out| side.learn(now, routes, out));
        }
    }

    /// What waits may go now.
    pub(crate) fn retry(&self) {
        self.step(|side, now, out| side.retry(now, out));
    }

    /// These trees are in force.
    pub(crate) fn overlay(&self, overlay: &Overlay) {
        if self.is_attached() {
            self.step(|side, now, out| side.overlay(now, overlay, out));
        }
    }

    /// Something came along a tree.
    pub(crate) fn hop(&self, message: Message) {
        let Message { meta, data } = message;
        self.step(|side, now, out| side.hop(now, meta, pairs_of(data), out));
    }

    fn step(
        &self,
        step: impl FnOnce(&mut WorkerSide<RequestEnd>, Duration, &mut WorkerOutput<RequestEnd>),
    ) {
        let Ok(node) = self.node() else { return };
        let mut out = WorkerOutput::default();
        let mut state = lock(&self.requests);
        state.follow_pieces(&node, self.makes_keys());
        step(&mut state.side, node.now(), &mut out);
        self.perform(Some(&node), state, out);
    }
}
