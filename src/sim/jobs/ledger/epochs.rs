//! Epochs and terms grow: a process never goes back to an older policy, a policy is the same for
//! everybody, whoever comes to own elements does so with a higher term than all owners before, and
//! of two routes for an element with the same term both name the same owner.

use std::collections::BTreeMap;

use super::owners::Owned;
use pslite_core::wire::elastic::{KeyRoute, LiveWorker, Route};
use pslite_core::wire::word::Policy;
use pslite_core::wire::{Key, NodeId};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// The policy of each process.
    of: BTreeMap<usize, u64>,
    policies: BTreeMap<u64, Policy>,
    /// By key and term: all that was said.
    said: BTreeMap<(Key, u64), Vec<Route>>,
    /// By key: the newest owners, which do not overlap.
    newest: BTreeMap<Key, Vec<Route>>,
}

impl Epochs {
    /// Another process is there now, which knows nothing.
    pub(super) fn started(&mut self, process: usize) {
        self.of.remove(&process);
    }

    /// A process has a policy in force.
    pub(super) fn policy(&mut self, process: usize, policy: &Policy) -> Option<String> {
        let before = self.of.insert(process, policy.epoch);
        if let Some(before) = before.filter(|before| *before >= policy.epoch) {
            return Some(format!("p{process} has policy {} after {before}", policy.epoch));
        }
        let known = self.policies.entry(policy.epoch).or_insert_with(|| policy.clone());
        (known != policy).then(|| {
            format!(
                "p{process} has another policy {} than others: {policy:?}, not {known:?}",
                policy.epoch
            )
        })
    }

    /// True if the newest policy goes on without that worker, in that life.
    pub(super) fn gave_up(&self, worker: NodeId, life: u64) -> bool {
        let newest = self.policies.last_key_value();
        let live = newest.map_or(&[][..], |(_, policy)| &policy.live);
        let is_it = |one: &LiveWorker| one.node == worker && one.since == life;
        !live.is_empty() && !live.iter().any(is_it)
    }

    /// Somebody says where a piece is.
    pub(super) fn route(&mut self, KeyRoute { key, route }: &KeyRoute) -> Option<String> {
        let said = self.said.entry((*key, route.term)).or_default();
        let overlaps = |other: &&Route| other.from < route.to && route.from < other.to;
        let other = said.iter().filter(overlaps).find(|other| other.owner != route.owner).copied();
        if !said.contains(route) {
            said.push(*route);
        }
        other.map(|other| format!("two owners with one term of key {key}: {route:?}, {other:?}"))
    }

    /// A server owns a piece.
    pub(super) fn owns(&mut self, server: NodeId, piece: &Owned) -> Option<String> {
        if piece.known {
            return None;
        }
        let Owned { key, from, to, term, .. } = *piece;
        let route = Route { from, to, term, owner: server };
        let twice = self.route(&KeyRoute { key, route });
        let newest = self.newest.entry(key).or_default();
        let overlaps = |other: &Route| other.from < to && from < other.to;
        let newer = newest.iter().find(|other| overlaps(other) && other.term > term).copied();
        // What was before it, as far as it goes on.
        let rest: Vec<Route> = newest
            .iter()
            .flat_map(|other| {
                let before = Route { to: other.to.min(from), ..*other };
                let after = Route { from: other.from.max(to), ..*other };
                if overlaps(other) { [before, after] } else { [*other, Route { to: 0, ..*other }] }
            })
            .filter(|part| part.from < part.to)
            .collect();
        *newest = rest;
        newest.push(route);
        let old = newer.map(|newer| format!("server {server} owns {piece} after {newer:?}"));
        twice.or(old)
    }
}
