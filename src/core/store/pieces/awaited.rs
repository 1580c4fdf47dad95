//! Which workers a round waits for, in a job that goes on without those that die. Must not know of
//! pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::contributors::Contributors;
use super::name::Customer;
use crate::lives::Awaited;
use crate::values::{SHARED, Space};
use crate::wire::elastic::LiveWorker;
use crate::wire::{Meta, NodeId};

/// Customers of workers that took leave and are remembered; more are waited for.
const LEFT_MAX: usize = 1 << 16;

/// Who there is to wait for: a policy says who lives; who took leave is heard from him.
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

/// Who pushes, and whom a round waits for ([`crate::lives`]). Another one that came back is in a
/// round if it is in time, and holds up nobody: it may have begun different keys in different
/// rounds, and whoever waited for it in one key while it waits for him in another would wait for
/// ever.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Workers {
    /// The life of each worker that lives.
    pub(in crate::store) lives: BTreeMap<NodeId, u64>,
    /// Customers that send no more.
    left: BTreeSet<(NodeId, i32)>,
    /// Whom rounds wait for, of those that have not left.
    whom: Awaited,
    /// Their customers that have not left.
    awaited: BTreeSet<(NodeId, i32)>,
    /// How many workers they are.
    nodes: usize,
    /// Those customers that have left of the ones with which workers registered, which share their
    /// keys.
    gone_of_all: BTreeSet<(NodeId, i32)>,
    /// Of those workers: how many customers with that number have left. One with keys of its own
    /// is none of those with which its worker registered.
    gone: BTreeMap<i32, usize>,
}

impl Workers {
    pub(in crate::store) fn new(live: &[LiveWorker], left: &BTreeSet<(NodeId, i32)>) -> Self {
        let stay = |worker: &LiveWorker| {
            let (node, customers) = (worker.node, worker.customers.clone());
            let all = customers.into_iter().map(move |customer| (node, customer));
            all.filter(|customer| !left.contains(customer))
        };
        let stayers = live.iter().filter(|worker| stay(worker).next().is_some());
        let whom = Awaited::of(stayers.map(|worker| (worker.since, worker.node)));
        let is_awaited = |worker: &&LiveWorker| whom.has(worker.since, worker.node);
        let awaited: BTreeSet<_> = live.iter().filter(is_awaited).flat_map(stay).collect();
        let mut gone = BTreeMap::new();
        for (_, customer) in left.iter().filter(|(node, _)| has_one_of(&awaited, *node)) {
            *gone.entry(*customer).or_default() += 1;
        }
        Self {
            lives: live.iter().map(|worker| (worker.node, worker.since)).collect(),
            left: left.clone(),
            whom,
            nodes: nodes_of(&awaited).count(),
            gone_of_all: live
                .iter()
                .flat_map(|worker| worker.customers.iter().map(|customer| (worker.node, *customer)))
                .filter(|who| left.contains(who))
                .collect(),
            awaited,
            gone,
        }
    }

    /// True if it is a process that lives. (It may have taken leave.)
    pub(in crate::store) fn has(&self, who: Customer) -> bool {
        self.lives.get(&who.worker) == Some(&who.life)
    }

    /// True if rounds wait for it.
    pub(in crate::store) fn awaits(&self, who: Customer) -> bool {
        self.has(who)
            && self.whom.has(who.life, who.worker)
            && !self.left.contains(&(who.worker, who.customer))
    }

    /// The customers of workers that rounds of a space wait for: those with which the workers
    /// registered, or the one whose keys these are.
    pub(in crate::store) fn awaited(
        &self,
        space: Space,
    ) -> impl Iterator<Item = (NodeId, i32)> + '_ {
        let own = own_of(space);
        let shared = self.awaited.iter().copied().filter(move |_| own.is_none());
        let apart = own.into_iter().flat_map(|own| {
            let all = nodes_of(&self.awaited).map(move |node| (node, own));
            all.filter(|who| !self.left.contains(who))
        });
        shared.chain(apart)
    }

    /// The customers that pushed to keys of a space, and have left.
    pub(in crate::store) fn gone(&self, space: Space) -> impl Iterator<Item = (NodeId, i32)> + '_ {
        let own = own_of(space);
        let shared = self.gone_of_all.iter().filter(move |_| own.is_none());
        let apart = self.left.iter().filter(move |(_, customer)| own == Some(*customer));
        shared.chain(apart).copied()
    }

    /// The same of one worker, if it is one customer.
    pub(in crate::store) fn only_awaited(&self, node: NodeId, space: Space) -> Option<i32> {
        let mut customers = self.awaited.range((node, i32::MIN)..=(node, i32::MAX));
        let (_, first) = customers.next()?;
        match own_of(space) {
            None => Some(*first).filter(|_| customers.next().is_none()),
            Some(own) => Some(own).filter(|own| !self.left.contains(&(node, *own))),
        }
    }

    /// True if these pushes are all that a round of that space waits for.
    pub(in crate::store) fn are_all_in(&self, contributors: &Contributors, space: Space) -> bool {
        let awaited = match own_of(space) {
            None => self.awaited.len(),
            Some(own) => self.nodes - self.gone.get(&own).copied().unwrap_or(0),
        };
        if contributors.len() < awaited {
            return false;
        }
        let all = || contributors.customers();
        all().filter(|who| self.awaits_in(space, *who)).count() >= awaited
            && all().any(|who| self.has(who))
    }

    /// True if rounds of that space wait for it. One with keys of its own has left when its worker
    /// has.
    fn awaits_in(&self, space: Space, who: Customer) -> bool {
        self.awaits(who)
            && own_of(space)
                .is_none_or(|own| own == who.customer && has_one_of(&self.awaited, who.worker))
    }
}

/// The customer whose keys are in a space, if it is of one alone.
fn own_of(space: Space) -> Option<i32> {
    i32::try_from(space).ok().filter(|_| space != SHARED)
}

/// The workers of these customers, each once.
fn nodes_of(customers: &BTreeSet<(NodeId, i32)>) -> impl Iterator<Item = NodeId> + '_ {
    let mut last = None;
    let nodes = customers.iter().map(|(node, _)| *node);
    nodes.filter(move |node| last.replace(*node) != Some(*node))
}

/// True if one of these customers is of that worker.
fn has_one_of(customers: &BTreeSet<(NodeId, i32)>, node: NodeId) -> bool {
    customers.range((node, i32::MIN)..=(node, i32::MAX)).next().is_some()
}

#[cfg(test)]
#[path = "awaited_tests.rs"]
mod tests;
