//! Networks for keys to be placed in: cards of drawn rates, which change while the job trains.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::config::{Fault, JobConfig, Placement};
use super::super::network_model::{model_bytes, true_model};
use super::iterations::in_iterations;
use super::{Draw, Fixed, MS};
use crate::network::{Chunks, Rates};
use pslite_core::store::SumOrder;

/// A megabit per second, in bytes.
const MBIT: u64 = 125_000;
/// Rates of cards, in Mbit/s.
const RATES: [u64; 6] = [100, 200, 300, 500, 800, 1000];
/// After the last change a job trains for about that time; its last iterations are judged.
const AFTER: Duration = Duration::from_secs(80);
const JUDGED: u64 = 10;
/// Iterations of a job.
const ITERATIONS: [u64; 2] = [30, 160];
/// How data are cut: a value of four bytes stands for a thousand.
const CHUNKS: Chunks = Chunks { bytes: 256 << 10, window: 4, weight: 1000 };
/// The last change comes then at the latest.
const CHANGED: Duration = Duration::from_secs(40);
/// No round takes less, so that few iterations take long enough; in seconds.
const SHORTEST: f64 = 0.8;
/// A round may take that many times T*.
const WITHIN: f64 = 1.15;

impl Draw {
    /// Rates change up to twice. Now and then a server joins, or is emptied.
    pub(super) fn placement(&mut self, config: &mut JobConfig, fixed: &Fixed) {
        config.servers = fixed.servers.unwrap_or_else(|| self.between(2, 4) as usize);
        config.workers = fixed.workers.unwrap_or_else(|| self.between(2, 4) as usize);
        config.replicas = u32::from(self.0.percent(40));
        in_iterations(config, CHUNKS);
        config.order = SumOrder::Arrival;
        let lengths = [100, 500, 1000, 2000, 4000];
        let tensors = self.between(2, 4);
        config.tensors.dense = (0..tensors).map(|_| self.of(&lengths)).collect();
        config.tensors.cut = self.0.percent(50).then(|| self.of(&[4000, 8000]));
        config.placement = Some(Placement { judged: JUDGED, within: WITHIN });
        match self.0.below(4) {
            0 => {
                config.joiners = 1;
                let at = self.moment();
                config.faults.push((at, Fault::Start(config.processes() - 1)));
            }
            1 => config.drains = vec![self.moment()],
            _ => {}
        }
        let mut at = Duration::ZERO;
        for _ in 0..self.between(1, 3) {
            for process in 1..config.processes() {
                let rates = self.card();
                config.faults.push((at, Fault::Rates(process, Some(rates))));
            }
            at = MS * 500 + self.0.time(CHANGED);
        }
        while shortest(config) < SHORTEST {
            config.tensors.dense.iter_mut().for_each(|length| *length *= 2);
        }
        config.program.rounds = iterations(config);
    }

    fn card(&mut self) -> Rates {
        let rate = self.of(&RATES) * MBIT;
        let down = if self.0.percent(80) { rate } else { self.of(&RATES) * MBIT };
        Rates { up: rate, down }
    }
}

/// When rates change, from the beginning on.
fn changes(config: &JobConfig) -> Vec<Duration> {
    let rates = config.faults.iter().filter(|(_, fault)| matches!(fault, Fault::Rates(..)));
    let mut changes: Vec<Duration> = rates.map(|(at, _)| *at).collect();
    changes.sort_unstable();
    changes.dedup();
    changes
}

/// T* by the rates of that time, in seconds.
fn round(config: &JobConfig, at: Duration) -> f64 {
    true_model(config, at, &BTreeMap::new()).bound(model_bytes(config))
}

/// The shortest round of the job.
fn shortest(config: &JobConfig) -> f64 {
    changes(config).into_iter().map(|at| round(config, at)).fold(f64::INFINITY, f64::min)
}

/// So many that the job trains on after the last change for long enough.
fn iterations(config: &JobConfig) -> u64 {
    let changes = changes(config);
    let ends = changes.iter().skip(1).copied().chain(changes.last().map(|last| *last + AFTER));
    let rounds = changes.iter().zip(ends).map(|(begin, end)| {
        let taken = round(config, *begin) + config.compute.as_secs_f64() / 2.0;
        end.saturating_sub(*begin).as_secs_f64() / taken
    });
    let [least, most] = ITERATIONS;
    (rounds.sum::<f64>() as u64).clamp(least, most)
}
