//! NetStorm's nine sites (docs/algorithms.md 5.8): thirteen links, each with a rate of its own in
//! either direction, from 20 to 155 Mbit/s.
//!
//! Pure: who draws the rates brings them.

use super::{Edge, Graph, GraphError};

/// Sites.
pub const SITES: usize = 9;
/// Links; sites from 0. NetStorm's scripts count from 1.
pub const LINKS: [(usize, usize); 13] = [
    (0, 1),
    (0, 2),
    (1, 2),
    (1, 4),
    (2, 3),
    (3, 4),
    (3, 5),
    (4, 6),
    (5, 6),
    (5, 7),
    (5, 8),
    (6, 7),
    (7, 8),
];
/// The slowest and the fastest direction of a link, in Mbit/s.
pub const RATES: (f64, f64) = (20.0, 155.0);

/// The graph with rates in bytes per second: of each link there, then back, in the order of
/// [`LINKS`].
///
/// # Errors
/// A rate that is none.
pub fn graph(rates: impl FnMut() -> f64) -> Result<Graph, GraphError> {
    of_links(SITES, &LINKS, rates)
}

/// A graph of links, each of them two resources; rates as in [`graph`].
///
/// # Errors
/// A rate or a link that is none.
pub fn of_links(
    sites: usize,
    links: &[(usize, usize)],
    mut rates: impl FnMut() -> f64,
) -> Result<Graph, GraphError> {
    let ways = links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
    let edges: Vec<Edge> = ways
        .enumerate()
        .map(|(number, (from, to))| Edge { from, to, resources: vec![number] })
        .collect();
    let resources = edges.iter().map(|_| rates()).collect();
    Graph::new(sites, resources, edges)
}
