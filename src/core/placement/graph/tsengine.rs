//! Trees as TSEngine grows them (docs/algorithms.md 7): whoever has the value sends it to the
//! fastest site that does not have it yet, and both go on from there. Sums come together the same
//! way, backwards in time.
//!
//! TSEngine asks its scheduler before each hop, and tries a site whose speed it does not know now
//! and then. Here all speeds are known and the tree is made at once: a round trip for each hop is
//! what the original pays besides. The speed between two sites is that of the slowest edge on the
//! route between them.

use super::cells::{at, put};
use super::routes::SiteRoutes;
use super::{Graph, Tree};

/// The tree of a root.
pub(super) fn tsengine(graph: &Graph, routes: &SiteRoutes, root: usize, share: f64) -> Tree {
    let speed = |from: usize, to: usize| {
        let path = routes.path(from, to);
        let hops = path.iter().zip(path.iter().skip(1));
        let edges = hops.filter_map(|(a, b)| graph.edge(*a, *b));
        edges.map(|edge| graph.rate(edge)).fold(f64::INFINITY, f64::min)
    };
    let sites = graph.sites();
    let up = grown(sites, root, |parent, child| speed(child, parent));
    let down = grown(sites, root, speed);
    Tree { root, up, down, share }
}

/// Parents, by the time at which each site gets what the root has if everybody passes it on.
fn grown(sites: usize, root: usize, speed: impl Fn(usize, usize) -> f64) -> Vec<Option<usize>> {
    let mut parents = vec![None; sites];
    let mut waiting: Vec<usize> = (0..sites).filter(|site| *site != root).collect();
    let mut free = vec![(0.0_f64, root)];
    while !waiting.is_empty() {
        let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let Some(sender) = (0..free.len()).min_by(|a, b| order(&at(&free, *a), &at(&free, *b)))
        else {
            break;
        };
        let (time, from) = at(&free, sender);
        let speeds = waiting.iter().enumerate().map(|(place, to)| (speed(from, *to), place));
        let fastest = speeds.min_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let Some((speed, place)) = fastest else { break };
        let to = waiting.remove(place);
        put(&mut parents, to, Some(from));
        let done = time + 1.0 / speed;
        put(&mut free, sender, (done, from));
        free.push((done, to));
    }
    parents
}
