//! LB-BSP in models: what each rule gains, by what an oracle does, and what the coordinator costs.
//!
//!     cargo run --release --example balance_model            tables
//!     cargo run --release --example balance_model -- --gate  exit code 1 if a bar does not hold
//!
//! The workers and the coordinator are those of the library; the network delivers at once. The
//! first model: 8 workers whose base speeds differ by up to 3 times; the processor that each can
//! have wanders and jumps, is seen with noise before each iteration, and each speed has 5 % of
//! noise beside it that nobody can know. The second: the same without noise.

#![allow(clippy::expect_used, reason = "a model that cannot go on has failed")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pslite::random::Random;
use pslite::training::balance::{Batch, Coordinator, Participant, Turn, Worker};
use pslite::wire::balance::{BalanceMessage, BalanceOpen, BalanceReport, BalanceRule};
use pslite::wire::{SCHEDULER, id_to_rank, worker_id};

const TOTAL: u32 = 512;
const ITERATIONS: u64 = 600;
const SEEDS: u64 = 12;
/// Of the oracle's speed.
const ORACLE_BAR: f64 = 0.9;
const COST_BARS: [(usize, f64); 2] = [(8, 1.0), (1000, 20.0)];

const RULES: [(&str, BalanceRule); 4] = [
    ("equal batches", BalanceRule::Fixed),
    ("cpu-last", BalanceRule::CpuLast),
    ("cpu-mean", BalanceRule::CpuMean),
    ("cpu", BalanceRule::Cpu),
];

/// All workers of a session, and their coordinator.
struct Job {
    coordinator: Coordinator,
    workers: Vec<Participant>,
    /// Time in the coordinator.
    spent: Duration,
}

impl Job {
    fn new(members: usize, rule: BalanceRule, lookahead: u32) -> Self {
        let mut job = Self {
            coordinator: Coordinator::default(),
            workers: Vec::new(),
            spent: Duration::ZERO,
        };
        for rank in 0..members {
            let open = BalanceOpen {
                length: u64::from(TOTAL) * 1000,
                total: TOTAL.max(members as u32 * 32),
                members: members as u32,
                quantum: 1,
                rule: rule as i32,
                lookahead,
                min: 1,
                rank: rank as u32,
                instance: 1,
                ..BalanceOpen::default()
            };
            let (worker, message) =
                Participant::open("model", open, Duration::ZERO).expect("sound settings");
            job.workers.push(worker);
            job.say(rank, &message);
        }
        job
    }

    /// A word of a worker, and all that follows.
    fn say(&mut self, rank: usize, message: &BalanceMessage) {
        let mut said = vec![(rank, message.clone())];
        while let Some((rank, message)) = said.pop() {
            let mut answers = Vec::new();
            let begin = Instant::now();
            let worker = Worker { node: worker_id(rank), life: 0 };
            self.coordinator.handle(worker, &message, &mut answers);
            self.spent += begin.elapsed();
            for (to, answer) in answers {
                assert_ne!(to, SCHEDULER);
                let rank = id_to_rank(to) as usize;
                let mut more = Vec::new();
                self.workers[rank].received(Duration::ZERO, &answer, &mut more);
                said.extend(more.into_iter().map(|message| (rank, message)));
            }
        }
    }

    fn batch(&mut self, rank: usize) -> Batch {
        let mut out = Vec::new();
        match self.workers[rank].next(Duration::ZERO, &mut out) {
            Turn::Batch(batch) => batch,
            turn => panic!("rank {rank}: {turn:?}"),
        }
    }

    fn report(&mut self, rank: usize, batch: Batch, report: BalanceReport) {
        let said = self.workers[rank].report(batch.iteration, report).expect("begun");
        said.iter().for_each(|message| self.say(rank, message));
    }
}

/// The workers of the model.
struct Hosts {
    random: Random,
    base: Vec<f64>,
    cpu: Vec<f64>,
    noise: f64,
}

impl Hosts {
    fn new(seed: u64, members: usize, noise: f64) -> Self {
        let mut random = Random::new(seed);
        let base = (0..members).map(|_| 50.0 + 100.0 * random.unit()).collect();
        Self { random, base, cpu: vec![1.0; members], noise }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0
    }

    /// What each can have in the next iteration.
    fn drift(&mut self) {
        for host in 0..self.cpu.len() {
            self.cpu[host] = if self.random.percent(2) {
                0.3 + 0.7 * self.random.unit()
            } else {
                (self.cpu[host] + 0.02 * self.normal()).clamp(0.2, 1.0)
            };
        }
    }

    fn seen(&mut self, host: usize) -> f64 {
        (self.cpu[host] + 0.4 * self.noise * self.normal()).clamp(0.05, 1.2)
    }

    fn speed(&mut self, host: usize) -> f64 {
        self.base[host] * self.cpu[host] * (1.0 + self.noise * self.normal())
    }
}

/// How fast a rule is: by equal batches, by the oracle, and how far times lie apart at the end.
#[derive(Clone, Copy, Default)]
struct Outcome {
    by_equal: f64,
    by_oracle: f64,
    spread: f64,
}

fn run(rule: BalanceRule, seed: u64, noise: f64, lookahead: u32) -> Outcome {
    const MEMBERS: usize = 8;
    let mut hosts = Hosts::new(seed, MEMBERS, noise);
    let mut job = Job::new(MEMBERS, rule, lookahead);
    let (mut time, mut equal, mut oracle, mut spread) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..ITERATIONS {
        let speeds: Vec<f64> = (0..MEMBERS).map(|host| hosts.speed(host)).collect();
        let batches: Vec<Batch> = (0..MEMBERS).map(|rank| job.batch(rank)).collect();
        let times: Vec<f64> = batches
            .iter()
            .zip(&speeds)
            .map(|(batch, speed)| f64::from(batch.size) / speed)
            .collect();
        let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        time += most(&times);
        spread += (most(&times) - least) / (times.iter().sum::<f64>() / MEMBERS as f64);
        let share = f64::from(TOTAL) / MEMBERS as f64;
        equal += most(&speeds.iter().map(|speed| share / speed).collect::<Vec<_>>());
        oracle += f64::from(TOTAL) / speeds.iter().sum::<f64>();
        hosts.drift();
        for (rank, batch) in batches.into_iter().enumerate() {
            let cpu = hosts.seen(rank);
            let report = BalanceReport { seconds: times[rank], cpu, memory: 0.5 };
            job.report(rank, batch, report);
        }
    }
    Outcome { by_equal: equal / time, by_oracle: oracle / time, spread: spread / ITERATIONS as f64 }
}

fn mean(rule: BalanceRule, noise: f64, lookahead: u32) -> Outcome {
    let mut sum = Outcome::default();
    for seed in 0..SEEDS {
        let one = run(rule, seed, noise, lookahead);
        sum.by_equal += one.by_equal;
        sum.by_oracle += one.by_oracle;
        sum.spread += one.spread;
    }
    let of = |value: f64| value / SEEDS as f64;
    Outcome { by_equal: of(sum.by_equal), by_oracle: of(sum.by_oracle), spread: of(sum.spread) }
}

/// Milliseconds of the coordinator in an iteration.
fn cost(members: usize) -> f64 {
    let mut hosts = Hosts::new(1, members, 0.05);
    let mut job = Job::new(members, BalanceRule::Cpu, 2);
    let iterations = 100;
    // The window of the regression is full then.
    for iteration in 0..60 + iterations {
        if iteration == 60 {
            job.spent = Duration::ZERO;
        }
        hosts.drift();
        for rank in 0..members {
            let batch = job.batch(rank);
            let seconds = f64::from(batch.size) / hosts.speed(rank);
            let report = BalanceReport { seconds, cpu: hosts.seen(rank), memory: 0.5 };
            job.report(rank, batch, report);
        }
    }
    job.spent.as_secs_f64() * 1e3 / f64::from(iterations)
}

fn main() -> ExitCode {
    let gate = std::env::args().any(|argument| argument == "--gate");
    let mut broken = false;
    println!("| rule | ahead | noise | speed by equal batches | by the oracle | spread |");
    println!("|---|---|---|---|---|---|");
    for noise in [0.05, 0.0] {
        for (name, rule) in RULES {
            for lookahead in [1, 2, 6] {
                let Outcome { by_equal, by_oracle, spread } = mean(rule, noise, lookahead);
                println!(
                    "| {name} | {lookahead} | {:.0} % | {by_equal:.2} | {by_oracle:.2} | {:.0} % |",
                    100.0 * noise,
                    100.0 * spread
                );
                // With more batches ahead than the default, sizes follow speeds later.
                if rule == BalanceRule::Cpu && lookahead == 1 && by_oracle < ORACLE_BAR {
                    broken = true;
                }
            }
        }
    }
    println!("\n| workers | coordinator, ms an iteration | bar |\n|---|---|---|");
    for (members, bar) in COST_BARS {
        let cost = cost(members);
        broken |= cost > bar;
        println!("| {members} | {cost:.3} | {bar} |");
    }
    if gate && broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
