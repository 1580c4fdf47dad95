//! What each gate is for: jobs in networks that a seed draws (`placement/tests/networks.rs`), once
//! with all gates and once without one.

use std::time::Duration;

use super::gates::GATES;
use super::waiting_tests::untuned;
use super::*;
use crate::placement::cost::Replicas;
use crate::placement::layout::{apply, holdings};
use crate::placement::tests::fluid::Lab;
use crate::placement::tests::jobs::{by_hash, piece, resnet50_by_hash, spread};
use crate::placement::tests::networks::{drawn, redraw};
use crate::random::Random;

const MBIT: f64 = 125_000.0;

/// The gates that are taken out here.
const TRIED: [&str; 9] = [
    "portion_under_way",
    "switched_off",
    "rolled_back",
    "refuted",
    "nothing_known",
    "first_round",
    "without_times",
    "copies_first",
    "settling",
];

/// How jobs of these seeds go with all gates, and without that one: sums of what `play` gives.
fn with_and_without(
    gate: &'static str,
    seeds: std::ops::Range<u64>,
    play: impl Fn(u64, &mut dyn FnMut(&mut Lab)) -> f64,
) -> [f64; 2] {
    assert!(TRIED.contains(&gate));
    [None, Some(gate)].map(|without| {
        let each = seeds.clone().map(|seed| {
            let seen = play(seed, &mut |lab| lab.planner.without_gate = without);
            println!("seed {seed}, without {without:?}: {seen:.3}");
            seen
        });
        each.sum()
    })
}

fn rounds(lab: &mut Lab, count: usize) -> f64 {
    (0..count).map(|_| lab.round()).sum()
}

#[test]
fn each_gate_has_a_test() {
    assert!(GATES.iter().all(|gate| TRIED.contains(&gate.name)));
    assert_eq!(GATES.len(), TRIED.len());
}

#[test]
fn switched_off() {
    let [with, without] = with_and_without("switched_off", 0..4, |seed, set| {
        let mut lab = drawn(seed, false);
        set(&mut lab);
        lab.planner.set_enabled(false);
        rounds(&mut lab, 12);
        lab.plans.len() as f64
    });
    assert!(with == 0.0 && without >= 3.0, "{with} {without}");
}

/// Nobody tells anything: where keys lie unevenly is no reason to move them.
#[test]
fn nothing_known() {
    let [with, without] = with_and_without("nothing_known", 0..8, |seed, set| {
        let mut lab = drawn(seed, false);
        set(&mut lab);
        let plan = (0..90).find_map(|s| lab.planner.tick(Duration::from_secs(s), &mut || 0.5));
        f64::from(u8::from(plan.is_some()))
    });
    assert!(with == 0.0 && without >= 2.0, "{with} {without}");
}

/// Two servers at whatever rates, in even halves; every other layout is half as fast, for a reason
/// that no model has.
fn spoilt(seed: u64) -> Lab {
    let mut random = Random::new(seed);
    let layout = by_hash(&[10_000_000], 2);
    let rates = [150.0 + 100.0 * random.unit(), 40.0 + 60.0 * random.unit()].map(|r| r * MBIT);
    let mut lab = Lab::new(&[400.0 * MBIT; 3], &rates, layout, PlacementSettings::default());
    (lab.noise, lab.moves_cost) = (0.05, true);
    lab.hidden = |layout| {
        let first = holdings(layout).get(&8).map_or(0, |held| held.bytes);
        if first.abs_diff(20_000_000) < 1_000_000 { 1.0 } else { 3.0 }
    };
    lab
}

#[test]
fn rolled_back() {
    let [with, without] = with_and_without("rolled_back", 0..4, |seed, set| {
        let mut lab = spoilt(seed);
        set(&mut lab);
        rounds(&mut lab, 120);
        lab.plans.len() as f64
    });
    assert!(without > 2.0 * with, "{with} {without}");
}

/// A plan for the worse goes back only if it is known how rounds were before it.
#[test]
fn without_times() {
    let [with, without] = with_and_without("without_times", 0..4, |seed, set| {
        let mut lab = spoilt(seed);
        set(&mut lab);
        rounds(&mut lab, 60) / lab.best() / 60.0
    });
    assert!(without > 1.2 * with, "{with} {without}");
}

/// A server that holds hardly anything, and says that it has hardly any processor time: what ran
/// there was not for what it carried. Nothing is gained by taking the little away.
#[test]
fn refuted() {
    let [with, without] = with_and_without("refuted", 0..4, |seed, set| {
        let mut random = Random::new(seed);
        let rate = (50.0 + 200.0 * random.unit()) * MBIT;
        let mut layout = spread(40e6, 160, &[8, 12, 14]);
        layout.push(piece(1000, 0, 100_000, 10));
        let mut lab = Lab::new(&[4.0 * rate; 4], &[rate; 4], layout, PlacementSettings::default());
        (lab.noise, lab.moves_cost) = (0.02, true);
        lab.paces.insert(10, 0.001 * rate);
        set(&mut lab);
        rounds(&mut lab, 40);
        lab.plans.len() as f64
    });
    assert!(without >= 4.0 * with.max(1.0), "{with} {without}");
}

/// Round after round of a model of which one piece cannot be cut yet.
#[test]
fn first_round() {
    let [with, without] = with_and_without("first_round", 0..8, |seed, set| {
        let mut random = Random::new(seed);
        let rates: Vec<f64> = (0..4).map(|_| (40.0 + 80.0 * random.unit()) * MBIT).collect();
        let mut layout = spread(40e6, 160, &[8, 10, 12, 14]);
        layout.push(piece(1000, 0, 10_000_000, 8));
        layout.iter_mut().for_each(|piece| piece.divisible = false);
        let mut lab = Lab::new(&[400.0 * MBIT; 4], &rates, layout, PlacementSettings::default());
        (lab.noise, lab.moves_cost, lab.whole_at_first) = (0.05, true, true);
        set(&mut lab);
        rounds(&mut lab, 12);
        lab.moved_since(0)
    });
    assert!(without > 1.2 * with, "{with} {without}");
}

/// A slow server that keeps the copies of a fast one, in rounds so long that no worker has told a
/// time when a plan would be worth it. What is moved for the old places moves again.
#[test]
fn copies_first() {
    let [with, without] = with_and_without("copies_first", 0..6, |seed, set| {
        let mut random = Random::new(seed);
        let mut rate = |low: f64, high: f64| (low + (high - low) * random.unit()) * MBIT;
        let rates = [rate(200.0, 500.0), rate(200.0, 500.0), rate(200.0, 500.0), rate(20.0, 40.0)];
        let settings = PlacementSettings {
            replicas: Replicas::Next { ratio: 1.0 },
            ..PlacementSettings::default()
        };
        let mut lab = Lab::new(&[500.0 * MBIT; 4], &rates, resnet50_by_hash(4), settings);
        (lab.noise, lab.moves_cost) = (0.05, true);
        set(&mut lab);
        rounds(&mut lab, 12);
        println!("{} plans, {} of copies", lab.plans.len(), lab.copy_plans);
        lab.moved_since(0)
    });
    assert!(without > 1.1 * with, "{with} {without}");
}

/// Not all nodes have seen at once that the network is another one: what moves because of what some
/// of them have not seen yet moves back.
#[test]
fn settling() {
    let [with, without] = with_and_without("settling", 0..24, |seed, set| {
        let mut lab = untuned(seed);
        lab.waits = true;
        set(&mut lab);
        let (mut random, mut time) = (Random::new(seed), 0.0);
        for _ in 0..3 {
            time += rounds(&mut lab, 15) / lab.best() / 45.0;
            redraw(&mut lab, &mut random);
        }
        println!("{} plans, rounds {time:.3} by T*", lab.plans.len());
        lab.moved_since(0)
    });
    assert!(without > 1.1 * with, "{with} {without}");
}

/// Portions of a server that is emptied which go out before any round is over.
#[test]
fn portion_under_way() {
    let [with, without] = with_and_without("portion_under_way", 0..6, |seed, set| {
        let mut lab = drawn(seed, false);
        set(&mut lab);
        rounds(&mut lab, 6);
        let last = *lab.servers.keys().last().unwrap();
        lab.duties.insert(last, Duty::Draining);
        lab.tell_members();
        let (mut portions, start) = (0.0, lab.now);
        for tick in 0..5 {
            let now = Duration::from_secs_f64(start + 0.1 * f64::from(tick));
            if let Some(plan) = lab.planner.tick(now, &mut || 0.5) {
                lab.layout = apply(&lab.layout, &plan.moves).unwrap();
                lab.planner.set_layout(lab.layout.clone()).unwrap();
                portions += 1.0;
            }
        }
        portions
    });
    assert!(with <= 6.0 && without > 2.0 * with, "{with} {without}");
}
