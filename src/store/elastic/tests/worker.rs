//! A worker as docs/elastic.md wants it: cuts by what it knows, sends again what it is told to, and what the
//! dead did not answer.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::keys::{KeySpec, Load};
use crate::kv::key_at;
use crate::store::elastic::routes::Routes;
use crate::store::mxnet::Answer;
use crate::wire::elastic::{Placed, Route, Word};
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
    /// Pushes to all keys, and pulls in the same requests if `pull`.
    Push { round: u64, pull: bool },
    /// Pulls all keys, and keeps what came.
    Pull,
}

/// A message that is not answered yet.
#[derive(Clone, Debug)]
struct Part {
    timestamp: i32,
    key: usize,
    from: u64,
    /// 0: the whole key.
    to: u64,
    push: bool,
    pull: bool,
    server: NodeId,
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
    pub(super) actions: std::collections::VecDeque<Action>,
    pub(super) barriers: usize,
    pub(super) epoch: u64,
    pub(super) homes: Vec<NodeId>,
    pub(super) lost: BTreeSet<NodeId>,
    /// What was pulled, one entry for each time.
    pub(super) pulled: Vec<Vec<Vec<u8>>>,
    /// Whole numbers are pushed.
    pub(super) exact: bool,
    routes: Vec<Routes>,
    loads: Vec<Option<Load>>,
    buffers: Vec<Vec<u8>>,
    pulls: bool,
    outstanding: Vec<Part>,
    /// Until a policy comes.
    blocked: Vec<(u64, Part)>,
    commands: BTreeMap<i32, BTreeSet<NodeId>>,
    timestamp: i32,
    pub(super) answers: usize,
}

impl Worker {
    pub(super) fn new(id: NodeId, keys: &[KeySpec], homes: Vec<NodeId>, exact: bool) -> Self {
        Self {
            id,
            keys: keys.to_vec(),
            actions: Default::default(),
            barriers: 0,
            epoch: 0,
            homes,
            lost: BTreeSet::new(),
            pulled: Vec::new(),
            exact,
            routes: vec![Routes::default(); keys.len()],
            loads: vec![None; keys.len()],
            buffers: vec![Vec::new(); keys.len()],
            pulls: false,
            outstanding: Vec::new(),
            blocked: Vec::new(),
            commands: BTreeMap::new(),
            // Timestamps wrap while the test runs.
            timestamp: i32::MAX - 40,
            answers: 0,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !(self.outstanding.is_empty() && self.blocked.is_empty() && self.commands.is_empty())
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "worker {} epoch {} waits for {:?}, blocked {:?}, commands {:?}, next {:?}",
            self.id,
            self.epoch,
            self.outstanding,
            self.blocked,
            self.commands,
            self.actions.front()
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
        match self.actions.front() {
            Some(Action::Barrier) if passed < self.barriers + 1 => return out,
            _ => {}
        }
        match self.actions.pop_front() {
            None => {}
            Some(Action::Barrier) => self.barriers += 1,
            Some(Action::Command { head, body }) => self.command(head, &body, servers, &mut out),
            Some(Action::Init) => {
                self.loads = self.keys.iter().map(|key| Some(key.init())).collect();
                self.all(true, false, &mut out);
            }
            Some(Action::Push { round, pull }) => {
                let (id, exact) = (self.id, self.exact);
                let loads = self.keys.iter().map(|key| Some(key.gradient(id, round, exact)));
                self.loads = loads.collect();
                self.all(true, pull, &mut out);
            }
            Some(Action::Pull) => self.all(false, true, &mut out),
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

    fn all(&mut self, push: bool, pull: bool, out: &mut Vec<Sent>) {
        self.pulls = pull;
        for key in 0..self.keys.len() {
            let timestamp = self.next_timestamp();
            // MXNet pulls rows by themselves.
            let pull = pull && (!push || self.keys[key].is_divisible());
            if pull {
                self.buffers[key] = vec![0xaa; self.keys[key].length * self.keys[key].unit()];
            }
            let part = Part { timestamp, key, from: 0, to: 0, push, pull, server: 0 };
            self.send(part, out);
        }
    }

    /// Cuts a part by the routes, and sends it.
    #[allow(clippy::needless_pass_by_value, reason = "who sends it has no more use for it")]
    fn send(&mut self, part: Part, out: &mut Vec<Sent>) {
        let spec = self.keys[part.key];
        let (from, to) = if part.to == 0 { (0, spec.length as u64) } else { (part.from, part.to) };
        let routes: Vec<Route> = self.routes[part.key].about(from, to).copied().collect();
        let covered: u64 = routes.iter().map(|r| r.to.min(to) - r.from.max(from)).sum();
        if covered < to - from {
            assert_eq!(part.to, 0, "a piece whose owner is not known: {part:?} {routes:?}");
            let server = self.home(&spec);
            return self.send_to(Part { from: 0, to: 0, server, ..part }, 0, out);
        }
        for route in routes {
            let (from, to) = (route.from.max(from), route.to.min(to));
            let piece = Part { from, to, server: route.owner, ..part.clone() };
            self.send_to(piece, route.term, out);
        }
    }

    fn home(&self, spec: &KeySpec) -> NodeId {
        let width = u64::MAX / self.homes.len() as u64;
        self.homes[(spec.wire / width) as usize]
    }

    fn send_to(&mut self, part: Part, term: u64, out: &mut Vec<Sent>) {
        let spec = self.keys[part.key];
        let range =
            if part.to == 0 { (0, spec.length) } else { (part.from as usize, part.to as usize) };
        let frames = match self.loads[part.key].as_ref().filter(|_| part.push) {
            Some(load) => spec.push(load, range),
            None => spec.pull(),
        };
        let compressed = matches!(self.loads[part.key], Some(Load::Compressed(_)));
        let meta = Meta {
            head: spec.head(part.push && compressed),
            push: part.push,
            pull: part.pull,
            request: true,
            sender: self.id,
            customer_id: 0,
            timestamp: part.timestamp,
            placed: Some(Placed {
                slice: part.key as u32,
                from: part.from,
                to: part.to,
                term,
                epoch: self.epoch,
                ..Placed::default()
            }),
            ..Meta::default()
        };
        out.push(Sent { to: part.server, meta, frames });
        self.outstanding.push(part);
    }

    pub(super) fn answer(&mut self, from: NodeId, answer: &Answer) -> Vec<Sent> {
        let mut out = Vec::new();
        if self.lost.contains(&from) {
            return out; // The connection is closed.
        }
        let meta = &answer.request;
        assert_eq!(meta.error, "", "{meta:?}");
        if meta.simple_app {
            let due = self.commands.get_mut(&meta.timestamp).expect("answered once");
            assert!(due.remove(&from), "answered twice: {meta:?}");
            self.commands.retain(|_, due| !due.is_empty());
            return out;
        }
        let placed = meta.placed.as_ref().expect("placed is echoed");
        let at = self.outstanding.iter().position(|part| {
            (part.timestamp, part.from, part.to, part.server)
                == (meta.timestamp, placed.from, placed.to, from)
        });
        let at = at.unwrap_or_else(|| panic!("nobody waits for {meta:?}; {}", self.describe()));
        let part = self.outstanding.remove(at);
        assert_eq!(placed.slice as usize, part.key);
        for route in &placed.routes {
            self.routes[part.key].learn(*route);
        }
        if placed.again {
            if placed.epoch > self.epoch {
                self.blocked.push((placed.epoch, part));
            } else {
                self.send(part, &mut out);
            }
            return out;
        }
        self.answers += 1;
        if part.pull {
            let spec = &self.keys[part.key];
            assert_eq!(key_at(&answer.kv.keys, 0), Some(spec.wire));
            let (from, to) = if part.to == 0 {
                (0, spec.length)
            } else {
                (part.from as usize, part.to as usize)
            };
            let unit = spec.unit();
            assert_eq!(answer.kv.vals.len(), (to - from) * unit, "{meta:?}");
            self.buffers[part.key][from * unit..to * unit].copy_from_slice(&answer.kv.vals);
        }
        out
    }

    pub(super) fn policy(&mut self, word: &Word) -> Vec<Sent> {
        let mut out = Vec::new();
        self.epoch = word.epoch;
        self.homes.clone_from(&word.homes);
        self.lost.extend(&word.lost);
        for route in &word.routes {
            if let Some(key) = self.keys.iter().position(|key| key.wire == route.key) {
                self.routes[key].learn(route.route);
            }
        }
        for due in self.commands.values_mut() {
            due.retain(|server| !self.lost.contains(server));
        }
        self.commands.retain(|_, due| !due.is_empty());
        let (again, kept) = std::mem::take(&mut self.outstanding)
            .into_iter()
            .partition::<Vec<_>, _>(|part| self.lost.contains(&part.server));
        self.outstanding = kept;
        let (due, blocked) = std::mem::take(&mut self.blocked)
            .into_iter()
            .partition::<Vec<_>, _>(|(epoch, _)| *epoch <= word.epoch);
        self.blocked = blocked;
        for part in again.into_iter().chain(due.into_iter().map(|(_, part)| part)) {
            self.send(part, &mut out);
        }
        out
    }
}
