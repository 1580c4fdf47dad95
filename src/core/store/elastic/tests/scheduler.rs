//! The scheduler's part of docs/elastic.md, as small as it can be: deaths, joins, drains, orders.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::elastic::{
    Claim, Holding, KeyRoute, Route, SchedulerMessage, SchedulerMessageKind,
};
use crate::wire::{Key, NodeId};

pub(super) struct Scheduler {
    pub(super) epoch: u64,
    pub(super) servers: BTreeSet<NodeId>,
    pub(super) homes: Vec<NodeId>,
    pub(super) lost: BTreeSet<NodeId>,
    pub(super) draining: BTreeSet<NodeId>,
    /// When claims have come, drained servers may go: not together with a death, of whose pieces
    /// they may have the only copy.
    pub(super) releasing: bool,
    /// Claims are awaited.
    pub(super) collecting: bool,
    claims: BTreeMap<NodeId, Vec<Claim>>,
    replicas: u32,
}

impl Scheduler {
    pub(super) fn new(servers: &[NodeId], replicas: u32) -> Self {
        Self {
            epoch: 0,
            servers: servers.iter().copied().collect(),
            homes: servers.to_vec(),
            lost: BTreeSet::new(),
            draining: BTreeSet::new(),
            releasing: false,
            collecting: false,
            claims: BTreeMap::new(),
            replicas,
        }
    }

    /// Begins to collect claims, of all that live.
    pub(super) fn collect(&mut self) -> SchedulerMessage {
        self.epoch += 1;
        self.collecting = true;
        self.claims.clear();
        SchedulerMessage {
            kind: SchedulerMessageKind::Collect.into(),
            epoch: self.epoch,
            lost: self.lost.iter().copied().collect(),
            ..SchedulerMessage::default()
        }
    }

    pub(super) fn died(&mut self, server: NodeId) -> SchedulerMessage {
        self.servers.remove(&server);
        self.draining.remove(&server);
        self.lost.insert(server);
        self.releasing = false;
        self.collect()
    }

    /// Claims have come; the policy, if they were the last.
    pub(super) fn claims(
        &mut self,
        from: NodeId,
        word: &SchedulerMessage,
    ) -> Option<SchedulerMessage> {
        if !self.collecting || word.epoch != self.epoch {
            return None;
        }
        self.claims.insert(from, word.claims.clone());
        if !self.servers.iter().all(|server| self.claims.contains_key(server)) {
            return None;
        }
        self.collecting = false;
        if std::mem::take(&mut self.releasing) {
            self.release();
        }
        Some(self.policy())
    }

    /// Lets go of drained servers that claim nothing, not even a copy, and to which nothing is on
    /// its way.
    fn release(&mut self) {
        for server in self.draining.clone() {
            let empty = self.claims[&server].is_empty();
            let bound = |c: &Claim| c.holding() == Holding::Leaving && c.peer == server;
            if empty && !self.claims.values().flatten().any(bound) {
                self.servers.remove(&server);
                self.draining.remove(&server);
                self.lost.insert(server);
            }
        }
    }

    fn policy(&mut self) -> SchedulerMessage {
        for home in &mut self.homes {
            let stays =
                |server: &NodeId| self.servers.contains(server) && !self.draining.contains(server);
            if !stays(home) {
                let next = self.servers.iter().find(|server| *server > home && stays(server));
                let first = self.servers.iter().find(|server| stays(server));
                *home = *next.or(first).expect("a server lives");
            }
        }
        SchedulerMessage {
            kind: SchedulerMessageKind::Policy.into(),
            epoch: self.epoch,
            servers: self.servers.iter().copied().collect(),
            homes: self.homes.clone(),
            routes: resolve(&self.claims, &self.lost, self.epoch),
            lost: self.lost.iter().copied().collect(),
            draining: self.draining.iter().copied().collect(),
            replicas: self.replicas,
            ..SchedulerMessage::default()
        }
    }
}

/// Which claim wins for every element of every key.
fn resolve(
    claims: &BTreeMap<NodeId, Vec<Claim>>,
    lost: &BTreeSet<NodeId>,
    epoch: u64,
) -> Vec<KeyRoute> {
    let all: Vec<(NodeId, Claim)> =
        claims.iter().flat_map(|(server, claims)| claims.iter().map(|c| (*server, *c))).collect();
    let keys: BTreeMap<Key, u64> = all.iter().map(|(_, claim)| (claim.key, claim.length)).collect();
    let mut routes = Vec::new();
    for (key, length) in keys {
        let of_key: Vec<_> = all.iter().filter(|(_, claim)| claim.key == key).collect();
        let mut borders: BTreeSet<u64> = [0, length].into();
        borders.extend(of_key.iter().flat_map(|(_, claim)| [claim.from, claim.to]));
        let borders: Vec<u64> = borders.into_iter().collect();
        let mut last: Option<(usize, usize)> = None;
        for pair in borders.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let (at, (server, claim)) = of_key
                .iter()
                .enumerate()
                .filter(|(_, (_, claim))| claim.from <= from && to <= claim.to)
                // Who lives speaks for itself.
                .filter(|(_, (_, c))| c.holding() != Holding::Replica || lost.contains(&c.peer))
                .max_by_key(|(_, (_, c))| (c.term, c.holding() == Holding::Owner, c.version))
                .unwrap_or_else(|| panic!("nobody has [{from}, {to}) of {key}: {of_key:?}"));
            let (owner, term) = match claim.holding() {
                Holding::Owner => (*server, claim.term),
                Holding::Leaving if !lost.contains(&claim.peer) => (claim.peer, claim.term + 1),
                _ => (*server, epoch << 32),
            };
            // One route for each claim: neighbours that come from the same one stay one piece.
            if let Some((_, index)) = last.filter(|(before, _)| *before == at) {
                let KeyRoute { route, .. }: &mut KeyRoute = &mut routes[index];
                route.to = to;
            } else {
                last = Some((at, routes.len()));
                routes.push(KeyRoute { key, route: Route { from, to, term, owner } });
            }
        }
    }
    routes
}
