//! Trees through a graph, on paper: a network that a seed draws or a text describes, the scheme of
//! some name for it, what it promises, and what no scheme can beat. Nobody sends anything.
//!
//! May touch `placement::graph`; like all of `sim` no clock, no file and no chance but that of
//! [`Random`](pslite_core::random::Random).

mod draw;

use pslite_core::placement::graph::{
    Bound, Graph, GraphError, Proposal, Roots, Topology, TransferMode, bound, propose,
};

pub use draw::{DrawnGraph, LARGEST};
pub use pslite_core::placement::graph::text::{TextError, parse};
pub use pslite_core::placement::graph::{NamedGraph, drawing};

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct TreesConfig {
    /// How the trees are made.
    pub topology: Topology,
    /// Who owns which fraction of the model.
    pub shares: Vec<f64>,
    /// Bytes of the model.
    pub bytes: f64,
    /// How it travels.
    pub transfer: TransferMode,
}

/// What was planned.
#[derive(Clone, Debug)]
pub struct PlannedTrees {
    /// The trees, and the round that they promise.
    pub proposal: Proposal,
    /// T* of the network, whoever owns what.
    pub bound: Bound,
    /// The same with the owners that are given.
    pub with_owners: Bound,
    /// The round of the star, with the same owners and the same parts.
    pub star: f64,
}

impl PlannedTrees {
    /// The round by T*; 1 if there is nothing to send.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.bound.seconds > 0.0 { self.proposal.seconds / self.bound.seconds } else { 1.0 }
    }
}

/// Plans.
///
/// # Errors
/// The graph is not connected, shares or sizes are none, or the parts are too many.
pub fn planned_trees(graph: &Graph, config: &TreesConfig) -> Result<PlannedTrees, GraphError> {
    let TreesConfig { topology, ref shares, bytes, transfer } = *config;
    Ok(PlannedTrees {
        proposal: propose(graph, topology, shares, bytes, transfer)?,
        bound: bound(graph, Roots::Free, bytes)?,
        with_owners: bound(graph, Roots::Shares(shares), bytes)?,
        star: propose(graph, Topology::Star, shares, bytes, transfer)?.seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_what_their_seed_decides_and_beat_the_star() {
        let drawn = |seed| DrawnGraph::NetStorm.draw(seed).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let config = TreesConfig {
            topology: Topology::Packed,
            shares: drawn(1).owners(&["1".to_owned()]).unwrap(),
            bytes: 100e6,
            transfer: TransferMode::OURS,
        };
        let planned = planned_trees(&drawn(1).graph, &config).unwrap();
        assert!((1.0..1.3).contains(&planned.ratio()), "{}", planned.ratio());
        assert!(planned.bound.seconds <= planned.with_owners.seconds);
        assert!(planned.with_owners.seconds <= planned.proposal.seconds);
        assert!(planned.proposal.seconds < 0.4 * planned.star, "{planned:?}");
    }
}
