//! What one server knows of the others, and of pieces on their way. What is done with it is in the
//! files that act as a `Mover`; this one must name none of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kept::{KeptCopies, Leaving, Waiting};
use super::orders::WaitingOrders;
use super::parts::Parts;
use super::seeds::OwnReplica;
use super::servers::LiveServers;
use super::settings::CommandedSettings;
use crate::store::config::StoreConfig;
use crate::store::moving::changes::Changes;
use crate::store::moving::parked::Parked;
use crate::store::pieces::limits::TENSORS_MAX;
use crate::trees::Trees;
use crate::values::KeyRoutes;
use crate::wire::elastic::Route;
use crate::wire::{Key, NodeId, server_id};

/// What one server knows of the others, and of pieces on their way.
pub(in crate::store) struct Elsewhere {
    pub(in crate::store) servers: LiveServers,
    pub(super) replica: OwnReplica,
    /// Where pieces are that are not here.
    pub(super) routes: BTreeMap<Key, KeyRoutes>,
    pub(in crate::store) parked: Parked,
    /// A piece of that key was cut by a request, and what is parked was not looked at since.
    pub(in crate::store) cut: Option<Key>,
    /// Keys for which something came: what is parked for them is to be looked at again.
    pub(in crate::store) due: BTreeSet<Key>,
    /// Answers that wait for the replica.
    pub(super) waiting: BTreeMap<Key, Vec<Waiting>>,
    pub(super) orders: WaitingOrders,
    /// What has left and is not safe yet where it went.
    pub(super) leaving: BTreeMap<Key, Vec<Leaving>>,
    pub(super) copies: KeptCopies,
    pub(super) settings: CommandedSettings,
    /// Of which keys claims say something new.
    pub(in crate::store) changes: Changes,
    pub(super) parts: Parts,
    pub(super) trees: TreesHere,
}

/// What a server knows of trees.
#[derive(Debug, Default)]
pub(super) struct TreesHere {
    /// This server.
    pub(super) root: NodeId,
    pub(super) trees: Arc<Trees>,
    /// Bytes of rounds that each tree of the newest overlay was given, by its number.
    pub(super) given: BTreeMap<u32, u64>,
}

impl Elsewhere {
    pub(in crate::store) fn new(config: &StoreConfig) -> Self {
        let joins = config.elastic && !(0..config.servers).any(|rank| server_id(rank) == config.id);
        let servers = LiveServers::new(config.id, config.servers, joins);
        let wanted = if config.elastic { config.replicas } else { 0 };
        Self {
            replica: OwnReplica::new(wanted, &servers),
            servers,
            routes: BTreeMap::new(),
            parked: Parked::default(),
            cut: None,
            due: BTreeSet::new(),
            waiting: BTreeMap::new(),
            orders: WaitingOrders::default(),
            leaving: BTreeMap::new(),
            copies: KeptCopies::default(),
            settings: CommandedSettings::new(joins),
            changes: Changes::default(),
            parts: Parts::default(),
            trees: TreesHere { root: config.id, ..TreesHere::default() },
        }
    }

    /// Remembers where a part of a key is.
    pub(super) fn learn(&mut self, key: Key, route: Route) {
        if self.routes.len() < TENSORS_MAX || self.routes.contains_key(&key) {
            self.routes.entry(key).or_default().learn(route);
        }
    }

    /// The newest overlay that is known; 0: none.
    pub(super) fn overlay(&self) -> u64 {
        self.trees.trees.number()
    }
}
