//! Which servers there are by the newest policy, and what is expected of the next one
//! (docs/elastic.md, "Death"). Pure; knows nothing of pieces.

use std::collections::BTreeSet;

use crate::invariant::{Valid, require};
use crate::store::view::RankRanges;
use crate::wire::elastic::{PartAsk, Route};
use crate::wire::word::Policy;
use crate::wire::{Key, NodeId, server_id};

/// Where a request is served.
pub(in crate::store) enum Place {
    /// By the piece at that index of the key's pieces.
    Here(usize),
    /// By a part of the piece at that index.
    Within(usize),
    /// Nowhere yet: a push makes the key.
    New,
    /// When the piece is here, or a policy.
    Later,
    /// Where these routes say.
    Again(Vec<Route>),
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct LiveServers {
    /// This server.
    pub(in crate::store) me: NodeId,
    /// The policy that it knows.
    pub(in crate::store) epoch: u64,
    /// Those that live, ascending.
    pub(super) live: Vec<NodeId>,
    /// By rank: where new keys go.
    pub(super) homes: Vec<NodeId>,
    /// Those that are dead or released, of which nothing counts any more.
    pub(in crate::store) lost: BTreeSet<NodeId>,
    /// Those that are being emptied.
    pub(super) draining: Vec<NodeId>,
    /// This one has said what it holds, and the policy that follows from it is not here yet.
    pub(in crate::store) collecting: Option<u64>,
}

impl LiveServers {
    /// Those that the job begins with, as many as there are ranks. Who `joins` learns from its
    /// first policy who lives.
    pub(in crate::store) fn new(me: NodeId, ranks: usize, joins: bool) -> Self {
        let homes: Vec<NodeId> = (0..ranks).map(server_id).collect();
        Self {
            me,
            epoch: 0,
            live: if joins { Vec::new() } else { homes.clone() },
            homes,
            lost: BTreeSet::new(),
            draining: Vec::new(),
            collecting: None,
        }
    }

    /// True if nothing of that server counts.
    pub(in crate::store) fn is_gone(&self, server: NodeId) -> bool {
        self.lost.contains(&server)
    }

    /// True if pieces may go to that server.
    pub(in crate::store) fn has(&self, server: NodeId) -> bool {
        self.live.contains(&server) && !self.is_gone(server)
    }

    /// True if that server joined the job.
    pub(super) fn joined(&self, server: NodeId) -> bool {
        server >= server_id(self.homes.len())
    }

    /// Servers are dead, and this one says what it holds.
    pub(in crate::store) fn collect(&mut self, epoch: u64, lost: &[NodeId]) {
        self.lost.extend(lost);
        if epoch > self.epoch {
            self.collecting = self.collecting.max(Some(epoch));
        }
    }

    /// Takes over what a policy says of servers. False if a newer one is known, or expected.
    pub(in crate::store) fn obey(&mut self, policy: &Policy) -> bool {
        if policy.epoch < self.epoch || self.collecting.is_some_and(|epoch| policy.epoch < epoch) {
            return false;
        }
        self.epoch = policy.epoch;
        let mut live = policy.servers.clone();
        live.sort_unstable();
        live.dedup();
        // Those that were there and are not any more are released. (One that has just joined knew
        // of nobody.)
        let former = std::mem::replace(&mut self.live, live);
        self.lost.extend(&policy.lost);
        self.lost.extend(former.iter().filter(|server| !self.live.contains(server)));
        self.live.retain(|server| !self.lost.contains(server));
        if policy.homes.len() == self.homes.len() {
            self.homes.clone_from(&policy.homes);
        }
        self.draining.clone_from(&policy.draining);
        self.collecting = None;
        true
    }

    /// Where a request goes about a key that this server has never heard of.
    pub(in crate::store) fn place_new(&self, view: &RankRanges, key: Key, ask: &PartAsk) -> Place {
        let home = view.rank(key).and_then(|rank| self.homes.get(rank));
        if home != Some(&self.me) || ask.after > 0 {
            // The worker does not know the policy yet by which it is somewhere else.
            Place::Again(Vec::new())
        } else if self.collecting.is_some() {
            // The next policy may say that it is somewhere else, or that another server is its
            // home.
            Place::Later
        } else {
            Place::New
        }
    }

    /// They are in order, and a policy that is expected is newer than the one that is known.
    pub(in crate::store) fn validate(&self) -> Valid {
        let Self { epoch, live, collecting, .. } = self;
        require(live.windows(2).all(|pair| pair[0] < pair[1]), || {
            format!("the servers are not in order: {live:?}")
        })?;
        require(collecting.is_none_or(|expected| expected > *epoch), || {
            format!("policy {collecting:?} is expected, and policy {epoch} is known")
        })
    }
}
