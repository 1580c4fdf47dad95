//! Several stores at once: whatever moves, dies, comes and goes, each pull brings what one
//! undisturbed server would have given, bit for bit.

mod commands;
mod copies;
mod events;
mod keys;
mod malformed;
mod promises;
mod scheduler;
mod worker;
mod workers;
mod world;

use bytes::Bytes;

use self::keys::{KeySpec, Kind, Load, THRESHOLD};
use self::worker::Action;
use self::world::{Chances, Plan, World};
use crate::store::command::Head;
use crate::store::pickled_tests::pickled;
use crate::store::{PART_BYTES, Store, StoreConfig, SumOrder};
use crate::values::Dtype;
use crate::wire::{Meta, NodeId, worker_id};

/// A server's empty store, in a job that began with one worker and two servers.
fn store_of_two(id: NodeId) -> Store {
    let config = StoreConfig {
        workers: 1,
        servers: 2,
        id,
        order: SumOrder::Arrival,
        elastic: true,
        replicas: 1,
        part_bytes: PART_BYTES,
    };
    Store::new(config)
}

/// What workers tell the servers first.
#[derive(Clone, Copy, Debug)]
struct Job {
    sync: bool,
    optimizer: Option<(&'static str, &'static [(&'static str, &'static str)])>,
    multi_precision: bool,
    /// Whole numbers are pushed, whose sums do not depend on their order.
    exact: bool,
    rounds: u64,
    /// Pushes pull too.
    both: bool,
    /// Workers push several rounds without waiting for answers.
    ahead: bool,
    /// Workers send another optimizer later.
    another: bool,
}

const SGD: &[(&str, &str)] = &[("momentum", "F0.0\n"), ("lazy_update", "I01\n")];
const MOMENTUM: &[(&str, &str)] =
    &[("momentum", "F0.9\n"), ("lazy_update", "I01\n"), ("lr", "F0.1\n"), ("wd", "F0.01\n")];
const ADAM: &[(&str, &str)] = &[
    ("beta1", "F0.9\n"),
    ("beta2", "F0.999\n"),
    ("epsilon", "F1e-08\n"),
    ("lazy_update", "I01\n"),
    ("lr", "F0.1\n"),
];

impl Job {
    fn commands(&self) -> Vec<(Head, Bytes)> {
        let mut commands = vec![(Head::Compression, Bytes::from(format!("1,{THRESHOLD:.6}")))];
        if self.sync {
            commands.push((Head::SyncMode, Bytes::new()));
        }
        if let Some((class, own)) = self.optimizer {
            commands.push((Head::Controller, pickled(class, own)));
        }
        if self.multi_precision {
            commands.push((Head::MultiPrecision, Bytes::new()));
        }
        commands
    }

    /// Before which round the workers send another optimizer, if they do.
    fn second(&self) -> Option<u64> {
        let burst = self.bursts().into_iter().find(|rounds| rounds.start >= self.rounds / 2);
        burst.filter(|_| self.another).map(|rounds| rounds.start)
    }

    /// Rounds that are pushed without waiting for answers in between.
    fn bursts(&self) -> Vec<std::ops::Range<u64>> {
        let mut bursts = Vec::new();
        let mut round = 0;
        while round < self.rounds {
            let end =
                if self.ahead && round % 3 == 1 { self.rounds.min(round + 3) } else { round + 1 };
            bursts.push(round..end);
            round = end;
        }
        bursts
    }

    fn actions(&self, rank: usize) -> Vec<Action> {
        let command = |(head, body): (Head, Bytes)| Action::Command { head: head.number(), body };
        let mut actions = Vec::new();
        // As MXNet: the first worker sets the mode and makes the keys, all send the optimizer.
        let (all, first): (Vec<_>, Vec<_>) =
            self.commands().into_iter().partition(|(head, _)| *head == Head::Controller);
        if rank == 0 {
            actions.extend(first.into_iter().map(command));
            actions.push(Action::Init);
        }
        actions.push(Action::Barrier);
        actions.extend(all.into_iter().map(command));
        for rounds in self.bursts() {
            if Some(rounds.start) == self.second() {
                actions.push(Action::Barrier);
                actions.push(command((Head::Controller, pickled("Adam", ADAM))));
            }
            let pull = self.both && rounds.end == rounds.start + 1;
            actions.push(Action::Push { rounds, pull });
            if !pull {
                actions.push(Action::Pull);
            }
        }
        actions.push(Action::Barrier);
        actions.push(Action::Pull);
        actions
    }
}

/// What one server of its own gives after each round.
fn undisturbed(job: &Job, plan: &Plan) -> Vec<Vec<Vec<u8>>> {
    let mut store = Store::new(StoreConfig {
        workers: plan.workers,
        servers: 1,
        id: 8,
        order: SumOrder::by_ranks(plan.deterministic),
        elastic: false,
        replicas: 0,
        part_bytes: PART_BYTES,
    });
    let mut answered = 0;
    let mut ask = |store: &mut Store, spec: &KeySpec, worker: usize, push: Option<&Load>| {
        let (alone, mut answers) = (spec.alone(), Vec::new());
        let frames = match push {
            Some(load) => alone.push(load, (0, spec.length)),
            None => alone.pull(),
        };
        let compressed = matches!(push, Some(Load::Compressed(_)));
        let meta = Meta {
            head: alone.head(push.is_some() && compressed),
            push: push.is_some(),
            pull: push.is_none(),
            sender: worker_id(worker),
            request: true,
            ..Meta::default()
        };
        store.request(meta, &frames, &mut answers);
        assert!(answers.iter().all(|answer| answer.request.error.is_empty()), "{answers:?}");
        answered += answers.len();
        answers.pop().map(|answer| answer.kv.vals.to_vec()).unwrap_or_default()
    };
    for (head, body) in job.commands() {
        match head {
            Head::Controller => {}
            head => store.command(0, head, &body).unwrap(),
        }
    }
    // The rows' keys are those of the key itself.
    let specs: Vec<KeySpec> = plan.keys.clone();
    for spec in &specs {
        ask(&mut store, spec, 0, Some(&rebase(spec, spec.init())));
    }
    for (head, body) in job.commands() {
        if head == Head::Controller {
            store.optimizer((9, 0), &body).unwrap();
        }
    }
    let mut all = Vec::new();
    for round in 0..job.rounds {
        if Some(round) == job.second() {
            store.optimizer((9, 0), &pickled("Adam", ADAM)).unwrap();
        }
        for spec in &specs {
            for worker in 0..plan.workers {
                let load = spec.gradient(worker_id(worker), round, job.exact);
                ask(&mut store, spec, worker, Some(&rebase(spec, load)));
            }
        }
        all.push(specs.iter().map(|spec| ask(&mut store, spec, 0, None)).collect());
    }
    all.push(specs.iter().map(|spec| ask(&mut store, spec, 0, None)).collect());
    all
}

/// Rows name their keys.
fn rebase(spec: &KeySpec, load: Load) -> Load {
    let Load::Rows(mut frames) = load else { return load };
    let keys: Vec<u64> = frames[0]
        .chunks(8)
        .map(|key| u64::from_ne_bytes(key.try_into().unwrap()) - spec.begin)
        .collect();
    frames[0] = Bytes::copy_from_slice(bytemuck::cast_slice(&keys));
    Load::Rows(frames)
}

fn play(job: &Job, plan: &Plan) -> World {
    let expected = undisturbed(job, plan);
    let mut world = World::new(plan.clone(), job.exact);
    for (rank, worker) in world.workers.iter_mut().enumerate() {
        worker.actions = job.actions(rank).into();
    }
    world.run();
    let bursts = job.bursts();
    for worker in &world.workers {
        assert_eq!(worker.pulled.len(), bursts.len() + 1);
        for (at, pulled) in worker.pulled.iter().enumerate() {
            let burst = bursts.get(at);
            // In dist_async others may be ahead or behind, but for the end.
            if !job.sync && plan.workers > 1 && burst.is_some() {
                continue;
            }
            let expected = &expected[burst.map_or(job.rounds, |rounds| rounds.end - 1) as usize];
            let alone = burst.is_some_and(|rounds| rounds.end == rounds.start + 1);
            for (spec, (pulled, expected)) in plan.keys.iter().zip(pulled.iter().zip(expected)) {
                if job.both && alone && !spec.is_divisible() {
                    continue; // Rows are not pulled with a push.
                }
                assert!(
                    pulled == expected,
                    "seed {}: worker {} {burst:?} {spec:?}:\n{pulled:?}\n{expected:?}",
                    plan.seed,
                    worker.id
                );
            }
        }
    }
    world
}

fn plan(seed: u64, servers: usize, workers: usize, kinds: &[(Kind, usize)]) -> Plan {
    let keys = kinds.iter().enumerate();
    let keys = keys.map(|(i, (kind, length))| {
        KeySpec::new(servers, i % servers, 100 * i as u64 + 3, *kind, *length)
    });
    Plan {
        seed,
        servers,
        workers,
        replicas: 1,
        deterministic: workers > 2,
        keys: keys.collect(),
        chances: Chances { order: 30, kill: 4, join: 4, drain: 3 },
        most: 4,
    }
}

const F32: Kind = Kind::Dense(Dtype::F32);
const F16: Kind = Kind::Dense(Dtype::F16);

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    first..first + number("PSLITE_TEST_SEEDS").unwrap_or(15)
}

fn play_all(job: &Job, make: impl Fn(u64) -> Plan) {
    let mut moves = 0;
    for seed in seeds() {
        moves += play(job, &make(seed)).moves;
    }
    assert!(moves > 0, "nothing moved");
}

#[test]
fn rounds_without_an_optimizer() {
    let job = Job {
        sync: true,
        optimizer: None,
        multi_precision: false,
        exact: false,
        rounds: 8,
        both: false,
        ahead: false,
        another: false,
    };
    play_all(&job, |seed| plan(seed, 3, 2, &[(F32, 100), (F16, 64), (F32, 7), (F32, 0)]));
}

#[test]
fn rounds_with_momentum_and_adam() {
    for (class, own) in [("SGD", MOMENTUM), ("Adam", ADAM)] {
        let job = Job {
            sync: true,
            optimizer: Some((class, own)),
            multi_precision: false,
            exact: false,
            rounds: 8,
            both: class == "Adam",
            ahead: class == "SGD",
            another: true,
        };
        play_all(&job, |seed| {
            plan(seed, 2 + seed as usize % 3, 2, &[(F32, 130), (F32, 64), (F32, 5)])
        });
    }
}

#[test]
fn halves_with_a_master_copy() {
    let job = Job {
        sync: true,
        optimizer: Some(("SGD", MOMENTUM)),
        multi_precision: true,
        exact: false,
        rounds: 8,
        both: false,
        ahead: false,
        another: false,
    };
    play_all(&job, |seed| plan(seed, 3, 2, &[(F16, 100), (F32, 33), (F16, 16)]));
}

#[test]
fn compressed_and_row_sparse() {
    let job = Job {
        sync: true,
        optimizer: Some(("Adam", ADAM)),
        multi_precision: false,
        exact: false,
        rounds: 8,
        both: false,
        ahead: false,
        another: false,
    };
    let kinds = [(Kind::Compressed, 100), (Kind::Rows { row_len: 3 }, 20), (Kind::Compressed, 31)];
    play_all(&job, |seed| plan(seed, 3, 2, &kinds));
}

#[test]
fn three_workers_in_the_order_of_ranks() {
    let job = Job {
        sync: true,
        optimizer: Some(("SGD", MOMENTUM)),
        multi_precision: false,
        exact: false,
        rounds: 6,
        both: true,
        ahead: true,
        another: true,
    };
    let kinds = [(F32, 100), (Kind::Rows { row_len: 2 }, 9), (F32, 40)];
    play_all(&job, |seed| plan(seed, 3, 3, &kinds));
}

#[test]
fn each_push_of_dist_async_counts_once() {
    let job = Job {
        sync: false,
        optimizer: Some(("SGD", SGD)),
        multi_precision: false,
        exact: true,
        rounds: 8,
        both: false,
        ahead: true,
        another: false,
    };
    let kinds = [(F32, 100), (Kind::Rows { row_len: 2 }, 9), (Kind::Compressed, 50)];
    play_all(&job, |seed| plan(seed, 3, 3, &kinds));
}

#[test]
fn one_worker_of_dist_async() {
    let job = Job {
        sync: false,
        optimizer: Some(("Adam", ADAM)),
        multi_precision: false,
        exact: false,
        rounds: 10,
        both: true,
        ahead: true,
        another: false,
    };
    play_all(&job, |seed| plan(seed, 3, 1, &[(F32, 100), (F32, 20)]));
}

#[test]
fn without_replicas_pieces_move_and_servers_come_and_go() {
    let job = Job {
        sync: true,
        optimizer: Some(("SGD", MOMENTUM)),
        multi_precision: false,
        exact: false,
        rounds: 8,
        both: false,
        ahead: false,
        another: false,
    };
    play_all(&job, |seed| Plan {
        replicas: 0,
        ..plan(seed, 3, 2, &[(F32, 100), (F16, 64), (Kind::Rows { row_len: 2 }, 9)])
    });
}
