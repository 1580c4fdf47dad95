//! Plans against the model: quotas met, little moved, nothing moved in vain.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::placement::cost::{Replicas, Server, Worker};
use crate::placement::layout::holdings;
use crate::placement::tests::jobs::{model_of, piece, resnet50_by_hash, spread};
use crate::random::Random;
use crate::wire::{NodeId, server_id};

const MB: f64 = 1e6;

fn planned(layout: &[PieceLoad], model: &Model) -> Option<Plan> {
    plan(layout, model, &ShareParameters::default()).unwrap()
}

fn total(layout: &[PieceLoad]) -> f64 {
    layout.iter().map(|piece| bytes(piece.bytes)).sum()
}

/// What every plan has to keep.
fn check(layout: &[PieceLoad], model: &Model, plan: &Plan) -> Vec<PieceLoad> {
    let parameters = ShareParameters::default();
    let after = apply(layout, &plan.moves).unwrap();
    assert!((total(layout) - total(&after)).abs() < 0.5);
    let state = |layout: &[PieceLoad]| layout.iter().map(|piece| piece.state_bytes).sum::<u64>();
    assert_eq!(state(layout), state(&after));
    for (before, now) in [(layout, &after)] {
        for piece in now {
            let whole =
                before.iter().any(|p| (p.key, p.from, p.to) == (piece.key, piece.from, piece.to));
            assert!(whole || piece.bytes >= parameters.min_piece, "a sliver: {piece:?}");
            let count = now.iter().filter(|other| other.key == piece.key).count();
            let count_before = before.iter().filter(|other| other.key == piece.key).count();
            assert!(count <= parameters.max_pieces.max(count_before));
        }
    }
    let (loads, homeless) = model.loads_of(&after);
    assert_eq!(homeless, 0.0);
    assert!((waiting::seconds(&after, model) - plan.predicted).abs() <= 1e-9 * plan.predicted);
    assert!(plan.predicted >= model.round_seconds(&loads) * (1.0 - 1e-9));
    assert!(plan.predicted >= plan.bound.unwrap() * (1.0 - 1e-9));
    after
}

/// One that is too slow for the smallest piece is no reason to move what the others hold: there is
/// a plan for the same reason as without it, or none.
#[test]
fn a_server_that_gets_nothing_does_not_join() {
    let servers = [100.0 * MB, 100.0 * MB, 1e3];
    let layout = [piece(0, 0, 10_000_000, server_id(0)), piece(1, 0, 10_600_000, server_id(1))];
    let reason = |servers: &[f64]| {
        planned(&layout, &model_of(&[50.0 * MB; 4], servers)).map(|plan| plan.reason)
    };
    assert!(reason(&servers).is_some());
    assert_eq!(reason(&servers), reason(&servers[..2]));
}

#[test]
fn a_slow_server_gets_its_share() {
    let layout = resnet50_by_hash(4);
    let cases = [([1.0, 1.0, 0.25, 0.25], 2.4, 0.30), ([1.0, 1.0, 1.0, 0.1], 7.0, 0.218)];
    for (rates, gain, excess) in cases {
        let model = model_of(&[50.0 * MB; 8], &rates.map(|rate| rate * 50.0 * MB));
        let plan = planned(&layout, &model).unwrap();
        let after = check(&layout, &model, &plan);
        let fluid = |layout: &[PieceLoad]| model.round_seconds(&model.loads_of(layout).0);
        assert!(fluid(&layout) > fluid(&after) * gain, "{plan:?}");
        assert!(fluid(&after) < plan.bound.unwrap() * 1.02, "{} {:?}", fluid(&after), plan.bound);
        // What nothing overlaps of the last tensor is in it.
        assert!(plan.predicted < plan.bound.unwrap() * 1.12, "{plan:?}");
        // As much as the fast ones lack, and less than if each tensor was cut for all of them.
        let moved = plan.moved_bytes as f64 / 2.0 / total(&layout);
        let cut = all_cut(&layout, &model.loads_of(&after).0, &model);
        println!("{moved:.3} of the bytes move, {excess} must, {cut:.3} if each tensor is cut");
        assert!(moved < cut && moved < 1.4 * excess, "{moved} of {cut}");
        let again = apply(&layout, &plan.moves).unwrap();
        assert_eq!(planned(&again, &model), None, "the second plan has nothing to do");
    }
}

/// The fraction of all bytes that moves if each tensor is cut in proportion to loads.
fn all_cut(layout: &[PieceLoad], loads: &[f64], model: &Model) -> f64 {
    let all = total(layout);
    let mut tensors = BTreeMap::<u64, Vec<f64>>::new();
    for piece in layout {
        let held = tensors.entry(piece.position).or_insert_with(|| vec![0.0; loads.len()]);
        held[model.index_of(piece.owner).unwrap()] += bytes(piece.bytes);
    }
    let given = |held: Vec<f64>| {
        let fraction = held.iter().sum::<f64>() / all;
        held.iter().zip(loads).map(|(held, load)| (held - fraction * load).max(0.0)).sum::<f64>()
    };
    tensors.into_values().map(given).sum::<f64>() / all
}

/// How far a server's share of what comes first in a round is from its share of the whole round, at
/// the worst place; as a fraction of what it holds.
fn unevenness(layout: &[PieceLoad], id: NodeId) -> f64 {
    let mut order: Vec<&PieceLoad> = layout.iter().collect();
    order.sort_by_key(|piece| piece.position);
    let (all, own) = (total(layout), bytes(holdings(layout)[&id].bytes));
    let (mut before, mut held, mut worst) = (0.0, 0.0, 0.0_f64);
    for tensor in order.chunk_by(|a, b| a.position == b.position) {
        before += total(&tensor.iter().copied().cloned().collect::<Vec<_>>());
        let its = tensor.iter().filter(|piece| piece.owner == id);
        held += its.map(|piece| bytes(piece.bytes)).sum::<f64>();
        worst = worst.max((held / own - before / all).abs());
    }
    worst
}

/// MXNet pulls a tensor when all servers have got all of it: nobody should get to it much later
/// than the others.
#[test]
fn servers_hold_something_of_all_parts_of_a_round() {
    let layout = resnet50_by_hash(4);
    let model = model_of(&[50.0 * MB; 4], &[50.0 * MB, 50.0 * MB, 50.0 * MB, 5.0 * MB]);
    let plan = planned(&layout, &model).unwrap();
    let after = check(&layout, &model, &plan);
    let found = [8, 10, 12, 14].map(|id| unevenness(&after, id));
    assert!(found.iter().all(|uneven| *uneven < 0.10), "{found:?}");
    let places = after.iter().filter(|piece| piece.owner == 14).count();
    assert!((10..=64).contains(&places), "the slow server has {places} pieces");
}

#[test]
fn equal_rates_move_nothing() {
    for servers in [2, 4] {
        let layout = resnet50_by_hash(servers);
        let model = model_of(&[50.0 * MB; 8], &vec![50.0 * MB; servers]);
        assert_eq!(planned(&layout, &model), None, "{servers} servers");
    }
    // With 3 servers `key * 9973 % 3` is `key % 3`, and as each convolution has three tensors, all
    // large ones are at server 0. With 8 chance is enough. One plan, and no other.
    for (servers, most) in [(3, 0.57), (8, 0.16)] {
        let layout = resnet50_by_hash(servers);
        let model = model_of(&[50.0 * MB; 8], &vec![50.0 * MB; servers]);
        let (loads, _) = model.loads_of(&layout);
        let largest = loads.iter().copied().fold(0.0, f64::max) / total(&layout);
        assert!(largest > most - 0.01 && largest < most, "{largest}");
        let plan = planned(&layout, &model).unwrap();
        assert_eq!(planned(&check(&layout, &model, &plan), &model), None, "{servers} servers");
    }
}

/// 200 plans with rates that are 5 % off at random.
#[test]
fn noise_moves_nothing() {
    let mut chance = Random::new(7);
    for replicas in [Replicas::None, Replicas::Next { ratio: 1.0 }] {
        let layout = spread(100.0 * MB, 400, &[8, 10, 12, 14]);
        for _ in 0..200 {
            let mut noisy = || 50.0 * MB * (1.0 + 0.05 * (2.0 * chance.unit() - 1.0));
            let worker = |id: NodeId, up: f64, down: f64| Worker { id, up, down, host: None };
            let workers = (0..8).map(|i| worker(9 + 2 * i, noisy() * 4.0, noisy() * 4.0)).collect();
            let servers = [8, 10, 12, 14].map(|id| Server::new(id, noisy(), noisy()));
            let model = Model::new(workers, servers.to_vec(), &[], &replicas);
            assert_eq!(planned(&layout, &model), None);
        }
    }
}

#[test]
fn it_waits_between_switches_unless_it_must_not() {
    let layout = resnet50_by_hash(2);
    let model = model_of(&[50.0 * MB; 4], &[50.0 * MB, 5.0 * MB]);
    let parameters = ShareParameters::default();
    assert!(plan(&layout, &model, &parameters).unwrap().is_some());
    let only = model_of(&[50.0 * MB; 4], &[50.0 * MB]);
    let homeless = plan(&layout, &only, &parameters).unwrap().unwrap();
    let after = check(&layout, &only, &homeless);
    assert!(after.iter().all(|piece| piece.owner == 8));
    assert!(homeless.reason.contains("without a server"), "{}", homeless.reason);
}

#[test]
fn a_move_has_to_pay() {
    let layout = resnet50_by_hash(2);
    let model = model_of(&[50.0 * MB; 4], &[50.0 * MB, 40.0 * MB]);
    let with = |horizon: f64| {
        let parameters =
            ShareParameters { horizon, move_rate: Some(MB), ..ShareParameters::default() };
        plan(&layout, &model, &parameters).unwrap()
    };
    assert!(with(100.0).is_some() && with(2.0).is_none());
}

#[test]
fn a_drained_server_is_emptied_and_a_new_one_filled() {
    let layout = spread(100.0 * MB, 400, &[8, 10, 12]);
    for (worker, replicas) in [(50.0, Replicas::None), (4.0, Replicas::Next { ratio: 1.0 })] {
        let nodes = |usable: [bool; 4]| {
            let workers = (0..4).map(|i| Worker {
                id: 9 + 2 * i,
                up: worker * MB,
                down: worker * MB,
                host: None,
            });
            let server = |(i, usable): (usize, bool)| Server {
                usable,
                ..Server::new(8 + 2 * i as NodeId, 50.0 * MB, 50.0 * MB)
            };
            let servers = usable.into_iter().enumerate().map(server).collect();
            Model::new(workers.collect(), servers, &[], &replicas)
        };
        let joined = planned(&layout, &nodes([true; 4])).unwrap();
        assert!(joined.reason.contains("node 14 has no pieces"), "{}", joined.reason);
        let wide = check(&layout, &nodes([true; 4]), &joined);
        let share =
            |layout: &[PieceLoad], id: NodeId| bytes(holdings(layout)[&id].bytes) / total(layout);
        for id in [8, 10, 12, 14] {
            assert!((share(&wide, id) - 0.25).abs() < 0.02, "{id}: {}", share(&wide, id));
        }
        assert!(joined.moved_bytes as f64 <= 2.0 * 0.26 * total(&layout));
        assert!(joined.moves.iter().all(|step| step.to_server == 14));
        let model = nodes([true, false, true, true]);
        let drained = planned(&wide, &model).unwrap();
        assert!(drained.reason.contains("node 10 gives up"), "{}", drained.reason);
        let narrow = check(&wide, &model, &drained);
        assert!(!holdings(&narrow).contains_key(&10));
        for id in [8, 12, 14] {
            assert!((share(&narrow, id) - 1.0 / 3.0).abs() < 0.03, "{id}: {}", share(&narrow, id));
        }
        assert!(drained.moves.iter().all(|step| step.owner == 10));
        assert_eq!(planned(&narrow, &model), None);
    }
}

#[test]
fn what_cannot_be_cut_is_packed() {
    let mut layout = spread(10.0 * MB, 10, &[8]);
    layout.iter_mut().for_each(|piece| piece.divisible = false);
    let model = model_of(&[500.0 * MB; 2], &[50.0 * MB, 50.0 * MB, 100.0 * MB]);
    let plan = planned(&layout, &model).unwrap();
    let after = check(&layout, &model, &plan);
    let held = holdings(&after);
    assert_eq!([8, 10, 12].map(|id| held[&id].pieces), [3, 2, 5]);
    // One key that is too large for any share: nothing helps, so nothing moves.
    let huge = PieceLoad { divisible: false, ..spread(80.0 * MB, 1, &[8]).remove(0) };
    let rest = spread(20.0 * MB, 20, &[10]).into_iter().map(|p| PieceLoad { key: p.key + 9, ..p });
    let layout: Vec<PieceLoad> = [huge].into_iter().chain(rest).collect();
    let even = model_of(&[500.0 * MB; 2], &[50.0 * MB, 50.0 * MB]);
    assert_eq!(planned(&layout, &even), None);
}

#[test]
fn a_small_model_is_not_thrown_about() {
    let layout = spread(4000.0, 40, &[8, 10, 12, 14]);
    let even = model_of(&[50.0 * MB; 2], &[50.0 * MB; 4]);
    assert_eq!(planned(&layout, &even), None);
    let slow = model_of(&[50.0 * MB; 2], &[50.0 * MB, 50.0 * MB, 50.0 * MB, 5.0 * MB]);
    let parameters = ShareParameters { horizon: 1e6, ..ShareParameters::default() };
    let plan = plan(&layout, &slow, &parameters).unwrap().unwrap();
    check(&layout, &slow, &plan);
    assert!(plan.moves.iter().all(|step| step.owner == 14), "{:?}", plan.moves);
}

fn any_layout() -> impl Strategy<Value = Vec<PieceLoad>> {
    let key = (1..400_000_u64, 1..5_u64, 0..4_i32, any::<bool>(), 0..3_u32, 0..3_u64);
    prop::collection::vec(key, 1..40).prop_map(|keys| {
        let pieces = |(key, part): (u64, (u64, u64, NodeId, bool, u32, u64))| {
            let (elements, parts, owner, divisible, align, state) = part;
            let align = 1_u64 << (align * 4);
            let step = (elements / parts).next_multiple_of(align).max(1);
            (0..parts).filter_map(move |part| {
                let (from, to) = (part * step, ((part + 1) * step).min(elements));
                let to = if part + 1 == parts { elements } else { to };
                let owner = 8 + 2 * ((owner + part as NodeId) % 4);
                let (bytes, state_bytes) = (to.checked_sub(from)? * 4, (to - from) * 4 * state);
                let load = piece(key, from, to, owner);
                (from < to).then_some(PieceLoad { bytes, state_bytes, divisible, align, ..load })
            })
        };
        (0..).zip(keys).flat_map(pieces).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any layout, any rates, servers that come and go: moves are allowed, the result is what was
    /// predicted, and plans come to an end.
    #[test]
    fn plans_keep_their_word(
        layout in any_layout(),
        rates in prop::collection::vec(1.0..200.0_f64, 5),
        usable in prop::collection::vec(prop::bool::weighted(0.8), 5),
        ratio in 0..2_u8,
    ) {
        prop_assume!(usable.contains(&true));
        let server = |(i, (rate, usable)): (usize, (&f64, &bool))| Server {
            usable: *usable,
            ..Server::new(8 + 2 * i as NodeId, rate * MB, rate * MB)
        };
        let servers: Vec<Server> = rates.iter().zip(&usable).enumerate().map(server).collect();
        let worker = |i| Worker { id: 9 + 2 * i, up: 100.0 * MB, down: 90.0 * MB, host: None };
        let workers = (0..3).map(worker);
        let replicas = if ratio == 0 { Replicas::None } else { Replicas::Next { ratio: 1.0 } };
        let model = Model::new(workers.collect(), servers, &[], &replicas);
        let mut layout = layout;
        for _ in 0..6 {
            let Some(plan) = planned(&layout, &model) else { break };
            layout = check(&layout, &model, &plan);
            for piece in &layout {
                let at = model.index_of(piece.owner).unwrap();
                prop_assert!(model.servers()[at].usable, "{piece:?}");
            }
        }
        prop_assert_eq!(planned(&layout, &model), None, "plans do not come to an end");
    }
}
