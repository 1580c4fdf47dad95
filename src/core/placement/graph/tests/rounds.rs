//! Predicted rounds that can be worked out by hand.

use super::graphs::switch;
use crate::placement::graph::{
    Graph, Scheme, ServingOrder, Topology, TransferMode, Tree, netstorm, predict, propose,
};

fn line(sites: usize, rate: f64) -> Graph {
    let links: Vec<(usize, usize)> = (1..sites).map(|site| (site - 1, site)).collect();
    netstorm::of_links(sites, &links, || rate).unwrap()
}

fn whole(bytes: f64) -> TransferMode {
    TransferMode { part: bytes, order: ServingOrder::Round }
}

#[test]
fn two_sites_send_there_and_back() {
    let shares = [1.0, 0.0];
    let of = |parts: f64| {
        let transfer = TransferMode { part: 100.0 / parts, order: ServingOrder::Round };
        propose(&line(2, 10.0), Topology::Star, &shares, 100.0, transfer).unwrap().seconds
    };
    // Ten seconds up; the value follows part by part.
    assert!((of(1.0) - 20.0).abs() < 1e-9);
    assert!((of(10.0) - 11.0).abs() < 1e-9);
    assert!((of(100.0) - 10.1).abs() < 1e-9);
}

#[test]
fn who_passes_on_has_all_of_a_part_first() {
    let shares = [1.0, 0.0, 0.0];
    let of =
        |topology| propose(&line(3, 10.0), topology, &shares, 100.0, whole(100.0)).unwrap().seconds;
    // The star: both sums over the last link, one after the other, and both values.
    assert!((of(Topology::Star) - 50.0).abs() < 1e-9);
    // The best root is in the middle: one hop there, one back.
    assert!((of(Topology::Fapt(1)) - 20.0).abs() < 1e-9);
    // The sum goes two hops, so does the value.
    assert!((of(Topology::FaptAtOwners) - 40.0).abs() < 1e-9);
    assert!((of(Topology::Balanced(1)) - 40.0).abs() < 1e-9);
}

/// Over cards a part takes the sender's way up, then the receiver's way down.
#[test]
fn cards_carry_one_part_at_a_time() {
    let graph = switch(&[(10.0, 10.0), (20.0, 20.0), (20.0, 20.0)]);
    let star = Tree {
        root: 0,
        up: vec![None, Some(0), Some(0)],
        down: vec![None, Some(0), Some(0)],
        share: 1.0,
    };
    let scheme = Scheme { trees: vec![star] };
    // 5 s up at each worker, 10 s each down at the root; then 10 s each up at the root, and 5 s
    // down at the last worker.
    let seconds = predict(&graph, &scheme, 100.0, whole(100.0)).unwrap();
    assert!((seconds - (5.0 + 20.0 + 20.0 + 5.0)).abs() < 1e-9, "{seconds}");
}

/// Of two trees with the same edges, one way up and the other way down share each link.
#[test]
fn two_trees_share_the_links() {
    let graph = line(3, 10.0);
    let chain = |root: usize, up: [Option<usize>; 3]| Tree {
        root,
        up: up.to_vec(),
        down: up.to_vec(),
        share: 0.5,
    };
    let trees = vec![chain(0, [None, Some(0), Some(1)]), chain(2, [Some(1), Some(2), None])];
    let scheme = Scheme { trees };
    let transfer = TransferMode { part: 1.0, order: ServingOrder::Round };
    let seconds = predict(&graph, &scheme, 100.0, transfer).unwrap();
    // Each direction of each link carries sums and values of half of the model: 10 s. The last part
    // has two hops up and two down before it, of 0.1 s each.
    assert!((10.0..10.6).contains(&seconds), "{seconds}");
}

/// A star over a long line passes each part over each link again and again.
#[test]
fn a_prediction_that_would_take_minutes_is_refused() {
    let shares: Vec<f64> = (0..256).map(|site| if site == 0 { 1.0 } else { 0.0 }).collect();
    let of = |topology, part| {
        let transfer = TransferMode { part, order: ServingOrder::Round };
        propose(&line(256, 1e6), topology, &shares, 1e6, transfer)
    };
    let refused = of(Topology::Star, 100.0).unwrap_err().to_string();
    assert!(refused.contains("10000 parts for 256 sites are too many"), "{refused}");
    assert!(of(Topology::Star, 10_000.0).is_ok());
    assert!(of(Topology::FaptAtOwners, 100.0).is_ok());
}

/// Dealing: each tree is never more than one part away from its share.
#[test]
fn parts_are_dealt_by_shares() {
    let tree = |share| Tree { root: 0, up: vec![None], down: vec![None], share };
    let scheme = Scheme { trees: vec![tree(0.5), tree(0.3), tree(0.0), tree(0.2)] };
    let dealt = scheme.deal(100);
    for (at, wanted) in [(0, 50), (1, 30), (2, 0), (3, 20)] {
        assert_eq!(dealt.iter().filter(|tree| **tree == at).count(), wanted);
    }
    for until in 1..=dealt.len() {
        for (tree, share) in [(0, 0.5), (1, 0.3), (3, 0.2)] {
            let given = dealt[..until].iter().filter(|it| **it == tree).count();
            #[allow(clippy::cast_precision_loss, reason = "a hundred")]
            let ahead = given as f64 - share * until as f64;
            assert!(ahead.abs() <= 1.0 + 1e-9, "{tree} {until} {ahead}");
        }
    }
}
