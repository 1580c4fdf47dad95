//! The bound against all splits of a grid, against BytePS's theorem, and closed form against
//! program.

use proptest::prelude::*;

use super::level::Share;
use super::*;
use crate::wire::NodeId;

const TOTAL: f64 = 1000.0;

fn workers(cards: &[(f64, f64)]) -> Vec<Worker> {
    let worker = |(i, (up, down)): (usize, &(f64, f64))| Worker {
        id: 9 + 2 * i as NodeId,
        up: *up,
        down: *down,
        host: None,
    };
    cards.iter().enumerate().map(worker).collect()
}

fn servers(cards: &[(f64, f64)]) -> Vec<Server> {
    let server =
        |(i, (up, down)): (usize, &(f64, f64))| Server::new(8 + 2 * i as NodeId, *up, *down);
    cards.iter().enumerate().map(server).collect()
}

fn equal(count: usize, rate: f64) -> Vec<(f64, f64)> {
    vec![(rate, rate); count]
}

/// The shortest round over all splits among three servers: a grid that closes in on its best point.
/// The time is a convex function of the split.
fn searched(model: &Model) -> f64 {
    const STEPS: i32 = 14;
    let (mut centre, mut width, mut best) = ((TOTAL / 3.0, TOTAL / 3.0), TOTAL, f64::INFINITY);
    for _ in 0..24 {
        let mut next = centre;
        for i in -STEPS..=STEPS {
            for j in -STEPS..=STEPS {
                let a = centre.0 + width * f64::from(i) / f64::from(STEPS);
                let b = centre.1 + width * f64::from(j) / f64::from(STEPS);
                let loads = [a, b, TOTAL - a - b];
                let possible = loads.iter().all(|load| *load >= 0.0);
                let seconds = if possible { model.round_seconds(&loads) } else { f64::INFINITY };
                if seconds < best {
                    (best, next) = (seconds, (a, b));
                }
            }
        }
        (centre, width) = (next, width * 0.6);
    }
    best
}

fn near(a: f64, b: f64, fraction: f64) -> bool {
    (a - b).abs() <= fraction * a.abs().max(b.abs())
}

#[derive(Clone, Debug)]
struct Job {
    model: Model,
    joined: bool,
}

fn rate() -> impl Strategy<Value = f64> {
    10.0..200.0_f64
}

/// Jobs with three servers: cards, caps, copies, hosts that several nodes share.
fn job() -> impl Strategy<Value = Job> {
    let cards = |count| prop::collection::vec((rate(), rate()), count);
    let caps = prop::collection::vec((0..4_usize, 0..3_usize, rate(), rate()), 0..3);
    let hosts = prop::collection::vec(prop::option::weighted(0.5, 0..3_u32), 8);
    let all = (cards(1..5), cards(3..4), caps, 0..4_u8, hosts);
    all.prop_map(|(worker_cards, server_cards, caps, kind, hosts)| {
        let (mut workers, mut servers) = (workers(&worker_cards), servers(&server_cards));
        let caps: Vec<PairCap> = caps
            .into_iter()
            .map(|(w, s, push, pull)| PairCap {
                worker: 9 + 2 * (w % workers.len()) as NodeId,
                server: 8 + 2 * s as NodeId,
                push,
                pull,
            })
            .collect();
        let copies = kind & 1 == 1;
        if kind & 2 == 2 {
            let nodes = workers.iter_mut().map(|w| &mut w.host);
            let nodes = nodes.chain(servers.iter_mut().map(|s| &mut s.host));
            nodes.zip(hosts).for_each(|(slot, host)| *slot = host);
        }
        let replicas = if copies { Replicas::Next { ratio: 1.0 } } else { Replicas::None };
        Job { model: Model::new(workers, servers, &caps, &replicas), joined: kind > 0 }
    })
}

/// A server beside all workers seems to need no time at all; times counted in that unit would be
/// endless.
#[test]
fn a_server_on_the_host_of_all_workers() {
    let mut workers = workers(&[(10.0, 134.0)]);
    let mut servers = servers(&[(97.0, 66.0), (10.0, 10.0), (148.0, 10.0)]);
    workers[0].host = Some(0);
    servers[1..].iter_mut().for_each(|server| server.host = Some(0));
    let copies = Replicas::Next { ratio: 1.0 };
    let model = Model::new(workers, servers, &[], &copies);
    let loads = model.target(&[0.0; 3], TOTAL, 0.0).unwrap();
    let (reached, bound) = (model.round_seconds(&loads), model.bound(TOTAL));
    assert!(near(reached, bound, 0.01), "{reached} {bound}");
}

/// What a host's card carries is the same whichever of its servers, or none, holds a byte: half of
/// the workers is there. Then no server decides anything.
#[test]
fn servers_that_decide_nothing() {
    let mut workers = workers(&equal(4, 10.0));
    let mut servers = servers(&equal(3, 10.0));
    workers[..2].iter_mut().for_each(|worker| worker.host = Some(0));
    servers.iter_mut().for_each(|server| server.host = Some(0));
    let model = Model::new(workers, servers, &[], &Replicas::None);
    let loads = model.target(&[0.0; 3], TOTAL, 0.0).unwrap();
    assert!(near(loads.iter().sum(), TOTAL, 1e-6), "{loads:?}");
    // Two workers of that host push to servers, or two others do: 2 * 1000 / 10 by the host's card.
    assert!(near(model.bound(TOTAL), 200.0, 1e-6), "{}", model.bound(TOTAL));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn no_split_beats_the_bound_and_one_reaches_it(job in job()) {
        let (bound, best) = (job.model.bound(TOTAL), searched(&job.model));
        prop_assert!(bound <= best * (1.0 + 1e-6), "bound {bound}, found {best}");
        prop_assert!(best <= bound * 1.02 + 0.01, "bound {bound}, found {best}");
    }

    #[test]
    fn the_program_reaches_the_bound(job in job()) {
        let model = &job.model;
        let loads = model.target(&[0.0; 3], TOTAL, 0.0).unwrap();
        prop_assert!(near(loads.iter().sum(), TOTAL, 1e-6), "{loads:?}");
        // The weight of levelling may cost a little of the best, never more than it weighs.
        let (reached, bound) = (model.round_seconds(&loads), model.bound(TOTAL));
        prop_assert!(reached <= bound * 1.01 && reached >= bound * (1.0 - 1e-6), "{reached} \
            {bound}");
        if !job.joined {
            let program = program::shortest(model, TOTAL).unwrap();
            prop_assert!(near(program, bound, 1e-6), "program {program}, closed form {bound}");
        }
    }

    #[test]
    fn a_price_makes_moves_rarer(job in job(), start in prop::array::uniform3(0.1..1.0_f64)) {
        let model = &job.model;
        let sum: f64 = start.iter().sum();
        let loads: Vec<f64> = start.iter().map(|load| load / sum * TOTAL).collect();
        let moved = |to: &[f64]| -> f64 {
            loads.iter().zip(to).map(|(a, b)| (a - b).max(0.0)).sum()
        };
        let mut cheaper = (f64::INFINITY, 0.0);
        for price in [0.0, 1e-4, 1e-3, 1e-2, 1.0] {
            let target = model.target(&loads, 0.0, price).unwrap();
            let (moved, seconds) = (moved(&target), model.round_seconds(&target));
            prop_assert!(moved <= cheaper.0 + 1e-3, "{moved} after {cheaper:?}");
            prop_assert!(seconds <= model.round_seconds(&loads) * (1.0 + 1e-6));
            cheaper = (moved, seconds);
        }
        prop_assert!(cheaper.0 < 1.0, "a second for a byte, and still {} moved", cheaper.0);
    }
}

/// BytePS (OSDI'20, theorem 1; docs/algorithms.md 4.6): n hosts with a worker and a server each, k
/// hosts with a server alone, all with equal cards.
#[test]
fn it_agrees_with_the_theorem_of_byteps() {
    const RATE: f64 = 50.0;
    for n in 2..=9_u32 {
        for k in 0..=n {
            let (hosts, extra) = (n as usize, k as usize);
            let mut workers = workers(&equal(hosts, RATE));
            let mut servers = servers(&equal(hosts + extra, RATE));
            workers.iter_mut().zip(0..).for_each(|(worker, host)| worker.host = Some(host));
            servers.iter_mut().zip(0..n).for_each(|(server, host)| server.host = Some(host));
            let model = Model::new(workers, servers, &[], &Replicas::None);
            let (n, k) = (f64::from(n), f64::from(k));
            let whole = n * n + k * n - 2.0 * k;
            let best = 2.0 * n * (n - 1.0) * TOTAL / (whole * RATE);
            assert!(near(model.bound(TOTAL), best, 1e-6), "n {n}, k {k}: {best}");
            let shares = [(n - k) / whole, 2.0 * (n - 1.0) / whole];
            let loads: Vec<f64> = (0..hosts + extra)
                .map(|index| shares[usize::from(index >= hosts)] * TOTAL)
                .collect();
            assert!(near(loads.iter().sum(), TOTAL, 1e-9));
            assert!(near(model.round_seconds(&loads), best, 1e-9), "n {n}, k {k}");
        }
    }
}

fn overlapped(worker_cards: &[(f64, f64)], server_cards: &[(f64, f64)]) -> Model {
    let (workers, servers) = (workers(worker_cards), servers(server_cards));
    Model::new(workers, servers, &[], &Replicas::None)
}

#[test]
fn a_round_by_hand() {
    let cards = [(100.0, 100.0), (50.0, 25.0)];
    let model = overlapped(&equal(2, 1000.0), &cards);
    // Two workers: 2 * 600 / 100 and 2 * 400 / 25.
    assert_eq!(model.server_seconds(&[600.0, 400.0]), [12.0, 32.0]);
    assert_eq!(model.round_seconds(&[600.0, 400.0]), 32.0);
    // 125 bytes per second for two workers.
    assert!(near(model.bound(TOTAL), 16.0, 1e-12));
    let slow = overlapped(&[(10.0, 40.0)], &cards);
    assert_eq!((slow.bound(TOTAL), slow.round_seconds(&[500.0, 500.0])), (100.0, 100.0));
    assert!(near(slow.servers_seconds(&[500.0, 500.0]), 20.0, 1e-12));
}

/// A copy at a slow server holds its neighbour back: that is why the program is there.
#[test]
fn copies_at_a_slow_server_cost() {
    let cards = [(500.0, 500.0), (500.0, 500.0), (500.0, 500.0), (50.0, 50.0)];
    let job = |replicas: &Replicas| {
        let (workers, servers) = (workers(&equal(4, 500.0)), servers(&cards));
        Model::new(workers, servers, &[], replicas)
    };
    assert!(near(job(&Replicas::None).bound(TOTAL), TOTAL / 387.5, 1e-9));
    // The first two: 500 / (4 + 1); the third sends at most 50 to the fourth, which then has
    // nothing.
    assert!(near(job(&Replicas::Next { ratio: 1.0 }).bound(TOTAL), TOTAL / 250.0, 1e-6));
    let pairs = vec![(8, 10), (10, 12), (12, 8), (14, 8)];
    let elsewhere = job(&Replicas::Given { ratio: 1.0, pairs }).bound(TOTAL);
    assert!(elsewhere < TOTAL / 300.0, "{elsewhere}");
}

#[test]
fn what_may_not_stay_leaves_and_the_rest_stays() {
    let mut servers = servers(&equal(4, 100.0));
    servers[3].usable = false;
    let replicas = Replicas::Next { ratio: 1.0 };
    let model = Model::new(workers(&equal(2, 400.0)), servers.clone(), &[], &replicas);
    let target = model.target(&[250.0; 4], 0.0, 1e-6).unwrap();
    assert_eq!(target[3], 0.0);
    assert!(target[..3].iter().all(|load| near(*load, TOTAL / 3.0, 1e-6)), "{target:?}");
    // Workers decide the round: nothing else moves, and what comes is still spread.
    let slow = Model::new(workers(&equal(2, 30.0)), servers, &[], &replicas);
    let target = slow.target(&[240.0, 260.0, 250.0, 250.0], 0.0, 1e-4).unwrap();
    assert!(target[..3].iter().all(|load| near(*load, TOTAL / 3.0, 1e-6)), "{target:?}");
    assert!(slow.target(&[250.0; 4], f64::NAN, 0.0).is_none());
}

#[test]
fn workers_that_decide_leave_the_layout_alone() {
    let model = overlapped(&equal(2, 20.0), &[(100.0, 100.0), (90.0, 90.0), (100.0, 60.0)]);
    let loads = [400.0, 300.0, 300.0];
    let target = model.target(&loads, 0.0, 1e-3).unwrap();
    assert!(target.iter().zip(loads).all(|(a, b)| near(*a, b, 1e-6)), "{target:?}");
}

/// A server whose fixed seconds are longer than the round of the others gets nothing.
#[test]
fn fixed_seconds_leave_servers_out() {
    let mut servers = servers(&equal(3, 100.0));
    servers[2].fixed = 12.0;
    servers[1].fixed = 1.0;
    for replicas in [Replicas::None, Replicas::Next { ratio: 0.0 }] {
        let model = Model::new(workers(&[(900.0, 900.0)]), servers.clone(), &[], &replicas);
        // 100 t + 100 (t - 1) = 1000
        assert!(near(model.bound(TOTAL), 5.5, 1e-9));
        let target = model.target(&[400.0, 300.0, 300.0], 0.0, 0.0).unwrap();
        assert_eq!(target[2], 0.0);
        assert!(near(model.round_seconds(&target), 5.5, 1e-6), "{target:?}");
    }
}

#[test]
fn a_slow_processor_limits_its_server_alone() {
    let mut servers = servers(&equal(2, 100.0));
    servers[1].slowdown = 3.0;
    servers[0].slowdown = 0.5;
    let workers = workers(&[(900.0, 900.0)]);
    let model = Model::new(workers, servers, &[], &Replicas::None);
    let times = model.server_seconds(&[500.0, 500.0]);
    assert!(near(times[0], 2.5, 1e-9) && near(times[1], 15.0, 1e-9), "{times:?}");
    assert!(near(model.bound(TOTAL), TOTAL / (200.0 + 100.0 / 3.0), 1e-9));
}

#[test]
fn rates_that_are_none_do_no_harm() {
    let bad = [(0.0, 100.0), (f64::NAN, -5.0), (100.0, f64::INFINITY)];
    let model = overlapped(&[(f64::INFINITY, f64::INFINITY)], &bad);
    let target = model.target(&[300.0, 300.0, 400.0], 0.0, 0.0).unwrap();
    assert!(target[2] > 990.0 && model.bound(TOTAL).is_finite(), "{target:?}");
    let nobody = overlapped(&[], &[]);
    assert_eq!((nobody.bound(TOTAL), nobody.target(&[], TOTAL, 0.0)), (f64::INFINITY, None));
    let idle = overlapped(&[], &bad);
    assert!(idle.bound(TOTAL) < 1e-100 && idle.round_seconds(&[1.0, 2.0, 3.0]) == 0.0);
}

/// Hundreds of servers: the bound holds, and the target is near it.
#[test]
fn many_servers() {
    let cards: Vec<(f64, f64)> = (0..400).map(|i| (f64::from(50 + i % 7 * 25), 100.0)).collect();
    for replicas in [Replicas::None, Replicas::Next { ratio: 1.0 }] {
        let (workers, servers) = (workers(&equal(1000, 1e5)), servers(&cards));
        let model = Model::new(workers, servers, &[], &replicas);
        let target = model.target(&[TOTAL / 400.0; 400], 0.0, 0.0).unwrap();
        assert!(near(target.iter().sum(), TOTAL, 1e-9));
        let (bound, reached) = (model.bound(TOTAL), model.round_seconds(&target));
        assert!(bound <= reached && reached < bound * 1.01, "{bound} {reached}");
        let best = level::seconds(&model, TOTAL, Share::Best).unwrap();
        assert!(best <= bound * (1.0 + 1e-9));
    }
}
