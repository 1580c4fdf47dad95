//! Jobs by name and seed: what a seed makes of each scenario.

mod exchange;
mod iterations;
mod kinds;
mod placement;
mod sites;
mod stays;
mod workers;

use pslite_core::store::SumOrder;
use std::time::Duration;

use super::config::{Fault, JobConfig, Trees, UNNOTICED};
use super::optimizer::ServerRule;
use super::script::{Program, SecondCustomer};
use super::workload::{COUNTED_WORKERS_MAX, Tensors};
use crate::network::{LinkModel, NetworkConfig, Process, Rates};
use crate::steps::{DeathAt, Step};
use pslite_core::random::{Random, mix};
use pslite_core::wire::transfer::TransferKind;

pub use kinds::Scenario;

const MS: Duration = Duration::from_millis(1);
/// Tells the choice of a second customer from all others.
const SECOND: u64 = 0x7365_636f_6e64;
/// What applies the gradients of a second customer.
const SECOND_RULES: [Option<ServerRule>; 3] =
    [Some(ServerRule::Sgd { rate: 0.5 }), None, Some(ServerRule::Adam { rate: 0.03 })];
/// The longest wait of chance before a process starts.
const START_SPREAD: Duration = Duration::from_millis(20);
/// When everybody has surely met.
const BEGIN: Duration = Duration::from_millis(300);
/// For how long things go wrong.
const WRONG: Duration = Duration::from_secs(5);
/// What is noticed as death takes less than that, in `nodes::cluster_config`.
const NOTICED: Duration = Duration::from_millis(2500);
/// What processes that stand still together begin and end apart.
const APART: Duration = Duration::from_millis(700);
/// After its faults a job has so long to end: longer than the minute for which a node that was
/// paused at its end waits for a scheduler that is over.
const TO_END: Duration = Duration::from_secs(75);

/// Pushes of a tensor by one worker: fewer than what `COUNT_BASE` can count.
const ROUNDS_MAX: u64 = 60;

/// Processes that one worker may have been.
const LIVES: u64 = 3;

/// What is fixed beside the seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// The scenario; else the seed chooses.
    pub scenario: Option<Scenario>,
    /// Workers; else the seed chooses.
    pub workers: Option<usize>,
    /// Servers; else the seed chooses.
    pub servers: Option<usize>,
    /// So many small tensors, and few rounds; else the seed chooses a few of all kinds.
    pub keys: Option<usize>,
    /// Each worker has two customers, with keys of their own; else the seed chooses.
    pub second_customer: Option<bool>,
}

/// Elements of each tensor of a job with given keys, its rounds, and what it may take for each key
/// of each node.
const FLOATS: u64 = 10;
const ROUNDS_OF_KEYS: u64 = 2;
const STEPS_OF_KEY: u64 = 100;
/// What two nodes may take: each opens two connections to the other one.
const STEPS_OF_PAIR: u64 = 8;
/// Small tensors that the slowest line carries in time.
const KEYS_OF_A_LINE: u64 = 50;

/// The job of a seed.
#[must_use]
pub fn job(seed: u64, fixed: &Fixed) -> JobConfig {
    let scenario = fixed.scenario.unwrap_or(Scenario::of_seed(seed));
    let mut draw = Draw(Random::new(seed ^ 0xE1A5_71C0_0000_0000));
    let mut config = draw.peaceful(seed, fixed, scenario);
    if let Some(keys) = fixed.keys {
        config.tensors.dense = vec![FLOATS; keys];
        config.program.rounds = ROUNDS_OF_KEYS;
        config.compute = WRONG / ROUNDS_OF_KEYS as u32;
        let steps = (keys as u64).saturating_mul(config.workers as u64) * STEPS_OF_KEY;
        config.steps_max = config.steps_max.saturating_add(steps);
    }
    let nodes = config.processes() as u64;
    config.steps_max = config.steps_max.saturating_add(nodes * nodes * STEPS_OF_PAIR);
    match scenario {
        Scenario::Calm => config.move_every = None,
        Scenario::Moves => {}
        Scenario::Rates => draw.rates(&mut config),
        Scenario::Joins => draw.joins(&mut config),
        Scenario::Drains => {
            draw.joins(&mut config);
            draw.drains(&mut config);
        }
        Scenario::Hiccups => draw.hiccups(&mut config),
        Scenario::Losses => {
            config.network.retransmits = draw.of(&[1, 3, 10]);
            draw.joins(&mut config);
            if draw.0.percent(50) {
                draw.drains(&mut config);
            }
            draw.deaths(&mut config, 1);
        }
        Scenario::Deaths => draw.deaths(&mut config, 2),
        Scenario::Steps => draw.steps(&mut config),
        Scenario::FalseDeaths => draw.false_deaths(&mut config),
        Scenario::Restarts => draw.restarts(&mut config),
        Scenario::Scheduler => draw.scheduler(&mut config),
        Scenario::StockWire => {
            config.native = false;
            draw.joins(&mut config);
            draw.deaths(&mut config, 2);
        }
        Scenario::TooManyDeaths => {
            config.may_fail = true;
            draw.deaths(&mut config, 4);
        }
        Scenario::Workers => {
            draw.workers(&mut config);
            match draw.0.below(4) {
                0 => draw.deaths(&mut config, 1),
                1 => draw.joins(&mut config),
                2 => draw.scheduler(&mut config),
                _ => {}
            }
        }
        Scenario::Storm => {
            draw.rates(&mut config);
            draw.joins(&mut config);
            draw.drains(&mut config);
            draw.hiccups(&mut config);
            draw.scheduler(&mut config);
            match draw.0.below(3) {
                0 => draw.deaths(&mut config, 2),
                1 => draw.steps(&mut config),
                _ => draw.false_deaths(&mut config),
            }
        }
        Scenario::Trees => draw.trees(&mut config),
        Scenario::Sessions => draw.sessions(&mut config),
        Scenario::StandStill => draw.stand_still(&mut config),
        Scenario::Stays => draw.stays(&mut config),
        Scenario::ExchangeLives => draw.exchange_lives(&mut config),
        Scenario::Exchange => draw.exchange(&mut config),
        Scenario::Placement => draw.placement(&mut config, fixed),
        Scenario::Sites => draw.sites(&mut config, fixed),
    }
    if let Some(keys) = fixed.keys {
        draw.widen(&mut config, keys as u64);
    }
    config
}

struct Draw(Random);

impl Draw {
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to - from + 1)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }

    /// A moment at which things go wrong.
    fn moment(&mut self) -> Duration {
        BEGIN + self.0.time(WRONG)
    }

    /// A job to which nothing happens but that its pieces move.
    fn peaceful(&mut self, seed: u64, fixed: &Fixed, scenario: Scenario) -> JobConfig {
        let deadly = !matches!(
            scenario,
            Scenario::Calm | Scenario::Moves | Scenario::Rates | Scenario::Joins | Scenario::Drains
        );
        let servers =
            fixed.servers.unwrap_or_else(|| self.between(if deadly { 2 } else { 1 }, 4) as usize);
        let with_trees = scenario == Scenario::Trees;
        let elastic_workers =
            matches!(scenario, Scenario::Workers | Scenario::Sessions | Scenario::ExchangeLives)
                || with_trees && self.0.percent(40);
        let sync = self.0.percent(75) || elastic_workers || with_trees;
        let most = if with_trees { 7 } else { 4 };
        let workers = fixed.workers.unwrap_or_else(|| self.between(1, most) as usize);
        let counts = !sync || elastic_workers;
        let workers = if counts { workers.min(COUNTED_WORKERS_MAX) } else { workers };
        // One alone has nobody who goes on without it.
        let workers = if elastic_workers { workers.max(2) } else { workers };
        let replicas = u32::from(servers > 1 && (deadly || self.0.percent(70)));
        let program = self.program(sync, counts && workers > 1);
        let program =
            Program { rounds: program.rounds / if elastic_workers { LIVES } else { 1 }, ..program };
        // Not drawn: so that other jobs are what they were.
        let has_second = fixed.second_customer.unwrap_or(mix(seed ^ SECOND).is_multiple_of(4));
        // `dist_async` needs one.
        let second_rule = SECOND_RULES[seed as usize % 3].or(program.rule.filter(|_| !sync));
        let rule = if counts && workers > 1 { program.rule } else { second_rule };
        let second_customer = has_second.then_some(SecondCustomer { rule });
        let program = Program { second_customer, ..program };
        // Long enough that most of what happens happens in the middle.
        let compute = WRONG * self.of(&[1, 2, 2]) / program.rounds as u32;
        JobConfig {
            seed,
            workers,
            servers,
            joiners: 0,
            replicas,
            order: match (self.0.percent(50), with_trees) {
                (false, _) => SumOrder::Arrival,
                (true, false) => SumOrder::Ranks,
                (true, true) => SumOrder::Trees,
            },
            tensors: self.tensors(sync, program.compressed),
            program,
            compute,
            pulls: self.of(&[30, 70, 100]),
            network: NetworkConfig {
                jitter: MS * self.of(&[1, 1, 5, 20]),
                ..NetworkConfig::default()
            },
            edges: Vec::new(),
            native: true,
            resend: None,
            move_every: Some(MS * self.of(&[20, 100, 400])),
            trees: None,
            drains: Vec::new(),
            elastic_workers,
            sessions: None,
            exchange: None,
            placement: None,
            sites: None,
            stays: None,
            start_spread: START_SPREAD,
            journal: false,
            faults: Vec::new(),
            heal: BEGIN + WRONG,
            mild: true,
            may_fail: false,
            plant: None,
            time_max: BEGIN + WRONG + TO_END,
            steps_max: 2_000_000,
            keep_trace: false,
        }
    }

    /// An asynchronous job counts pushes, which plain SGD does without error; one worker alone may
    /// do what it likes.
    fn program(&mut self, sync: bool, counts: bool) -> Program {
        let rules = [
            ServerRule::Momentum { rate: 0.25, momentum: 0.5 },
            ServerRule::Adam { rate: 0.01 },
            ServerRule::Sgd { rate: 0.125 },
        ];
        let rule = match counts {
            true => Some(ServerRule::Sgd { rate: -1.0 }),
            false if sync && self.0.percent(25) => None,
            false => Some(self.of(&rules)),
        };
        let second = !counts && rule.is_some() && self.0.percent(30);
        Program {
            sync,
            rounds: self.between(10, ROUNDS_MAX),
            rule,
            second_rule: second.then(|| self.of(&rules)),
            multi_precision: false,
            compressed: !counts && self.0.percent(50),
            second_customer: None,
        }
    }

    fn tensors(&mut self, sync: bool, compressed: bool) -> Tensors {
        let lengths = [1, 7, 16, 33, 64, 100, 257];
        let dense = (0..self.between(1, 3)).map(|_| self.of(&lengths)).collect();
        Tensors {
            dense,
            // Of fewer elements than servers: some have a key without any.
            cut: self.0.percent(50).then(|| self.of(&[3, 64, 130, 300])),
            halves: None,
            two_bit: compressed.then(|| self.of(&[16, 50, 128])),
            rows: self.0.percent(50).then(|| (self.between(1, 12), self.of(&[1, 4]))),
            empty_pushes: sync,
            both: self.0.percent(50),
            pipelined: self.0.percent(60),
        }
    }

    /// What goes wrong is drawn beside what is lost along trees.
    fn trees(&mut self, config: &mut JobConfig) {
        config.trees = Some(Trees {
            every: MS * self.of(&[30, 100, 400, 1500]),
            lossy: self.of(&[0, 10, 50]),
            hop_loss: self.of(&[0, 0, 1, 5]),
        });
        if self.0.percent(40) {
            config.move_every = None;
        }
        if self.0.percent(40) {
            // Some hear of new trees later than others push along them.
            let latency = MS * self.of(&[30, 150]);
            let first = 1 + config.servers;
            for worker in first..first + config.workers {
                if self.0.percent(50) {
                    let edge = LinkModel { rate: None, latency, jitter: latency };
                    let slow = Fault::Edge(0, worker, Some(edge));
                    config.faults.extend([(BEGIN, slow), (config.heal + MS, slow)]);
                }
            }
        }
        if config.elastic_workers {
            self.workers(config);
        }
        match self.0.below(6) {
            0 => self.deaths(config, 2),
            1 => self.scheduler(config),
            2 => self.hiccups(config),
            3 => {
                self.joins(config);
                self.drains(config);
            }
            _ => {}
        }
    }

    // ---- what happens ---------------------------------------------------------------------------

    fn rates(&mut self, config: &mut JobConfig) {
        for process in 1..config.processes() {
            for _ in 0..2 {
                let mut rate = || self.of(&[20_000, 100_000, 1_000_000]);
                let rates = Rates { up: rate(), down: rate() };
                let at = self.moment();
                config.faults.push((at, Fault::Rates(process, Some(rates))));
            }
        }
    }

    /// Lines for so many keys: the slowest are made for a few.
    fn widen(&self, config: &mut JobConfig, keys: u64) {
        for (_, fault) in &mut config.faults {
            if let Fault::Rates(_, Some(rates)) = fault {
                let times = 1 + keys / KEYS_OF_A_LINE;
                rates.up = rates.up.saturating_mul(times);
                rates.down = rates.down.saturating_mul(times);
            }
        }
    }

    fn joins(&mut self, config: &mut JobConfig) {
        if config.joiners > 0 {
            return;
        }
        config.joiners = self.between(1, 3) as usize;
        for process in config.processes() - config.joiners..config.processes() {
            let at = if self.0.percent(15) { MS * 10 } else { self.moment() };
            config.faults.push((at, Fault::Start(process)));
        }
    }

    fn drains(&mut self, config: &mut JobConfig) {
        config.drains = (0..self.between(1, 3)).map(|_| self.moment()).collect();
        config.drains.sort_unstable();
    }

    fn any(&mut self, config: &JobConfig) -> Process {
        self.0.below(config.processes() as u64) as Process
    }

    fn server(&mut self, config: &JobConfig) -> Process {
        let all: Vec<Process> = config.server_processes().collect();
        self.of(&all)
    }

    fn hiccups(&mut self, config: &mut JobConfig) {
        for _ in 0..self.between(3, 10) {
            let (a, b) = (self.any(config), self.any(config));
            let (at, time) = (self.moment(), self.0.time(UNNOTICED));
            let faults = match self.0.below(3) {
                0 => [(at, Fault::Stall(a, b)), (at + time, Fault::Flow(a, b))],
                // The stock wire loses what is under way when a connection breaks: that is the
                // resender's matter, but for words of an elastic job, which are said again.
                1 if a != b && config.is_server(a) && config.is_server(b) => {
                    [(at, Fault::Cut(a, b)), (at + time, Fault::Mend(a, b))]
                }
                _ => [(at, Fault::Pause(a, time)); 2],
            };
            config.faults.extend(faults);
        }
    }

    fn deaths(&mut self, config: &mut JobConfig, most: u64) {
        for _ in 0..self.between(1, most) {
            let (process, at) = (self.server(config), self.moment());
            let fault =
                if self.0.percent(70) { Fault::Crash(process) } else { Fault::Vanish(process) };
            config.faults.push((at, fault));
        }
    }

    fn steps(&mut self, config: &mut JobConfig) {
        let steps = [
            Step::Transfer(TransferKind::Move),
            Step::Transfer(TransferKind::Moved),
            Step::Transfer(TransferKind::Seed),
            Step::Transfer(TransferKind::Round),
            Step::Transfer(TransferKind::Confirmed),
            Step::Transfer(TransferKind::Cut),
            Step::Transfer(TransferKind::Drop),
            Step::Transfer(TransferKind::Command),
            Step::Transfer(TransferKind::CommandsEnd),
            Step::Policy,
            Step::Collect,
            Step::Claims,
            Step::Orders,
            Step::Leave,
            Step::Request,
            Step::Answer,
        ];
        if self.0.percent(40) {
            self.joins(config);
        }
        if self.0.percent(30) {
            self.drains(config);
        }
        for _ in 0..self.between(1, 2) {
            let step = self.of(&steps);
            // Words of the scheduler reach servers; what they send is theirs.
            let sender = self.0.percent(50)
                && !matches!(
                    step,
                    Step::Policy | Step::Collect | Step::Orders | Step::Leave | Step::Request
                );
            let received = matches!(step, Step::Claims | Step::Answer);
            let death = DeathAt {
                step,
                sender: sender || received,
                after: self.0.percent(50),
                skip: self.0.below(12) as u32,
            };
            config.faults.push((self.moment(), Fault::Death(death)));
        }
    }

    fn false_deaths(&mut self, config: &mut JobConfig) {
        config.mild = false;
        for _ in 0..self.between(1, 2) {
            let (server, at) = (self.server(config), self.moment());
            let time = NOTICED + self.0.time(NOTICED);
            let peer = if self.0.percent(60) { 0 } else { self.server(config) };
            let faults = match self.0.below(4) {
                0 => [(at, Fault::Pause(server, time)); 2],
                1 => [(at, Fault::Stall(server, peer)), (at + time, Fault::Flow(server, peer))],
                2 => [(at, Fault::Stall(peer, server)), (at + time, Fault::Flow(peer, server))],
                _ if peer != server => {
                    [(at, Fault::Cut(server, peer)), (at + time, Fault::Mend(server, peer))]
                }
                _ => continue,
            };
            config.faults.extend(faults);
        }
    }

    fn restarts(&mut self, config: &mut JobConfig) {
        for _ in 0..self.between(1, 3) {
            let (process, at) = (self.server(config), self.moment());
            let pause =
                if self.0.percent(50) { self.0.time(MS * 300) } else { self.0.time(NOTICED) };
            config.faults.push((at, Fault::Crash(process)));
            // A crash may have to wait until it is allowed; one that lives cannot start.
            for again in 1..4 {
                config.faults.push((at + pause * again, Fault::Start(process)));
            }
        }
    }

    fn stand_still(&mut self, config: &mut JobConfig) {
        if self.0.percent(40) {
            self.joins(config);
        }
        match self.0.below(3) {
            0 => self.scheduler(config),
            1 => self.drains(config),
            _ => {}
        }
        let mut begin = BEGIN;
        for _ in 0..self.between(1, 2) {
            begin += self.0.time(WRONG / 2);
            let time = APART * 2 + NOTICED + self.0.time(MS * 100_000);
            // Whatever else happens, and what it leads to, is before it or after it.
            for (at, _) in config.faults.iter_mut().filter(|(at, _)| *at + NOTICED >= begin) {
                *at += time + NOTICED * 2;
            }
            for process in 0..config.processes() {
                let (early, late) = (self.0.time(APART), self.0.time(APART));
                let still = Fault::StandStill(process, time + late - early);
                config.faults.push((begin + early, still));
            }
            begin += time + NOTICED * 2;
            config.heal = config.heal.max(begin + WRONG);
        }
        config.time_max = config.heal + TO_END;
    }

    fn scheduler(&mut self, config: &mut JobConfig) {
        config.journal = true;
        for _ in 0..self.between(1, 2) {
            let at = self.moment();
            let away =
                if self.0.percent(50) { self.0.time(MS * 100) } else { self.0.time(NOTICED) };
            config.faults.extend([(at, Fault::Crash(0)), (at + away, Fault::Start(0))]);
        }
        if self.0.percent(50) {
            self.joins(config);
        }
        if self.0.percent(50) {
            self.deaths(config, 1);
        }
    }
}
