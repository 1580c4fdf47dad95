//! What is gained by cutting the tensors that make a round wait, over networks that a seed draws:
//! `placement/tests/networks.rs`. Plans are for rates that are known; rounds are timed by
//! `tests/jobs.rs`, in which a tensor is pulled when all of it was pushed.

use std::collections::BTreeMap;

use super::*;
use crate::placement::layout::holdings;
use crate::placement::tests::jobs::{self, by_hash, cut_by, model_of, resnet50, resnet50_by_hash};
use crate::placement::tests::networks::drawn;
use crate::placement::tuning::SHARED_TENSORS_MAX;
use crate::wire::Key;

const MBIT: f64 = 125_000.0;

/// Times in the network of a seed: by T*, and by the same with each tensor cut in proportion to the
/// rates, which is the shortest where tensors wait. As MXNet places tensors; with shares alone,
/// whole where they fit; with a plan. How many tensors there are, and pieces of each layout. None:
/// nodes share a host.
fn times(seed: u64) -> Option<([[f64; 3]; 2], usize, [usize; 3])> {
    let mut lab = drawn(seed, false);
    if !lab.hosts.is_empty() {
        return None;
    }
    lab.layout.iter_mut().for_each(|piece| piece.divisible = true);
    sort(&mut lab.layout).unwrap();
    let (model, parameters) = (lab.truth(), ShareParameters::default());
    let (loads, homeless) = model.loads_of(&lab.layout);
    let target = model.target(&loads, homeless, price(&model, &lab.layout, &parameters)).unwrap();
    let whole = rounding::round(&lab.layout, &model, &target, &parameters);
    let whole = improve::improve(whole, &model, &target);
    let plan = plan(&lab.layout, &model, &parameters).unwrap();
    let planned =
        plan.map_or_else(|| lab.layout.clone(), |plan| apply(&lab.layout, &plan.moves).unwrap());
    let layouts = [&lab.layout, &whole, &planned];
    let sizes: BTreeMap<Key, u64> = lab.layout.iter().map(|piece| (piece.key, piece.to)).collect();
    let rates: Vec<f64> = lab.servers.values().map(|node| node.up.min(node.down)).collect();
    let optimum =
        jobs::waiting(&cut_by(&sizes.values().copied().collect::<Vec<_>>(), &rates), &lab);
    let by = |least: f64| layouts.map(|layout| jobs::waiting(layout, &lab) / least);
    Some(([by(lab.best()), by(optimum)], sizes.len(), layouts.map(Vec::len)))
}

fn median_and_worst(mut column: Vec<f64>) -> [f64; 2] {
    column.sort_by(f64::total_cmp);
    [column[column.len() / 2], column[column.len() - 1]]
}

/// Of all networks by the optimum; of those with ResNet-50's tensors by T*, too. (One tensor alone,
/// and VGG's, cannot overlap: their optimum is up to twice T*.)
#[test]
fn what_cutting_gains() {
    let (mut all, mut resnet): ([Vec<f64>; 3], [Vec<f64>; 3]) = Default::default();
    for seed in 0..120 {
        let Some(([by_bound, by_optimum], tensors, pieces)) = times(seed) else { continue };
        println!(
            "seed {seed}: {tensors} tensors, by T* {by_bound:.2?}, by the optimum \
             {by_optimum:.2?}, {pieces:?} pieces"
        );
        all.iter_mut().zip(by_optimum).for_each(|(column, time)| column.push(time));
        if tensors == 161 {
            resnet.iter_mut().zip(by_bound).for_each(|(column, time)| column.push(time));
        }
        assert!(pieces[2] <= pieces[1] + 8 * SHARED_TENSORS_MAX, "{pieces:?}");
    }
    println!("{} networks, {} with ResNet-50's tensors", all[0].len(), resnet[0].len());
    let [[hash, whole, planned], [_, before, after]] =
        [all, resnet].map(|columns| columns.map(median_and_worst));
    println!(
        "by the optimum, median and worst: hash {hash:.2?}, shares {whole:.2?}, plan \
              {planned:.2?}"
    );
    println!("ResNet-50 by T*: shares {before:.2?}, plan {after:.2?}");
    assert!(planned[0] < 1.05 && planned[1] < 1.2, "{planned:?}");
    assert!(after[0] < 1.13 && after[1] < 1.2 && before[1] > 1.3, "{before:?} {after:?}");
}

/// MXNet cuts what is large. What is left whole is no reason to move anything.
#[test]
fn equal_servers_keep_what_they_have() {
    for copies in [false, true] {
        let rates = [200.0 * MBIT; 4];
        let model = model_of(&[200.0 * MBIT; 4], &rates);
        let replicas = crate::placement::cost::Replicas::Next { ratio: 1.0 };
        let model = if copies { model.with_replicas(replicas) } else { model };
        let layout = resnet50_by_hash(4);
        let (seconds, bound) = (waiting::seconds(&layout, &model), model.bound(102_228_128.0));
        println!("copies {copies}: {:.2} by T*", seconds / bound);
        assert_eq!(plan(&layout, &model, &ShareParameters::default()).unwrap(), None);
    }
}

/// What one plan cut is not cut again.
#[test]
fn a_second_plan_has_nothing_to_cut() {
    let sizes: Vec<u64> = resnet50().iter().map(|size| (size / 5).max(16)).collect();
    let rates = [200.0, 120.0, 60.0].map(|rate| rate * MBIT);
    let model = model_of(&[500.0 * MBIT; 3], &rates);
    let layout = by_hash(&sizes, 3);
    let first = plan(&layout, &model, &ShareParameters::default()).unwrap().unwrap();
    let after = apply(&layout, &first.moves).unwrap();
    println!("{first}: {} pieces", after.len());
    assert!(first.predicted < 1.15 * first.bound.unwrap(), "{first}");
    assert_eq!(holdings(&after).len(), 3);
    assert_eq!(plan(&after, &model, &ShareParameters::default()).unwrap(), None);
}
