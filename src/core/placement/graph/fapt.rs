//! NetStorm's trees (docs/algorithms.md 5.3): an edge costs one by its rate, and the tree of a root
//! joins the cheapest ways to it. Each root has a delay, by the slowest edge of each level; the
//! best roots share the model in proportion to one by their delays.

use super::cells::{at, put};
use super::routes::{EdgeWay, cheapest};
use super::{Graph, Tree};

/// The trees of owners whose shares are given.
pub(super) fn at_owners(graph: &Graph, shares: &[f64]) -> Vec<Tree> {
    let owners = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
    owners.map(|(root, share)| tree(graph, root, *share)).collect()
}

/// The trees of the best roots, at most so many.
pub(super) fn best_roots(graph: &Graph, roots: usize) -> Vec<Tree> {
    let mut trees: Vec<(f64, Tree)> = (0..graph.sites())
        .map(|root| {
            let tree = tree(graph, root, 0.0);
            (delay(graph, &tree), tree)
        })
        .collect();
    trees.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.root.cmp(&b.1.root)));
    trees.truncate(roots.max(1));
    // A graph of one site has no delay.
    let weight = |delay: f64| if delay > 0.0 { 1.0 / delay } else { 1.0 };
    let total: f64 = trees.iter().map(|(delay, _)| weight(*delay)).sum();
    trees.into_iter().map(|(delay, tree)| Tree { share: weight(delay) / total, ..tree }).collect()
}

/// The tree of a root. Values go down the edges that sums came up, as in NetStorm; where one of
/// those has no way back, down the cheapest ways from the root.
fn tree(graph: &Graph, root: usize, share: f64) -> Tree {
    let up = cheapest(graph, root, EdgeWay::Up, |edge| 1.0 / graph.rate(edge));
    let back = |(site, parent): (usize, &Option<usize>)| {
        parent.is_none_or(|parent| graph.edge(parent, site).is_some())
    };
    let down = if up.iter().enumerate().all(back) {
        up.clone()
    } else {
        cheapest(graph, root, EdgeWay::Down, |edge| 1.0 / graph.rate(edge))
    };
    Tree { root, up, down, share }
}

/// Seconds for each byte: the sum over the levels of the tree of one by the rate of the slowest
/// edge up.
fn delay(graph: &Graph, tree: &Tree) -> f64 {
    let mut levels: Vec<f64> = Vec::new();
    for (site, parent) in tree.up.iter().enumerate() {
        let Some(edge) = parent.and_then(|parent| graph.edge(site, parent)) else { continue };
        let level = level(&tree.up, site);
        if levels.len() < level {
            levels.resize(level, 0.0);
        }
        let slowest = at(&levels, level - 1).max(1.0 / graph.rate(edge));
        put(&mut levels, level - 1, slowest);
    }
    levels.iter().sum()
}

/// Hops to the root of a site that is not the root: 1 or more.
fn level(parents: &[Option<usize>], site: usize) -> usize {
    let mut parent = at(parents, site);
    let mut hops = 1;
    while let Some(next) = parent.and_then(|site| at(parents, site)) {
        parent = Some(next);
        hops += 1;
    }
    hops
}
