//! Sites with links between them, whose rates change while the job trains.

use std::time::Duration;

use super::super::config::{Fault, JobConfig, LinkedSites};
use super::super::network_model::model_bytes;
use super::iterations::in_iterations;
use super::{Draw, Fixed, MS};
use crate::network::Chunks;
use crate::trees::DrawnGraph;
use pslite_core::placement::graph::{Graph, NamedGraph, Roots, Topology, bound};
use pslite_core::store::SumOrder;

/// After the last change a job trains for about that time; its last iterations are judged.
const AFTER: f64 = 30.0;
const JUDGED: u64 = 8;
/// Iterations of a job.
const ITERATIONS: [f64; 2] = [20.0, 60.0];
/// How data are cut: a value of four bytes stands for a thousand.
const CHUNKS: Chunks = Chunks { bytes: 64 << 10, window: 4, weight: 1000 };
/// As short as parts are along trees (`pslite_core::trees::SHORTEST_PART`).
const PART_BYTES: usize = 64;
/// The last change comes then at the latest.
const CHANGED: Duration = Duration::from_secs(20);
/// No round takes less, so that few iterations take long enough; in seconds.
const SHORTEST: f64 = 1.0;
/// An iteration may take that many times what the best trees would take.
const WITHIN: f64 = 1.15;

impl Draw {
    /// Links of drawn rates, which change up to twice; what the scheduler is told of them may be
    /// wrong from the beginning. It is right, and stays so, where it decides: where trees are to be
    /// the same in every run, and for `auto`, which measures nothing once it has taken the star.
    pub(super) fn sites(&mut self, config: &mut JobConfig, fixed: &Fixed) {
        let number = fixed.workers.unwrap_or_else(|| self.between(3, 6) as usize).max(2);
        let kind = match self.0.below(2) {
            0 => DrawnGraph::Mesh(number),
            _ => DrawnGraph::Random(number),
        };
        let Ok(told) = kind.draw(self.0.below(u64::MAX)) else { return };
        config.workers = number;
        config.servers =
            fixed.servers.unwrap_or_else(|| self.between(1, number as u64) as usize).min(number);
        config.replicas = 0;
        in_iterations(config, CHUNKS);
        let topology = self.of(&[Topology::Packed, Topology::Packed, Topology::Auto]);
        config.order = self.of(&[SumOrder::Arrival, SumOrder::Arrival, SumOrder::Trees]);
        let is_measured = config.order == SumOrder::Arrival && topology == Topology::Packed;
        let lengths = [50, 100, 200];
        config.tensors.dense = (0..self.between(1, 4)).map(|_| self.of(&lengths)).collect();
        let mut large = self.of(&[2000, 4000]);
        config.tensors.cut = Some(large);
        let rates = match is_measured {
            true => self.rates_of(&told),
            false => vec![told.graph.clone()],
        };
        let mut at = Duration::ZERO;
        let mut changes = Vec::new();
        for change in 0..rates.len() {
            changes.push(at);
            config.faults.push((at, Fault::Links(change)));
            at = MS * 500 + at + self.0.time(CHANGED / 2);
        }
        let (judged, within, part_bytes) = (JUDGED, WITHIN, PART_BYTES);
        let sites = LinkedSites { told, topology, part_bytes, rates, judged, within };
        while shortest(config, &sites) < SHORTEST {
            large *= 2;
            config.tensors.cut = Some(large);
        }
        config.program.rounds = iterations(config, &sites, &changes);
        config.sites = Some(sites);
    }

    /// What the links carry, and what they carry later.
    fn rates_of(&mut self, told: &NamedGraph) -> Vec<Graph> {
        let mut all = Vec::new();
        for change in 0..self.between(1, 3) {
            let wrong = change > 0 || self.0.percent(50);
            let other = |rate: &f64| if wrong { rate * self.factor() } else { *rate };
            let rates = told.graph.resources().iter().map(other).collect();
            all.extend(told.graph.with_rates(rates));
        }
        all
    }

    /// The factor by which the rate of a link changes.
    fn factor(&mut self) -> f64 {
        self.of(&[0.2, 0.5, 1.0, 1.0, 1.0, 2.0])
    }
}

/// T* by those rates, in seconds.
fn round(config: &JobConfig, graph: &Graph) -> f64 {
    bound(graph, Roots::Free, model_bytes(config)).map_or(f64::INFINITY, |bound| bound.seconds)
}

/// The shortest round of the job.
fn shortest(config: &JobConfig, sites: &LinkedSites) -> f64 {
    sites.rates.iter().map(|graph| round(config, graph)).fold(f64::INFINITY, f64::min)
}

/// So many that the job trains on after the last change for long enough.
fn iterations(config: &JobConfig, sites: &LinkedSites, changes: &[Duration]) -> u64 {
    let last = changes.last().map_or(0.0, Duration::as_secs_f64) + AFTER;
    let ends = changes.iter().skip(1).map(Duration::as_secs_f64).chain([last]);
    let rounds = changes.iter().zip(ends).zip(&sites.rates).map(|((begin, end), graph)| {
        let taken = round(config, graph) + config.compute.as_secs_f64() / 2.0;
        (end - begin.as_secs_f64()) / taken
    });
    let [least, most] = ITERATIONS;
    rounds.sum::<f64>().clamp(least, most) as u64
}
