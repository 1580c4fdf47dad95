//! Trees one after the other, each as cheap as those before it let it be: a resource costs the
//! more, the more it carries (multiplicative weights: Plotkin, Shmoys, Tardos 1995; Garg, Könemann
//! 1998). Then each once more in turn, with sharper prices. Where there are so many links that a
//! best packing has hundreds of small trees, this finds some dozens that do nearly as well; where
//! there are few, `pack` finds better ones.
//!
//! Pure; deterministic. The work is a number of trees for each pass.

use super::cells::{add, at};
use super::costed_edges::{CostedEdges, taken};
use super::{Graph, Tree};

/// How sharply the price of a resource rises with what it carries, pass by pass.
const SHARPNESS: [f64; 5] = [4.0, 8.0, 16.0, 24.0, 32.0];

/// About so many trees of owners whose shares are given; those of one owner have equal shares, and
/// each owner has one at least.
pub(super) fn weighted(graph: &Graph, shares: &[f64], count: f64) -> Vec<Tree> {
    let mut trees = slots(shares, count);
    let mut load = vec![0.0; graph.resources().len()];
    let mut best: Option<(f64, Vec<Tree>)> = None;
    for sharpness in SHARPNESS {
        for tree in &mut trees {
            carry(graph, tree, &mut load, -tree.share);
            let costed = CostedEdges::new(graph, &prices(graph, &load, sharpness));
            let Some(pair) = costed.pair(tree.root) else { return Vec::new() };
            *tree = Tree { share: tree.share, ..pair };
            carry(graph, tree, &mut load, tree.share);
        }
        let longest = seconds(graph, &load).fold(0.0, f64::max);
        if best.as_ref().is_none_or(|(least, _)| longest < *least) {
            best = Some((longest, trees.clone()));
        }
    }
    best.map_or_else(Vec::new, |(_, trees)| trees)
}

/// One tree after the other without its ways, owners in turn.
fn slots(shares: &[f64], trees: f64) -> Vec<Tree> {
    let mut slots: Vec<(f64, Tree)> = Vec::new();
    for (root, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let count = (share * trees).round().max(1.0);
        let (mut place, share) = (0.5, share / count);
        while place < count {
            let tree = Tree { root, up: Vec::new(), down: Vec::new(), share };
            slots.push((place / count, tree));
            place += 1.0;
        }
    }
    slots.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.root.cmp(&b.1.root)));
    slots.into_iter().map(|(_, tree)| tree).collect()
}

fn carry(graph: &Graph, tree: &Tree, load: &mut [f64], share: f64) {
    for (resource, times) in taken(graph, tree) {
        add(load, resource, times * share);
    }
}

/// How long each resource takes for what it carries of each byte.
fn seconds(graph: &Graph, load: &[f64]) -> impl Iterator<Item = f64> {
    let rates = graph.resources().iter().zip(load);
    rates.map(|(rate, load)| if *rate > 0.0 { load.max(0.0) / rate } else { 0.0 })
}

/// Prices that rise with what a resource carries, by the longest of all.
fn prices(graph: &Graph, load: &[f64], sharpness: f64) -> Vec<f64> {
    let longest = seconds(graph, load).fold(f64::MIN_POSITIVE, f64::max);
    let each = seconds(graph, load).enumerate();
    let price = |(resource, seconds): (usize, f64)| {
        let rate = at(graph.resources(), resource);
        let weight = (sharpness * (seconds / longest - 1.0)).exp();
        if rate > 0.0 { weight / rate } else { 0.0 }
    };
    each.map(price).collect()
}
