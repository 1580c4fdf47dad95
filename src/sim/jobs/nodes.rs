//! What runs on the nodes of a job, and how their membership is configured.

use std::sync::Arc;
use std::time::Duration;

use super::config::JobConfig;
use super::ledger::Ledger;
use super::sabotage::Sabotage;
use super::scheduler::{PlannedTopology, Plans, Scheduler, SchedulerConfig};
use super::script::ScriptStage;
use super::server::{Server, ServerConfig};
use super::worker::{Worker, WorkerConfig};
use super::workload::Tensor;
use crate::app::{Application, Input, Output, View};
use crate::network::Process;
use pslite_core::cluster::{ClusterConfig, RankOrder};
use pslite_core::kv::rounds::Round;
use pslite_core::random::Random;
use pslite_core::store::SumOrder;
use pslite_core::wire::{EMPTY, Node as Described, Role, SCHEDULER, Setting, ability};

/// The application of a node.
#[allow(clippy::large_enum_variant, reason = "a few of them exist at a time")]
pub(super) enum JobApp {
    Scheduler(Scheduler),
    Server(Server),
    Worker(Worker),
}

impl Application for JobApp {
    type Ledger = Ledger;

    fn input(&mut self, view: &View<'_>, input: Input, ledger: &mut Ledger, out: &mut Vec<Output>) {
        match self {
            Self::Scheduler(scheduler) => scheduler.input(view, input, ledger, out),
            Self::Server(server) => server.input(view, input, ledger, out),
            Self::Worker(worker) => worker.input(view, input, ledger, out),
        }
    }

    fn take_rounds(&mut self) -> Vec<Round> {
        match self {
            Self::Worker(worker) => worker.take_rounds(),
            Self::Scheduler(_) | Self::Server(_) => Vec::new(),
        }
    }
}

/// Makes applications.
pub(super) struct Maker {
    tensors: Arc<Vec<Tensor>>,
    stages: Arc<Vec<ScriptStage>>,
}

impl Maker {
    pub(super) fn new(config: &JobConfig, tensors: Vec<Tensor>) -> Self {
        Self { tensors: Arc::new(tensors), stages: Arc::new(config.program.stages()) }
    }

    pub(super) fn app(&self, config: &JobConfig, process: Process, random: Random) -> JobApp {
        let sabotage = Sabotage::new(config.plant);
        if process == 0 {
            let orders = SchedulerConfig {
                move_every: config.move_every,
                until: config.heal,
                drains: config.drains.clone(),
                servers_min: 2,
                trees_every: config.trees.map(|trees| trees.every),
                lossy: config.trees.map_or(0, |trees| trees.lossy),
                hop_loss: config.trees.map_or(0, |trees| trees.hop_loss),
                plans: config.is_planned().then(|| Plans {
                    replicas: config.replicas,
                    servers: config.servers,
                    seed: config.seed,
                    trees: config.sites.as_ref().map(|sites| PlannedTopology {
                        topology: sites.topology,
                        links: sites.told.clone(),
                        repeats: config.order == SumOrder::Trees,
                    }),
                }),
            };
            return JobApp::Scheduler(Scheduler::new(orders, random, sabotage));
        }
        if config.is_server(process) {
            let config = ServerConfig {
                workers: config.workers,
                servers: config.servers,
                replicas: config.replicas,
                order: config.order,
                stays: config.stays.is_some(),
                weight: config.network.chunks.map_or(1, |chunks| chunks.weight),
                part_bytes: config.sites.as_ref().map_or(SHORT_PARTS, |sites| sites.part_bytes),
            };
            return JobApp::Server(Server::new(config, sabotage));
        }
        let config = WorkerConfig {
            servers: config.servers,
            tensors: Arc::clone(&self.tensors),
            stages: Arc::clone(&self.stages),
            counts: config.counts(),
            compute: config.compute,
            pulls: config.pulls,
            may_leave_early: config.elastic_workers || config.exchange.is_some(),
            sessions: config.sessions,
            exchange: config.exchange,
            workers: config.workers,
            in_step: config.is_planned(),
            hop_loss: config.trees.map(|trees| (trees.hop_loss, config.heal)),
            stays: config.stays,
        };
        JobApp::Worker(Worker::new(config, random, &sabotage))
    }
}

/// Bytes of a part: moves cut pieces as if long ones were very long.
const SHORT_PARTS: usize = 128;

/// What a process of a job whose keys may move says that it can do.
fn abilities(config: &JobConfig, process: Process, again: bool) -> u64 {
    let mut abilities = ability::PSLITE | ability::ELASTIC | ability::TREES;
    if config.exchange.is_some() {
        abilities |= ability::EXCHANGES;
    }
    if config.elastic_workers {
        abilities |= ability::ELASTIC_WORKERS;
    }
    // A server that is started again has nothing, and asks for a place as one that joins.
    if config.is_joiner(process) || (again && config.is_server(process)) {
        abilities |= ability::JOINS;
    }
    if process == 0 && config.journal {
        abilities |= ability::JOURNAL;
    }
    abilities
}

pub(super) const fn role(config: &JobConfig, process: Process) -> Role {
    match process {
        0 => Role::Scheduler,
        process if config.is_worker(process) => Role::Worker,
        _ => Role::Server,
    }
}

/// A process, as it says who it is.
pub(super) fn describe(
    config: &JobConfig,
    process: Process,
    incarnation: u64,
    again: bool,
) -> Described {
    let role = role(config, process);
    let (hostname, port) = match role {
        Role::Scheduler => ("scheduler", 9000),
        Role::Server => ("server", 7000 + process as i32),
        Role::Worker => ("worker", 8000 + process as i32),
    };
    // Where cards matter each process has a host of its own.
    let site = config.site(process).zip(config.sites.as_ref());
    let hostname = match site {
        Some((site, sites)) => sites.told.name(site).to_owned(),
        None if config.placement.is_some() => format!("{hostname}-{process}"),
        None => hostname.to_owned(),
    };
    let abilities = match config.stays {
        Some(_) => ability::PSLITE,
        None => abilities(config, process, again),
    };
    let native = config.native && role != Role::Scheduler;
    Described {
        role,
        id: if role == Role::Scheduler { SCHEDULER } else { EMPTY },
        customer_id: 0,
        hostname,
        port,
        is_recovery: false,
        abilities,
        incarnation,
        native_port: if native { 1 } else { 0 },
        wished_rank: None,
        launched_as: None,
    }
}

/// The limits are those of `node`, but for what is noticed sooner, so that a job needs few events:
/// in jobs whose keys stay, silence alone.
pub(super) fn cluster_config(
    config: &JobConfig,
    process: Process,
    incarnation: u64,
    again: bool,
) -> ClusterConfig {
    let second = Duration::from_secs(1);
    let stays = config.stays.unwrap_or_default();
    let misled = stays.misled.filter(|(misled, _)| *misled == process);
    let workers = misled.map_or(config.workers, |(_, workers)| workers);
    let (beat, silence, down) = match config.stays {
        Some(_) => (second, 10 * second, 3 * second),
        None => (second / 5, 2 * second, second / 2),
    };
    ClusterConfig {
        role: role(config, process),
        num_workers: workers,
        num_servers: config.servers,
        node: describe(config, process, incarnation, again),
        // Nobody knows more of it than its address.
        scheduler: Described { abilities: 0, native_port: 0, ..describe(config, 0, 0, false) },
        heartbeat_interval: Some(beat),
        heartbeat_timeout: stays.heartbeat_timeout,
        silence_limit: silence,
        channel_down_limit: down,
        start_timeout: stays.start_timeout,
        report_interval: 10 * second,
        trees: false,
        exchange: config.exchange.map(|exchange| exchange.spec),
        recovery_wait: 20 * second,
        standing_scheduler: false,
        replicas: config.stays.is_none().then_some(config.replicas),
        planned: false,
        scheduler_wait: 60 * second,
        group_size: 1,
        instance_barriers: false,
        rank_order: RankOrder::Address,
        settings: match config.stays {
            Some(_) => vec![Setting::new("DMLC_NUM_WORKER", workers.to_string())],
            None => Vec::new(),
        },
        doubt: String::new(),
    }
}
