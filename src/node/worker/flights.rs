//! A worker's requests about keys that move: gives the parts of each request to the state machine
//! in `kv`, sends what that decides, and assembles the answers. May touch `kv`, `values::kind`
//! (what a request is about) and the node.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ahead::longest;
use super::{Payload, Requests, WorkerCustomer};
use crate::base::with_data;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::flights::{Answered, Brought, Flights, Outgoing, Slice};
use pslite_core::kv::worker::Response;
use pslite_core::kv::{Failure, FailureKind, Finished, KvError};
use pslite_core::values::kind::form_of;
use pslite_core::values::{Form, KvPairs};
use pslite_core::wire::elastic::{KeyRoute, SchedulerMessage};
use pslite_core::wire::{Key, Meta, NodeId, Role, id_to_rank, server_id};
use pslite_core::worker::Begins;
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};

/// Rounds that wait to be reported; the clock takes them twenty times a second.
const ROUNDS_KEPT: usize = 1024;

impl Requests {
    /// From now on, if this job's keys may move.
    pub(super) fn follow_pieces(&mut self, node: &NodeRef, makes_keys: bool) {
        if self.flights.is_some() || !node.is_elastic() {
            return;
        }
        let homes = (0..node.settings().num_servers).map(server_id).collect();
        let (life, rank) =
            node.with_cluster(|cluster, _| (cluster.my_life(), id_to_rank(cluster.me().id)));
        // MXNet's rank 0 pushes each initial value, whether others train already or not
        // (kvstore_dist.h, InitImpl).
        let mut flights = Flights::come_back(homes, life, rank == 0 && makes_keys);
        if let Some(word) = node.policy() {
            let nothing_is_open = flights.policy(node.now(), &word, &mut Vec::new());
            debug_assert!(nothing_is_open.is_ok(), "no slice was begun");
        }
        self.flights = Some(flights);
        let trains = node.settings().role == Role::Worker;
        if let Some(spec) = node.policy().and_then(|word| word.exchange).filter(|_| trains) {
            let who = Begins { makes_keys: rank == 0 && makes_keys, is_back: life > 0 };
            self.here.begin(&spec, node, who);
        }
        for overlay in node.state().overlays() {
            // Others' sums and values may have come before.
            let mut steps = Vec::new();
            self.set_trees(node, &overlay, &mut steps);
            self.owed.append(&mut steps);
        }
    }

    /// Begins the slices of a request; what is to be sent.
    pub(super) fn begin_flights(
        &mut self,
        node: &NodeRef,
        meta: &Meta,
        slices: impl Iterator<Item = (usize, KvPairs)>,
    ) -> Result<Vec<Outgoing>> {
        // Most requests are one message: without that the vector begins with room for four.
        let mut messages = Vec::with_capacity(1);
        let Some(flights) = &mut self.flights else { return Ok(messages) };
        let now = node.now();
        if meta.push {
            // Values come down a tree with the end of the round, or not at all.
            let by_tree = self.relay.as_ref().is_some_and(|relay| relay.trees().are_any());
            flights.set_longest_ahead(if by_tree { usize::MAX } else { longest(node) });
        }
        for (rank, kv) in slices {
            let begun = messages.len();
            let first = self.ranges.get(rank).map_or(0, |range| range.begin);
            let (form, key) = form_of(meta, &kv, first);
            let slice = Slice { meta: meta.clone(), rank: rank as u32, key, form, kv };
            if let Err(error) = flights.begin(now, slice, &mut messages) {
                flights.forget(meta.timestamp);
                return Err(NodeError::Invalid(error.to_string()));
            }
            if meta.push
                && let Some(round) = self.rounds.pushed(now, key)
                && self.measured.len() < ROUNDS_KEPT
            {
                self.measured.push(round);
            }
            for message in &messages[begun..] {
                self.rounds.sent(now, message.meta.recver);
            }
        }
        self.join_tree(node.my_id(), &mut messages);
        Ok(messages)
    }

    /// A part was answered. The end of the request, if that was all of it.
    pub(super) fn part_answered(
        &mut self,
        now: Duration,
        meta: &Meta,
        pairs: KvPairs,
        out: &mut Vec<Outgoing>,
    ) -> Option<Finished<Payload>> {
        self.rounds.answered(now, meta.sender);
        let flights = self.flights.as_mut()?;
        let who = (meta.timestamp, meta.sender);
        let empty = meta.pull && pairs.keys.is_empty();
        let again = meta.placed.as_ref().is_some_and(|placed| placed.again);
        let no_keys = meta.error.is_empty() && empty && !again;
        let no_keys = no_keys.then(|| without_keys(meta.sender));
        let error = no_keys.as_ref().unwrap_or(&meta.error);
        let refused = !error.is_empty();
        let answered = flights.answered(now, who, meta.placed.as_ref(), (pairs, refused), out);
        if flights.all_answered() {
            self.rounds.rests(now);
        }
        let (rank, response) = match answered {
            Ok(Answered::Unknown | Answered::Open) => return None,
            Ok(Answered::Whole { rank, brought: Brought { pairs, more } }) => {
                (rank, Response { pairs, more, ..Response::default() })
            }
            Ok(Answered::Refused { rank }) => (rank, Response { error, ..Response::default() }),
            Err(error) => return self.misfit(meta.timestamp, &error),
        };
        let kind = MessageKind::of_request(meta);
        self.answered((meta.timestamp, server_id(rank as usize), kind), response)
    }

    /// The values of a request do not fit the pieces that its key has now.
    fn misfit(&mut self, timestamp: i32, error: &KvError) -> Option<Finished<Payload>> {
        if let Some(flights) = &mut self.flights {
            flights.forget(timestamp);
        }
        self.requests.fail(timestamp, Failure::new(FailureKind::Unfit, error.to_string()))
    }

    /// The requests that wait for a server which is gone, and no other one can answer them.
    pub(super) fn bound_to(&self, server: NodeId) -> Vec<i32> {
        let waiting = self.requests.tracker().waiting_for(server);
        let moves = |ts: &i32| self.flights.as_ref().is_some_and(|flights| flights.has(*ts));
        let here = |ts: &i32| self.ended_ahead.contains_key(ts) || self.here.has(*ts);
        waiting.into_iter().filter(|ts| !moves(ts) && !here(ts)).collect()
    }
}

/// Bytes of an element of a slice that is cut into pieces; 0: it is not cut.
pub(super) fn element_of(meta: &Meta, kv: &KvPairs, first: Key) -> u64 {
    match form_of(meta, kv, first).0 {
        Form::Dense { size } => size,
        Form::TwoBit { .. } | Form::Whole => 0,
    }
}

/// Why a pull failed that was answered with nothing.
pub(super) fn without_keys(server: NodeId) -> String {
    format!("node {server} answered a pull without keys")
}

impl WorkerCustomer {
    /// True if this customer pushes initial values: of those that share their keys the first one.
    pub(super) fn makes_keys(&self) -> bool {
        self.base.customer_id == 0 || self.has_own_keys()
    }

    /// Sends parts, and what a relay passes on. A server that is lost meanwhile answers nothing:
    /// parts wait then. If another relay is gone, the scheduler says what follows from that.
    pub(super) fn send_outgoing(&self, node: &NodeRef, messages: Vec<Outgoing>) -> Result<()> {
        for Outgoing { meta, kv } in messages {
            let (to, is_hop) = (meta.recver, meta.hop.is_some());
            if let Err(error) = node.send(with_data(meta, kv)) {
                node.failure().map_or(Ok(()), Err)?;
                if is_hop && matches!(error, NodeError::PeerLost(_)) {
                    log::write(Level::Verbose, &error.to_string());
                    continue;
                }
                if !matches!(error, NodeError::PeerLost(_)) {
                    return Err(error);
                }
                let mut state = lock(&self.requests);
                if let Some(flights) = &mut state.flights {
                    flights.lost(node.now(), to);
                }
                self.note_waits(&state);
            }
        }
        Ok(())
    }

    /// A response, where the parts of requests are followed.
    pub(super) fn part_response(
        &self,
        mut state: MutexGuard<'_, Requests>,
        meta: Meta,
        pairs: KvPairs,
    ) {
        let Ok(node) = self.node() else { return };
        let mut out = Vec::new();
        let is_part = state.flights.as_ref().is_some_and(|flights| flights.has(meta.timestamp));
        let finished = if is_part {
            state.part_answered(node.now(), &meta, pairs, &mut out)
        } else if meta.placed.is_none() {
            state.whole_answered(meta, pairs)
        } else {
            None // Said twice, or too late.
        };
        state.join_tree(node.my_id(), &mut out);
        self.note_waits(&state);
        drop(state);
        self.send_again(&node, out);
        if let Some(finished) = finished {
            self.finish(finished);
        }
    }

    /// A new policy, at a worker.
    pub(crate) fn policy(&self, word: &SchedulerMessage) {
        if !self.is_attached() {
            return;
        }
        self.flights_step(|flights, now, out| flights.policy(now, word, out));
    }

    /// Where pieces are that have moved.
    pub(crate) fn routes(&self, routes: &[KeyRoute]) {
        if self.is_attached() {
            self.flights_step(|flights, _, _| {
                flights.learn(routes);
                Ok(())
            });
        }
    }

    /// What waits may go now.
    pub(crate) fn retry(&self) {
        self.flights_step(|flights, now, out| flights.retry(now, out));
    }

    pub(super) fn flights_step(
        &self,
        step: impl FnOnce(
            &mut Flights,
            Duration,
            &mut Vec<Outgoing>,
        ) -> std::result::Result<(), KvError>,
    ) {
        let Ok(node) = self.node() else { return };
        let mut out = Vec::new();
        let mut state = lock(&self.requests);
        state.follow_pieces(&node, self.makes_keys());
        let owed = state.take_owed();
        let finished = state.do_steps(&node, owed, &mut out);
        let Some(flights) = &mut state.flights else { return };
        let stepped = step(flights, node.now(), &mut out);
        state.join_tree(node.my_id(), &mut out);
        self.note_waits(&state);
        drop(state);
        self.send_again(&node, out);
        finished.into_iter().for_each(|finished| self.finish(finished));
        if let Err(error) = stepped {
            let mut state = lock(&self.requests);
            let failed = state.requests.fail_all(error.to_string());
            if let Some(flights) = &mut state.flights {
                // Nobody waits for them any more, so none is to be tried again.
                failed.iter().for_each(|finished| flights.forget(finished.ts));
            }
            self.note_waits(&state);
            drop(state);
            failed.into_iter().for_each(|finished| self.finish(finished));
            self.tell_waiters(lock(&self.requests));
        }
    }

    /// Sends on the thread that handles answers. An error could only be told to threads that wait,
    /// and the failure of the job tells them.
    pub(super) fn send_again(&self, node: &NodeRef, messages: Vec<Outgoing>) {
        if let Err(error) = self.send_outgoing(node, messages) {
            log::write(Level::Verbose, &error.to_string());
        }
    }

    pub(super) fn note_waits(&self, state: &Requests) {
        let waits = state.flights.as_ref().is_some_and(Flights::waits) || !state.owed.is_empty();
        self.waits.store(waits, Ordering::Relaxed);
    }
}
