//! How long rounds take whose tensors wait (`placement/tests/pipeline.rs`), with the planner in the
//! loop, in networks that nobody tuned for. Seeds are printed.

use std::collections::BTreeMap;

use super::tests::status;
use super::*;
use crate::placement::layout::holdings;
use crate::placement::tests::fluid::{Lab, Node};
use crate::placement::tests::jobs::{by_hash, cut_by, resnet50, resnet50_by_hash, server_id};
use crate::placement::tests::networks::drawn;
use crate::random::Random;
use crate::wire::Key;

const MBIT: f64 = 125_000.0;

/// ResNet-50's tensors at a fifth of their size.
fn small_resnet50() -> Vec<u64> {
    resnet50().iter().map(|size| (size / 5).max(16)).collect()
}

/// 2 to 5 servers of 40 to 250 Mbit/s, 2 to 4 workers of 500.
pub(super) fn untuned(seed: u64) -> Lab {
    let mut random = Random::new(seed);
    let servers = 2 + random.below(4) as usize;
    let workers = 2 + random.below(3) as usize;
    let rates: Vec<f64> = (0..servers).map(|_| (40.0 + 210.0 * random.unit()) * MBIT).collect();
    let layout = by_hash(&small_resnet50(), servers);
    let mut lab =
        Lab::new(&vec![500.0 * MBIT; workers], &rates, layout, PlacementSettings::default());
    (lab.noise, lab.delay, lab.moves_cost, lab.whole_at_first) = (0.05, 2, true, true);
    lab.layout.iter_mut().for_each(|piece| piece.divisible = false);
    lab.planner.set_layout(lab.layout.clone()).unwrap();
    lab
}

/// Seconds of a round with each tensor cut as the best loads say: about the shortest in which
/// tensors wait.
fn with_all_cut(lab: &mut Lab) -> f64 {
    let sizes: BTreeMap<Key, u64> = lab.layout.iter().map(|piece| (piece.key, piece.to)).collect();
    let total: f64 = lab.layout.iter().map(|piece| piece.bytes as f64).sum();
    let target = lab.truth().target(&vec![1.0; lab.servers.len()], total, 0.0).unwrap();
    let cut = cut_by(&sizes.into_values().collect::<Vec<_>>(), &target);
    let before = std::mem::replace(&mut lab.layout, cut);
    let seconds = lab.measure().seconds;
    lab.layout = before;
    seconds
}

/// The usual one of the last rounds of some: by T*, and by the same with each tensor cut.
fn usual(lab: &mut Lab, rounds: usize) -> [f64; 2] {
    lab.waits = true;
    let (best, cut) = (lab.best(), with_all_cut(lab));
    let times: Vec<f64> = (0..rounds).map(|_| lab.round()).collect();
    let mut last = times[rounds - 5..].to_vec();
    last.sort_by(f64::total_cmp);
    println!(
        "{} workers, {} servers, {} on hosts of others, {} pieces: T* {best:.2} s, cut {cut:.2} \
         s; {:.2} s, then {:.2} s; {} plans, {:.2} moved",
        lab.workers.len(),
        lab.servers.len(),
        lab.hosts.len(),
        lab.layout.len(),
        times[0],
        last[2],
        lab.plans.len(),
        lab.moved_since(0)
    );
    [last[2] / best, last[2] / cut]
}

fn median_and_worst(mut column: Vec<f64>) -> [f64; 2] {
    column.sort_by(f64::total_cmp);
    [column[column.len() / 2], column[column.len() - 1]]
}

#[test]
fn rounds_in_untuned_networks() {
    let times = (0..40).map(|seed| {
        print!("seed {seed}: ");
        usual(&mut untuned(seed), 40)[0]
    });
    let [median, worst] = median_and_worst(times.collect());
    println!("by T*: median {median:.2}, worst {worst:.2}");
    assert!(median < 1.15 && worst < 1.4, "{median} {worst}");
}

/// Models of one tensor, or of VGG's, cannot overlap, so their shortest round is up to twice T*.
/// With one worker no server has two peers at once, so no card of a server is ever measured.
#[test]
fn rounds_in_any_network() {
    let (mut times, mut alone, mut moved) = (Vec::new(), Vec::new(), 0.0);
    for seed in 0..40 {
        print!("seed {seed}: ");
        let mut lab = drawn(seed, false);
        let own = if lab.workers.len() == 1 { &mut alone } else { &mut times };
        own.push(usual(&mut lab, 30)[1]);
        moved += lab.moved_since(0) / 40.0;
    }
    let [median, worst] = median_and_worst(times);
    let [_, worst_alone] = median_and_worst(alone);
    println!(
        "by that with all cut: median {median:.2}, worst {worst:.2}, with one worker \
         {worst_alone:.2}; {moved:.2} moved"
    );
    assert!(median < 1.1 && worst < 1.4 && worst_alone < 1.7, "{median} {worst} {worst_alone}");
    assert!(moved < 0.8, "{moved} of all bytes");
}

/// A server that holds next to nothing, beside others in whatever network: it gets its share.
#[test]
fn who_holds_little_and_could_carry_more_is_filled() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(7) as usize;
        let rates: Vec<f64> = (0..count).map(|_| (40.0 + 210.0 * random.unit()) * MBIT).collect();
        let mut layout = by_hash(&small_resnet50(), count);
        let (idle, other) = (server_id(count - 1), server_id(0));
        let own = layout.iter_mut().filter(|piece| piece.owner == idle).skip(1);
        own.for_each(|piece| piece.owner = other);
        let mut lab = Lab::new(&[500.0 * MBIT; 3], &rates, layout, PlacementSettings::default());
        (lab.noise, lab.delay, lab.moves_cost, lab.waits) = (0.05, 2, true, true);
        lab.play(30.0);
        let total: u64 = lab.layout.iter().map(|piece| piece.bytes).sum();
        let held = holdings(&lab.layout)[&idle].bytes as f64 / total as f64;
        let due = rates[count - 1] / rates.iter().sum::<f64>();
        println!("seed {seed}: {count} servers, holds {held:.3} of {due:.3}");
        assert!(held > 0.7 * due, "seed {seed}: {held} of {due}");
    }
}

/// A plan is not stayed with where it took a server for slower than it is.
#[test]
fn a_plan_for_what_was_not_known_yet_is_soon_followed_by_another() {
    let rates = [200.0, 200.0, 200.0, 20.0].map(|rate| rate * MBIT);
    let mut lab =
        Lab::new(&[800.0 * MBIT; 4], &rates, resnet50_by_hash(4), PlacementSettings::default());
    lab.waits = true;
    while lab.plans.is_empty() && lab.now < 120.0 {
        lab.round();
    }
    lab.servers.insert(14, Node::new(100.0 * MBIT));
    let rounds = (1..=10).find(|_| {
        lab.round();
        lab.plans.len() > 1
    });
    assert!(rounds.is_some_and(|rounds| rounds <= 4), "{rounds:?} {:?}", status(&lab));
}
