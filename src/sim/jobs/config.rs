//! A job and its fate, as a test or a seed describes it.

use std::time::Duration;

use super::sabotage::Plant;
use super::script::Program;
use super::workload::Tensors;
use crate::network::{LinkModel, NetworkConfig, Process, Rates};
use crate::steps::DeathAt;
use pslite_core::placement::graph::{Graph, NamedGraph, Topology};
use pslite_core::store::SumOrder;
use pslite_core::wire::balance::BalanceRule;
use pslite_core::wire::exchange::ExchangeSpec;

/// The longest pause that nobody takes for a death.
pub(super) const UNNOTICED: Duration = Duration::from_millis(250);

/// What happens to the job, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is started (again): same address, new incarnation.
    Start(Process),
    /// The process is killed; the system closes its connections. A worker only if another one
    /// trains, in the middle of training. A server only if what it has is safe elsewhere, unless
    /// the job may fail; else as soon as that is so.
    Crash(Process),
    /// The host of the process goes down; nobody closes anything. Servers as above.
    Vanish(Process),
    /// The next process at which that step happens dies there, under the same condition.
    Death(DeathAt),
    /// Two processes do not reach each other any more; their connections break.
    Cut(Process, Process),
    /// They do again.
    Mend(Process, Process),
    /// Nothing goes from the first to the second any more, and nobody notices.
    Stall(Process, Process),
    /// It does again.
    Flow(Process, Process),
    /// The process does nothing for that long. What reaches it waits.
    Pause(Process, Duration),
    /// The same, while all others stand still too, so that nobody is to be taken for dead.
    StandStill(Process, Duration),
    /// The lines of the process have these rates from now on; none: no limit.
    Rates(Process, Option<Rates>),
    /// That is between the first process and the second from now on, in that direction; none: what
    /// is between all others.
    Edge(Process, Process, Option<LinkModel>),
    /// From now on the links between sites have the rates of that entry of [`LinkedSites::rates`].
    Links(usize),
    /// All directions are open, all pauses over, and nobody dies any more.
    Heal,
}

/// How the trees of a job change.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// The longest time between two overlays.
    pub every: Duration,
    /// So many percent of the overlays say that what went along the former ones may be lost.
    pub lossy: u32,
    /// So many percent of what goes along a tree are lost.
    pub hop_loss: u32,
}

/// When a worker reports a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// As the library measures it: when its last tensor is pushed; the first one later.
    Measured,
    /// When it is computed, before it is pushed.
    Before,
    /// When all is answered.
    After,
}

/// Workers that share the samples of each iteration (`docs/lbbsp.md`).
#[derive(Clone, Copy, Debug)]
pub struct Sessions {
    /// Samples of an iteration.
    pub total: u32,
    /// Batches that a worker takes before it computes them.
    pub ahead: u32,
    /// What sets the sizes.
    pub rule: BalanceRule,
    /// When a batch is reported.
    pub reports: Reports,
    /// A worker that came back computes as many iterations as the others, not up to the same one.
    pub by_count: bool,
}

/// Workers that train while deltas travel (`docs/nbsync.md`).
#[derive(Clone, Copy, Debug)]
pub struct Exchanges {
    /// How.
    pub spec: ExchangeSpec,
    /// How many iterations each worker computes, by rank.
    pub iterations: [u64; 3],
    /// The longest that the fastest worker computes in an iteration.
    pub compute: Duration,
    /// At its end each worker waits until all are equal.
    pub finishes: bool,
    /// Programs step their values themselves (`pslite.sync`): there is no optimizer.
    pub by_program: bool,
}

/// Keys are placed by what nodes measure (`docs/placement.md`), and workers go from iteration to
/// iteration: all tensors are pushed and pulled before the next one.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The last iterations, which are judged.
    pub judged: u64,
    /// They take so many times what the network allows, at most.
    pub within: f64,
}

/// Nodes are at sites with links between them, and rounds go along trees that are planned by what
/// those carry (`docs/trees.md`). Workers go from iteration to iteration as where keys are placed.
/// The worker of rank r is at site r, and so is the server; where there are more, they begin again
/// at the first one.
#[derive(Clone, Debug)]
pub struct LinkedSites {
    /// The links as the scheduler is told of them (`PSLITE_LINKS`). A host is named as its site.
    pub told: NamedGraph,
    /// How trees are made.
    pub topology: Topology,
    /// Bytes of a part, before they count as more ([`Chunks::weight`]).
    ///
    /// [`Chunks::weight`]: crate::network::Chunks::weight
    pub part_bytes: usize,
    /// The links as they are: the same, with other rates.
    pub rates: Vec<Graph>,
    /// The last iterations, which are judged.
    pub judged: u64,
    /// They take so many times what the best trees would, at most.
    pub within: f64,
}

/// A job whose keys stay where they are, as in all of stock's (`PSLITE_ELASTIC=0`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Stays {
    /// `PS_HEARTBEAT_TIMEOUT`: the dead may be replaced.
    pub heartbeat_timeout: Option<Duration>,
    /// `PSLITE_START_TIMEOUT`.
    pub start_timeout: Option<Duration>,
    /// A process that was told another number of workers, and which.
    pub misled: Option<(Process, usize)>,
    /// The worker of that rank takes its leave after so many rounds, without its further pushes.
    pub leaves: Option<(usize, u64)>,
    /// A node that ends does not wait until what it sent is confirmed.
    pub hurries: bool,
}

/// A job and its fate.
#[derive(Clone, Debug)]
pub struct JobConfig {
    /// Decides everything that chance decides.
    pub seed: u64,
    /// Workers: processes `1 + servers ..`.
    pub workers: usize,
    /// Servers that the job begins with: processes `1 ..= servers`. The scheduler is process 0.
    pub servers: usize,
    /// Servers that may join: the processes after the workers, each when it is started.
    pub joiners: usize,
    /// Copies of each piece.
    pub replicas: u32,
    /// In which order servers sum.
    pub order: SumOrder,
    /// What the workers do.
    pub program: Program,
    /// On what.
    pub tensors: Tensors,
    /// The longest that a worker computes between two pushes of a tensor.
    pub compute: Duration,
    /// So many percent of pushes are followed by a pull.
    pub pulls: u32,
    /// How messages travel.
    pub network: NetworkConfig,
    /// Which edges are not like all others, until a fault says otherwise: the network as a graph.
    pub edges: Vec<(Process, Process, LinkModel)>,
    /// Data have connections of their own, which keep what they carry. Else they take the stock
    /// wire.
    pub native: bool,
    /// The resender's timeout, if it is on.
    pub resend: Option<Duration>,
    /// The longest time between two random moves; none: nothing moves but by need.
    pub move_every: Option<Duration>,
    /// Rounds go along trees.
    pub trees: Option<Trees>,
    /// When some server is to be emptied.
    pub drains: Vec<Duration>,
    /// Nobody dies for a worker's death: the others go on, and it may come back.
    pub elastic_workers: bool,
    /// Workers share the samples of each iteration.
    pub sessions: Option<Sessions>,
    /// Workers exchange deltas.
    pub exchange: Option<Exchanges>,
    /// Keys are placed.
    pub placement: Option<Placement>,
    /// Trees are planned by what links carry.
    pub sites: Option<LinkedSites>,
    /// Keys stay where they are; none: they may move.
    pub stays: Option<Stays>,
    /// The longest wait of chance before a process starts.
    pub start_spread: Duration,
    /// The scheduler keeps a journal, and goes on with it when it is started again.
    pub journal: bool,
    /// What goes wrong, and when.
    pub faults: Vec<(Duration, Fault)>,
    /// When faults end. Without any, moves end then.
    pub heal: Duration,
    /// Pauses and partitions are too short for anybody to be taken for dead.
    pub mild: bool,
    /// Deaths may be too many for the copies: the job may end with an error, but with no wrong
    /// value.
    pub may_fail: bool,
    /// What is wrong in the code.
    pub plant: Option<Plant>,
    /// A job that takes longer hangs.
    pub time_max: Duration,
    /// A job that has more steps hangs.
    pub steps_max: u64,
    /// Keep the text of the trace, not its hash alone.
    pub keep_trace: bool,
}

impl JobConfig {
    /// The number of processes.
    #[must_use]
    pub const fn processes(&self) -> usize {
        1 + self.servers + self.workers + self.joiners
    }

    /// All processes of servers: those of the beginning, and joiners.
    pub fn server_processes(&self) -> impl Iterator<Item = Process> {
        let joiners = 1 + self.servers + self.workers..self.processes();
        (1..=self.servers).chain(joiners)
    }

    /// True if the process is a server.
    #[must_use]
    pub const fn is_server(&self, process: Process) -> bool {
        (process >= 1 && process <= self.servers) || process > self.servers + self.workers
    }

    /// True if the process is a server that joins.
    #[must_use]
    pub const fn is_joiner(&self, process: Process) -> bool {
        process > self.servers + self.workers
    }

    /// True if the process is a worker.
    #[must_use]
    pub const fn is_worker(&self, process: Process) -> bool {
        process > self.servers && process <= self.servers + self.workers
    }

    /// The worker that a fault costs, in a job that goes on without it.
    #[must_use]
    pub fn worker_lost_by(&self, fault: &Fault) -> Option<Process> {
        let worker = match fault {
            Fault::Crash(process) | Fault::Vanish(process) => *process,
            Fault::Pause(process, time) if *time > UNNOTICED => *process,
            _ => return None,
        };
        (self.elastic_workers && self.is_worker(worker)).then_some(worker)
    }

    /// True if workers go from iteration to iteration, and nodes measure.
    #[must_use]
    pub const fn is_planned(&self) -> bool {
        self.placement.is_some() || self.sites.is_some()
    }

    /// The site of a process; none: it is at no site.
    #[must_use]
    pub fn site(&self, process: Process) -> Option<usize> {
        let sites = self.sites.as_ref()?.told.names.len();
        let rank = match process {
            0 => return None,
            worker if self.is_worker(worker) => worker - self.servers - 1,
            server => server - 1,
        };
        Some(rank % sites)
    }

    /// True if a fault can cost a server.
    #[must_use]
    pub const fn is_deadly(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Crash(process) | Fault::Vanish(process) => self.is_server(*process),
            Fault::Death(_) => true,
            Fault::Stall(..) | Fault::Cut(..) | Fault::Pause(..) => !self.mild,
            _ => false,
        }
    }

    /// True if it is to be seen to that the job can go on after that fault. What a job whose keys
    /// stay is to show is how it ends.
    #[must_use]
    pub const fn is_guarded(&self, fault: &Fault) -> bool {
        self.stays.is_none() && self.is_deadly(fault)
    }

    /// Values count pushes: where the order of pushes may be any, or not all are in a round; or
    /// steps, where deltas travel.
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.exchange.is_some() || (!self.program.sync || self.elastic_workers) && self.workers > 1
    }
}
