//! The numbers that the design rests on (docs/trees.md): bounds against a program of flows that is
//! not ours, rounds against those of the models behind the design, and the work of a plan.

use super::graphs::{MODEL, even, full_mesh, known, only, seeds, switch};
use crate::placement::graph::{
    Roots, ServingOrder, Topology, TransferMode, bound, predict, propose,
};

fn near(found: f64, wanted: f64, part: f64, what: &str) {
    assert!((found / wanted - 1.0).abs() <= part, "{what}: {found}, not {wanted}");
}

#[test]
fn bounds_are_those_of_the_program_of_flows() {
    for (number, known) in known().iter().enumerate() {
        let cases = [
            (Roots::Free, known.free, "free"),
            (Roots::Shares(&even(9)), known.nine, "nine"),
            (Roots::Shares(&only(9, 0)), known.one, "one"),
        ];
        for (roots, rate, kind) in cases {
            let what = format!("{} {number} {kind}", known.kind);
            let found = bound(&known.graph, roots, MODEL).unwrap();
            near(found.seconds, MODEL / rate, 1e-3, &what);
            near(found.reached, MODEL / rate, 1e-3, &what);
            assert!(found.seconds <= MODEL / rate * (1.0 + 1e-6), "{what}: no bound");
        }
    }
}

/// The mean over the eight seeds of a round by T*, and the worst one.
fn by_bound(topology: Topology, shares: &[f64], transfer: TransferMode) -> (f64, f64) {
    let ratio = |known: super::graphs::KnownGraph| {
        let found = propose(&known.graph, topology, shares, MODEL, transfer).unwrap();
        found.seconds / (MODEL / known.free)
    };
    let ratios: Vec<f64> = seeds().into_iter().map(ratio).collect();
    (ratios.iter().sum::<f64>() / 8.0, ratios.iter().copied().fold(0.0, f64::max))
}

#[test]
fn rounds_are_those_of_the_models() {
    let (star, _) = by_bound(Topology::Star, &only(9, 0), TransferMode::PUBLISHED);
    near(star, 14.04, 0.01, "star, one server at site 1");
    let (fapt, _) = by_bound(Topology::Fapt(9), &even(9), TransferMode::PUBLISHED);
    near(fapt, 2.09, 0.01, "NetStorm");
    let (packed, worst) = by_bound(Topology::Packed, &even(9), TransferMode::OURS);
    near(packed, 1.04, 0.03, "packed, nine owners");
    assert!(worst < 1.12, "{worst}");
    let (packed, worst) = by_bound(Topology::Packed, &only(9, 0), TransferMode::OURS);
    near(packed, 1.06, 0.03, "packed, one owner at site 1");
    assert!(worst < 1.2, "{worst}");
    let nine = TransferMode { part: 1e6, order: ServingOrder::Arrival };
    let (star, _) = by_bound(Topology::Star, &even(9), nine);
    near(star, 4.49, 0.01, "star, nine servers");
    let (fapt, _) = by_bound(Topology::Fapt(9), &even(9), TransferMode::OURS);
    near(fapt, 1.87, 0.01, "NetStorm's trees with our parts and our order");
}

/// The same trees take longer if each hop serves what came first, or if parts are large: nearly all
/// of what packing gains is lost without order.
#[test]
fn order_and_small_parts_pay() {
    let (mut ordered, mut queued, mut coarse) = (0.0, 0.0, 0.0);
    for known in seeds() {
        let found =
            propose(&known.graph, Topology::Packed, &even(9), MODEL, TransferMode::OURS).unwrap();
        let ratio = |part: f64, order: ServingOrder| {
            let transfer = TransferMode { part, order };
            let seconds = predict(&known.graph, &found.scheme, MODEL, transfer).unwrap();
            seconds / (MODEL / known.free) / 8.0
        };
        ordered += ratio(TransferMode::OURS.part, ServingOrder::Round);
        queued += ratio(TransferMode::OURS.part, ServingOrder::Arrival);
        coarse += ratio(4e6, ServingOrder::Round);
    }
    assert!(queued > 1.15 * ordered, "{queued} {ordered}");
    assert!(coarse > 1.3 * ordered, "{coarse} {ordered}");
}

/// With equal cards on a switch nothing is shorter than the star by enough (`exp3` of the models).
#[test]
fn auto_stays_with_the_star_in_an_equal_lan() {
    let auto = |cards: &[(f64, f64)], shares: &[f64]| {
        propose(&switch(cards), Topology::Auto, shares, MODEL, TransferMode::OURS).unwrap()
    };
    for sites in [2, 4, 8, 16] {
        let cards = vec![(125e6, 125e6); sites];
        let found = auto(&cards, &even(sites));
        assert_eq!(found.topology, Topology::Star, "{sites}");
        let graph = switch(&cards);
        let least = bound(&graph, Roots::Free, MODEL).unwrap().seconds;
        near(found.seconds, least, 0.05, "the star is best where cards are equal");
    }
    // One owner of eight: its card is the limit, and sums on the way relieve it.
    let found = auto(&[(125e6, 125e6); 8], &only(8, 0));
    assert_ne!(found.topology, Topology::Star);
}

#[test]
fn auto_takes_packed_trees_over_few_links() {
    for known in seeds() {
        let found = propose(&known.graph, Topology::Auto, &only(9, 0), MODEL, TransferMode::OURS);
        let found = found.unwrap();
        let packed =
            propose(&known.graph, Topology::Packed, &only(9, 0), MODEL, TransferMode::OURS);
        assert!(found.seconds <= packed.unwrap().seconds);
        assert_ne!(found.topology, Topology::Star);
    }
}

/// Where there are many links, few trees still come near to what is possible: a fraction of what a
/// star takes.
#[test]
fn a_mesh_of_32_sites_is_planned() {
    let graph = full_mesh(32, 1);
    for (shares, gain) in [(even(32), 1.5), (only(32, 0), 12.0)] {
        let of = |topology| propose(&graph, topology, &shares, MODEL, TransferMode::OURS).unwrap();
        let (packed, star) = (of(Topology::Packed), of(Topology::Star));
        assert!(packed.seconds * gain < star.seconds, "{} {}", packed.seconds, star.seconds);
        assert!(packed.scheme.trees.len() <= 128);
        let least = bound(&graph, Roots::Shares(&shares), MODEL).unwrap();
        assert!(least.seconds <= packed.seconds && least.reached <= packed.seconds);
    }
}
