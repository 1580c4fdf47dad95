//! A worker: the state machine that real workers run (`kv::flights`), and a list of things to do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::keys::{KeySpec, Kind, Load};
use crate::kv::flights::{Answered, Brought, Flights, RETRY, Slice};
use crate::store::Answer;
use crate::values::{Form, KvPairs};
use crate::wire::elastic::SchedulerMessage;
use crate::wire::{Meta, NodeId};

/// What a worker does, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Waits until all workers have come so far.
    Barrier,
    /// Sends a command to all servers of the application's view that live.
    Command { head: i32, body: Bytes },
    /// The first push of all keys.
    Init,
    /// Pushes to all keys, and pulls in the same requests if `pull`. Of so many rounds, without
    /// waiting for answers in between.
    Push { rounds: std::ops::Range<u64>, pull: bool },
    /// Pulls all keys, and keeps what came.
    Pull,
}

/// What is to be sent.
pub(super) struct Sent {
    pub(super) to: NodeId,
    pub(super) meta: Meta,
    pub(super) frames: Vec<Bytes>,
}

pub(super) struct Worker {
    pub(super) id: NodeId,
    pub(super) keys: Vec<KeySpec>,
    pub(super) actions: VecDeque<Action>,
    pub(super) barriers: usize,
    pub(super) lost: BTreeSet<NodeId>,
    /// What was pulled, one entry for each time.
    pub(super) pulled: Vec<Vec<Vec<u8>>>,
    /// Whole numbers are pushed.
    pub(super) exact: bool,
    flights: Flights,
    buffers: Vec<Vec<u8>>,
    pulls: bool,
    /// Requests that are not answered: which key, and whether they pull.
    open: BTreeMap<i32, (usize, bool)>,
    commands: BTreeMap<i32, BTreeSet<NodeId>>,
    timestamp: i32,
    now: Duration,
}

impl Worker {
    pub(super) fn new(id: NodeId, keys: &[KeySpec], homes: Vec<NodeId>, exact: bool) -> Self {
        Self {
            id,
            keys: keys.to_vec(),
            actions: VecDeque::new(),
            barriers: 0,
            lost: BTreeSet::new(),
            pulled: Vec::new(),
            exact,
            flights: Flights::new(homes),
            buffers: vec![Vec::new(); keys.len()],
            pulls: false,
            open: BTreeMap::new(),
            commands: BTreeMap::new(),
            // Timestamps wrap while the test runs.
            timestamp: i32::MAX - 40,
            now: Duration::ZERO,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !(self.open.is_empty() && self.commands.is_empty())
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "worker {} waits for {:?} and {:?}, next {:?}, {:?}",
            self.id,
            self.open,
            self.commands,
            self.actions.front(),
            self.flights,
        )
    }

    /// Does the next thing, if nothing is under way. `servers`: of the application's view.
    pub(super) fn go_on(&mut self, servers: &[NodeId], passed: usize) -> Vec<Sent> {
        let mut out = Vec::new();
        if self.is_waiting() {
            return out;
        }
        if std::mem::take(&mut self.pulls) {
            self.pulled.push(self.buffers.clone());
        }
        if matches!(self.actions.front(), Some(Action::Barrier)) && passed < self.barriers + 1 {
            return out;
        }
        match self.actions.pop_front() {
            None => {}
            Some(Action::Barrier) => self.barriers += 1,
            Some(Action::Command { head, body }) => self.command(head, &body, servers, &mut out),
            Some(Action::Init) => {
                for key in 0..self.keys.len() {
                    let load = self.keys[key].init();
                    self.push(key, &load, false, &mut out);
                }
            }
            Some(Action::Push { rounds, pull }) => {
                self.pulls = pull;
                for round in rounds {
                    for key in 0..self.keys.len() {
                        let load = self.keys[key].gradient(self.id, round, self.exact);
                        // MXNet pulls rows by themselves.
                        self.push(key, &load, pull && self.keys[key].is_divisible(), &mut out);
                    }
                }
            }
            Some(Action::Pull) => {
                self.pulls = true;
                for key in 0..self.keys.len() {
                    let frames = self.keys[key].pull();
                    let head = self.keys[key].head(false);
                    self.begin(key, (head, false, true), frames, &mut out);
                }
            }
        }
        out
    }

    fn next_timestamp(&mut self) -> i32 {
        self.timestamp = self.timestamp.wrapping_add(1) & i32::MAX;
        self.timestamp
    }

    fn command(&mut self, head: i32, body: &Bytes, servers: &[NodeId], out: &mut Vec<Sent>) {
        let timestamp = self.next_timestamp();
        let servers: BTreeSet<NodeId> =
            servers.iter().copied().filter(|server| !self.lost.contains(server)).collect();
        for server in &servers {
            let meta = Meta {
                head,
                body: body.clone(),
                simple_app: true,
                request: true,
                sender: self.id,
                customer_id: 0,
                timestamp,
                ..Meta::default()
            };
            out.push(Sent { to: *server, meta, frames: Vec::new() });
        }
        self.commands.insert(timestamp, servers);
    }

    fn push(&mut self, key: usize, load: &Load, pull: bool, out: &mut Vec<Sent>) {
        let spec = self.keys[key];
        let compressed = matches!(load, Load::Compressed(_));
        let frames = spec.push(load, (0, spec.length));
        self.begin(key, (spec.head(compressed), true, pull), frames, out);
    }

    fn begin(
        &mut self,
        key: usize,
        (head, push, pull): (i32, bool, bool),
        frames: Vec<Bytes>,
        out: &mut Vec<Sent>,
    ) {
        let spec = self.keys[key];
        let timestamp = self.next_timestamp();
        if pull {
            self.buffers[key] = vec![0xaa; spec.length * spec.unit()];
        }
        let form = match spec.kind {
            Kind::Rows { .. } => Form::Whole,
            Kind::Compressed if head != spec.head(false) => Form::TwoBit { first: spec.begin },
            _ => Form::Dense { size: spec.unit() as u64 },
        };
        let meta = Meta {
            head,
            push,
            pull,
            request: true,
            sender: self.id,
            customer_id: 0,
            timestamp,
            ..Meta::default()
        };
        let [keys, vals, lens] = <[Bytes; 3]>::try_from(frames).expect("three frames");
        let kv = KvPairs { keys, vals, lens };
        let slice = Slice { meta, rank: spec.rank as u32, key: spec.wire, form, kv };
        self.open.insert(timestamp, (key, pull));
        let mut sent = Vec::new();
        self.flights.begin(self.now, slice, &mut sent).expect("it fits");
        send(sent, out);
    }

    pub(super) fn answer(&mut self, from: NodeId, answer: &Answer) -> Vec<Sent> {
        let mut out = Vec::new();
        if self.lost.contains(&from) {
            return out; // The connection is closed.
        }
        self.now += Duration::from_millis(1);
        let meta = &answer.request;
        assert_eq!(meta.error, "", "{meta:?}");
        if meta.simple_app {
            let due = self.commands.get_mut(&meta.timestamp).expect("answered once");
            assert!(due.remove(&from), "answered twice: {meta:?}");
            self.commands.retain(|_, due| !due.is_empty());
            return out;
        }
        let mut sent = Vec::new();
        let answered = self.flights.answered(
            self.now,
            (meta.timestamp, from),
            meta.placed.as_ref(),
            (answer.kv.clone(), false),
            &mut sent,
        );
        send(sent, &mut out);
        match answered.expect("it fits") {
            Answered::Open => {}
            Answered::Whole { rank, brought: Brought { pairs, more } } => {
                let (key, pull) = self.open.remove(&meta.timestamp).expect("asked for");
                assert_eq!(rank as usize, self.keys[key].rank);
                if pull {
                    let mut value = pairs.vals.to_vec();
                    more.iter().for_each(|more| value.extend_from_slice(more));
                    assert_eq!(value.len(), self.buffers[key].len(), "{meta:?}");
                    self.buffers[key] = value;
                }
            }
            other => panic!("{other:?} to {meta:?}; {}", self.describe()),
        }
        out
    }

    pub(super) fn policy(&mut self, word: &SchedulerMessage) -> Vec<Sent> {
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        self.lost.extend(&word.lost);
        self.flights.policy(self.now, word, &mut sent).expect("it fits");
        send(sent, &mut out);
        for due in self.commands.values_mut() {
            due.retain(|server| !self.lost.contains(server));
        }
        self.commands.retain(|_, due| !due.is_empty());
        out
    }

    /// Time passes.
    pub(super) fn retry(&mut self) -> Vec<Sent> {
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        self.now += RETRY;
        if self.flights.waits() {
            self.flights.retry(self.now, &mut sent).expect("it fits");
        }
        send(sent, &mut out);
        out
    }
}

fn send(sent: Vec<crate::kv::flights::Outgoing>, out: &mut Vec<Sent>) {
    out.extend(sent.into_iter().map(|one| Sent {
        to: one.meta.recver,
        meta: one.meta,
        frames: vec![one.kv.keys, one.kv.vals, one.kv.lens],
    }));
}
