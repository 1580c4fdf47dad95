//! Cheapest ways through a graph (Dijkstra 1959), and the routes that packets take if nobody says
//! otherwise.
//!
//! Pure; ties go to the site with the smaller number.

use super::cells::{at, put};
use super::{Edge, Graph};

/// Which way the edges of a tree point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeWay {
    /// From the sites to the root.
    Up,
    /// From the root to the sites.
    Down,
}

/// The parents of the tree of cheapest ways between a root and all sites: the next site towards the
/// root, or the one before on the way from it. A site that is not reached has none.
pub(super) fn cheapest(
    graph: &Graph,
    root: usize,
    way: EdgeWay,
    cost: impl Fn(&Edge) -> f64,
) -> Vec<Option<usize>> {
    let sites = graph.sites();
    let mut near = vec![Vec::new(); sites];
    for edge in graph.edges() {
        let (inner, outer) = match way {
            EdgeWay::Up => (edge.to, edge.from),
            EdgeWay::Down => (edge.from, edge.to),
        };
        if let Some(near) = near.get_mut(inner) {
            near.push((outer, cost(edge)));
        }
    }
    let mut parents = vec![None; sites];
    let mut lengths = vec![f64::INFINITY; sites];
    let mut open: Vec<usize> = (0..sites).collect();
    put(&mut lengths, root, 0.0);
    while let Some(place) = nearest(&open, &lengths) {
        let site = open.swap_remove(place);
        let length = at(&lengths, site);
        if !length.is_finite() {
            break;
        }
        for (outer, cost) in near.get(site).into_iter().flatten() {
            if length + cost < at(&lengths, *outer) {
                put(&mut lengths, *outer, length + cost);
                put(&mut parents, *outer, Some(site));
            }
        }
    }
    parents
}

/// The place in `open` of the site with the shortest way.
fn nearest(open: &[usize], lengths: &[f64]) -> Option<usize> {
    let all = open.iter().enumerate();
    let shortest =
        all.min_by(|(_, a), (_, b)| at(lengths, **a).total_cmp(&at(lengths, **b)).then(a.cmp(b)));
    shortest.map(|(place, _)| place)
}

/// The routes with the fewest hops, of those the fastest: what static routes in the kernels of all
/// sites would be.
#[derive(Clone, Debug)]
pub struct SiteRoutes {
    /// By destination and site: the next site.
    next: Vec<Vec<Option<usize>>>,
}

impl SiteRoutes {
    /// Those of a graph.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let rates = graph.edges().map(|edge| graph.rate(edge));
        let slowest = rates.fold(f64::INFINITY, f64::min);
        // Less than one hop for all hops of a route together.
        let small = 0.5 / f64::from(u32::try_from(graph.sites()).unwrap_or(u32::MAX));
        let cost = |edge: &Edge| 1.0 + small * slowest / graph.rate(edge);
        let towards = |root| cheapest(graph, root, EdgeWay::Up, cost);
        Self { next: (0..graph.sites()).map(towards).collect() }
    }

    /// The sites on the way, both ends included; nothing if there is none.
    #[must_use]
    pub fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let mut path = vec![from];
        let mut site = from;
        while site != to && path.len() <= self.next.len() {
            let next = self.next.get(to).and_then(|next| at(next, site));
            let Some(next) = next else { return Vec::new() };
            path.push(next);
            site = next;
        }
        path
    }
}
