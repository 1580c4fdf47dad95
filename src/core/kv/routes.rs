//! Where one worker believes the parts of all keys to be, and where new keys go
//! (`docs/elastic.md`).
//!
//! Pure. May touch `wire` types, [`KeyRoutes`] and `invariant` only.

use std::collections::BTreeMap;

use crate::invariant::Valid;
use crate::values::KeyRoutes;
use crate::wire::elastic::Route;
use crate::wire::word::RoutedPolicy;
use crate::wire::{Key, NodeId};

/// Routes of all keys, and where new ones go.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    epoch: u64,
    homes: Vec<NodeId>,
    keys: BTreeMap<Key, KeyRoutes>,
}

impl Routes {
    /// Nothing is known but the homes, by rank.
    #[must_use]
    pub fn new(homes: Vec<NodeId>) -> Self {
        Self { homes, ..Self::default() }
    }

    /// The newest policy that is known; 0: none.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The server that new keys of that rank's range go to.
    #[must_use]
    pub fn home(&self, rank: usize) -> Option<NodeId> {
        self.homes.get(rank).copied()
    }

    /// How many ranks there are; 0 if no home is known.
    #[must_use]
    pub const fn ranks(&self) -> usize {
        self.homes.len()
    }

    /// What is known of a key.
    #[must_use]
    pub fn of(&self, key: Key) -> Option<&KeyRoutes> {
        self.keys.get(&key)
    }

    /// The routes of each key are in order and apart.
    ///
    /// # Errors
    /// The first ones that are not.
    pub fn validate(&self) -> Valid {
        self.keys.iter().try_for_each(|(key, routes)| {
            routes.validate().map_err(|broken| format!("routes of key {key}: {broken}"))
        })
    }

    /// Takes routes of a key in. False if nothing changed.
    pub fn learn(&mut self, key: Key, routes: &[Route]) -> bool {
        if routes.is_empty() {
            return false;
        }
        let known = self.keys.entry(key).or_default();
        routes.iter().fold(false, |changed, route| known.learn(*route) | changed)
    }

    /// Takes a policy in, unless a newer one is known. Its routes count in any case.
    pub fn policy(&mut self, RoutedPolicy { policy, routes }: &RoutedPolicy) -> bool {
        let gone: Vec<NodeId> = policy.lost.iter().chain(&policy.released).copied().collect();
        if !gone.is_empty() {
            self.keys.values_mut().for_each(|known| known.forget(&gone));
        }
        for route in routes {
            self.learn(route.key, &[route.route]);
        }
        if policy.epoch < self.epoch || policy.homes.is_empty() {
            return false;
        }
        self.epoch = policy.epoch;
        self.homes.clone_from(&policy.homes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::word::Policy;

    fn route(from: u64, to: u64, term: u64, owner: NodeId) -> Route {
        Route { from, to, term, owner }
    }

    #[test]
    fn an_old_policy_does_not_take_the_homes_back() {
        let mut routes = Routes::new(vec![8, 10]);
        let word = |epoch, homes: &[NodeId]| RoutedPolicy {
            policy: Policy { epoch, homes: homes.to_vec(), ..Policy::default() },
            routes: Vec::new(),
        };
        assert!(routes.policy(&word(2, &[10, 10])));
        assert!(!routes.policy(&word(1, &[8, 8])));
        assert_eq!((routes.epoch(), routes.home(0), routes.home(2)), (2, Some(10), None));
    }

    #[test]
    fn routes_to_the_dead_and_the_released_are_forgotten() {
        let policy = Policy { epoch: 2, homes: vec![8, 8], ..Policy::default() };
        for policy in
            [Policy { lost: vec![10], ..policy.clone() }, Policy { released: vec![10], ..policy }]
        {
            let mut routes = Routes::new(vec![8, 10]);
            routes.learn(7, &[route(0, 10, 1, 8), route(10, 20, 1, 10)]);
            assert!(routes.policy(&RoutedPolicy { policy, routes: Vec::new() }));
            assert_eq!(routes.of(7).map(KeyRoutes::all), Some(&[route(0, 10, 1, 8)][..]));
            assert_eq!(routes.of(7).unwrap().whole(), None, "it was longer");
        }
    }
}
