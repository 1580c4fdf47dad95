//! What workers told the servers by commands, and which of it other servers have not heard
//! (docs/elastic.md, "Joining and leaving"). Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::store::command::Head;
use crate::store::command::generations::Sent;
use crate::store::command::modes::Modes;
use crate::store::pieces::name::Customer;
use crate::values::Space;
use crate::wire::elastic::Mark;
use crate::wire::transfer::{OptimizerCount, ToldCommand, Transfer};
use crate::wire::{Meta, NodeId};

/// What workers told the servers, so far as it still matters.
#[derive(Debug)]
pub(super) struct CommandedSettings {
    /// This server joined a job that ran.
    pub(super) joins: bool,
    /// Counts changes; 0: there was none. Each setting has the number of its last change.
    pub(super) stamp: u64,
    /// By key spaces.
    spaces: BTreeMap<Space, Set>,
    /// When it was last counted how many optimizers a customer has sent.
    counts: BTreeMap<(Space, Customer), u64>,
    /// Up to which change each server was told.
    pub(super) told: BTreeMap<NodeId, u64>,
    /// How many times each server that joined was told what workers say alike.
    pub(super) agreed: BTreeMap<NodeId, usize>,
    /// Commands that are answered when these servers have obeyed up to that change.
    pub(super) unanswered: Vec<(Meta, u64, BTreeSet<NodeId>)>,
    /// By which policy the server with the lowest id became so.
    pub(super) sponsored_since: u64,
    /// Up to which policy each server has said that there are no more commands.
    pub(super) ended: BTreeMap<NodeId, u64>,
    /// The servers that this one asks what they know, since it is the one with the lowest id.
    pub(super) asked: BTreeSet<NodeId>,
    /// Commands of workers that came before this server knew all earlier ones.
    pub(super) early: Vec<Meta>,
}

/// What is set in one key space.
#[derive(Debug, Default)]
struct Set {
    sync: u64,
    multi_precision: u64,
    compression: (u64, Bytes),
    optimizer: (u64, Bytes),
}

impl Set {
    /// What of it was not told up to the change `told`.
    fn since(&self, told: u64) -> impl Iterator<Item = (Head, Bytes)> {
        let all = [
            (self.sync, Head::SyncMode, Bytes::new()),
            (self.compression.0, Head::Compression, self.compression.1.clone()),
            (self.optimizer.0, Head::Controller, self.optimizer.1.clone()),
            (self.multi_precision, Head::MultiPrecision, Bytes::new()),
        ];
        let news = all.into_iter().filter(move |(stamp, ..)| *stamp > told);
        news.map(|(_, head, body)| (head, body))
    }
}

impl CommandedSettings {
    pub(super) const fn new(joins: bool) -> Self {
        Self {
            joins,
            stamp: 0,
            spaces: BTreeMap::new(),
            counts: BTreeMap::new(),
            told: BTreeMap::new(),
            agreed: BTreeMap::new(),
            unanswered: Vec::new(),
            sponsored_since: 0,
            ended: BTreeMap::new(),
            asked: BTreeSet::new(),
            early: Vec::new(),
        }
    }

    /// What a server lacks that was told up to the change `told`.
    pub(super) fn since(&self, told: u64, modes: &Modes) -> Vec<(Transfer, Vec<Bytes>)> {
        let (mut commands, until) = (Vec::new(), self.stamp);
        for (&space, set) in &self.spaces {
            let current = modes.of(space).generations.current();
            for (head, body) in set.since(told) {
                let generation = if head == Head::Controller { current } else { 0 };
                let command = ToldCommand { space, head: head.number(), generation, until };
                commands.push((Transfer::Command(command), vec![body]));
            }
        }
        for (&(space, from), _) in self.counts.iter().filter(|(_, stamp)| **stamp > told) {
            let sent = modes.of(space).generations.sent(from);
            let Sent { count, last: Some(timestamp) } = sent else {
                continue; // The worker was forgotten.
            };
            let Customer { worker, customer, life } = from;
            let last = Mark { worker, customer, timestamp, life };
            let count = OptimizerCount { space, last, count, until };
            commands.push((Transfer::OptimizerCount(count), Vec::new()));
        }
        commands
    }

    /// Remembers a command that was obeyed.
    pub(super) fn note(&mut self, space: Space, head: Head, body: &Bytes) {
        let stamp = self.stamp + 1;
        let set = self.spaces.entry(space).or_default();
        match head {
            Head::SyncMode if set.sync == 0 => set.sync = stamp,
            Head::MultiPrecision if set.multi_precision == 0 => set.multi_precision = stamp,
            Head::Compression if set.compression.0 == 0 || set.compression.1 != *body => {
                set.compression = (stamp, body.clone());
            }
            Head::Controller => set.optimizer = (stamp, body.clone()),
            _ => return,
        }
        self.stamp = stamp;
    }

    /// Remembers that a customer has sent an optimizer.
    pub(super) fn count(&mut self, space: Space, from: Customer) {
        self.stamp += 1;
        self.counts.insert((space, from), self.stamp);
    }
}
