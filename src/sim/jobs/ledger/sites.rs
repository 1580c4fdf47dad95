//! [`Invariant::Planted`]: at the end of a job whose trees are planned by what links carry, rounds
//! take little longer than along the trees that would be planned by the true rates of all links;
//! and trees do not change to and fro.

use super::super::config::{JobConfig, LinkedSites};
use super::super::network_model::model_bytes;
use super::{Invariant, Ledger};
use pslite_core::cluster::Cluster;
use pslite_core::placement::graph::{
    GraphError, Proposal, Roots, ServingOrder, Topology, TransferMode, bound, propose,
};

/// Changes of the trees in the last iterations that are too many: nothing has happened for long.
const RESTLESS: usize = 3;

impl Ledger {
    /// The job is over. `cluster`: what the scheduler knows.
    pub(in super::super) fn judge_trees(
        &mut self,
        sites: &LinkedSites,
        config: &JobConfig,
        cluster: &Cluster,
    ) {
        let Some(judged) = self.iterations.last(sites.judged as usize) else {
            let text = format!("fewer than {} iterations: too few to judge", sites.judged);
            return self.found(Invariant::Planted, [text]);
        };
        let seconds = judged.seconds - config.compute.as_secs_f64() / 2.0;
        let best = match best(sites, config, cluster) {
            Ok(best) => best,
            Err(error) => return self.found(Invariant::Planted, [error.to_string()]),
        };
        let ratio = seconds / best.proposal.seconds;
        self.say(format!(
            "planted: a round takes {seconds:.3} s, {ratio:.2} times what the best trees would \
             ({}, {:.3} s; T* {:.3} s); {} trees, changed {} times, {:?}, expected {:.3}",
            best.proposal.topology,
            best.proposal.seconds,
            best.bound,
            cluster.overlay().trees.len(),
            self.iterations.plans(),
            config.order,
            self.iterations.expected.unwrap_or(0.0),
        ));
        // Nothing is planned of a star, whose messages go along several links in any order.
        let is_star =
            best.proposal.topology == Topology::Star && cluster.overlay().trees.is_empty();
        let slow = (ratio > sites.within && !is_star).then(|| {
            let best = best.proposal.seconds;
            format!(
                "a round takes {seconds:.3} s, {ratio:.2} times the {best:.3} s of the best trees"
            )
        });
        let restless = (judged.plans >= RESTLESS).then(|| {
            let plans = judged.plans;
            format!("trees changed {plans} times in the last {} iterations", sites.judged)
        });
        self.found(Invariant::Planted, slow.into_iter().chain(restless));
    }
}

/// The best that can be planned.
struct BestTrees {
    proposal: Proposal,
    /// T*, with those owners.
    bound: f64,
}

/// The trees that would be planned by the true rates at the end, for where keys are.
fn best(
    sites: &LinkedSites,
    config: &JobConfig,
    cluster: &Cluster,
) -> Result<BestTrees, GraphError> {
    let graph = sites.rates.last().unwrap_or(&sites.told.graph);
    let mut shares = vec![0.0; graph.sites()];
    for piece in cluster.pieces().values().flat_map(|key| &key.pieces) {
        let host = cluster.node(piece.owner).map(|node| &node.hostname);
        let site = sites.told.names.iter().position(|name| Some(name) == host);
        site.and_then(|site| shares.get_mut(site))
            .into_iter()
            .for_each(|share| *share += (piece.to - piece.from) as f64);
    }
    let all: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= all);
    let bytes = model_bytes(config);
    let weight = config.network.chunks.map_or(1, |chunks| chunks.weight);
    let transfer = TransferMode {
        part: (sites.part_bytes as u64 * weight) as f64,
        order: ServingOrder::Round,
    };
    Ok(BestTrees {
        proposal: propose(graph, sites.topology, &shares, bytes, transfer)?,
        bound: bound(graph, Roots::Shares(&shares), bytes)?.seconds,
    })
}
