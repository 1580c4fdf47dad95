//! Trees through a network that is no switch: sites that are joined by few, slow, uneven links. How
//! short a round could be, how long it takes by a scheme, and which schemes there are.
//! `docs/trees.md` tells it as a whole; docs/algorithms.md 1 and 5 has the sources.
//!
//! | module | what it is |
//! |---|---|
//! | this one | [`Graph`]: resources and edges, for cards and for links |
//! | [`scheme`] | trees, their shares, and what must hold of them |
//! | [`bound`] | T*: no scheme can give a shorter round |
//! | [`predict`] | the round that a scheme gives, part by part |
//! | [`topology`] | the schemes by name, and the choice among them |
//! | `star`, `balanced`, `tsengine`, `fapt`, `packed` | one kind of scheme each |
//! | [`ways`] | ways that share no site between |
//! | [`netstorm`] | NetStorm's nine sites |
//! | `named`, [`text`], `drawing` | names of sites; a graph, and a tree, as people read them |
//! | `pack`, `weighted`, `master`, `arborescence`, `routes` | what they are computed with |
//!
//! Pure: rates in bytes per second, sizes in bytes, times in seconds; the same input gives the same
//! output to the bit. Sites are numbers from 0. It knows nothing of nodes, keys or messages.

mod arborescence;
mod balanced;
mod bound;
mod cells;
mod drawing;
mod fapt;
mod master;
mod named;
pub mod netstorm;
mod pack;
mod packed;
mod predict;
mod routes;
pub mod scheme;
mod star;
#[cfg(test)]
mod tests;
pub mod text;
pub mod topology;
mod tsengine;
mod ways;
mod weighted;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

pub use bound::{Bound, MOST_PACKED, Roots, bound};
pub use drawing::drawing;
pub use named::NamedGraph;
pub use predict::{ServingOrder, Transfer, predict};
pub use scheme::{Scheme, Tree};
pub use topology::{Proposal, Topology, blind, propose};
pub use ways::ways;

/// Sites of a graph, at most: the routes of all pairs are kept.
pub const MOST_SITES: usize = 256;
/// Shares that add up to 1 within that do add up.
const SHARE_SLACK: f64 = 1e-6;

/// What is wrong with a graph, with what is asked of it, or with a scheme. Sites are counted from 1
/// here, as people do.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum GraphError {
    /// It has no sites, or more than [`MOST_SITES`].
    #[error("{0} sites: a graph has 1 to {MOST_SITES}")]
    Sites(usize),
    /// An edge that is none.
    #[error("edge {number} (site {from} to {to}): {wrong}", from = .from + 1, to = .to + 1)]
    Edge {
        /// Which one, from 0.
        number: usize,
        /// Where it begins.
        from: usize,
        /// Where it ends.
        to: usize,
        /// What is wrong.
        wrong: &'static str,
    },
    /// A rate that is none.
    #[error("the rate of resource {number} is {rate}: give bytes per second, 0 if it is down")]
    Rate {
        /// Which one, from 0.
        number: usize,
        /// What it has.
        rate: f64,
    },
    /// No way leads from one site to another.
    #[error(
        "no path leads from site {from} to site {to}: add a link, give one a rate above 0, or \
         leave the site out",
        from = .from + 1, to = .to + 1
    )]
    Apart {
        /// Where one cannot leave.
        from: usize,
        /// Where one cannot arrive.
        to: usize,
    },
    /// Shares of owners that are none.
    #[error("the shares of the owners: {0}")]
    Shares(&'static str),
    /// A scheme breaks a promise.
    #[error("tree {tree}: {wrong}")]
    Broken {
        /// Which one, from 0.
        tree: usize,
        /// Which promise.
        wrong: String,
    },
    /// A prediction would take too long.
    #[error("{parts} parts for {sites} sites are too many to predict: take larger parts")]
    TooFine {
        /// Parts of the model.
        parts: u64,
        /// Sites of the graph.
        sites: usize,
    },
    /// A size that is none.
    #[error("{0}")]
    Size(&'static str),
}

/// A direct way from one site to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The site that sends.
    pub from: usize,
    /// The site that receives.
    pub to: usize,
    /// What each byte takes, in this order: one for a link, two for a path between cards (the
    /// sender's way up, the receiver's way down), three for a link between sites whose access is
    /// limited.
    pub resources: Vec<usize>,
}

/// A network of sites. Each site has a worker, and may own a share of the model. What has a rate of
/// its own is a *resource*: a link in one direction, a card's way up, its way down. Edges that name
/// the same resource share it. So a switch with cards and a mesh of links are one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    sites: usize,
    resources: Vec<f64>,
    edges: Vec<Edge>,
    between: BTreeMap<(usize, usize), usize>,
}

impl Graph {
    /// A graph of sites `0..sites`; resources by their rates in bytes per second. An edge one of
    /// whose resources has the rate 0 is down: nothing goes over it.
    ///
    /// # Errors
    /// What [`GraphError`] says of sites, edges and rates.
    pub fn new(sites: usize, resources: Vec<f64>, edges: Vec<Edge>) -> Result<Self, GraphError> {
        if !(1..=MOST_SITES).contains(&sites) {
            return Err(GraphError::Sites(sites));
        }
        for (number, rate) in resources.iter().enumerate() {
            if !rate.is_finite() || *rate < 0.0 {
                return Err(GraphError::Rate { number, rate: *rate });
            }
        }
        let mut between = BTreeMap::new();
        for (number, edge) in edges.iter().enumerate() {
            let Edge { from, to, .. } = *edge;
            let wrong = wrong_edge(edge, sites, resources.len());
            let twice = between.insert((from, to), number).is_some();
            let twice = twice.then_some("the second one between them: give one, with the sum");
            if let Some(wrong) = wrong.or(twice) {
                return Err(GraphError::Edge { number, from, to, wrong });
            }
        }
        between
            .retain(|_, number| edges.get(*number).is_some_and(|e| slowest(e, &resources) > 0.0));
        Ok(Self { sites, resources, edges, between })
    }

    /// The same graph with other rates of its resources, in bytes per second.
    ///
    /// # Errors
    /// [`GraphError::Rate`], or there are not as many as before.
    pub fn with_rates(&self, resources: Vec<f64>) -> Result<Self, GraphError> {
        Self::new(self.sites, resources, self.edges.clone())
    }

    /// What carries the bytes of one edge alone, of all edges that have such a thing: where it
    /// begins and ends, and the resource. Of a link with cards at its ends that is the link.
    pub fn own_resources(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut users = vec![0_usize; self.resources.len()];
        for resource in self.edges.iter().flat_map(|edge| &edge.resources) {
            if let Some(users) = users.get_mut(*resource) {
                *users += 1;
            }
        }
        self.edges.iter().filter_map(move |edge| {
            let alone = |resource: &&usize| users.get(**resource) == Some(&1);
            let own = edge.resources.iter().find(alone)?;
            Some((edge.from, edge.to, *own))
        })
    }

    /// How many sites there are.
    #[must_use]
    pub const fn sites(&self) -> usize {
        self.sites
    }

    /// The rates of all resources, in bytes per second.
    #[must_use]
    pub fn resources(&self) -> &[f64] {
        &self.resources
    }

    /// All edges, those that are down too, in the order in which they were given.
    pub(super) fn all_edges(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter()
    }

    /// The edges over which something goes, by where they begin and end.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.between.values().filter_map(|number| self.edges.get(*number))
    }

    /// The direct way from one site to another, unless it is down.
    #[must_use]
    pub fn edge(&self, from: usize, to: usize) -> Option<&Edge> {
        self.edges.get(*self.between.get(&(from, to))?)
    }

    /// The rate of an edge that has all its resources for itself.
    #[must_use]
    pub fn rate(&self, edge: &Edge) -> f64 {
        slowest(edge, &self.resources)
    }

    /// Whether each site reaches each other one, without which no round can end.
    ///
    /// # Errors
    /// It names two sites between which no way leads.
    pub fn connected(&self) -> Result<(), GraphError> {
        if let Some(to) = self.unreached(|edge| (edge.from, edge.to)) {
            return Err(GraphError::Apart { from: 0, to });
        }
        match self.unreached(|edge| (edge.to, edge.from)) {
            Some(from) => Err(GraphError::Apart { from, to: 0 }),
            None => Ok(()),
        }
    }

    /// The first site to which no path leads from site 0, over edges as `ends` reads them.
    fn unreached(&self, ends: impl Fn(&Edge) -> (usize, usize)) -> Option<usize> {
        let mut next = vec![Vec::new(); self.sites];
        for (from, to) in self.edges().map(ends) {
            if let Some(next) = next.get_mut(from) {
                next.push(to);
            }
        }
        let (mut reached, mut open) = (BTreeSet::from([0]), vec![0]);
        while let Some(site) = open.pop() {
            for to in next.get(site).into_iter().flatten() {
                if reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        (0..self.sites).find(|site| !reached.contains(site))
    }

    /// Looks at what every question begins with: each site reaches each other one, and the shares
    /// are one number for each site, none below 0, and add up to 1.
    fn check(&self, shares: &[f64]) -> Result<(), GraphError> {
        if shares.len() != self.sites {
            return Err(GraphError::Shares("give one for each site, 0 where there is no owner"));
        }
        if !shares.iter().all(|share| share.is_finite() && *share >= 0.0) {
            return Err(GraphError::Shares("none may be below 0"));
        }
        if (shares.iter().sum::<f64>() - 1.0).abs() > SHARE_SLACK {
            return Err(GraphError::Shares("they must add up to 1"));
        }
        self.connected()
    }
}

fn wrong_edge(edge: &Edge, sites: usize, resources: usize) -> Option<&'static str> {
    let distinct: BTreeSet<&usize> = edge.resources.iter().collect();
    if edge.from >= sites || edge.to >= sites {
        Some("there is no such site")
    } else if edge.from == edge.to {
        Some("it ends where it begins")
    } else if edge.resources.is_empty() {
        Some("it names no resource, so its rate is not known")
    } else if edge.resources.iter().any(|resource| *resource >= resources) {
        Some("there is no such resource")
    } else if distinct.len() < edge.resources.len() {
        Some("it names a resource twice")
    } else {
        None
    }
}

fn slowest(edge: &Edge, resources: &[f64]) -> f64 {
    let rates = edge.resources.iter().map(|resource| cells::at(resources, *resource));
    rates.fold(f64::INFINITY, f64::min)
}
