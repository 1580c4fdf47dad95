//! Packed trees: several for each owner, up and down apart, chosen together so that no link is
//! asked for more than it has (docs/algorithms.md 5.10).

use super::bound::MOST_PACKED;
use super::pack::{Effort, pack, resolved, with_shares};
use super::weighted::weighted;
use super::{Graph, Roots, Tree, fapt, star};

/// Trees with a smaller share are left out: each costs every site a row of a table, and together
/// they bring about 1 % (docs/trees.md).
const SMALLEST: f64 = 0.02;
/// But each owner may have so many trees of the same share, however many owners there are.
const TREES_OF_EACH: f64 = 4.0;
/// How often trees are left out and the shares of the rest are found anew.
const PASSES: usize = 4;
/// Cells of the linear program that a plan may touch.
const CELLS: u64 = 100_000_000;
/// Edges that all trees of all rounds of a plan may look at, and the most rounds.
const EDGES: usize = 1_500_000;
const ROUNDS: usize = 100;

/// Several packings for owners whose shares are given, of which the one with the best prediction is
/// to be taken: they carry about the same, but some are deeper than others. Beyond [`MOST_PACKED`]
/// sites there are NetStorm's trees alone.
pub(super) fn packings(graph: &Graph, shares: &[f64]) -> Vec<Vec<Tree>> {
    if graph.sites() == 1 {
        return vec![vec![star::star(1, 0, 1.0)]];
    }
    if graph.sites() > MOST_PACKED {
        return vec![fapt::at_owners(graph, shares)];
    }
    let owners = shares.iter().filter(|share| **share > 0.0).count();
    #[allow(clippy::cast_precision_loss, reason = "at most 32")]
    let smallest = SMALLEST.min(1.0 / (TREES_OF_EACH * owners as f64));
    let best = pack(graph, Roots::Shares(shares), effort(graph, shares)).trees;
    let few = weighted(graph, shares, 1.0 / smallest);
    let fewer = thinned(graph, shares, few.clone(), smallest);
    let mut packings = vec![thinned(graph, shares, best, smallest), fewer, few];
    packings.retain(|trees| !trees.is_empty());
    packings
}

/// How much work the packing of a plan may be.
pub(super) fn effort(graph: &Graph, shares: &[f64]) -> Effort {
    let owners = shares.iter().filter(|share| **share > 0.0).count();
    let rounds = EDGES / (owners * graph.edges().count()).max(1);
    #[allow(clippy::cast_possible_truncation, reason = "at most ROUNDS")]
    let rounds = rounds.clamp(1, ROUNDS) as u32;
    Effort { rounds, cells: CELLS }
}

/// The heavier of those trees, with the shares at which they carry most.
fn thinned(graph: &Graph, shares: &[f64], mut trees: Vec<Tree>, smallest: f64) -> Vec<Tree> {
    for _ in 0..PASSES {
        let before = trees.len();
        trees = resolved(graph, shares, heavy(&trees, smallest));
        if trees.len() == before {
            break;
        }
    }
    with_shares(heavy(&trees, smallest), shares)
}

/// Those trees that are worth their place, and of each root the heaviest.
fn heavy(trees: &[Tree], smallest: f64) -> Vec<Tree> {
    let heaviest = |tree: &Tree| {
        let same = trees.iter().filter(|other| other.root == tree.root);
        same.max_by(|a, b| a.share.total_cmp(&b.share)).is_some_and(|best| std::ptr::eq(best, tree))
    };
    trees.iter().filter(|tree| tree.share >= smallest || heaviest(tree)).cloned().collect()
}
