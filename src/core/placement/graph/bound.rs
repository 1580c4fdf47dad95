//! T*: no scheme of any kind can give a shorter round (docs/algorithms.md 1).
//!
//! Pure. What is said is a proof, also where the search behind it was cut short: then the bound is
//! below what could be proved with more work, never above.

use std::collections::BTreeSet;

use super::pack::{Effort, Packing, pack};
use super::{Edge, Graph, GraphError, Roots};

/// Sites for which trees are packed, at most; beyond, only cuts are looked at.
pub const MOST_PACKED: usize = 32;
/// How much work a bound may be.
const EFFORT: Effort = Effort { rounds: 400, cells: 500_000_000 };

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// No round is shorter.
    pub seconds: f64,
    /// There are rounds that are not longer, in the limit of small parts. Infinite: none was looked
    /// for ([`MOST_PACKED`]).
    pub reached: f64,
    /// Rounds of pricing that it took.
    pub rounds: u32,
    /// Steps of the linear program that it took.
    pub pivots: u64,
}

impl Bound {
    const fn without_search(seconds: f64, reached: f64) -> Self {
        Self { seconds, reached, rounds: 0, pivots: 0 }
    }
}

/// How long a round takes at least that brings a sum over all sites of so many bytes to their
/// owners, and the same number of bytes back to all sites.
///
/// # Errors
/// The graph is not connected, or shares or bytes are none.
pub fn bound(graph: &Graph, roots: Roots<'_>, bytes: f64) -> Result<Bound, GraphError> {
    match roots {
        Roots::Free => graph.connected()?,
        Roots::Shares(shares) => graph.check(shares)?,
    }
    if !bytes.is_finite() || bytes < 0.0 {
        return Err(GraphError::Size("the size of a model is a number of bytes from 0"));
    }
    if graph.sites() == 1 || bytes == 0.0 {
        return Ok(Bound::without_search(0.0, 0.0));
    }
    let cut = bytes / narrowest(graph);
    if graph.sites() > MOST_PACKED {
        return Ok(Bound::without_search(cut, f64::INFINITY));
    }
    let Packing { rate, ceiling, rounds, pivots, .. } = pack(graph, roots, EFFORT);
    let seconds = cut.max(bytes / ceiling);
    Ok(Bound { seconds, reached: (bytes / rate).max(seconds), rounds, pivots })
}

/// Bytes per second of the model that can enter the site that they enter most slowly, or leave the
/// one that they leave most slowly: each byte enters and leaves each site once a round at least, as
/// a sum or as a value.
fn narrowest(graph: &Graph) -> f64 {
    let site = |site: usize| {
        let leaving = width(graph, graph.edges().filter(|edge| edge.from == site));
        let entering = width(graph, graph.edges().filter(|edge| edge.to == site));
        leaving.min(entering)
    };
    (0..graph.sites()).map(site).fold(f64::INFINITY, f64::min)
}

/// What those edges carry together at most: the sum over one resource of each, the first or the
/// last, counted once if several share it.
fn width<'a>(graph: &Graph, edges: impl Iterator<Item = &'a Edge>) -> f64 {
    let edges: Vec<&Edge> = edges.collect();
    let sum = |pick: fn(&[usize]) -> Option<&usize>| {
        let picked: BTreeSet<usize> =
            edges.iter().filter_map(|edge| pick(&edge.resources).copied()).collect();
        picked.iter().map(|resource| super::cells::at(graph.resources(), *resource)).sum::<f64>()
    };
    sum(<[usize]>::first).min(sum(<[usize]>::last))
}
