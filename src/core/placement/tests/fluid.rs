//! A small simulation for the tests of this room: rounds of push and pull as fluids that share
//! cards fairly (max-min), in the time that this takes. It knows nothing of the model under test:
//! flows are between single nodes, and a round is over when the last one is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pipeline::{self, Outflows};
use crate::placement::cost::{Model, Replicas, Server, Worker};
use crate::placement::layout::{Move, PieceLoad, Plan, apply, holdings};
use crate::placement::links::{Pace, Receiver, Sample};
use crate::placement::planner::{
    CopyPairs, Duty, Members, PlacementSettings, Planner, Report, ServerMember, WorkerMember,
};
use crate::placement::stragglers::{IterationTime, Profile, ServerTime, TimedRound};
use crate::random::Random;
use crate::wire::NodeId;

/// One node: what its card and its processor can do, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) up: f64,
    pub(crate) down: f64,
    /// Bytes of pushes that it can sum.
    pub(crate) cpu: f64,
}

impl Node {
    pub(crate) const fn new(rate: f64) -> Self {
        Self { up: rate, down: rate, cpu: f64::INFINITY }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) left: f64,
    pub(super) done: f64,
}

/// Bytes of a flow in a stretch of time with one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) bytes: f64,
    /// The sender has nothing more for now.
    pub(super) ends: bool,
}

/// What one round was like.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) seconds: f64,
    /// By worker and server.
    times: BTreeMap<(NodeId, NodeId), f64>,
    handlers: BTreeMap<NodeId, f64>,
    stretches: Vec<Stretch>,
}

/// A job on virtual time.
pub(crate) struct Lab {
    pub(crate) workers: BTreeMap<NodeId, Node>,
    pub(crate) servers: BTreeMap<NodeId, Node>,
    /// Workers that take longer with everything.
    pub(crate) slow_workers: BTreeMap<NodeId, f64>,
    pub(crate) duties: BTreeMap<NodeId, Duty>,
    pub(crate) layout: Vec<PieceLoad>,
    /// Bytes to the copy for each byte of value.
    pub(crate) copies: f64,
    /// Which server keeps the copies of which, where that was decided; all others are at the next
    /// server.
    pub(crate) pairs: CopyPairs,
    /// Measured numbers are off by up to that fraction.
    pub(crate) noise: f64,
    /// Whether nodes tell what their links can do.
    pub(crate) links: bool,
    /// All nodes are on this host.
    pub(crate) host: Option<u32>,
    /// Nodes that share a card, by the number of their host; what they send each other takes no
    /// time.
    pub(crate) hosts: BTreeMap<NodeId, u32>,
    /// What moves goes over the cards, beside the round in which a plan takes effect.
    pub(crate) moves_cost: bool,
    /// A tensor is pulled when all of it was pushed (`pipeline`), in the place of all at once; and
    /// nodes tell what they can send, and whether they have more.
    pub(crate) waits: bool,
    /// Pieces cannot be cut before the first round is over, as in the store.
    pub(crate) whole_at_first: bool,
    /// What links of servers seem to be able to do, compared with what they can: for lies.
    pub(crate) seeming: BTreeMap<NodeId, f64>,
    /// Bytes per second that the processors of servers seem to leave them, for lies.
    pub(crate) paces: BTreeMap<NodeId, f64>,
    /// How many times longer everything takes with a layout, for a reason that no model has.
    pub(crate) hidden: fn(&[PieceLoad]) -> f64,
    /// Rounds between a plan and its effect.
    pub(crate) delay: u32,
    pub(crate) now: f64,
    pub(crate) planner: Planner,
    pub(crate) plans: Vec<Plan>,
    /// How often copies got other places.
    pub(crate) copy_plans: usize,
    chance: Random,
    receivers: BTreeMap<NodeId, Receiver>,
    profiles: BTreeMap<NodeId, Profile>,
    rounds: u64,
    pending: Option<(u32, Plan)>,
    /// Bytes that move in the round of now: from, to.
    moving: Vec<(NodeId, NodeId, f64)>,
    outflows: Outflows,
}

impl Lab {
    pub(crate) fn new(
        workers: &[f64],
        servers: &[f64],
        layout: Vec<PieceLoad>,
        settings: PlacementSettings,
    ) -> Self {
        let nodes = |rates: &[f64], id: fn(usize) -> NodeId| -> BTreeMap<NodeId, Node> {
            rates.iter().enumerate().map(|(rank, rate)| (id(rank), Node::new(*rate))).collect()
        };
        let workers = nodes(workers, super::jobs::worker_id);
        let servers = nodes(servers, super::jobs::server_id);
        let copies = settings.replicas.ratio();
        let mut planner = Planner::new(settings);
        planner.set_layout(layout.clone()).unwrap();
        let mut lab = Self {
            receivers: workers
                .keys()
                .chain(servers.keys())
                .map(|id| (*id, Receiver::new(*id)))
                .collect(),
            profiles: workers.keys().map(|id| (*id, Profile::new(*id))).collect(),
            duties: servers.keys().map(|id| (*id, Duty::Active)).collect(),
            slow_workers: BTreeMap::new(),
            workers,
            servers,
            layout,
            copies,
            pairs: CopyPairs::new(),
            noise: 0.0,
            links: true,
            host: None,
            hosts: BTreeMap::new(),
            moves_cost: false,
            waits: false,
            whole_at_first: false,
            seeming: BTreeMap::new(),
            paces: BTreeMap::new(),
            hidden: |_| 1.0,
            delay: 1,
            now: 0.0,
            planner,
            plans: Vec::new(),
            copy_plans: 0,
            chance: Random::new(1),
            rounds: 0,
            pending: None,
            moving: Vec::new(),
            outflows: Outflows::default(),
        };
        lab.tell_members();
        lab
    }

    pub(crate) fn tell_members(&mut self) {
        let host = |id: &NodeId| self.hosts.get(id).copied().or(self.host);
        let worker = |id: &NodeId| WorkerMember { id: *id, host: host(id) };
        let server = |id: &NodeId| ServerMember {
            id: *id,
            host: host(id),
            duty: self.duties.get(id).copied().unwrap_or_default(),
        };
        let workers = self.workers.keys().map(worker).collect();
        let servers = self.servers.keys().map(server).collect();
        self.planner.set_members(Members { workers, servers });
        for id in self.servers.keys() {
            self.receivers.entry(*id).or_insert_with(|| Receiver::new(*id));
        }
    }

    fn noisy(&mut self, number: f64) -> f64 {
        number * (1.0 + self.noise * (2.0 * self.chance.unit() - 1.0))
    }

    /// The model with what is true of all nodes.
    pub(crate) fn truth(&self) -> Model {
        let worker = |(id, node): (&NodeId, &Node)| Worker {
            id: *id,
            up: node.up,
            down: node.down,
            host: self.hosts.get(id).copied(),
        };
        let server = |(id, node): (&NodeId, &Node)| Server {
            usable: self.duties[id] == Duty::Active,
            host: self.hosts.get(id).copied(),
            ..Server::new(*id, node.up.min(node.cpu), node.down.min(node.cpu))
        };
        let replicas = match self.copies {
            0.0 => Replicas::None,
            ratio => Replicas::Given { ratio, pairs: self.pairs.clone() },
        };
        let (workers, servers) = (self.workers.iter().map(worker), self.servers.iter().map(server));
        Model::new(workers.collect(), servers.collect(), &[], &replicas)
    }

    /// T* with what is true.
    pub(crate) fn best(&self) -> f64 {
        self.truth().bound(self.layout.iter().map(|piece| piece.bytes as f64).sum())
    }

    fn flows(&self) -> Vec<Flow> {
        let held = holdings(&self.layout);
        let mut flows = Vec::new();
        for (server, holding) in &held {
            let bytes = holding.bytes as f64;
            for worker in self.workers.keys() {
                for (from, to) in [(*worker, *server), (*server, *worker)] {
                    flows.push(Flow { from, to, left: bytes, done: 0.0 });
                }
            }
        }
        for flow in &mut flows {
            if self.card(flow.from) == self.card(flow.to) {
                flow.left = 0.0;
            }
        }
        flows.extend(self.flows_beside());
        flows
    }

    /// What goes from server to server.
    pub(super) fn flows_beside(&self) -> Vec<Flow> {
        let active: Vec<NodeId> =
            self.servers.keys().copied().filter(|id| self.duties[id] == Duty::Active).collect();
        let mut flows = Vec::new();
        for (server, holding) in &holdings(&self.layout) {
            let bytes = holding.bytes as f64;
            let next = || active.iter().find(|id| *id > server).or_else(|| active.first());
            let named = self.pairs.iter().find(|(owner, _)| owner == server);
            let holder = named.map(|(_, holder)| holder).or_else(next);
            if let Some(next) = holder.filter(|next| *next != server && self.copies > 0.0) {
                flows.push(Flow { from: *server, to: *next, left: bytes * self.copies, done: 0.0 });
            }
        }
        for (from, to, bytes) in &self.moving {
            flows.push(Flow { from: *from, to: *to, left: *bytes, done: 0.0 });
        }
        for flow in &mut flows {
            if self.card(flow.from) == self.card(flow.to) {
                flow.left = 0.0;
            }
        }
        flows
    }

    /// A number for the card that a node has, alone or with others of its host.
    pub(super) fn card(&self, id: NodeId) -> NodeId {
        self.hosts.get(&id).map_or(id, |host| -1 - *host as NodeId)
    }

    /// What that card can send, or receive.
    fn card_rate(&self, id: NodeId, up: bool) -> f64 {
        let mates = self.workers.iter().chain(&self.servers);
        let mates = mates.filter(|(other, _)| self.card(**other) == self.card(id));
        mates.map(|(_, node)| if up { node.up } else { node.down }).fold(0.0, f64::max)
    }

    fn node(&self, id: NodeId) -> Node {
        self.workers.get(&id).or_else(|| self.servers.get(&id)).copied().unwrap()
    }

    /// Plays one round with the cards as they are.
    pub(crate) fn measure(&self) -> Round {
        let (flows, stretches, now) =
            if self.waits { pipeline::play(self) } else { self.play_at_once() };
        self.round_of(&flows, stretches, now)
    }

    /// All that goes over the cards at once.
    fn play_at_once(&self) -> (Vec<Flow>, Vec<Stretch>, f64) {
        let mut flows = self.flows();
        let (mut now, mut stretches) = (0.0, Vec::new());
        while flows.iter().any(|flow| flow.left > 0.0) {
            let rates = self.fair_rates(&flows);
            let step = flows.iter().zip(&rates).filter(|(flow, _)| flow.left > 0.0);
            let step = step.map(|(flow, rate)| flow.left / rate).fold(f64::INFINITY, f64::min);
            for (flow, rate) in flows.iter_mut().zip(&rates).filter(|(flow, _)| flow.left > 0.0) {
                let bytes = rate * step;
                let (from, to) = (flow.from, flow.to);
                let (start, end) = (now, now + step);
                stretches.push(Stretch { from, to, start, end, bytes, ends: false });
                flow.left = if flow.left <= bytes * (1.0 + 1e-9) { 0.0 } else { flow.left - bytes };
                flow.done = now + step;
            }
            now += step;
        }
        (flows, stretches, now)
    }

    fn round_of(&self, flows: &[Flow], stretches: Vec<Stretch>, now: f64) -> Round {
        let mut round =
            Round { seconds: now, times: BTreeMap::new(), handlers: BTreeMap::new(), stretches };
        for (server, holding) in holdings(&self.layout) {
            let work = holding.bytes as f64 * self.workers.len() as f64 / self.node(server).cpu;
            round.handlers.insert(server, work);
            for flow in flows {
                if flow.to == server && self.workers.contains_key(&flow.from) {
                    round.times.insert((flow.from, server), flow.done.max(work));
                }
            }
            for flow in flows.iter().filter(|flow| flow.from == server) {
                if let Some(time) = round.times.get_mut(&(flow.to, server)) {
                    *time = time.max(flow.done);
                }
            }
        }
        let hidden = (self.hidden)(&self.layout);
        round.times.values_mut().for_each(|time| *time *= hidden);
        round.seconds = round.times.values().copied().fold(now, f64::max);
        round
    }

    /// Fair shares: all flows grow alike until a card is full, then the others go on.
    pub(super) fn fair_rates(&self, flows: &[Flow]) -> Vec<f64> {
        let mut rates = vec![0.0; flows.len()];
        let mut open: Vec<usize> = (0..flows.len()).filter(|i| flows[*i].left > 0.0).collect();
        let mut cards = BTreeMap::<(NodeId, bool), f64>::new();
        for index in &open {
            let Flow { from, to, .. } = flows[*index];
            cards.insert((self.card(from), true), self.card_rate(from, true));
            cards.insert((self.card(to), false), self.card_rate(to, false));
        }
        while !open.is_empty() {
            let mut users = BTreeMap::<(NodeId, bool), f64>::new();
            for index in &open {
                let Flow { from, to, .. } = flows[*index];
                *users.entry((self.card(from), true)).or_default() += 1.0;
                *users.entry((self.card(to), false)).or_default() += 1.0;
            }
            let fair = |card: &(NodeId, bool)| cards[card] / users[card];
            let grow = users.keys().map(fair).fold(f64::INFINITY, f64::min);
            let full: Vec<(NodeId, bool)> =
                users.keys().copied().filter(|card| fair(card) <= grow * (1.0 + 1e-9)).collect();
            for index in &open {
                rates[*index] += grow;
            }
            for (card, count) in &users {
                *cards.get_mut(card).unwrap() -= grow * count;
            }
            let blocked = |i: &usize| {
                let Flow { from, to, .. } = flows[*i];
                full.contains(&(self.card(from), true)) || full.contains(&(self.card(to), false))
            };
            open.retain(|index| !blocked(index));
        }
        rates
    }

    /// Plays a round and all that nodes tell meanwhile. A plan takes effect when the round is over.
    /// Gives the seconds.
    pub(crate) fn round(&mut self) -> f64 {
        if let Some((wait, _)) = &mut self.pending {
            *wait -= 1;
        }
        if let Some((_, plan)) = self.pending.take_if(|(wait, _)| *wait == 0) {
            self.moving = if self.moves_cost { self.moves_of(&plan) } else { Vec::new() };
            self.layout = apply(&self.layout, &plan.moves).unwrap();
            if self.whole_at_first {
                self.make_divisible();
            }
            self.planner.set_layout(self.layout.clone()).unwrap();
            let now = Duration::from_secs_f64(self.now);
            self.profiles.values_mut().for_each(|profile| profile.switched(now));
            self.plans.push(plan);
        }
        let round = self.measure();
        self.moving.clear();
        self.replay(&round);
        self.now += round.seconds;
        self.rounds += 1;
        if self.rounds == 1 && self.whole_at_first && self.pending.is_none() {
            self.make_divisible();
        }
        self.tell_times(&round);
        self.tick();
        round.seconds
    }

    /// Bytes of value and state of each move.
    fn moves_of(&self, plan: &Plan) -> Vec<(NodeId, NodeId, f64)> {
        let bytes = |step: &Move| {
            let of = |piece: &&PieceLoad| {
                piece.key == step.key && piece.from <= step.from && step.to <= piece.to
            };
            let piece = self.layout.iter().find(of).unwrap();
            (piece.bytes_of(step.from, step.to) + piece.state_of(step.from, step.to)) as f64
        };
        let lives = |step: &&Move| self.servers.contains_key(&step.owner);
        let moves = plan.moves.iter().filter(lives);
        moves.map(|step| (step.owner, step.to_server, bytes(step))).collect()
    }

    /// From now on pieces can be cut.
    fn make_divisible(&mut self) {
        self.whole_at_first = false;
        self.layout.iter_mut().for_each(|piece| piece.divisible = true);
        self.planner.set_layout(self.layout.clone()).unwrap();
    }

    /// Samples, reports and looks of the planner, in the order of time.
    fn replay(&mut self, round: &Round) {
        const STEP: f64 = 0.1;
        let steps = (round.seconds / STEP).ceil().max(1.0) as u32;
        for step in 0..steps {
            let (start, end) =
                (f64::from(step) * STEP, (f64::from(step + 1) * STEP).min(round.seconds));
            for stretch in &round.stretches {
                let (from, to) = (stretch.start.max(start), stretch.end.min(end));
                if to > from && self.links {
                    self.feed(stretch, from, to);
                }
            }
            self.report_links(self.now + end);
            if step % 3 == 0 {
                let now = std::mem::replace(&mut self.now, 0.0);
                self.now = now + end;
                self.tick();
                self.now = now;
            }
        }
    }

    fn feed(&mut self, stretch: &Stretch, from: f64, to: f64) {
        let seeming = self.seeming.get(&stretch.to).or_else(|| self.seeming.get(&stretch.from));
        let seeming = seeming.copied().unwrap_or(1.0);
        let bytes = stretch.bytes * (to - from) / (stretch.end - stretch.start) * seeming;
        let bytes = self.noisy(bytes) as u64;
        let at = |time: f64| Duration::from_secs_f64(self.now + time);
        let (first, last) = (at(from), at(to));
        let sample = Sample { peer: stretch.from, bytes, head: 0, first, last, backlogged: true };
        let receiver = self.receivers.get_mut(&stretch.to).unwrap();
        if self.waits {
            self.outflows.add(stretch, to - from, bytes);
        }
        if stretch.ends && to == stretch.end {
            pipeline::last_messages(&sample).iter().for_each(|part| receiver.received(part));
        } else {
            receiver.received(&sample);
        }
    }

    fn report_links(&mut self, now: f64) {
        let now = Duration::from_secs_f64(now);
        for (id, receiver) in &mut self.receivers {
            let down = receiver.down(now).map(|down| down.rate);
            let up = if self.waits { self.outflows.up(*id, now, down, receiver) } else { None };
            if let Some(mut report) = receiver.report(now) {
                report.up = up;
                report.carried.up = self.outflows.take_carried(*id);
                let pace = self.paces.get(&report.node);
                report.pace = pace.map(|rate| Pace { up: *rate, down: *rate });
                self.planner.report(now, report.into());
            }
        }
    }

    fn tell_times(&mut self, round: &Round) {
        let now = Duration::from_secs_f64(self.now);
        let number = self.rounds;
        // All wait for the worker that computes longest.
        let computes = self.slow_workers.clone();
        let longest = computes.values().copied().fold(0.0, f64::max);
        for worker in self.workers.keys().copied().collect::<Vec<_>>() {
            let own = round.times.iter().filter(|((of, _), _)| *of == worker);
            let computing = computes.get(&worker).copied().unwrap_or(0.0);
            let waits = longest - computing;
            let own: Vec<_> = own.map(|((_, server), time)| (*server, *time + waits)).collect();
            let times: Vec<ServerTime> = own
                .into_iter()
                .map(|(server, seconds)| ServerTime { server, seconds: self.noisy(seconds) })
                .collect();
            let seconds = self.noisy(round.seconds + waits);
            let iteration = Some(IterationTime { seconds: seconds + computing, computing });
            let profile = self.profiles.get_mut(&worker).unwrap();
            // A microsecond later: numbers are rounded.
            let begun = Duration::from_secs_f64(self.now - round.seconds + 1e-6);
            let timed = TimedRound { number, begun, seconds, iteration, servers: &times };
            if let Some(report) = profile.round(now, &timed) {
                self.planner.report(now, report.into());
            }
        }
        self.planner.report(now, Report::Progress { round: number });
        for (server, seconds) in &round.handlers {
            self.planner.report(now, Report::Handler { server: *server, seconds: *seconds });
        }
    }

    fn tick(&mut self) {
        if self.pending.is_none()
            && let Some(pairs) = self.planner.copies(Duration::from_secs_f64(self.now))
        {
            self.planner.set_copies(pairs.clone());
            self.pairs = pairs;
            self.copy_plans += 1;
        }
        let chance = &mut self.chance;
        let plan = self.planner.tick(Duration::from_secs_f64(self.now), &mut || chance.unit());
        if plan.is_some() {
            assert!(self.pending.is_none(), "a plan while another one is carried out");
            self.pending = plan.map(|plan| (self.delay, plan));
        }
    }

    /// Plays until that many seconds have passed. Gives the seconds of all rounds.
    pub(crate) fn play(&mut self, seconds: f64) -> Vec<f64> {
        let end = self.now + seconds;
        let mut rounds = Vec::new();
        while self.now < end {
            rounds.push(self.round());
        }
        rounds
    }

    /// Bytes of values that plans moved since the one of that number, as a fraction of all.
    pub(crate) fn moved_since(&self, plan: usize) -> f64 {
        let total: f64 = self.layout.iter().map(|p| (p.bytes + p.state_bytes) as f64).sum();
        self.plans.iter().skip(plan).map(|plan| plan.moved_bytes as f64).sum::<f64>() / total
    }
}
