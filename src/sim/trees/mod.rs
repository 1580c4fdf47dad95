//! Trees through a graph, on paper: a network that a seed draws or a text describes, the scheme of
//! some name for it, what it promises, and what no scheme can beat. Nobody sends anything.
//!
//! May touch `placement::graph`; like all of `sim` no clock, no file and no chance but that of
//! [`Random`](pslite_core::random::Random).

mod draw;
mod drawing;
mod text;

use pslite_core::placement::graph::{
    Bound, Graph, GraphError, Proposal, Roots, Topology, Transfer, bound, propose,
};

pub use draw::{DrawnGraph, LARGEST};
pub use drawing::drawing;
pub use text::{TextError, parse};

/// A graph whose sites have names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedGraph {
    /// The graph.
    pub graph: Graph,
    /// The name of each site: its number from 1, unless a text gave another.
    pub names: Vec<String>,
}

impl NamedGraph {
    fn numbered(graph: Graph) -> Self {
        let names = (1..=graph.sites()).map(|number| number.to_string()).collect();
        Self { graph, names }
    }

    /// What is wrong, with the names of sites.
    #[must_use]
    pub fn explain(&self, wrong: &GraphError) -> String {
        let name = |site: usize| self.names.get(site).map_or("?", String::as_str);
        match wrong {
            GraphError::Apart { from, to } => format!(
                "no way leads from site {} to site {}: add a link, give one a rate above 0, or \
                 leave the site out",
                name(*from),
                name(*to)
            ),
            wrong => wrong.to_string(),
        }
    }

    /// Equal shares for those sites, by name; for all if none is named.
    ///
    /// # Errors
    /// There is no site of such a name.
    pub fn owners(&self, named: &[String]) -> Result<Vec<f64>, String> {
        let owns = |name: &String| named.is_empty() || named.contains(name);
        if let Some(unknown) = named.iter().find(|name| !self.names.contains(name)) {
            let known = self.names.join(", ");
            return Err(format!("there is no site {unknown}: the sites are {known}"));
        }
        let owners: Vec<f64> =
            self.names.iter().map(|name| if owns(name) { 1.0 } else { 0.0 }).collect();
        let count: f64 = owners.iter().sum();
        Ok(owners.into_iter().map(|owner| owner / count).collect())
    }
}

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
    pub transfer: Transfer,
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
            transfer: Transfer::OURS,
        };
        let planned = planned_trees(&drawn(1).graph, &config).unwrap();
        assert!((1.0..1.3).contains(&planned.ratio()), "{}", planned.ratio());
        assert!(planned.bound.seconds <= planned.with_owners.seconds);
        assert!(planned.with_owners.seconds <= planned.proposal.seconds);
        assert!(planned.proposal.seconds < 0.4 * planned.star, "{planned:?}");
    }

    #[test]
    fn owners_are_named() {
        let drawn = DrawnGraph::Switch(4).draw(0).unwrap();
        assert_eq!(drawn.owners(&[]).unwrap(), [0.25; 4]);
        assert_eq!(drawn.owners(&["2".into(), "4".into()]).unwrap(), [0.0, 0.5, 0.0, 0.5]);
        let wrong = drawn.owners(&["5".into()]).unwrap_err();
        assert_eq!(wrong, "there is no site 5: the sites are 1, 2, 3, 4");
    }
}
