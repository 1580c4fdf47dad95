//! Runs a whole job: starts its processes, lets things happen in the order of their times, plays
//! the faults, and says how everybody ended. Bounded in virtual time and in steps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::app::Program;
use super::batches::Desk;
use super::disk::Disk;
use super::ledger::{Ledger, WORKERS_MAX};
use super::network::{Happening, Network, NetworkConfig, Process, Sealed};
use super::node::{End, Node, Options, World};
use super::pauses::Pauses;
use super::roles::App;
use super::roll::{Roll, Standing};
use super::server::Server;
use super::steps::Steps;
use super::trace::{Trace, fnv1a};
use super::worker::Worker;
use pslite_core::cluster::{ClusterConfig, RankOrder};
use pslite_core::random::Random;
use pslite_core::wire::{EMPTY, Node as Described, Role, SCHEDULER, Setting, ability};

/// What happens to the job, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed; the system closes its connections.
    Crash(Process),
    /// The host of the process goes down; nobody closes anything.
    Vanish(Process),
    /// The process is started (again): same address, new incarnation.
    Start(Process),
    /// Two processes do not reach each other any more.
    Cut(Process, Process),
    /// They do again.
    Mend(Process, Process),
    /// The process stands still for that long. What reaches it waits.
    Pause(Process, Duration),
}

/// A fault in our own code, for the tests of the simulation: each must be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The resenders deliver repetitions.
    DeliverRepetitions,
    /// One server leaves the n-th push out of its sum.
    ForgetPush(u64),
    /// No node notices a broken channel.
    IgnoreBrokenChannels,
    /// The others' batches do not wait for who replaces a dead worker, though their rounds do.
    FreePlaces,
    /// Each node takes its own pauses for the silence of others.
    CountPauses,
}

/// A job and its fate.
#[derive(Clone, Debug)]
pub struct JobConfig {
    /// Decides everything that chance decides.
    pub seed: u64,
    /// Workers: processes `1 + servers ..`, in that order.
    pub workers: usize,
    /// Servers: processes `1 ..= servers`. The scheduler is process 0.
    pub servers: usize,
    /// What the workers do.
    pub program: Program,
    /// How messages travel.
    pub network: NetworkConfig,
    /// The resender's timeout; none: it is off.
    pub resend: Option<Duration>,
    /// A node that ends waits until what it sent is confirmed.
    pub drain: bool,
    /// The longest wait of chance before a process starts.
    pub start_spread: Duration,
    /// What goes wrong, and when.
    pub faults: Vec<(Duration, Fault)>,
    /// What is wrong in the code.
    pub plant: Option<Plant>,
    /// `PS_HEARTBEAT_TIMEOUT`: the dead may be replaced.
    pub heartbeat_timeout: Option<Duration>,
    /// `PSLITE_START_TIMEOUT`.
    pub start_timeout: Option<Duration>,
    /// A process that was told another number of workers, and which.
    pub misled: Option<(Process, usize)>,
    /// A job that takes longer hangs.
    pub time_max: Duration,
    /// A job that has more steps hangs.
    pub steps_max: u64,
    /// Keep the text of the trace, not its hash alone.
    pub keep_trace: bool,
}

impl JobConfig {
    /// A job without faults.
    #[must_use]
    pub fn new(seed: u64, workers: usize, servers: usize) -> Self {
        Self {
            seed,
            workers: workers.min(WORKERS_MAX),
            servers,
            program: Program::default(),
            network: NetworkConfig::default(),
            resend: None,
            drain: true,
            start_spread: Duration::from_millis(20),
            faults: Vec::new(),
            plant: None,
            heartbeat_timeout: None,
            start_timeout: None,
            misled: None,
            time_max: Duration::from_secs(300),
            steps_max: 1_000_000,
            keep_trace: false,
        }
    }

    /// The number of processes.
    #[must_use]
    pub const fn processes(&self) -> usize {
        1 + self.servers + self.workers
    }

    /// The role of a process.
    #[must_use]
    pub const fn role(&self, process: Process) -> Role {
        match process {
            0 => Role::Scheduler,
            p if p <= self.servers => Role::Server,
            _ => Role::Worker,
        }
    }
}

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
#[derive(Clone, Debug)]
pub struct Report {
    /// How each process ended.
    pub ends: Vec<End>,
    /// The address of each process, as texts name it.
    pub addresses: Vec<String>,
    /// Which processes ever were in a complete job.
    pub known: Vec<bool>,
    /// What the oracle saw.
    pub ledger: Ledger,
    /// Messages that the network lost, and repeated.
    pub faults: (u64, u64),
    /// Virtual time.
    pub took: Duration,
    /// Things that happened.
    pub steps: u64,
    /// The trace.
    pub trace: Trace,
}

impl Report {
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
pub fn run(config: &JobConfig) -> Report {
    let mut job = Job::new(config);
    job.play();
    job.report()
}

struct Job<'a> {
    config: &'a JobConfig,
    now: Duration,
    random: Random,
    network: Network,
    trace: Trace,
    ledger: Ledger,
    disk: Disk,
    steps_of_death: Steps,
    nodes: Vec<Option<Node<App>>>,
    /// How often each process was started.
    starts: Vec<u64>,
    known: Vec<bool>,
    pauses: Pauses,
    agenda: BTreeMap<(Duration, usize), Fault>,
    roll: Roll,
    steps: u64,
}

impl<'a> Job<'a> {
    fn new(config: &'a JobConfig) -> Self {
        let mut random = Random::new(config.seed);
        let network = Network::new(config.network, random.split());
        let processes = config.processes();
        let begin = (0..processes).map(|p| (random.time(config.start_spread), Fault::Start(p)));
        let plan: Vec<_> = begin.chain(config.faults.iter().copied()).collect();
        let agenda =
            plan.into_iter().enumerate().map(|(i, (at, fault))| ((at, i), fault)).collect();
        Self {
            config,
            now: Duration::ZERO,
            random,
            network,
            trace: Trace::new(config.keep_trace),
            ledger: Ledger::new(config.workers),
            disk: Disk::default(),
            steps_of_death: Steps::default(),
            nodes: (0..processes).map(|_| None).collect(),
            starts: vec![0; processes],
            known: vec![false; processes],
            pauses: Pauses::default(),
            agenda,
            roll: Roll::new(processes),
            steps: 0,
        }
    }

    fn play(&mut self) {
        while self.steps < self.config.steps_max {
            if !self.roll.awaits_any() && self.agenda.is_empty() {
                return;
            }
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
            self.with(process, |node, world| node.wake(world));
        }
    }

    /// The end of a pause: what reached the process meanwhile happens now.
    fn resume(&mut self, process: Process) {
        self.pauses
            .end(process, self.now)
            .into_iter()
            .for_each(|happening| self.happened(happening));
    }

    /// Something happened to that process: how it stands may be new.
    fn settle(&mut self, process: Process) {
        let Some(node) = self.nodes.get(process).and_then(Option::as_ref) else { return };
        let over = node.is_over();
        let wake = node.next_wake().map(|wake| self.pauses.wake(process, wake));
        self.roll.set(process, Standing { wake, awaited: !over, over });
    }

    fn with(&mut self, process: Process, act: impl FnOnce(&mut Node<App>, &mut World<'_, Ledger>)) {
        let Some(node) = self.nodes.get_mut(process).and_then(Option::as_mut) else { return };
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            trace: &mut self.trace,
            ledger: &mut self.ledger,
            disk: &mut self.disk,
            steps: &mut self.steps_of_death,
        };
        act(node, &mut world);
        self.known[process] |= node.is_ready();
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

    fn fault(&mut self, fault: Fault) {
        self.trace.line(self.now, format_args!("{fault:?}"));
        let alive = |job: &Self, p: Process| {
            job.nodes.get(p).and_then(Option::as_ref).is_some_and(|node| !node.is_over())
        };
        match fault {
            Fault::Start(process) if !alive(self, process) => self.start(process),
            Fault::Crash(process) if alive(self, process) => {
                self.network.crash(self.now, process);
                self.kill(process);
            }
            Fault::Vanish(process) if alive(self, process) => {
                self.network.vanish(self.now, process);
                self.kill(process);
            }
            Fault::Cut(a, b) => self.network.cut(self.now, a, b),
            Fault::Mend(a, b) => self.network.mend(self.now, a, b),
            Fault::Pause(process, time) if alive(self, process) => {
                self.pauses.begin(process, self.now + time);
                self.settle(process);
            }
            // One that has ended cannot die, one that lives cannot start.
            Fault::Start(_) | Fault::Crash(_) | Fault::Vanish(_) | Fault::Pause(..) => {}
        }
    }

    fn kill(&mut self, process: Process) {
        self.pauses.end(process, self.now);
        self.with(process, |node, _| node.kill());
    }

    fn start(&mut self, process: Process) {
        let Some(starts) = self.starts.get_mut(process) else { return };
        *starts += 1;
        let incarnation = (process as u64 + 1) * 1000 + *starts;
        let cluster = cluster_config(self.config, process, incarnation);
        let options = Options {
            resend: self.config.resend,
            first_sequence: *starts << 32 | 1,
            drain: self.config.drain,
            deliver_repetitions: self.config.plant == Some(Plant::DeliverRepetitions),
            ignore_broken_channels: self.config.plant == Some(Plant::IgnoreBrokenChannels),
            pauses_count: self.config.plant == Some(Plant::CountPauses),
            measures: false,
            mismeasures: None,
        };
        let app = self.app(process);
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            trace: &mut self.trace,
            ledger: &mut self.ledger,
            disk: &mut self.disk,
            steps: &mut self.steps_of_death,
        };
        let node = Node::start(process, cluster, options, app, &mut world);
        self.nodes[process] = Some(node);
        self.settle(process);
    }

    fn app(&mut self, process: Process) -> App {
        let (workers, servers) = (self.config.workers, self.config.servers);
        match self.config.role(process) {
            Role::Scheduler => {
                let frees_places = self.config.plant == Some(Plant::FreePlaces);
                App::Scheduler(Box::new(Desk::new(frees_places)))
            }
            Role::Server => {
                let forgets = match self.config.plant {
                    Some(Plant::ForgetPush(push)) if process == 1 => Some(push),
                    _ => None,
                };
                App::Server(Server::new(workers, forgets))
            }
            Role::Worker => {
                let program = self.config.program.clone();
                App::Worker(Box::new(Worker::new(program, workers, servers, self.random.split())))
            }
        }
    }

    fn report(self) -> Report {
        let ends = self.nodes.iter().map(|n| n.as_ref().map_or(End::Running, Node::end)).collect();
        let address = |p: Process| describe(self.config, p, 0).address();
        let addresses = (0..self.nodes.len()).map(address).collect();
        Report {
            ends,
            addresses,
            known: self.known,
            ledger: self.ledger,
            faults: self.network.faults(),
            took: self.now,
            steps: self.steps,
            trace: self.trace,
        }
    }
}

fn hash(sealed: &Sealed) -> u64 {
    // The offset basis of FNV-1a.
    let hash = fnv1a(0xCBF2_9CE4_8422_2325, &sealed.meta);
    sealed.data.iter().fold(hash, |hash, frame| fnv1a(hash, frame))
}

fn describe(config: &JobConfig, process: Process, incarnation: u64) -> Described {
    let role = config.role(process);
    let (hostname, port) = match role {
        Role::Scheduler => ("scheduler", 9000),
        Role::Server => ("server", 7000 + process as i32),
        Role::Worker => ("worker", 8000 + process as i32),
    };
    Described {
        role,
        id: if role == Role::Scheduler { SCHEDULER } else { EMPTY },
        customer_id: 0,
        hostname: hostname.to_owned(),
        port,
        is_recovery: false,
        abilities: ability::PSLITE,
        incarnation,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    }
}

/// The limits are the defaults of `node`, but for silence, which is noticed sooner.
fn cluster_config(config: &JobConfig, process: Process, incarnation: u64) -> ClusterConfig {
    let second = Duration::from_secs(1);
    let misled = config.misled.filter(|(misled, _)| *misled == process);
    let workers = misled.map_or(config.workers, |(_, workers)| workers);
    ClusterConfig {
        role: config.role(process),
        num_workers: workers,
        num_servers: config.servers,
        node: describe(config, process, incarnation),
        // Nobody knows more of it than its address.
        scheduler: Described { abilities: 0, ..describe(config, 0, 0) },
        heartbeat_interval: Some(second),
        heartbeat_timeout: config.heartbeat_timeout,
        silence_limit: 10 * second,
        channel_down_limit: 3 * second,
        start_timeout: config.start_timeout,
        report_interval: 10 * second,
        trees: false,
        exchange: None,
        recovery_wait: 20 * second,
        standing_scheduler: false,
        replicas: None,
        planned: false,
        scheduler_wait: 60 * second,
        group_size: 1,
        instance_barriers: false,
        rank_order: RankOrder::Address,
        settings: vec![Setting::new("DMLC_NUM_WORKER", workers.to_string())],
        doubt: String::new(),
    }
}
