//! [`Invariant::Placed`]: at the end of a job whose keys are placed they are where rounds take
//! little longer than T*, by the cost model for the true rates of all cards; and pieces do not go
//! to and fro.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::config::{JobConfig, Placement};
use super::super::network_model::true_model;
use super::{Invariant, Ledger};
use crate::network::Process;
use pslite_core::cluster::Cluster;
use pslite_core::placement::cost::Replicas;
use pslite_core::values::Dtype;
use pslite_core::wire::NodeId;

/// When the iterations of the first worker began.
#[derive(Debug, Default)]
pub(super) struct Iterations {
    begun: Vec<Duration>,
    /// Plans so far: how many iterations had begun by then.
    planned: Vec<usize>,
    /// What the planners expect of a round, in seconds.
    pub(super) expected: Option<f64>,
}

/// The last iterations of the first worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastIterations {
    /// Seconds of one, with what it computes.
    pub(super) seconds: f64,
    /// Plans that were made meanwhile.
    pub(super) plans: usize,
}

impl Iterations {
    /// The last ones of that number; none: there were fewer.
    pub(super) fn last(&self, number: usize) -> Option<LastIterations> {
        let from = self.begun.len().checked_sub(number + 1)?;
        let time = self.begun.last()?.saturating_sub(*self.begun.get(from)?);
        let plans = self.planned.iter().filter(|at| **at > from).count();
        Some(LastIterations { seconds: time.as_secs_f64() / number as f64, plans })
    }

    /// All plans.
    pub(super) const fn plans(&self) -> usize {
        self.planned.len()
    }
}

/// Plans in the last iterations that are too many: nothing has happened for long.
const RESTLESS: usize = 3;

impl Ledger {
    /// A worker begins an iteration.
    pub(in super::super) fn iteration_begun(&mut self, worker: usize, now: Duration) {
        if worker == 0 {
            self.iterations.begun.push(now);
        }
    }

    /// The scheduler orders moves, or gives out other trees.
    pub(in super::super) fn moves_planned(&mut self) {
        self.iterations.planned.push(self.iterations.begun.len());
    }

    /// What the planners expect of a round now.
    pub(in super::super) fn rounds_expected(&mut self, round: Option<Duration>) {
        self.iterations.expected = round.map(|round| round.as_secs_f64());
    }

    /// How many plans were ordered, and how many iterations the first worker computed.
    #[must_use]
    pub const fn plans_and_iterations(&self) -> (usize, usize) {
        (self.iterations.plans(), self.iterations.begun.len())
    }

    /// The job is over. `cluster`: what the scheduler knows. `nodes`: who each process is.
    pub(in super::super) fn judge_placement(
        &mut self,
        placement: &Placement,
        config: &JobConfig,
        cluster: &Cluster,
        nodes: &BTreeMap<Process, NodeId>,
    ) {
        let judged = placement.judged;
        let Some(last) = self.iterations.last(judged as usize) else {
            let text = format!("fewer than {judged} iterations: too few to judge");
            return self.found(Invariant::Placed, [text]);
        };
        let seconds = last.seconds - config.compute.as_secs_f64() / 2.0;
        let pairs = cluster.policy().copies.iter().map(|copy| (copy.owner, copy.holder)).collect();
        let model = true_model(config, config.time_max, nodes);
        let model = match config.replicas {
            0 => model,
            _ => model.with_replicas(Replicas::Given { ratio: 1.0, pairs }),
        };
        let policy = cluster.policy();
        let serves = |id: &NodeId| policy.servers.contains(id) && !policy.draining.contains(id);
        let gone: Vec<NodeId> =
            model.servers().iter().map(|server| server.id).filter(|id| !serves(id)).collect();
        let model = gone.iter().fold(model, |model, id| model.with_usable(*id, false));
        let loads: Vec<f64> =
            model.servers().iter().map(|one| bytes_of(cluster, config, one.id)).collect();
        let (here, bound) = (model.round_seconds(&loads), model.bound(loads.iter().sum()));
        self.say(format!(
            "placed: by the true rates a round takes {here:.3} s ({:.2} times T*), and takes \
             {seconds:.3} s ({:.2} times that); {} plans",
            here / bound,
            seconds / here,
            self.iterations.plans()
        ));
        let ill = (here > placement.within * bound).then(|| {
            let ratio = here / bound;
            format!("keys lie so that rounds take {here:.3} s, {ratio:.2} times T* ({bound:.3} s)")
        });
        let late = last.plans;
        let restless = (late >= RESTLESS)
            .then(|| format!("{late} plans in the last {judged} iterations, long after a change"));
        self.found(Invariant::Placed, ill.into_iter().chain(restless));
    }
}

/// Bytes that a server holds, as they are charged. (What it said of that itself may be wrong.)
fn bytes_of(cluster: &Cluster, config: &JobConfig, server: NodeId) -> f64 {
    let pieces = cluster.pieces().values().flat_map(|key| &key.pieces);
    let held = pieces.filter(|piece| piece.owner == server).map(|piece| piece.to - piece.from);
    let weight = config.network.chunks.map_or(1, |chunks| chunks.weight);
    (held.sum::<u64>() * Dtype::F32.size() as u64 * weight) as f64
}
