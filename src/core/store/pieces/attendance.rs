//! Whom rounds of `dist_sync` wait for, where the job goes on without workers that die
//! (docs/elastic.md, "Workers"). A policy says who lives; who took leave is heard from him. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::awaited::Workers;
use super::name::Customer;
use crate::wire::elastic::LiveWorker;
use crate::wire::{Meta, NodeId};

/// Customers of workers that took leave and are remembered; more are waited for.
const LEFT_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::store) struct Attendance {
    /// `None`: rounds wait for as many as the job began with.
    workers: Option<Arc<Workers>>,
    /// What the policy says of them.
    live: Vec<LiveWorker>,
    /// Customers of workers that took leave.
    left: BTreeSet<(NodeId, i32)>,
}

impl Attendance {
    /// Who pushes, where that is not for ever the same.
    pub(in crate::store) const fn workers(&self) -> Option<&Arc<Workers>> {
        self.workers.as_ref()
    }

    /// A policy names those who live. None: the job waits for all for ever.
    pub(in crate::store) fn obey(&mut self, live: &[LiveWorker]) {
        if live.is_empty() {
            return;
        }
        let lives: BTreeMap<NodeId, u64> =
            live.iter().map(|worker| (worker.node, worker.since)).collect();
        let known = self.workers.as_deref();
        let same = |node: NodeId| {
            let since = lives.get(&node);
            let known = known.and_then(|workers| workers.lives.get(&node));
            since.is_some() && (known.is_none() || known == since)
        };
        self.left.retain(|(node, _)| same(*node));
        self.workers = Some(Arc::new(Workers::new(live, &self.left)));
        self.live = live.to_vec();
    }

    /// A customer sends no more. (Who joins may hear of it before its first policy.) False if that
    /// is not remembered.
    pub(in crate::store) fn leaves(&mut self, node: NodeId, customer: i32) -> bool {
        if self.left.len() >= LEFT_MAX {
            return false;
        }
        self.left.insert((node, customer));
        if self.workers.is_some() {
            self.workers = Some(Arc::new(Workers::new(&self.live, &self.left)));
        }
        true
    }

    /// True if that customer took leave.
    pub(in crate::store) fn has_left(&self, node: NodeId, customer: i32) -> bool {
        self.left.contains(&(node, customer))
    }

    /// The worker is gone, or another process has its id.
    pub(in crate::store) fn forget(&mut self, worker: NodeId) {
        self.left.retain(|(left, _)| *left != worker);
    }

    /// True if nobody waits for the answer to that request any more: the process that asked is not
    /// in the job any more, as far as this server knows.
    pub(in crate::store) fn is_former(&self, request: &Meta) -> bool {
        self.workers.as_ref().is_some_and(|workers| !workers.has(Customer::of(request)))
    }

    /// True if no round ends without the customer that asked that. (Of a worker that came back that
    /// is not so.)
    pub(in crate::store) fn is_awaited(&self, request: &Meta) -> bool {
        self.workers.as_ref().is_none_or(|workers| workers.awaits(Customer::of(request)))
    }
}
