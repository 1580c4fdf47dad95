//! The side of a customer that asks: all that decides something about its requests, joined once.
//! `kv` counts them, knows where their parts are and times the rounds; `trees` sums what goes along
//! trees; commands and values that came ahead are kept here. `node` and the simulator have one of
//! these for each customer, give it what happens, and do what it says ([`WorkerOutput`]).
//!
//! Pure: the time and what arrived are arguments. May touch `kv`, `trees`, `values` and `wire`;
//! must not know who waits for a request, nor what the local model computes (`local`).

mod answers;
mod commands;
mod here;
mod membership;
mod trees;

pub use here::LocalSent;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::time::Duration;

use smallvec::SmallVec;

use crate::invariant::Valid;
use crate::kv::commands::Commands;
use crate::kv::flights::{AheadSlice, Flights, Outgoing, Slice};
use crate::kv::rounds::{Round, Rounds};
use crate::kv::{Answerer, Finished, KvError, Slices, WorkerRequests};
use crate::trees::{Relay, Step};
use crate::values::kind::form_of;
use crate::values::{KeyRange, KvPairs, server_key_ranges};
use crate::wire::exchange::word::ExchangeReport;
use crate::wire::{Key, Meta, NodeId};

/// Rounds that are kept until somebody takes them.
const ROUNDS_KEPT: usize = 1024;

/// See the module. `D`: what a request leaves for its end.
#[derive(Debug)]
pub struct WorkerSide<D> {
    requests: WorkerRequests<D>,
    /// The key range of each server, by rank.
    ranges: Vec<KeyRange>,
    /// If keys may move in this job.
    moving: Option<Moving>,
    /// The values of pulls that came ahead and whose turn has not come, by timestamp.
    ahead: BTreeMap<i32, Vec<AheadSlice>>,
    /// Requests that the local model has, and no server.
    local: BTreeSet<i32>,
    /// What was commanded, if servers may come and go.
    commands: Commands,
    rounds: Rounds,
    /// Rounds that are over and not reported yet.
    measured: Vec<Round>,
}

/// What a worker has where keys may move.
#[derive(Debug)]
struct Moving {
    me: NodeId,
    /// Which parts of requests are where.
    flights: Flights,
    /// What this worker sums and passes on, where rounds go along trees.
    relay: Relay,
    /// What the relay did outside of a call, and is to be done with the next one.
    undone: Vec<Step>,
    /// The longest values that pushes ask for, where no round goes along a tree.
    longest_ahead: usize,
}

/// Who this worker is, in a job whose keys may move.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Its id.
    pub me: NodeId,
    /// The servers to which new keys go, by rank.
    pub homes: Vec<NodeId>,
    /// In which life of its id it is ([`Flights::come_back`]).
    pub life: u64,
    /// The first push of each key makes it.
    pub makes_keys: bool,
    /// It sums in the order of children ([`Relay::keep_order`]).
    pub keeps_order: bool,
}

/// What is to be done after one or more calls.
#[derive(Debug)]
pub struct WorkerOutput<D> {
    /// Messages; those for this worker's own relay go there first, see [`WorkerSide::messages`].
    parts: Vec<Outgoing>,
    /// Requests that await nothing but their end.
    pub over: SmallVec<[Finished<D>; 1]>,
    /// Slices and commands that a server has answered.
    pub answered: SmallVec<[AnsweredBy; 1]>,
    /// What the local model tells the scheduler; the customer's number is to be filled in.
    pub reports: Vec<ExchangeReport>,
    /// Requests have failed: whoever waits for one that leaves nothing for its end is to look.
    pub has_failed: bool,
}

/// A server has answered all that a request asked it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredBy {
    /// In whose key range it lies.
    pub server: NodeId,
    /// When it was asked ([`WorkerSide::note_asked`]).
    pub asked: Duration,
    /// It was a command.
    pub command: bool,
    /// Values went there.
    pub push: bool,
    /// Values came back.
    pub pull: bool,
}

impl<D> Default for WorkerOutput<D> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            over: SmallVec::new(),
            answered: SmallVec::new(),
            reports: Vec::new(),
            has_failed: false,
        }
    }
}

impl<D> WorkerOutput<D> {
    /// What the next call of [`WorkerSide::messages`] begins with, to look at.
    #[must_use]
    pub fn parts(&self) -> &[Outgoing] {
        &self.parts
    }
}

impl<D> Default for WorkerSide<D> {
    fn default() -> Self {
        Self {
            requests: WorkerRequests::new(),
            ranges: Vec::new(),
            moving: None,
            ahead: BTreeMap::new(),
            local: BTreeSet::new(),
            commands: Commands::default(),
            rounds: Rounds::default(),
            measured: Vec::new(),
        }
    }
}

impl<D> WorkerSide<D> {
    /// The requests, to look at.
    #[must_use]
    pub const fn requests(&self) -> &WorkerRequests<D> {
        &self.requests
    }

    /// The requests: to begin one, and to count what is not answered by a message.
    pub const fn requests_mut(&mut self) -> &mut WorkerRequests<D> {
        &mut self.requests
    }

    /// The key range of each server, by rank.
    #[must_use]
    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// There are so many servers.
    pub fn set_servers(&mut self, servers: usize) {
        if self.ranges.len() != servers {
            self.ranges = server_key_ranges(servers);
        }
    }

    /// True if it follows keys that may move.
    #[must_use]
    pub const fn follows(&self) -> bool {
        self.moving.is_some()
    }

    /// Keys may move in this job: from now on it follows them.
    pub fn follow(&mut self, who: Follower) {
        let Follower { me, homes, life, makes_keys, keeps_order } = who;
        let mut relay = Relay::new(me);
        if keeps_order {
            relay.keep_order();
        }
        let flights = Flights::come_back(homes, life, makes_keys);
        let (undone, longest_ahead) = (Vec::new(), usize::MAX);
        self.moving = Some(Moving { me, flights, relay, undone, longest_ahead });
    }

    /// Which parts are where, if keys may move.
    #[must_use]
    pub fn flights(&self) -> Option<&Flights> {
        self.moving.as_ref().map(|moving| &moving.flights)
    }

    /// The relay, if keys may move.
    #[must_use]
    pub fn relay(&self) -> Option<&Relay> {
        self.moving.as_ref().map(|moving| &moving.relay)
    }

    /// In which life of this worker's id requests are made; 0: the first one.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.flights().map_or(0, Flights::life)
    }

    /// The longest values that pushes ask for ahead. Along trees they ask for all: values come down
    /// with the end of the round, or not at all.
    pub fn set_longest_ahead(&mut self, bytes: usize) {
        if let Some(moving) = &mut self.moving {
            moving.longest_ahead = bytes;
        }
    }

    /// Where no ticket is known, pushes of fewer bytes ask for none ([`Flights::set_asks_from`]).
    pub fn set_asks_from(&mut self, bytes: u64) {
        if let Some(moving) = &mut self.moving {
            moving.flights.set_asks_from(bytes);
        }
    }

    /// The rounds that are over since the last call.
    pub fn take_rounds(&mut self) -> Vec<Round> {
        take(&mut self.measured)
    }

    /// True if something waits for time to pass: [`Self::retry`] is to be called now and then.
    #[must_use]
    pub fn waits(&self) -> bool {
        let waits = |moving: &Moving| moving.flights.waits() || !moving.undone.is_empty();
        self.moving.as_ref().is_some_and(waits)
    }

    /// What is promised of all that is joined here.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        if let Some(moving) = &self.moving {
            moving.flights.validate()?;
            moving.relay.validate()?;
        }
        self.requests.validate()
    }

    // ---- a request ------------------------------------------------------------------------------

    /// When a request was sent, for [`WorkerOutput::answered`].
    pub fn note_asked(&mut self, timestamp: i32, now: Duration) {
        self.requests.note_asked(timestamp, now);
    }

    /// Who answers a request that is about to begin, cut for the servers. `local`: this worker
    /// trains on a local model.
    pub fn who_answers(&mut self, local: bool, meta: &Meta, slices: &Slices) -> Answerer {
        let flights = self.moving.as_mut().map(|moving| &mut moving.flights);
        Answerer::of(local, flights, meta, slices, &self.ranges)
    }

    /// Its values came ahead: they are kept until the request's turn.
    pub fn keep_ahead(&mut self, timestamp: i32, all: Vec<AheadSlice>) {
        self.ahead.insert(timestamp, all);
    }

    /// True if the values of that request came ahead, and its turn has not come.
    #[must_use]
    pub fn is_ahead(&self, timestamp: i32) -> bool {
        self.ahead.contains_key(&timestamp)
    }

    /// The first request whose values came ahead.
    #[must_use]
    pub fn first_ahead(&self) -> Option<i32> {
        self.ahead.keys().next().copied()
    }

    /// The turn of a request whose values came ahead.
    pub fn end_ahead(&mut self, timestamp: i32, out: &mut WorkerOutput<D>) {
        let all = self.ahead.remove(&timestamp).unwrap_or_default();
        out.over.extend(self.requests.on_ahead(timestamp, all));
    }

    /// A request goes to the servers: what of it is for the server of each rank. Only where keys
    /// may move; elsewhere each slice is one message.
    ///
    /// # Errors
    /// It does not fit what is known of the pieces. Nothing of it is under way then.
    pub fn begin(
        &mut self,
        now: Duration,
        meta: &Meta,
        slices: impl Iterator<Item = (usize, KvPairs)>,
        out: &mut WorkerOutput<D>,
    ) -> Result<(), KvError> {
        let Some(moving) = &mut self.moving else { return Ok(()) };
        // Most requests are one message: without that the vector begins with room for four.
        out.parts.reserve_exact(1);
        let before = out.parts.len();
        if meta.push {
            let by_tree = moving.relay.trees().are_any();
            let longest = if by_tree { usize::MAX } else { moving.longest_ahead };
            moving.flights.set_longest_ahead(longest);
        }
        for (rank, kv) in slices {
            let begun = out.parts.len();
            let first = self.ranges.get(rank).map_or(0, |range| range.begin);
            let (form, key) = form_of(meta, &kv, first);
            let slice = Slice { meta: meta.clone(), rank: rank as u32, key, form, kv };
            if let Err(error) = moving.flights.begin(now, slice, &mut out.parts) {
                moving.flights.forget(meta.timestamp);
                out.parts.truncate(before);
                return Err(error);
            }
            if meta.push
                && let Some(round) = self.rounds.pushed(now, key)
                && self.measured.len() < ROUNDS_KEPT
            {
                self.measured.push(round);
            }
            for message in &out.parts[begun..] {
                self.rounds.sent(now, message.meta.recver);
            }
        }
        Ok(())
    }

    /// The request is over, or is to be: nothing of it is followed any more.
    pub fn forget(&mut self, timestamp: i32) {
        self.local.remove(&timestamp);
        if let Some(moving) = &mut self.moving {
            moving.flights.forget(timestamp);
        }
    }

    /// The end of the request has run.
    pub fn complete(&mut self, timestamp: i32) {
        self.forget(timestamp); // Some of a request that failed may be under way.
        self.requests.complete(timestamp);
    }

    /// The round of a push that is under way along a tree: the slice, its wire key, the round.
    #[must_use]
    pub fn along_tree(&self, timestamp: i32) -> Option<(u32, Key, u64)> {
        self.flights()?.along_tree(timestamp)
    }
}

#[cfg(test)]
#[path = "side_tests.rs"]
mod tests;
