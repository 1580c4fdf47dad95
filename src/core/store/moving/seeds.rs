//! Where the copies are of what this server owns, and what a new replica has yet to get
//! (docs/elastic.md, "Replicas"). Pure.

use std::collections::{BTreeMap, VecDeque};

use super::limits::SEED_BYTES_MAX;
use super::servers::LiveServers;
use crate::invariant::{Valid, require};
use crate::store::pieces::tensor::Piece;
use crate::values::KeyPart;
use crate::wire::NodeId;
use crate::wire::word::Policy;

/// Where the copies are of what this server owns.
#[derive(Debug)]
pub(super) struct OwnReplica {
    /// Copies of each piece beside the owner's.
    wanted: u32,
    /// Where they are, or go to.
    pub(super) at: Option<NodeId>,
    /// Where the policy wants them.
    named: Option<NodeId>,
    pub(super) seeds: Seeds,
}

impl OwnReplica {
    /// So many copies are wanted, until a policy says so.
    pub(super) fn new(wanted: u32, servers: &LiveServers) -> Self {
        let mut replica = Self { wanted, at: None, named: None, seeds: Seeds::default() };
        replica.choose(servers);
        replica
    }

    /// A policy says how many copies are wanted, and may name where.
    pub(super) fn obey(&mut self, policy: &Policy, servers: &LiveServers) {
        self.wanted = policy.replicas.min(1);
        let named = policy.copies.iter().find(|copy| copy.owner == servers.me);
        self.named = named.map(|copy| copy.holder);
        self.choose(servers);
    }

    /// The one that the policy names; else the next live server by id, cyclic, where the one that
    /// was chosen stays. Never one that is being emptied.
    fn choose(&mut self, LiveServers { me, live, draining, .. }: &LiveServers) {
        let able =
            |server: &&NodeId| self.wanted > 0 && *server != me && !draining.contains(*server);
        let mut able = live.iter().filter(able);
        let is_able = |server: &NodeId| able.clone().any(|able| able == server);
        let stays = self.named.filter(is_able).or(self.at.filter(is_able));
        let next = able.clone().find(|server| *server > me);
        self.at = stays.or_else(|| next.or_else(|| able.next()).copied());
    }

    /// True if the copy of a piece is at a server that stays, so that it need not go to another one
    /// before there is a new version of it.
    pub(super) fn has_time(&self, piece: &Piece, servers: &LiveServers) -> bool {
        let LiveServers { live, draining, .. } = servers;
        let stays = |server| live.contains(&server) && !draining.contains(&server);
        self.at.is_some() && piece.copied.at().is_some_and(stays)
    }

    /// It is another server that is not being emptied.
    pub(super) fn validate(&self, servers: &LiveServers) -> Valid {
        let LiveServers { me, live, lost, draining, .. } = servers;
        let able = |server: &NodeId| {
            // A dead one is the replica until the policy comes that says so.
            (live.contains(server) && !draining.contains(server)) || lost.contains(server)
        };
        let replica = self.at;
        require(replica.is_none_or(|replica| replica != *me && able(&replica)), || {
            format!("the replica of {me} is {replica:?}; the servers are {live:?}")
        })?;
        self.seeds.validate()
    }
}

/// Pieces that a new replica is to get.
#[derive(Debug, Default)]
pub(super) struct Seeds {
    queue: VecDeque<KeyPart>,
    /// What is on its way, with its bytes.
    under_way: BTreeMap<KeyPart, usize>,
    /// The sum of those bytes.
    bytes: usize,
}

impl Seeds {
    /// The replica is another one: nothing is on its way there.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What waits is listed anew.
    pub(super) fn begin(&mut self) {
        self.queue.clear();
    }

    pub(super) fn push(&mut self, what: KeyPart) {
        self.queue.push_back(what);
    }

    pub(super) fn next(&mut self) -> Option<KeyPart> {
        if self.bytes < SEED_BYTES_MAX { self.queue.pop_front() } else { None }
    }

    pub(super) fn sent(&mut self, what: KeyPart, bytes: usize) {
        let before = self.under_way.insert(what, bytes);
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
    }

    /// The bytes that are on their way are those of what is on its way.
    fn validate(&self) -> Valid {
        let (counted, walked) = (self.bytes, self.under_way.values().sum::<usize>());
        require(counted == walked, || {
            format!("pieces of {walked} bytes are on their way to the replica, not of {counted}")
        })
    }

    pub(super) fn arrived(&mut self, what: KeyPart) {
        self.bytes -= self.under_way.remove(&what).unwrap_or(0);
    }
}
