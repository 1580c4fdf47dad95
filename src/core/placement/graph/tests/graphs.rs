//! Graphs for the tests of this room.

use crate::placement::graph::{Edge, Graph, netstorm};
use crate::random::Random;

/// A megabit per second, in bytes.
pub(super) const MBIT: f64 = 125_000.0;
/// What is trained in the models behind the design: 25 MB at a quarter of the rates.
pub(super) const MODEL: f64 = 100e6;

/// A graph of the fixture, and what the program of flows says of it, in bytes per second.
pub(super) struct KnownGraph {
    pub(super) kind: String,
    pub(super) graph: Graph,
    pub(super) free: f64,
    pub(super) nine: f64,
    pub(super) one: f64,
}

/// All graphs of `flow_lp.txt`; its maker says what it has.
pub(super) fn known() -> Vec<KnownGraph> {
    let mut known = Vec::new();
    let (mut links, mut rates, mut kind) = (Vec::new(), Vec::new(), String::new());
    let (mut free, mut nine) = (0.0, 0.0);
    for line in include_str!("flow_lp.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<f64>().unwrap() * MBIT;
        match words[0] {
            "link" => {
                links.push((words[1].parse().unwrap(), words[2].parse().unwrap()));
                rates.extend([number(3), number(4)]);
            }
            "free" => free = number(1),
            "nine" => nine = number(1),
            "one" => {
                let mut drawn = std::mem::take(&mut rates).into_iter();
                let rates = || drawn.next().unwrap();
                let graph = netstorm::of_links(netstorm::SITES, &links, rates).unwrap();
                links.clear();
                known.push(KnownGraph { kind: kind.clone(), graph, free, nine, one: number(1) });
            }
            _ => kind = words[0].to_owned(),
        }
    }
    assert_eq!(known.len(), 48);
    known
}

/// The graphs of NetStorm's eight seeds.
pub(super) fn seeds() -> Vec<KnownGraph> {
    let mut known = known();
    known.retain(|known| known.kind == "netstorm");
    assert_eq!(known.len(), 8);
    known
}

/// Shares of one owner.
pub(super) fn only(sites: usize, owner: usize) -> Vec<f64> {
    (0..sites).map(|site| if site == owner { 1.0 } else { 0.0 }).collect()
}

/// Equal shares.
pub(super) fn even(sites: usize) -> Vec<f64> {
    #[allow(clippy::cast_precision_loss, reason = "a few sites")]
    let share = 1.0 / sites as f64;
    vec![share; sites]
}

/// A mesh in which every pair of sites has a link of its own, at 20 to 155 Mbit/s.
pub(super) fn full_mesh(sites: usize, seed: u64) -> Graph {
    let links: Vec<(usize, usize)> =
        (0..sites).flat_map(|a| (a + 1..sites).map(move |b| (a, b))).collect();
    let mut random = Random::new(seed);
    netstorm::of_links(sites, &links, || (20.0 + 135.0 * random.unit()) * MBIT).unwrap()
}

/// Sites on a switch: each has a card, with a rate up and one down.
pub(super) fn switch(cards: &[(f64, f64)]) -> Graph {
    let sites = cards.len();
    let resources = cards.iter().flat_map(|(up, down)| [*up, *down]).collect();
    let pairs = (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let edges =
        pairs.map(|(from, to)| Edge { from, to, resources: vec![2 * from, 2 * to + 1] }).collect();
    Graph::new(sites, resources, edges).unwrap()
}
