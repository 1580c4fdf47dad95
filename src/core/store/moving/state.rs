//! What one server knows of the others, and of pieces on their way. The files around say what a
//! store does with it; this one must name none of them, nor the store. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kept::{Copy, Leaving, Waiting};
use super::parts::Parts;
use super::seeds::Seeds;
use super::settings::CommandedSettings;
use crate::store::config::StoreConfig;
use crate::store::moving::changes::Changes;
use crate::store::moving::parked::Parked;
use crate::store::pieces::limits::TENSORS_MAX;
use crate::trees::Trees;
use crate::values::KeyRoutes;
use crate::wire::elastic::{Order, Route};
use crate::wire::transfer::Transfer;
use crate::wire::{Key, NodeId, server_id};

/// A confirmation that waits: to whom, and of which elements of which key.
pub(super) type Unsaid = (NodeId, Key, u64, u64);

/// What one server knows of the others, and of pieces on their way.
pub(in crate::store) struct Elsewhere {
    /// This server.
    pub(super) me: NodeId,
    /// The policy that it knows.
    pub(in crate::store) epoch: u64,
    /// The servers that live, ascending.
    pub(super) servers: Vec<NodeId>,
    /// By rank: where new keys go.
    pub(super) homes: Vec<NodeId>,
    /// Servers that are dead or released, of which nothing counts any more.
    pub(super) lost: BTreeSet<NodeId>,
    /// Copies of each piece beside the owner's.
    pub(super) replicas: u32,
    /// Where the copies of what this server owns are, or go to.
    pub(super) replica: Option<NodeId>,
    /// Servers that are being emptied.
    pub(super) draining: Vec<NodeId>,
    /// Where the policy wants them.
    pub(super) named_replica: Option<NodeId>,
    /// It has said what it holds, and the policy that follows from it is not here yet.
    pub(super) collecting: Option<u64>,
    /// It has said that it holds nothing, so that policy may let it go: confirmations that wait for
    /// it.
    pub(super) unsaid: Option<BTreeMap<Unsaid, Transfer>>,
    /// Where pieces are that are not here.
    pub(super) routes: BTreeMap<Key, KeyRoutes>,
    pub(in crate::store) parked: Parked,
    /// A piece of that key was cut by a request, and what is parked was not looked at since.
    pub(in crate::store) cut: Option<Key>,
    /// Keys for which something came: what is parked for them is to be looked at again.
    pub(in crate::store) due: BTreeSet<Key>,
    /// Answers that wait for the replica.
    pub(super) waiting: BTreeMap<Key, Vec<Waiting>>,
    /// What was ordered and waits for the end of a round.
    pub(super) orders: BTreeMap<Key, Vec<Order>>,
    /// What has left and is not safe yet where it went.
    pub(super) leaving: BTreeMap<Key, Vec<Leaving>>,
    /// Copies of what other servers own, by key and owner.
    pub(super) copies: BTreeMap<(Key, NodeId), Vec<Copy>>,
    pub(super) seeds: Seeds,
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
        let servers: Vec<NodeId> = (0..config.servers).map(server_id).collect();
        let joins = config.elastic && !servers.contains(&config.id);
        let mut elastic = Self {
            me: config.id,
            epoch: 0,
            homes: servers.clone(),
            // Who joins learns from its first policy who lives.
            servers: if joins { Vec::new() } else { servers },
            lost: BTreeSet::new(),
            replicas: if config.elastic { config.replicas } else { 0 },
            replica: None,
            draining: Vec::new(),
            named_replica: None,
            collecting: None,
            unsaid: None,
            routes: BTreeMap::new(),
            parked: Parked::default(),
            cut: None,
            due: BTreeSet::new(),
            waiting: BTreeMap::new(),
            orders: BTreeMap::new(),
            leaving: BTreeMap::new(),
            copies: BTreeMap::new(),
            seeds: Seeds::default(),
            settings: CommandedSettings::new(joins),
            changes: Changes::default(),
            parts: Parts::default(),
            trees: TreesHere { root: config.id, ..TreesHere::default() },
        };
        elastic.choose_replica();
        elastic
    }

    /// True if nothing of that server counts.
    pub(super) fn is_gone(&self, server: NodeId) -> bool {
        self.lost.contains(&server)
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
