//! How much work a plan is. Counts in place of seconds: they are the same on every machine, and say
//! with what the work grows.

use super::graphs::{even, full_mesh, only, seeds, switch};
use crate::placement::graph::pack::pack;
use crate::placement::graph::packed::effort;
use crate::placement::graph::{Graph, MOST_PACKED, Roots};

/// Rounds of pricing and steps of the linear program.
fn work(graph: &Graph, shares: &[f64]) -> (u32, u64) {
    let packing = pack(graph, Roots::Shares(shares), effort(graph, shares));
    assert!(packing.rate > 0.0 && packing.rate <= packing.ceiling * (1.0 + 1e-9));
    (packing.rounds, packing.pivots)
}

/// 50 ms are 50,000 steps of 35 rows, or 2000 rounds of 18 trees; 8 ms is what it takes in all.
#[test]
fn nine_sites_take_few_steps() {
    for known in seeds() {
        for shares in [even(9), only(9, 0)] {
            let (rounds, pivots) = work(&known.graph, &shares);
            assert!(rounds <= 20 && pivots <= 1000, "{rounds} {pivots}");
        }
    }
}

/// A step of 1024 rows touches a million cells at most, which is a millisecond.
#[test]
fn a_mesh_of_32_sites_takes_bounded_steps() {
    for graph in [full_mesh(MOST_PACKED, 1), switch(&[(1e8, 1e8); MOST_PACKED])] {
        for shares in [even(MOST_PACKED), only(MOST_PACKED, 0)] {
            let (rounds, pivots) = work(&graph, &shares);
            assert!(rounds <= 100 && pivots <= 2000, "{rounds} {pivots}");
        }
    }
}
