//! Who serves: policies, and what this server says that it has (docs/elastic.md, "Death"). May
//! touch what the module may.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{LeavingKey, Opaque, Owned, Step};
use crate::store::moving::changes::{Claimant, News};
use crate::wire::elastic::{Claim, Holding, KeyRoute, OPAQUE_END};
use crate::wire::word::RoutedPolicy;
use crate::wire::{Key, NodeId};

impl Opaque {
    /// The scheduler makes a policy: says what it has. Until the policy comes no new keys are made
    /// here, and no former owner is told that its key has come.
    pub fn collect(&mut self, epoch: u64, lost: &[NodeId]) -> Vec<Claim> {
        self.servers.collect(epoch, lost);
        // What left for one of them now would be claimed by nobody.
        for (key, owned) in &mut self.keys {
            owned.order = owned.order.filter(|order| !self.servers.is_gone(order.to));
            if owned.order.is_none() {
                self.ordered.remove(key);
            }
        }
        self.changes.clear();
        self.look_at_all();
        self.claims()
    }

    /// What it has.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let keys: BTreeSet<Key> = self.keys.keys().chain(self.leaving.keys()).copied().collect();
        let mut claims = Vec::new();
        for key in keys {
            self.list_of(key, &mut claims);
        }
        claims
    }

    /// What it has of one key.
    fn list_of(&self, key: Key, claims: &mut Vec<Claim>) {
        claims.extend(self.keys.get(&key).map(|owned| claim(key, owned, Holding::Owner)));
        let leaving = self.leaving.get(&key).map(|LeavingKey { to, owned }| Claim {
            peer: *to,
            ..claim(key, owned, Holding::Leaving)
        });
        claims.extend(leaving);
    }

    /// The newest policy that it knows.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.servers.epoch
    }

    /// A new policy. One that is older than what is known, or expected, is ignored.
    pub fn policy(&mut self, now: Duration, routed: &RoutedPolicy, steps: &mut Vec<Step>) {
        let RoutedPolicy { policy, routes } = routed;
        if !self.servers.obey(policy) {
            return;
        }
        for KeyRoute { key, route } in routes.iter().filter(|known| known.route.is_opaque()) {
            self.learn(*key, *route);
        }
        self.take_back_from_lost(now, routes, steps);
        // They were given before what the policy knows; the scheduler gives new ones.
        self.ordered.clear();
        for key in self.keys.keys().copied().collect::<Vec<_>>() {
            if let Some(owned) = self.keys.get_mut(&key) {
                owned.order = None;
                owned.source = owned.source.filter(|source| !self.servers.is_gone(*source));
            }
            self.say_moved(key, steps);
            self.let_through(now, key, steps);
        }
        self.changes.of_all();
        self.unpark_all(now, steps);
        self.look_at_all();
    }

    /// What left for a server that died before it came there, if the policy says that it is this
    /// one's.
    fn take_back_from_lost(&mut self, now: Duration, routes: &[KeyRoute], steps: &mut Vec<Step>) {
        for KeyRoute { key, route } in routes {
            let gone = |leaving: &&LeavingKey| self.servers.is_gone(leaving.to);
            let left = self.leaving.get(key).filter(gone).is_some();
            if left
                && route.owner == self.servers.me
                && let Some(LeavingKey { owned, .. }) = self.leaving.remove(key)
            {
                self.keep(now, *key, Owned { term: route.term.max(owned.term), ..owned }, steps);
            }
        }
    }

    /// The worker is gone, or another process has its id.
    pub fn forget_node(&mut self, worker: NodeId) {
        self.parked.forget(worker);
        self.held.forget(worker);
        let leaving = self.leaving.values_mut().map(|leaving| &mut leaving.owned);
        for owned in self.keys.values_mut().chain(leaving) {
            owned.marks.forget(worker);
            owned.visitors.forget(worker);
        }
        self.look_at_all();
    }
}

fn claim(key: Key, owned: &Owned, holding: Holding) -> Claim {
    Claim {
        key,
        to: OPAQUE_END,
        length: OPAQUE_END,
        term: owned.term,
        holding: holding.into(),
        // A key that nothing was seen of yet is not nothing.
        bytes: owned.bytes.max(1),
        ..Claim::default()
    }
}

impl Claimant for Opaque {
    fn changes(&self) -> usize {
        self.changes.count(self.held())
    }

    fn held(&self) -> usize {
        self.keys.len() + self.leaving.len()
    }

    fn news(&mut self) -> News {
        match self.changes.take() {
            Some(keys) => News::of(keys, |key, claims| self.list_of(key, claims)),
            None => News::all(self.claims()),
        }
    }
}
