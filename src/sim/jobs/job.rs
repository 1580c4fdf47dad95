//! Runs a job: starts its processes, lets things happen in the order of their times, plays
//! the faults, and says how everybody ended. Bounded in virtual time and in steps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::{Fault, JobConfig, LinkedSites};
use super::guard::Guard;
use super::ledger::Ledger;
use super::ledger::reference::ReferencePlan;
use super::nodes::{JobApp, Maker, cluster_config, describe};
use super::promises;
use super::sabotage::Sabotage;
use crate::app::Judge;
use crate::disk::Disk;
use crate::network::{Happening, Network, Process, Sealed};
use crate::node::{End, Node, Options, World};
use crate::pauses::Pauses;
use crate::roll::{Roll, Standing};
use crate::steps::Steps;
use crate::trace::{Trace, fnv1a};
use pslite_core::cluster::Cluster;
use pslite_core::cluster::journal::{Record, State};
use pslite_core::placement::graph::SiteRoutes;
use pslite_core::placement::graph::text::MBIT;
use pslite_core::random::Random;
use pslite_core::values::server_key_ranges;

/// A death that is not allowed yet is tried again after that time.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// How a job went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everybody went through the program and left.
    Completed,
    /// Everybody ended, some with a text.
    Failed,
    /// Somebody still waits.
    Hung,
}

/// What a run showed.
pub struct JobReport {
    /// How each process ended.
    pub ends: Vec<End>,
    /// The address of each process, as texts name it.
    pub addresses: Vec<String>,
    /// Which processes ever were in a complete job.
    pub known: Vec<bool>,
    /// Messages that the network lost, and repeated.
    pub faults: (u64, u64),
    /// What the oracle saw.
    pub ledger: Ledger,
    /// Virtual time.
    pub took: Duration,
    /// Things that happened.
    pub steps: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of all messages without data.
    pub words: u64,
    /// Servers that died, or were declared dead.
    pub deaths: usize,
    /// The newest policy.
    pub epoch: u64,
    /// The trace.
    pub trace: Trace,
}

impl JobReport {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.ledger.faults().is_empty()
    }

    /// How the job went.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if self.ends.contains(&End::Running) {
            Outcome::Hung
        } else if self.ends.iter().all(|end| *end == End::Done) {
            Outcome::Completed
        } else {
            Outcome::Failed
        }
    }
}

/// Runs a job to its end.
#[must_use]
pub fn run(config: &JobConfig) -> JobReport {
    let mut job = Job::new(config);
    job.play();
    job.report()
}

pub(super) struct Job<'a> {
    pub(super) config: &'a JobConfig,
    pub(super) now: Duration,
    random: Random,
    network: Network,
    trace: Trace,
    pub(super) ledger: Ledger,
    disk: Disk,
    steps_of_death: Steps,
    maker: Maker,
    pub(super) nodes: Vec<Option<Node<JobApp>>>,
    /// How often each process was started.
    starts: Vec<u64>,
    /// Which processes ever were in a complete job.
    known: Vec<bool>,
    pauses: Pauses,
    agenda: BTreeMap<(Duration, u64), Fault>,
    planned: u64,
    roll: Roll,
    /// Processes of the beginning that have not started yet.
    unstarted: usize,
    guard: Guard,
    deaths: usize,
    epoch: u64,
    steps: u64,
}

impl<'a> Job<'a> {
    fn new(config: &'a JobConfig) -> Self {
        let mut random = Random::new(config.seed);
        let mut network = Network::new(config.network, random.split());
        network.reset_edges(&config.edges);
        if let Some(sites) = &config.sites {
            place(&mut network, config, sites);
        }
        let ranges = server_key_ranges(config.servers);
        let customers = config.program.customers();
        let tensors = config.tensors.make(&ranges, customers);
        let plan = ReferencePlan {
            mortal: config.elastic_workers,
            workers: config.workers,
            ranges,
            multi_precision: config.program.multi_precision,
            compression: config.program.compression(),
            rules: (0..customers).map(|customer| config.program.rules(customer)).collect(),
        };
        let mut job = Self {
            config,
            now: Duration::ZERO,
            random,
            network,
            trace: Trace::new(config.keep_trace),
            ledger: Ledger::new(plan, tensors.clone(), config.counts()),
            disk: Disk::default(),
            steps_of_death: Steps::default(),
            maker: Maker::new(config, tensors),
            nodes: (0..config.processes()).map(|_| None).collect(),
            starts: vec![0; config.processes()],
            known: vec![false; config.processes()],
            pauses: Pauses::default(),
            agenda: BTreeMap::new(),
            planned: 0,
            roll: Roll::new(config.processes()),
            unstarted: 1 + config.servers + config.workers,
            guard: Guard::default(),
            deaths: 0,
            epoch: 0,
            steps: 0,
        };
        if let Some(sessions) = config.sessions {
            let end = config.program.rounds;
            job.ledger.shares_batches(sessions.total, sessions.ahead, end);
            if config.stays.is_some_and(|stays| stays.heartbeat_timeout.is_some()) {
                job.ledger.keeps_places();
            }
        }
        for process in 0..=config.servers + config.workers {
            let at = job.random.time(config.start_spread);
            job.plan(at, Fault::Start(process));
        }
        for (at, fault) in &config.faults {
            job.plan(*at, *fault);
        }
        if config.stays.is_none() {
            job.plan(config.heal, Fault::Heal);
        }
        job
    }

    fn plan(&mut self, at: Duration, fault: Fault) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), fault);
    }

    fn play(&mut self) {
        while self.steps < self.config.steps_max && !self.is_over() {
            let planned = self.agenda.keys().next().map(|(at, _)| *at);
            let times = [self.network.next(), planned, self.roll.next_wake()];
            let Some(next) = times.into_iter().flatten().min() else { return };
            if next > self.config.time_max {
                return;
            }
            self.now = self.now.max(next);
            self.steps += 1;
            self.step();
        }
    }

    /// All who were ever in the job have ended. One that only wanted to join is not waited for. If
    /// keys stay, who was started is, and nobody is to be started any more.
    fn is_over(&self) -> bool {
        let all_over = self.unstarted == 0 && !self.roll.awaits_any() && self.roll.any_over();
        all_over && (self.config.stays.is_none() || self.agenda.is_empty())
    }

    /// True if the job is not over before that node is. One that wants to join is not waited for.
    const fn is_awaited(&self, node: &Node<JobApp>) -> bool {
        node.is_ready() || self.config.stays.is_some()
    }

    /// Something happened to that process: how it stands may be new.
    fn settle(&mut self, process: Process) {
        let Some(node) = self.nodes.get(process).and_then(Option::as_ref) else { return };
        let standing = Standing {
            wake: node.next_wake().map(|wake| self.pauses.wake(process, wake)),
            awaited: self.is_awaited(node) && !node.is_over(),
            // The end of a server alone is not the end of the job.
            over: node.is_over() && process > self.config.servers,
        };
        self.roll.set(process, standing);
    }

    /// One thing that is due: messages first, then the plan, then the clocks.
    fn step(&mut self) {
        if let Some(happening) = self.network.pop(self.now) {
            if let Some(happening) = self.pauses.pass(happening) {
                self.happened(happening);
            }
            return;
        }
        if let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let fault = entry.remove();
            return self.fault(fault);
        }
        for process in self.roll.due(self.now) {
            self.resume(process);
            self.with(process, Node::wake);
        }
    }

    /// The end of a pause: what reached the process meanwhile happens now.
    fn resume(&mut self, process: Process) {
        let waiting = self.pauses.end(process, self.now);
        self.settle(process);
        waiting.into_iter().for_each(|happening| self.happened(happening));
    }

    fn with(
        &mut self,
        process: Process,
        act: impl FnOnce(&mut Node<JobApp>, &mut World<'_, Ledger>),
    ) {
        let Some(node) = self.nodes.get_mut(process).and_then(Option::as_mut) else { return };
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            trace: &mut self.trace,
            ledger: &mut self.ledger,
            disk: &mut self.disk,
            steps: &mut self.steps_of_death,
        };
        let known = world.ledger.faults().len();
        act(node, &mut world);
        world.ledger.promised(process, promises::check(node, self.steps, self.config.is_planned()));
        for text in self.ledger.take_said() {
            self.trace.note(self.now, format_args!("p{process} says {text}"));
        }
        for fault in self.ledger.faults().iter().skip(known) {
            self.trace.note(self.now, format_args!("WRONG {fault}"));
        }
        let (doomed, over, id) = (node.is_doomed(), node.is_over(), node.cluster().me().id);
        self.epoch = self.epoch.max(node.cluster().policy().epoch);
        self.known[process] |= node.is_ready();
        if doomed {
            self.trace.line(self.now, format_args!("p{process} dies at a step"));
            self.kill(process, Network::end);
        } else if over && self.config.is_server(process) {
            self.ledger.gone(id);
        }
        self.settle(process);
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Arrived { to, from, kept, sealed } => {
                let hash = hash(&sealed);
                self.trace.line(self.now, format_args!("p{to} gets {hash:016x} from {from:?}"));
                self.with(to, |node, world| node.arrived(world, from, kept, sealed));
            }
            Happening::Channel { process, connection, up } => {
                self.with(process, |node, world| node.channel(world, connection, up));
            }
        }
    }

    // ---- faults ---------------------------------------------------------------------------------

    pub(super) fn lives(&self, process: Process) -> bool {
        self.nodes.get(process).and_then(Option::as_ref).is_some_and(|node| !node.is_over())
    }

    fn fault(&mut self, fault: Fault) {
        if let Some(worker) = self.config.worker_lost_by(&fault)
            && !self.may_go(worker)
        {
            if self.now < self.config.heal {
                self.plan(self.now + TRY_AGAIN, fault);
            }
            return;
        }
        let deadly = self.config.is_guarded(&fault);
        if deadly && !self.may_die(&fault) {
            if self.now < self.config.heal {
                self.plan(self.now + TRY_AGAIN, fault);
            }
            return;
        }
        if deadly {
            // Not two at a time.
            self.steps_of_death.disarm();
        }
        self.trace.line(self.now, format_args!("{fault:?}"));
        match fault {
            // The real one finds that the job of its journal has ended.
            Fault::Start(0) if self.ended() => {}
            Fault::Start(process) if !self.lives(process) => self.start(process),
            Fault::Crash(process) if self.lives(process) => self.kill(process, Network::crash),
            Fault::Vanish(process) if self.lives(process) => self.kill(process, Network::vanish),
            Fault::Death(death) => self.steps_of_death.arm(death),
            Fault::Cut(a, b) => self.network.cut(self.now, a, b),
            Fault::Mend(a, b) => self.network.mend(self.now, a, b),
            Fault::Stall(from, to) => self.network.stall(from, to),
            Fault::Flow(from, to) => self.network.flow(self.now, from, to),
            Fault::Pause(process, time) | Fault::StandStill(process, time) => {
                self.pauses.begin(process, self.now + time);
                self.settle(process);
            }
            Fault::Rates(process, rates) => self.network.set_rates(process, rates),
            Fault::Edge(from, to, edge) => self.network.set_edge(from, to, edge),
            Fault::Links(number) => self.links(number),
            Fault::Heal => self.heal(),
            // One that has ended cannot die, one that lives cannot start.
            Fault::Start(_) | Fault::Crash(_) | Fault::Vanish(_) => {}
        }
    }

    /// Links between sites have the rates of that number.
    fn links(&mut self, number: usize) {
        let graph = self.config.sites.as_ref().and_then(|sites| sites.rates.get(number));
        for (graph, edge) in graph.iter().flat_map(|graph| graph.edges().map(move |e| (graph, e))) {
            let mbit = graph.rate(edge) / MBIT;
            let ends = [edge.from + 1, edge.to + 1];
            self.trace
                .note(self.now, format_args!("link {} to {}: {mbit:.1} Mbit/s", ends[0], ends[1]));
            self.network.set_link([edge.from, edge.to], graph.rate(edge) as u64);
        }
    }

    /// True if a fault that may cost a server may come now.
    fn may_die(&mut self, fault: &Fault) -> bool {
        let mut guard = std::mem::take(&mut self.guard);
        let may = guard.allows(self, fault);
        self.guard = guard;
        may
    }

    /// True if that worker may be lost now: it trains, and so does another one that is in the
    /// policy and not about to be lost.
    fn may_go(&self, worker: Process) -> bool {
        let scheduler = self.nodes.first().and_then(Option::as_ref).filter(|node| !node.is_over());
        let Some(scheduler) = scheduler.map(Node::cluster) else { return false };
        let trains = |process: &Process| {
            let node = self.nodes.get(*process).and_then(Option::as_ref);
            let node = node
                .filter(|node| !node.is_over() && !self.pauses.may_seem_dead(*process, self.now));
            node.is_some_and(|node| {
                let (me, live) = (node.cluster().me(), &scheduler.policy().live);
                let named = live.iter().any(|w| (w.node, w.incarnation) == (me.id, me.incarnation));
                let trains = matches!(node.app(), JobApp::Worker(worker) if worker.trains());
                named && !scheduler.is_gone(me.id) && trains
            })
        };
        let mut others = 0..self.nodes.len();
        trains(&worker) && others.any(|other| other != worker && trains(&other))
    }

    fn heal(&mut self) {
        self.steps_of_death.disarm();
        self.network.heal(self.now);
        self.pauses.processes().into_iter().for_each(|process| self.resume(process));
        (0..self.nodes.len()).for_each(|process| self.network.set_rates(process, None));
        self.network.reset_edges(&self.config.edges);
        if !self.lives(0) && self.config.journal && !self.ended() {
            self.start(0);
        }
    }

    /// True if a scheduler that is started has nothing to go on with.
    fn ended(&self) -> bool {
        self.journal().ended
    }

    fn kill(&mut self, process: Process, how: fn(&mut Network, Duration, Process)) {
        how(&mut self.network, self.now, process);
        let Some(node) = self.nodes.get_mut(process).and_then(Option::as_mut) else { return };
        node.kill();
        self.pauses.end(process, self.now);
        if self.config.is_server(process) {
            let id = node.cluster().me().id;
            self.deaths += 1;
            self.ledger.gone(id);
        }
        self.settle(process);
    }

    fn journal(&self) -> State {
        let mut state = State::default();
        for bytes in self.disk.journal() {
            if let Some(record) = Record::from_bytes(bytes) {
                let kept = record
                    .change
                    .as_ref()
                    .is_some_and(|change| !Sabotage::loses(self.config.plant, change));
                if kept {
                    state.apply(&record);
                }
            }
        }
        state
    }

    fn start(&mut self, process: Process) {
        let again = self.starts[process] > 0;
        let first = !again && process <= self.config.servers + self.config.workers;
        self.unstarted -= usize::from(first);
        self.starts[process] += 1;
        self.ledger.started(process);
        let incarnation = (process as u64 + 1) * 1000 + self.starts[process];
        let cluster = cluster_config(self.config, process, incarnation, again);
        let options = Options {
            resend: self.config.resend,
            first_sequence: self.starts[process] << 32 | 1,
            drain: self.config.stays.is_none_or(|stays| !stays.hurries),
            deliver_repetitions: Sabotage::repeats(self.config.plant),
            answers_the_lost: Sabotage::answers_the_lost(self.config.plant),
            ignore_broken_channels: Sabotage::sees_no_breaks(self.config.plant),
            pauses_count: Sabotage::counts_pauses(self.config.plant),
            servers: self.config.servers,
            forgets_classes: Sabotage::forgets_classes(self.config.plant),
            measures: self.config.is_planned(),
            mismeasures: Sabotage::measures(self.config.plant),
        };
        let app = self.maker.app(self.config, process, self.random.split());
        let machine = if process == 0 && again {
            match Cluster::resume(cluster.clone(), &self.journal(), self.now) {
                Ok(machine) => machine,
                Err(error) => {
                    return self.ledger.fault(format!("the journal is no good: {error}"));
                }
            }
        } else {
            Cluster::new(cluster.clone(), self.now)
        };
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            trace: &mut self.trace,
            ledger: &mut self.ledger,
            disk: &mut self.disk,
            steps: &mut self.steps_of_death,
        };
        let node = Node::join(process, machine, &cluster, options, app, &mut world);
        self.nodes[process] = Some(node);
        self.settle(process);
    }

    // ---- the end --------------------------------------------------------------------------------

    fn report(mut self) -> JobReport {
        let (hung, failed) = self.judge();
        self.ledger.ended(&hung, &failed);
        let scheduler = self.nodes.first().and_then(Option::as_ref);
        if let Some((placement, scheduler)) = self.config.placement.as_ref().zip(scheduler) {
            let nodes = self.nodes.iter().enumerate();
            let nodes = nodes
                .filter_map(|(process, node)| Some((process, node.as_ref()?.cluster().me().id)));
            let (nodes, cluster) = (nodes.collect(), scheduler.cluster());
            self.ledger.judge_placement(placement, self.config, cluster, &nodes);
        }
        if let Some((sites, scheduler)) = self.config.sites.as_ref().zip(scheduler) {
            self.ledger.judge_trees(sites, self.config, scheduler.cluster());
        }
        for text in self.ledger.take_said() {
            self.trace.note(self.now, format_args!("{text}"));
        }
        let ends = self.nodes.iter().map(|n| n.as_ref().map_or(End::Running, Node::end)).collect();
        let address = |process| describe(self.config, process, 0, false).address();
        JobReport {
            ends,
            addresses: (0..self.nodes.len()).map(address).collect(),
            known: self.known,
            faults: self.network.faults(),
            ledger: self.ledger,
            took: self.now,
            steps: self.steps,
            messages: self.network.sent(),
            words: self.network.words(),
            deaths: self.deaths,
            epoch: self.epoch,
            trace: self.trace,
        }
    }

    /// True if that is a worker that the last policy does not name: it ends when it hears of that,
    /// or of nobody any more.
    fn is_given_up(&self, process: Process) -> bool {
        let node = |process: Process| self.nodes.get(process).and_then(Option::as_ref);
        let (Some(scheduler), Some(node)) = (node(0), node(process)) else { return false };
        let (me, live) = (node.cluster().me(), &scheduler.cluster().policy().live);
        let named = live.iter().any(|w| (w.node, w.incarnation) == (me.id, me.incarnation));
        self.config.elastic_workers && self.config.is_worker(process) && !named
    }

    /// Who hangs, and who ended with an error that was not due.
    fn judge(&self) -> (Vec<String>, Vec<String>) {
        let (mut hung, mut failed) = (Vec::new(), Vec::new());
        for (process, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let id = node.cluster().me().id;
            let detail = match node.app() {
                JobApp::Worker(worker) => worker.describe(),
                _ => format!("id {id}"),
            };
            // Who came too late, or was given up, is not missed.
            let out = self.config.is_server(process)
                && (self.ledger.is_gone(id) || !self.is_awaited(node));
            let lost = |(_, fault): &(_, Fault)| self.config.worker_lost_by(fault) == Some(process);
            let may_fail = self.config.may_fail || self.config.faults.iter().any(lost);
            let out = out || (may_fail && self.is_given_up(process));
            match node.end() {
                End::Running if !node.is_over() && !out && (!may_fail || self.is_awaited(node)) => {
                    hung.push(format!("p{process} ({detail})"));
                }
                End::Failed(text) if !may_fail && !out => {
                    failed.push(format!("p{process} ({detail}): {text}"));
                }
                _ => {}
            }
        }
        (hung, failed)
    }
}

/// Who is at which site, and which links are on the way between sites.
fn place(network: &mut Network, config: &JobConfig, sites: &LinkedSites) {
    for process in 0..config.processes() {
        if let Some(site) = config.site(process) {
            network.place(process, site);
        }
    }
    let (number, routes) = (sites.told.names.len(), SiteRoutes::new(&sites.told.graph));
    for ends in (0..number).flat_map(|from| (0..number).map(move |to| [from, to])) {
        let [from, to] = ends;
        if from != to {
            network.set_way(ends, &routes.path(from, to));
        }
    }
}

fn hash(sealed: &Sealed) -> u64 {
    // The offset basis of FNV-1a.
    let hash = fnv1a(0xCBF2_9CE4_8422_2325, &sealed.meta);
    sealed.data.iter().fold(hash, |hash, frame| fnv1a(hash, frame))
}
