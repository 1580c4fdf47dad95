//! [`Graph`]: sites, and what carries bytes from one to another. Must not know of trees.

use std::collections::{BTreeMap, BTreeSet};

use super::cells;
use super::error::GraphError;
use super::limits::{MOST_SITES, SHARE_SLACK};

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
    pub(super) fn check(&self, shares: &[f64]) -> Result<(), GraphError> {
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
