//! Graphs that a seed draws.

use std::collections::BTreeSet;
use std::str::FromStr;

use pslite_core::placement::graph::netstorm::{RATES, graph, of_links};
use pslite_core::placement::graph::{Edge, Graph, GraphError, MOST_SITES};
use pslite_core::random::Random;

use super::NamedGraph;
use pslite_core::placement::graph::text::MBIT;

/// Sites of a graph that is drawn, at most.
pub const LARGEST: usize = MOST_SITES;
/// The rate of each card of a switch, in Mbit/s.
const CARD: f64 = 1000.0;

/// A kind of graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnGraph {
    /// NetStorm's nine sites and thirteen links; rates from 20 to 155 Mbit/s, for each direction.
    NetStorm,
    /// So many sites, each pair of which has a link with such rates.
    Mesh(usize),
    /// So many sites, joined by half as many links again, at random, with such rates.
    Random(usize),
    /// So many sites on a switch, with equal cards. The seed has no say.
    Switch(usize),
}

impl DrawnGraph {
    /// How names are spelled.
    pub const NAMES: &'static str = "netstorm, mesh:N, random:N, switch:N";

    /// The graph of a seed.
    ///
    /// # Errors
    /// It has more sites than a graph may have.
    pub fn draw(self, seed: u64) -> Result<NamedGraph, GraphError> {
        let mut random = Random::new(seed);
        let links = match self {
            Self::Mesh(sites) | Self::Random(sites) | Self::Switch(sites) if sites > LARGEST => {
                return Err(GraphError::Sites(sites));
            }
            Self::Switch(sites) => return switch(sites).map(NamedGraph::numbered),
            Self::NetStorm => {
                let drawn = graph(|| rate(&mut random))?;
                return Ok(NamedGraph::numbered(drawn));
            }
            Self::Mesh(sites) => pairs(sites),
            Self::Random(sites) => joined(sites, &mut random),
        };
        let (Self::Mesh(sites) | Self::Random(sites) | Self::Switch(sites)) = self else {
            return Err(GraphError::Sites(0));
        };
        of_links(sites, &links, || rate(&mut random)).map(NamedGraph::numbered)
    }
}

fn rate(random: &mut Random) -> f64 {
    (RATES.0 + (RATES.1 - RATES.0) * random.unit()) * MBIT
}

fn pairs(sites: usize) -> Vec<(usize, usize)> {
    (0..sites).flat_map(|a| (a + 1..sites).map(move |b| (a, b))).collect()
}

/// Links of a connected graph: each site with one before it, and then some more.
fn joined(sites: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut links = BTreeSet::new();
    for site in 1..sites {
        #[allow(clippy::cast_possible_truncation, reason = "below the number of sites")]
        links.insert((random.below(site as u64) as usize, site));
    }
    let mut free: Vec<(usize, usize)> =
        pairs(sites).into_iter().filter(|pair| !links.contains(pair)).collect();
    for _ in 0..sites / 2 {
        if free.is_empty() {
            break;
        }
        #[allow(clippy::cast_possible_truncation, reason = "below the length of the list")]
        let place = random.below(free.len() as u64) as usize;
        links.insert(free.swap_remove(place));
    }
    links.into_iter().collect()
}

/// Sites whose cards are alike.
fn switch(sites: usize) -> Result<Graph, GraphError> {
    let ways = (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let edges =
        ways.map(|(from, to)| Edge { from, to, resources: vec![2 * from, 2 * to + 1] }).collect();
    Graph::new(sites, vec![CARD * MBIT; 2 * sites], edges)
}

impl FromStr for DrawnGraph {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let sites = |text: &str| {
            let number = text.parse::<usize>().ok();
            let wrong = || format!("{name}: what follows the colon is 1 to {LARGEST} sites");
            number.filter(|sites| (1..=LARGEST).contains(sites)).ok_or_else(wrong)
        };
        match name.split_once(':') {
            None if name == "netstorm" => Ok(Self::NetStorm),
            Some(("mesh", text)) => Ok(Self::Mesh(sites(text)?)),
            Some(("random", text)) => Ok(Self::Random(sites(text)?)),
            Some(("switch", text)) => Ok(Self::Switch(sites(text)?)),
            _ => Err(format!("there are {}", Self::NAMES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_by_name() {
        assert_eq!("netstorm".parse(), Ok(DrawnGraph::NetStorm));
        assert_eq!("mesh:12".parse(), Ok(DrawnGraph::Mesh(12)));
        for wrong in ["mesh", "mesh:", "mesh:0", "mesh:257", "ring:3", ""] {
            assert!(wrong.parse::<DrawnGraph>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn they_are_connected_and_have_their_rates() {
        for kind in ["netstorm", "mesh:5", "random:1", "random:2", "random:20", "switch:3"] {
            for seed in 0..20 {
                let drawn = kind.parse::<DrawnGraph>().unwrap().draw(seed).unwrap();
                assert_eq!(drawn.graph.connected(), Ok(()), "{kind} {seed}");
                let rates = drawn.graph.resources();
                assert!(kind == "switch:3" || rates.iter().all(|r| *r >= 20.0 * MBIT), "{kind}");
                assert!(kind == "switch:3" || rates.iter().all(|r| *r < 155.0 * MBIT), "{kind}");
            }
        }
        let links = |kind: DrawnGraph| kind.draw(3).unwrap().graph.edges().count();
        assert_eq!(links(DrawnGraph::Random(20)), 2 * (19 + 10));
        assert_eq!(links(DrawnGraph::NetStorm), 26);
        assert!(DrawnGraph::Mesh(100_000).draw(0).is_err());
    }

    /// NetStorm's rates are 87.5 Mbit/s on average.
    #[test]
    fn rates_are_spread_evenly() {
        let mean = |seed| {
            let drawn = DrawnGraph::NetStorm.draw(seed).unwrap();
            drawn.graph.resources().iter().sum::<f64>() / 26.0 / MBIT
        };
        let all: f64 = (0..200).map(mean).sum::<f64>() / 200.0;
        assert!((86.0..89.0).contains(&all), "{all}");
    }
}
