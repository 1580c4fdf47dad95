//! The requests of a simulated worker: the real bookkeeping of `kv`, joined as `node`'s customer
//! joins it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::ledger::Ledger;
use super::sabotage::Sabotage;
use crate::app::{APP, Output, pairs, with_data};
use pslite_core::invariant::Valid;
use pslite_core::kv::commands::{Again, Commands};
use pslite_core::kv::flights::{AheadSlice, Answered, Brought, Flights, Outgoing, Slice};
use pslite_core::kv::rounds::{Round, Rounds};
use pslite_core::kv::worker::Response;
use pslite_core::kv::{
    Answerer, Assembled, Finished, KvError, Pending, Slices, WorkerRequests, slice,
};
use pslite_core::store::command::Head;
use pslite_core::trees::{Relay, Step};
use pslite_core::values::kind::form_of;
use pslite_core::values::{KeyRange, KeySpace, KvPairs, Space, server_key_ranges};
use pslite_core::wire::elastic::{KeyRoute, Placed, SchedulerMessage};
use pslite_core::wire::{EMPTY, Frames, Key, Message, Meta, NodeId, server_id};

/// What is over: whose, and with what values or error.
pub(super) type Over<D> = (i32, D, Result<Assembled, String>);

/// See the module. `D` says what a request is for.
pub(super) struct Requests<D> {
    customer: i32,
    /// Where its keys lie, if they are its own.
    space: Option<KeySpace>,
    ranges: Vec<KeyRange>,
    requests: WorkerRequests<D>,
    pub(super) flights: Flights,
    rounds: Rounds,
    /// Rounds that are over and not reported yet.
    measured: Vec<Round>,
    /// Which wire key each slice of a request is about.
    keys: BTreeMap<(i32, u32), Key>,
    commands: Commands,
    /// The values of pulls whose turn has not come yet, by timestamp.
    ended_ahead: BTreeMap<i32, Vec<AheadSlice>>,
    /// Requests that the local model has, and no server.
    local: BTreeSet<i32>,
    pub(super) sabotage: Sabotage,
    pub(super) me: NodeId,
    pub(super) relay: Relay,
    /// What a planted mistake makes the relay do, at the next tick.
    pub(super) later: Vec<Step>,
}

impl<D> Requests<D> {
    pub(super) fn new(servers: usize, sabotage: Sabotage, customer: Space) -> Self {
        let customer = customer as i32;
        let has_own = customer != APP && !sabotage.mixes_keys();
        let space = has_own.then(|| KeySpace::of_customer(customer, servers).ok()).flatten();
        let homes: Vec<NodeId> = (0..servers).map(server_id).collect();
        let mut flights = Flights::new(homes);
        flights.set_longest_ahead(usize::MAX);
        Self {
            customer,
            space,
            ranges: server_key_ranges(servers),
            requests: WorkerRequests::new(),
            flights,
            rounds: Rounds::default(),
            measured: Vec::new(),
            keys: BTreeMap::new(),
            commands: Commands::default(),
            ended_ahead: BTreeMap::new(),
            local: BTreeSet::new(),
            sabotage,
            me: EMPTY,
            relay: Relay::default(),
            later: Vec::new(),
        }
    }

    /// From now on as a process that has another one's id (`Flights::come_back`).
    pub(super) fn come_back(&mut self, life: u64, makes_keys: bool) {
        let homes = (0..self.ranges.len()).map(server_id).collect();
        self.flights = Flights::come_back(homes, life, makes_keys);
        self.flights.set_longest_ahead(usize::MAX);
    }

    /// Pushes, pulls, or both.
    ///
    /// # Errors
    /// The request does not fit the ranges, or what is known of the pieces.
    pub(super) fn values(
        &mut self,
        now: Duration,
        kind: (i32, bool, bool),
        kv: &KvPairs,
        payload: D,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<i32, String> {
        let (meta, slices) = self.open(kind, kv, payload)?;
        if let Answerer::Ahead(all) =
            Answerer::of(false, Some(&mut self.flights), &meta, &slices, &self.ranges)
        {
            self.keep_ahead(meta.timestamp, all);
        } else {
            self.go(now, &meta, slices, ledger, out)?;
        }
        Ok(self.name_of(meta.timestamp))
    }

    /// A new request, of which nobody has heard: what it says, and what of it is for each server.
    ///
    /// # Errors
    /// It does not fit the ranges.
    fn open(
        &mut self,
        (head, push, pull): (i32, bool, bool),
        kv: &KvPairs,
        payload: D,
    ) -> Result<(Meta, Slices), String> {
        let ranks: Vec<NodeId> = (0..self.ranges.len()).map(server_id).collect();
        let timestamp = self.requests.new_request(&ranks);
        let placed = self.space.map(|space| space.place(&kv.keys)).transpose();
        let keys = placed.map_err(|error| error.to_string())?.unwrap_or_else(|| kv.keys.clone());
        let kv = &KvPairs { keys, ..kv.clone() };
        let pending = if pull {
            Pending::pull(kv.keys.clone(), false, payload)
        } else {
            Pending::push(payload)
        };
        let slices = slice(kv, 1, &self.ranges).map_err(|error| error.to_string())?;
        if self.requests.expect(timestamp, pending).is_err() {
            return Err("a new request is over already".to_owned());
        }
        let meta = Meta { head, push, pull, ..self.meta(timestamp) };
        for rank in slices.iter().enumerate().filter(|(_, slice)| slice.is_none()) {
            // Each tensor has a key: somebody is asked.
            drop(self.requests.skip(timestamp, server_id(rank.0)));
        }
        Ok((meta, slices))
    }

    /// A request goes to the servers.
    fn go(
        &mut self,
        now: Duration,
        meta: &Meta,
        slices: Slices,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        let mut messages = Vec::new();
        for (rank, kv) in slices.into_iter().enumerate() {
            let Some(kv) = kv else { continue };
            let first = self.ranges.get(rank).map_or(0, |range| range.begin);
            let (form, key) = form_of(meta, &kv, first);
            self.keys.insert((meta.timestamp, rank as u32), key);
            let slice = Slice { meta: meta.clone(), rank: rank as u32, key, form, kv };
            let (first, push) = (messages.len(), meta.push);
            let begun = self.flights.begin(now, slice, &mut messages);
            begun.map_err(|error| error.to_string())?;
            if push {
                self.measured.extend(self.rounds.pushed(now, key));
            }
            for message in &messages[first..] {
                self.rounds.sent(now, message.meta.recver);
            }
        }
        self.dispatch(messages, ledger, out);
        Ok(())
    }

    // ---- what the local model answers (docs/nbsync.md) ------------------------------------------

    /// A request for the local model: what it says, its slices, and its name.
    ///
    /// # Errors
    /// It does not fit the ranges.
    pub(super) fn ask_local(
        &mut self,
        kind: (i32, bool, bool),
        kv: &KvPairs,
        payload: D,
    ) -> Result<(Meta, Slices, i32), String> {
        let (meta, slices) = self.open(kind, kv, payload)?;
        self.local.insert(meta.timestamp);
        let name = self.name_of(meta.timestamp);
        Ok((meta, slices, name))
    }

    /// The local model has answered a request.
    pub(super) fn answer_local(&mut self, timestamp: i32, all: Vec<AheadSlice>) -> Option<Over<D>> {
        self.local.remove(&timestamp);
        self.requests.on_ahead(timestamp, all).map(|finished| self.over(finished))
    }

    /// The local model has refused a request.
    pub(super) fn refuse_local(&mut self, timestamp: i32, why: String) -> Option<Over<D>> {
        self.local.remove(&timestamp);
        self.requests.fail(timestamp, why).map(|finished| self.over(finished))
    }

    /// The local model leaves a request to the servers.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub(super) fn forward(
        &mut self,
        now: Duration,
        (meta, slices): (Meta, Slices),
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        self.local.remove(&meta.timestamp);
        self.go(now, &meta, slices, ledger, out)
    }

    /// The local model sends a request of its own. Its name.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub(super) fn send_own(
        &mut self,
        now: Duration,
        (meta, kv): (&Meta, &KvPairs),
        payload: D,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<i32, String> {
        let (meta, slices) = self.open((meta.head, meta.push, meta.pull), kv, payload)?;
        self.go(now, &meta, slices, ledger, out)?;
        Ok(self.name_of(meta.timestamp))
    }

    // ---- what comes back ------------------------------------------------------------------------

    /// Which customer of its worker it is.
    pub(super) const fn customer(&self) -> i32 {
        self.customer
    }

    /// A request of this customer among those of all customers of its worker.
    const fn name_of(&self, timestamp: i32) -> i32 {
        timestamp + self.customer * (1 << 24)
    }

    fn meta(&self, timestamp: i32) -> Meta {
        let (customer_id, own_keys) = (self.customer, self.space.is_some());
        Meta { app_id: APP, customer_id, own_keys, timestamp, request: true, ..Meta::default() }
    }

    /// Keeps values that came ahead until the turn of their pull.
    fn keep_ahead(&mut self, timestamp: i32, mut all: Vec<AheadSlice>) {
        self.sabotage.ahead(&mut all);
        self.ended_ahead.insert(timestamp, all);
    }

    /// Ends one pull whose values came ahead.
    pub(super) fn end_ahead(&mut self) -> Option<Over<D>> {
        let (timestamp, all) = self.ended_ahead.pop_first()?;
        self.requests.on_ahead(timestamp, all).map(|finished| self.over(finished))
    }

    /// Others may go on without this worker.
    pub(super) fn drop_ahead(&mut self) {
        self.flights.drop_ahead();
    }

    /// What the real bookkeeping promises of itself.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub(super) fn validate(&self) -> Valid {
        self.flights.validate()?;
        self.relay.validate()?;
        self.requests.validate()
    }

    /// The rounds that are over since the last call.
    pub(super) fn take_rounds(&mut self) -> Vec<Round> {
        std::mem::take(&mut self.measured)
    }

    /// How much is in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.keys.len()
    }

    /// The wire key that a slice of a request in flight is about.
    pub(super) fn key_of(&self, timestamp: i32, slice: u32) -> Option<Key> {
        self.keys.get(&(timestamp, slice)).copied()
    }

    /// A command to these servers. `None` if there is none of them.
    pub(super) fn command(
        &mut self,
        servers: &[NodeId],
        head: i32,
        body: &Bytes,
        payload: D,
        out: &mut Vec<Output>,
    ) -> Option<i32> {
        let timestamp = self.requests.new_request(servers);
        self.requests.expect(timestamp, Pending::push(payload)).ok()?;
        let again = Again { timestamp, head, body: body.clone() };
        servers.iter().for_each(|server| out.push(self.command_to(&again, *server)));
        self.commands.said(again, servers, Head::from(head).stays());
        Some(self.name_of(timestamp))
    }

    /// Commands go to these servers now: says again what nobody has who lives.
    pub(super) fn command_again(
        &mut self,
        servers: &[NodeId],
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let mut over = Vec::new();
        for again in self.commands.again(servers) {
            let finished = self.requests.redirect(again.timestamp, servers);
            over.extend(finished.map(|finished| self.over(finished)));
            servers.iter().for_each(|server| out.push(self.command_to(&again, *server)));
        }
        over
    }

    fn command_to(&self, again: &Again, server: NodeId) -> Output {
        let Again { timestamp, head, ref body } = *again;
        let (body, simple_app, recver, life) = (body.clone(), true, server, self.flights.life());
        let placed = (life > 0).then(|| Placed { life, ..Placed::default() });
        let meta = Meta { head, body, simple_app, recver, placed, ..self.meta(timestamp) };
        Output::Send(Box::new(Message { meta, data: Frames::new() }))
    }

    /// An answer came.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        message: Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Option<Over<D>> {
        let Message { mut meta, data } = message;
        let pairs = pairs(data);
        let finished = if meta.simple_app {
            let response = Response { error: &meta.error, ..Response::default() };
            self.commands.obeyed(meta.timestamp, meta.sender);
            self.requests.on_response(meta.timestamp, meta.sender, response)
        } else if self.flights.has(meta.timestamp) {
            if let Some(placed) = &mut meta.placed {
                let key = self.keys.get(&(meta.timestamp, placed.slice));
                key.into_iter().for_each(|key| self.sabotage.taught(*key, placed));
            }
            self.part_answered(now, &meta, pairs, ledger, out)
        } else {
            None // Said twice, or too late.
        };
        finished.map(|finished| self.over(finished))
    }

    fn part_answered(
        &mut self,
        now: Duration,
        meta: &Meta,
        pairs: KvPairs,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Option<Finished<D>> {
        let again = meta.placed.as_ref().is_some_and(|placed| placed.again);
        let empty = meta.pull && pairs.keys.is_empty() && !again;
        let no_keys = format!("node {} answered a pull without keys", meta.sender);
        let error = if meta.error.is_empty() && empty { &no_keys } else { &meta.error };
        self.rounds.answered(now, meta.sender);
        let who = (meta.timestamp, meta.sender);
        let brought = (pairs, !error.is_empty());
        let mut messages = Vec::new();
        let answered =
            self.flights.answered(now, who, meta.placed.as_ref(), brought, &mut messages);
        if self.flights.all_answered() {
            self.rounds.rests(now);
        }
        self.dispatch(messages, ledger, out);
        let (rank, response) = match answered {
            Ok(Answered::Unknown | Answered::Open) => return None,
            Ok(Answered::Whole { rank, brought: Brought { pairs, more } }) => {
                (rank, Response { pairs, more, ..Response::default() })
            }
            Ok(Answered::Refused { rank }) => (rank, Response { error, ..Response::default() }),
            Err(error) => {
                self.flights.forget(meta.timestamp);
                return self.requests.fail(meta.timestamp, error.to_string());
            }
        };
        self.requests.on_response(meta.timestamp, server_id(rank as usize), response)
    }

    fn over(&mut self, finished: Finished<D>) -> Over<D> {
        let Finished { ts, payload, outcome } = finished;
        self.flights.forget(ts);
        let of_it = self.keys.range((ts, 0)..=(ts, u32::MAX)).map(|(name, _)| *name);
        for name in of_it.collect::<Vec<_>>() {
            self.keys.remove(&name);
        }
        self.requests.complete(ts);
        let result = outcome.map(Option::unwrap_or_default).map_err(|error| error.to_string());
        (self.name_of(ts), payload, result)
    }

    /// A server is gone: what was sent to it waits. Commands to it are obeyed by those that are
    /// left; if none is left that has one, or may have it, that waits for a policy.
    pub(super) fn lost(&mut self, now: Duration, server: NodeId) -> Vec<Over<D>> {
        self.flights.lost(now, server);
        let waiting = self.requests.tracker().waiting_for(server);
        self.commands.lost(server);
        let bound = |ts: &i32| {
            let is_local = self.local.contains(ts);
            !is_local && !self.flights.has(*ts) && !self.commands.is_orphan(*ts)
        };
        let bound: Vec<i32> = waiting.into_iter().filter(bound).collect();
        let ended: Vec<Finished<D>> =
            bound.into_iter().filter_map(|ts| self.requests.skip(ts, server)).collect();
        ended.into_iter().map(|finished| self.over(finished)).collect()
    }

    /// A message could not be sent: its receiver is gone.
    pub(super) fn unsent(&mut self, now: Duration, meta: &Meta) -> Vec<Over<D>> {
        self.lost(now, meta.recver)
    }

    /// A new policy.
    ///
    /// # Errors
    /// What waits does not fit its pieces.
    pub(super) fn policy(
        &mut self,
        now: Duration,
        word: &SchedulerMessage,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), KvError> {
        let mut messages = Vec::new();
        let done = self.flights.policy(now, word, &mut messages);
        self.dispatch(messages, ledger, out);
        done
    }

    /// Pieces have moved.
    pub(super) fn learn(&mut self, routes: &[KeyRoute]) {
        self.flights.learn(routes);
    }

    /// What waits may go now.
    ///
    /// # Errors
    /// As [`Self::policy`].
    pub(super) fn retry(
        &mut self,
        now: Duration,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), KvError> {
        if !self.flights.waits() {
            return Ok(());
        }
        let mut messages = Vec::new();
        let done = self.flights.retry(now, &mut messages);
        self.dispatch(messages, ledger, out);
        done
    }
}

pub(super) fn send(Outgoing { meta, kv }: Outgoing, out: &mut Vec<Output>) {
    out.push(Output::Send(Box::new(with_data(meta, kv))));
}
