//! What happens to a job whose workers exchange deltas.

use super::super::config::{Exchanges, JobConfig, Trees};
use super::super::optimizer::ServerRule;
use super::super::script::Program;
use super::super::workload::COUNT_BASE;
use super::{Draw, LIVES, MS};
use pslite_core::store::SumOrder;
use pslite_core::training::exchange::spec;

/// Workers whose steps a value can count, each multiplied by their number.
const WORKERS_MAX: usize = 3;
/// Steps of a worker: fewer than what `COUNT_BASE` can count.
const STEPS_MAX: u64 = 50;

/// Workers of a job in which they die, and the steps of each process of them: all are counted, each
/// twice at most.
const LIVING: usize = 2;
const STEPS_OF_A_LIFE: u64 = (COUNT_BASE as u64 - 1) / (LIVING as u64 * LIVES);

/// Forms of an exchange whose global values are whole numbers of steps.
const FORMS: [&str; 13] = [
    "nbsync:momentum=0",
    "nbsync:momentum=0,sections=2",
    "nbsync:momentum=0,sections=4,window=1",
    "nbsync:momentum=0,sections=4,window=4,steps=2",
    "nbsync:published",
    "nbsync:published,keep=1",
    "nbsync:published,steps=3",
    "fedavg:steps=3",
    "esync:steps=2",
    "nbsync:momentum=0,every=5",
    "nbsync:momentum=0,sections=4,window=4,every=3",
    "nbsync:published,every=4",
    "fedavg:steps=3,every=7",
];

impl Draw {
    /// Two workers, which die and come back. The mean of a round without one of them counts each
    /// step of the other one twice.
    pub(super) fn exchange_lives(&mut self, config: &mut JobConfig) {
        config.workers = LIVING;
        self.exchange(config);
        if let Some(plan) = &mut config.exchange {
            plan.iterations = [0; 3].map(|_: u64| self.between(1, STEPS_OF_A_LIFE));
            // Some are so long that most deaths are in the middle.
            plan.compute = MS * self.of(&[40, 150, 500]);
            plan.finishes = plan.spec.every == 0;
        }
        self.workers(config);
    }

    /// Steps are counted, so the optimizer is plain, and all tensors are dense.
    pub(super) fn exchange(&mut self, config: &mut JobConfig) {
        config.workers = config.workers.min(WORKERS_MAX);
        config.program = Program {
            sync: true,
            rounds: 1,
            rule: Some(ServerRule::Sgd { rate: -1.0 }),
            second_rule: None,
            multi_precision: false,
            compressed: false,
            second_customer: None,
        };
        config.tensors.two_bit = None;
        config.tensors.rows = None;
        config.tensors.both = false;
        config.tensors.pipelined = false;
        config.order = self.of(&[SumOrder::Arrival, SumOrder::Ranks]);
        let form = self.of(&FORMS);
        // A text that cannot be read is a job without an exchange: its test would see it.
        let spec = spec::parse(form).ok();
        let iterations = [0; 3].map(|_: u64| self.between(1, STEPS_MAX));
        let compute = MS * self.of(&[5, 40, 150]);
        let finishes = self.0.percent(40);
        let by_program = self.0.percent(30);
        if by_program {
            config.program.rule = None;
        }
        config.exchange = spec.map(|spec| {
            // Who is at its end would meet others that align in the middle.
            let finishes = finishes && spec.every == 0;
            Exchanges { spec, iterations, compute, finishes, by_program }
        });
        match self.0.below(8) {
            0 => self.deaths(config, 2),
            1 => self.scheduler(config),
            2 => self.hiccups(config),
            3 => {
                self.joins(config);
                self.drains(config);
            }
            4 => self.restarts(config),
            5 => self.rates(config),
            6 => {
                config.order = SumOrder::Arrival;
                config.trees = Some(Trees {
                    every: MS * self.of(&[30, 100, 400]),
                    lossy: self.of(&[0, 10, 50]),
                    hop_loss: self.of(&[0, 0, 1, 5]),
                });
            }
            _ => config.move_every = None,
        }
    }
}
