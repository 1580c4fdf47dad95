//! The schemes by name, and the choice among them.
//!
//! Pure. `auto` keeps to the owners that are given: a scheme that moves shares would move data.

use std::fmt;
use std::str::FromStr;

use super::routes::SiteRoutes;
use super::{Graph, GraphError, Scheme, TransferMode, Tree};
use super::{balanced, fapt, packed, predict, star, tsengine};

/// By how much a round must be shorter than that of the star before `auto` takes trees: they cost
/// processors and memory at the sites, which no prediction counts.
pub const WORTH_IT: f64 = 0.15;

/// Rounds that differ by less are the same, where one scheme needs fewer trees: each tree costs
/// every site a row of a table.
const SAME: f64 = 0.02;

/// How a scheme is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Nobody sums on the way: stock.
    Star,
    /// A balanced tree with so many children of each site, as in MLNET.
    Balanced(usize),
    /// A tree that grows by speed, as in TSEngine.
    TsEngine,
    /// NetStorm's trees at the owners that are given.
    FaptAtOwners,
    /// NetStorm: so many roots, the best ones, with shares by their delays.
    Fapt(usize),
    /// Packed trees; a star where that promises as much.
    Packed,
    /// The one whose predicted round is the shortest; the star unless that is [`WORTH_IT`].
    Auto,
}

/// A scheme, and what it promises.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// How it was made; never [`Topology::Auto`].
    pub topology: Topology,
    /// The trees.
    pub scheme: Scheme,
    /// Seconds of a round, predicted.
    pub seconds: f64,
}

/// The scheme of that name for owners with those shares (one number for each site; they add up to
/// 1), and what it promises for a model of so many bytes. [`Topology::Fapt`] chooses owners itself.
///
/// # Errors
/// The graph is not connected, shares or sizes are none, or the parts are too many.
pub fn propose(
    graph: &Graph,
    topology: Topology,
    shares: &[f64],
    bytes: f64,
    transfer: TransferMode,
) -> Result<Proposal, GraphError> {
    graph.check(shares)?;
    let proposed = |topology| {
        best_of(topology, candidates(graph, topology, shares), |scheme| {
            predict(graph, scheme, bytes, transfer)
        })
    };
    if topology != Topology::Auto {
        return proposed(topology);
    }
    let star = proposed(Topology::Star)?;
    let mut best = star.clone();
    for topology in Topology::TREES {
        let found = proposed(topology)?;
        if found.seconds < best.seconds {
            best = found;
        }
    }
    let enough = star.seconds * (1.0 - WORTH_IT);
    Ok(if best.seconds <= enough { best } else { star })
}

/// Of those whose predicted rounds are about the shortest, the one with the fewest trees.
fn best_of(
    topology: Topology,
    schemes: Vec<Scheme>,
    predicted: impl Fn(&Scheme) -> Result<f64, GraphError>,
) -> Result<Proposal, GraphError> {
    let of = |scheme: Scheme| {
        let seconds = predicted(&scheme)?;
        Ok(Proposal { topology, scheme, seconds })
    };
    let mut all = schemes.into_iter().map(of).collect::<Result<Vec<Proposal>, GraphError>>()?;
    let least = all.iter().map(|found| found.seconds).fold(f64::INFINITY, f64::min);
    all.retain(|found| found.seconds <= least * (1.0 + SAME));
    let fewer = |a: &Proposal, b: &Proposal| {
        let trees = a.scheme.trees.len().cmp(&b.scheme.trees.len());
        trees.then(a.seconds.total_cmp(&b.seconds))
    };
    all.into_iter().min_by(fewer).ok_or(GraphError::Shares("there is no owner"))
}

/// The schemes of a name. Only a packing has several: it is a star where nothing is better.
fn candidates(graph: &Graph, topology: Topology, shares: &[f64]) -> Vec<Scheme> {
    let sites = graph.sites();
    let of_each = |tree: &dyn Fn(usize, f64) -> Tree| {
        let owners = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
        owners.map(|(root, share)| tree(root, *share)).collect::<Vec<Tree>>()
    };
    let star = || of_each(&|root, share| star::star(sites, root, share));
    let all = match topology {
        Topology::Star => vec![star()],
        Topology::Balanced(children) => {
            vec![of_each(&|root, share| balanced::balanced(sites, root, children, share))]
        }
        Topology::TsEngine => {
            let routes = SiteRoutes::new(graph);
            vec![of_each(&|root, share| tsengine::tsengine(graph, &routes, root, share))]
        }
        Topology::FaptAtOwners => vec![fapt::at_owners(graph, shares)],
        Topology::Fapt(roots) => vec![fapt::best_roots(graph, roots)],
        Topology::Packed | Topology::Auto => {
            let mut all = packed::packings(graph, shares);
            all.push(star());
            all
        }
    };
    all.into_iter().map(|trees| Scheme { trees }).collect()
}

/// The scheme of a topology that needs no rates: star and balanced trees. `shares`: what each site
/// owns. None of any other topology, or of shares of which none is positive.
#[must_use]
pub fn blind(topology: Topology, shares: &[f64]) -> Option<Scheme> {
    let owners = (0..).zip(shares).filter(|(_, share)| **share > 0.0);
    let tree = |(root, share): (usize, &f64)| match topology {
        Topology::Star => Some(star::star(shares.len(), root, *share)),
        Topology::Balanced(children) => {
            Some(balanced::balanced(shares.len(), root, children, *share))
        }
        _ => None,
    };
    let trees = owners.map(tree).collect::<Option<Vec<Tree>>>()?;
    (!trees.is_empty()).then_some(Scheme { trees })
}

impl Topology {
    /// What `auto` compares with the star, the dearest to compute last: of two that promise the
    /// same the first is taken.
    const TREES: [Self; 4] = [Self::FaptAtOwners, Self::TsEngine, Self::Balanced(2), Self::Packed];
    /// How names are spelled.
    pub const NAMES: &'static str = "star, balanced:K, tsengine, fapt, fapt:R, packed, auto";
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => f.write_str("star"),
            Self::Balanced(children) => write!(f, "balanced:{children}"),
            Self::TsEngine => f.write_str("tsengine"),
            Self::FaptAtOwners => f.write_str("fapt"),
            Self::Fapt(roots) => write!(f, "fapt:{roots}"),
            Self::Packed => f.write_str("packed"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let wrong = || format!("{name}: what follows the colon is a number from 1");
            text.parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(wrong)
        };
        match name.split_once(':') {
            Some(("balanced", children)) => Ok(Self::Balanced(number(children)?)),
            Some(("fapt", roots)) => Ok(Self::Fapt(number(roots)?)),
            None if name == "star" => Ok(Self::Star),
            None if name == "tsengine" => Ok(Self::TsEngine),
            None if name == "fapt" => Ok(Self::FaptAtOwners),
            None if name == "packed" => Ok(Self::Packed),
            None if name == "auto" => Ok(Self::Auto),
            _ => Err(format!("there are {}", Self::NAMES)),
        }
    }
}
