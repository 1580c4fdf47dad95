//! What holds for any graph.

use proptest::prelude::*;

use super::graphs::{even, only, switch};
use crate::placement::graph::{
    Edge, Graph, GraphError, Roots, Scheme, ServingOrder, Topology, TransferMode, Tree, bound,
    predict, propose,
};

const ALL: [Topology; 9] = [
    Topology::Star,
    Topology::Balanced(1),
    Topology::Balanced(2),
    Topology::TsEngine,
    Topology::FaptAtOwners,
    Topology::Fapt(1),
    Topology::Fapt(100),
    Topology::Packed,
    Topology::Auto,
];

/// Sites with links that have one rate or two, some cards, and shares; it may hang together or not.
fn any_graph() -> impl Strategy<Value = (Graph, Vec<f64>)> {
    (2..8_usize)
        .prop_flat_map(|sites| {
            let rate = prop_oneof![1 => Just(0.0), 3 => Just(1e6), 9 => 1e5..1e8_f64];
            let links = prop::collection::btree_map((0..sites, 0..sites), rate, sites..4 * sites);
            let cards = prop::collection::vec(prop::option::weighted(0.3, 1e5..1e8_f64), sites);
            let shares = prop::collection::vec(prop_oneof![Just(0.0), 0.01..1.0_f64], sites);
            (Just(sites), links, cards, shares)
        })
        .prop_map(|(sites, links, cards, mut shares)| {
            let mut resources: Vec<f64> = cards.iter().map(|card| card.unwrap_or(1.0)).collect();
            let mut edges = Vec::new();
            for ((from, to), rate) in links.into_iter().filter(|((from, to), _)| from != to) {
                let card = |site: usize| cards[site].map(|_| site);
                let link = Some(resources.len());
                let resources_of = [card(from), link, card(to)].into_iter().flatten().collect();
                resources.push(rate);
                edges.push(Edge { from, to, resources: resources_of });
            }
            let sum: f64 = shares.iter().sum();
            if sum == 0.0 {
                shares = only(sites, sites - 1);
            } else {
                shares.iter_mut().for_each(|share| *share /= sum);
            }
            (Graph::new(sites, resources, edges).unwrap(), shares)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_scheme_keeps_its_promises(
        (graph, shares) in any_graph(),
        bytes in 1e3..1e8_f64,
        parts in 1.0..60.0_f64,
        ordered in any::<bool>(),
    ) {
        let order = if ordered { ServingOrder::Round } else { ServingOrder::Arrival };
        let transfer = TransferMode { part: bytes / parts, order };
        if let Err(wrong) = graph.connected() {
            let apart = matches!(wrong, GraphError::Apart { .. });
            prop_assert!(apart);
            for topology in ALL {
                let found = propose(&graph, topology, &shares, bytes, transfer);
                prop_assert_eq!(found.err(), Some(wrong.clone()));
            }
            prop_assert_eq!(bound(&graph, Roots::Free, bytes).err(), Some(wrong));
            return Ok(());
        }
        let free = bound(&graph, Roots::Free, bytes).unwrap();
        let owned = bound(&graph, Roots::Shares(&shares), bytes).unwrap();
        prop_assert!(free.seconds > 0.0 && free.seconds.is_finite());
        prop_assert!(free.seconds <= owned.seconds * (1.0 + 1e-3));
        prop_assert!(owned.reached <= owned.seconds * (1.0 + 1e-3), "{owned:?}");
        let mut seconds = Vec::new();
        for topology in ALL {
            let found = propose(&graph, topology, &shares, bytes, transfer).unwrap();
            prop_assert_eq!(found.scheme.validate(&graph), Ok(()));
            prop_assert!(found.topology != Topology::Auto);
            let owners = found.scheme.owners(graph.sites());
            let chosen = matches!(topology, Topology::Fapt(_));
            prop_assert!(chosen || owners.iter().zip(&shares).all(|(a, b)| (a - b).abs() < 1e-9));
            prop_assert!(free.seconds <= found.seconds * (1.0 + 1e-9), "{topology} {found:?}");
            let again = propose(&graph, topology, &shares, bytes, transfer).unwrap();
            prop_assert_eq!(&again, &found);
            seconds.push(found.seconds);
        }
        let (star, packed, auto) = (seconds[0], seconds[7], seconds[8]);
        prop_assert!(packed <= star * (1.0 + 1e-9), "packed {packed} star {star}");
        prop_assert!(auto <= star * (1.0 + 1e-9));
        prop_assert!(auto == star || auto <= star * 0.85);
    }
}

#[test]
fn one_site_sends_nothing() {
    let graph = Graph::new(1, Vec::new(), Vec::new()).unwrap();
    for topology in ALL {
        let found = propose(&graph, topology, &[1.0], 1e6, TransferMode::OURS).unwrap();
        assert_eq!((found.seconds, found.scheme.trees.len()), (0.0, 1), "{topology}");
    }
    assert_eq!(bound(&graph, Roots::Free, 1e6).unwrap().seconds, 0.0);
}

#[test]
fn nothing_takes_no_time() {
    let graph = switch(&[(1e6, 1e6); 3]);
    for topology in ALL {
        let found = propose(&graph, topology, &even(3), 0.0, TransferMode::OURS).unwrap();
        assert_eq!(found.seconds, 0.0, "{topology}");
    }
}

#[test]
fn what_is_no_graph_is_refused_with_what_to_do() {
    let edge = |from, to, resources: &[usize]| Edge { from, to, resources: resources.to_vec() };
    let wrong = |sites, rates: &[f64], edges: &[Edge]| {
        Graph::new(sites, rates.to_vec(), edges.to_vec()).unwrap_err().to_string()
    };
    assert!(wrong(0, &[], &[]).contains("a graph has 1 to 256"));
    assert!(wrong(257, &[], &[]).contains("a graph has 1 to 256"));
    for rate in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(wrong(1, &[rate], &[]).contains("give bytes per second"));
    }
    let cases: [(&[Edge], &str); 6] = [
        (&[edge(0, 2, &[0])], "edge 0 (site 1 to 3): there is no such site"),
        (&[edge(0, 0, &[0])], "it ends where it begins"),
        (&[edge(0, 1, &[])], "names no resource"),
        (&[edge(0, 1, &[1])], "there is no such resource"),
        (&[edge(0, 1, &[0, 0])], "names a resource twice"),
        (&[edge(0, 1, &[0]), edge(0, 1, &[0])], "give one, with the sum"),
    ];
    for (edges, text) in cases {
        let found = wrong(2, &[1.0], edges);
        assert!(found.contains(text), "{found}");
    }
    // A link that is down is no link; nor is one that leads nowhere back.
    let down = Graph::new(2, vec![1.0, 0.0], vec![edge(0, 1, &[0]), edge(1, 0, &[1])]).unwrap();
    let text = down.connected().unwrap_err().to_string();
    assert!(text.contains("no path leads from site 2 to site 1: add a link"), "{text}");
}

#[test]
fn shares_and_sizes_that_are_none_are_refused() {
    let graph = switch(&[(1e6, 1e6); 3]);
    let with = |shares: &[f64]| propose(&graph, Topology::Auto, shares, 1e6, TransferMode::OURS);
    for shares in [&[1.0][..], &[0.5, 0.5, 0.5], &[-1.0, 1.0, 1.0], &[f64::NAN, 0.5, 0.5]] {
        assert!(matches!(with(shares), Err(GraphError::Shares(_))), "{shares:?}");
        assert!(matches!(bound(&graph, Roots::Shares(shares), 1.0), Err(GraphError::Shares(_))));
    }
    for bytes in [-1.0, f64::NAN, f64::INFINITY] {
        let found = propose(&graph, Topology::Star, &even(3), bytes, TransferMode::OURS);
        assert!(matches!(found, Err(GraphError::Size(_))));
        assert!(matches!(bound(&graph, Roots::Free, bytes), Err(GraphError::Size(_))));
    }
    for part in [0.0, -1.0, f64::NAN] {
        let transfer = TransferMode { part, ..TransferMode::OURS };
        let found = propose(&graph, Topology::Star, &even(3), 1e6, transfer);
        assert!(matches!(found, Err(GraphError::Size(_))));
    }
    let fine = TransferMode { part: 1.0, ..TransferMode::OURS };
    let found = propose(&graph, Topology::Star, &even(3), 1e15, fine).unwrap_err();
    assert!(found.to_string().contains("take larger parts"), "{found}");
}

#[test]
fn a_scheme_that_breaks_a_promise_is_named() {
    let graph = switch(&[(1e6, 1e6); 3]);
    let tree = |root, parents: [Option<usize>; 3], share| Tree {
        root,
        up: vec![None, Some(0), Some(0)],
        down: parents.to_vec(),
        share,
    };
    let star = [None, Some(0), Some(0)];
    let cases = [
        (vec![tree(3, star, 1.0)], "tree 0: its root is site 4, of 3"),
        (vec![tree(0, star, -1.0)], "tree 0: its share is -1"),
        (vec![tree(0, [None, Some(2), Some(1)], 1.0)], "from site 2 to the root goes in a circle"),
        (vec![tree(0, [Some(1), Some(0), Some(0)], 1.0)], "root 1 has a parent"),
        (vec![tree(0, [None, Some(0), None], 1.0)], "site 3 has no parent"),
        (vec![tree(0, [None, Some(0), Some(7)], 1.0)], "the parent of site 3 is site 8"),
        (vec![tree(0, star, 0.5), tree(0, star, 0.4)], "tree 1: with it the shares"),
        (vec![], "add up to 0"),
    ];
    for (trees, text) in cases {
        let found = Scheme { trees };
        let wrong = found.validate(&graph).unwrap_err().to_string();
        assert!(wrong.contains(text), "{wrong}, not {text}");
        assert!(predict(&graph, &found, 1e6, TransferMode::OURS).is_err());
    }
    let short = Tree { up: Vec::new(), ..tree(0, star, 1.0) };
    let wrong = Scheme { trees: vec![short] }.validate(&graph).unwrap_err().to_string();
    assert!(wrong.contains("it has 0 parents for 3 sites"), "{wrong}");
}

/// Beyond the sites for which trees are packed there are NetStorm's, and a bound that is one.
#[test]
fn many_sites_are_planned_too() {
    let graph = switch(&[(1e8, 1e8); 40]);
    let transfer = TransferMode { part: 1e6, ..TransferMode::OURS };
    for shares in [even(40), only(40, 3)] {
        let of = |topology| propose(&graph, topology, &shares, 1e8, transfer).unwrap();
        let least = bound(&graph, Roots::Shares(&shares), 1e8).unwrap();
        let packed = of(Topology::Packed);
        assert!(least.seconds > 0.9 && least.seconds <= packed.seconds);
        assert!(packed.seconds <= of(Topology::Star).seconds && !least.reached.is_finite());
        assert_eq!(packed.scheme.trees.len(), shares.iter().filter(|share| **share > 0.0).count());
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for topology in ALL {
        assert_eq!(topology.to_string().parse(), Ok(topology));
    }
    for wrong in ["", "ring", "balanced", "balanced:0", "fapt:", "fapt:-1", "packed:3"] {
        let text = wrong.parse::<Topology>().unwrap_err();
        assert!(text.contains("there are star") || text.contains("a number from 1"), "{text}");
    }
}
