//! A server whose workers exchange deltas.

use bytes::Bytes;
use half::f16;

use super::*;
use crate::store::Outbound;
use crate::store::{Answer, StoreConfig};
use crate::values::kind::command_of;
use crate::wire::elastic::{LiveWorker, PartAsk};
use crate::wire::exchange::ExchangeMode;
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Key, Meta, NodeId, server_id, worker_id};

const KEY: Key = 3;

fn spec(momentum: u32, nesterov: bool, rate: u32) -> ExchangeSpec {
    ExchangeSpec {
        mode: ExchangeMode::Nbsync as i32,
        steps: 1,
        keep: true,
        sections: 8,
        outer: OuterRule { momentum, nesterov, rate },
        ..ExchangeSpec::default()
    }
}

fn mean() -> ExchangeSpec {
    spec(0, true, MILLION)
}

fn frames(dtype: Dtype, values: &[f32]) -> Vec<Bytes> {
    let value: Vec<u8> = match dtype {
        Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_ne_bytes()).collect(),
        Dtype::F64 => values.iter().flat_map(|x| f64::from(*x).to_ne_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_ne_bytes()).collect(),
    };
    let lens = (value.len() as i32).to_ne_bytes();
    vec![Bytes::copy_from_slice(&KEY.to_ne_bytes()), value.into(), Bytes::copy_from_slice(&lens)]
}

/// A store, and how often each worker has pushed.
struct Server {
    store: Store,
    dtype: Dtype,
    pushed: i32,
    elastic: bool,
}

impl Server {
    fn new(workers: usize, dtype: Dtype, value: &[f32], spec: &ExchangeSpec) -> Self {
        Self::with(StoreConfig::alone(workers), dtype, value, spec)
    }

    fn with(config: StoreConfig, dtype: Dtype, value: &[f32], spec: &ExchangeSpec) -> Self {
        let elastic = config.elastic;
        let mut server = Self { store: Store::new(config), dtype, pushed: 0, elastic };
        if elastic {
            let live = |rank| LiveWorker {
                node: worker_id(rank),
                customers: vec![0],
                ..LiveWorker::default()
            };
            let word = RoutedPolicy {
                policy: Policy {
                    epoch: 1,
                    servers: vec![server_id(0)],
                    homes: vec![server_id(0)],
                    live: (0..config.workers).map(live).collect(),
                    exchange: Some(*spec),
                    ..Policy::default()
                },
                ..RoutedPolicy::default()
            };
            server.store.policy(&word, &mut Outbound::default());
        } else {
            server.store.exchange(spec).unwrap();
        }
        assert_eq!(server.push(0, value).len(), 1);
        server
    }

    fn push(&mut self, rank: usize, values: &[f32]) -> Vec<Answer> {
        let after = self.pushed as u32;
        self.pushed += 1;
        // Each worker's own push before it does not matter here: the server has one piece.
        let placed = self.elastic.then(|| PartAsk { epoch: 1, after, ..PartAsk::default() });
        let meta = Meta {
            sender: worker_id(rank),
            customer_id: 0,
            timestamp: self.pushed,
            head: command_of(RequestKind::Default, self.dtype),
            push: true,
            pull: true,
            request: true,
            payload: placed.map(|placed| PartAsk { after: 0, ..placed }).into(),
            ..Meta::default()
        };
        let mut out = Outbound::default();
        self.store.serve(meta, &frames(self.dtype, values), &mut out);
        out.answers
    }

    /// A round: its value, which all who pushed are told.
    fn round(&mut self, deltas: &[(usize, &[f32])]) -> Vec<f32> {
        let mut answers = Vec::new();
        for (rank, delta) in deltas {
            answers = self.push(*rank, delta);
        }
        assert_eq!(answers.len(), deltas.len(), "the last push ends the round");
        for answer in &answers {
            assert_eq!((answer.request.error.as_str(), &answer.kv.vals), ("", &answers[0].kv.vals));
        }
        read(self.dtype, &answers[0].kv.vals)
    }
}

fn read(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let each = bytes.chunks(dtype.size());
    match dtype {
        Dtype::F16 => each.map(|x| f16::from_ne_bytes(x.try_into().unwrap()).to_f32()).collect(),
        Dtype::F64 => each.map(|x| f64::from_ne_bytes(x.try_into().unwrap()) as f32).collect(),
        _ => each.map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect(),
    }
}

#[test]
fn a_round_adds_the_mean_of_its_deltas() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16] {
        for workers in 1..5 {
            let mut server = Server::new(workers, dtype, &[10.0, 20.0], &mean());
            let deltas: Vec<(usize, [f32; 2])> =
                (0..workers).map(|rank| (rank, [rank as f32, -4.0])).collect();
            let deltas: Vec<(usize, &[f32])> =
                deltas.iter().map(|(rank, delta)| (*rank, &delta[..])).collect();
            let one = (workers - 1) as f32 / 2.0;
            assert_eq!(server.round(&deltas), [10.0 + one, 16.0]);
            assert_eq!(server.round(&deltas), [10.0 + 2.0 * one, 12.0]);
        }
    }
}

#[test]
fn the_outer_rule_is_heavy_ball_or_nesterov_with_its_rate() {
    let mut heavy = Server::new(1, Dtype::F32, &[0.0], &spec(500_000, false, 250_000));
    // V = 0.5 V + u; G += 0.25 V.
    assert_eq!(heavy.round(&[(0, &[4.0])]), [1.0]);
    assert_eq!(heavy.round(&[(0, &[4.0])]), [2.5]);
    let mut nesterov = Server::new(1, Dtype::F32, &[0.0], &spec(500_000, true, MILLION));
    // G += u + 0.5 V.
    assert_eq!(nesterov.round(&[(0, &[4.0])]), [6.0]);
    assert_eq!(nesterov.round(&[(0, &[4.0])]), [6.0 + 4.0 + 0.5 * 6.0]);
    assert_eq!(nesterov.round(&[(0, &[0.0])]), [13.0 + 0.5 * 3.0], "it coasts");
}

/// Deltas that float16 cannot add to the value one by one.
#[test]
fn float16_adds_up_in_float32() {
    let mut server = Server::new(2, Dtype::F16, &[1000.0], &mean());
    let mut last = Vec::new();
    for _ in 0..8 {
        last = server.round(&[(0, &[0.125]), (1, &[0.125])]);
    }
    assert_eq!(last, [1001.0]);
}

#[test]
fn who_has_left_is_not_awaited_and_still_counts_among_those_by_which_is_divided() {
    let config = StoreConfig { elastic: true, ..StoreConfig::alone(3) };
    let mut server = Server::with(config, Dtype::F32, &[0.0], &mean());
    assert_eq!(server.round(&[(0, &[3.0]), (1, &[3.0]), (2, &[3.0])]), [3.0]);
    server.store.customer_left(worker_id(1), 0, &mut Outbound::default());
    // One that has keys of its own is none of those that share them.
    server.store.customer_left(worker_id(1), 7, &mut Outbound::default());
    assert_eq!(server.round(&[(0, &[3.0]), (2, &[3.0])]), [5.0]);
    server.store.customer_left(worker_id(2), 0, &mut Outbound::default());
    assert_eq!(server.round(&[(0, &[3.0])]), [6.0]);
}

/// It was in the open round when it left.
#[test]
fn nobody_counts_twice_who_leaves_in_a_round() {
    let config = StoreConfig { elastic: true, ..StoreConfig::alone(2) };
    let mut server = Server::with(config, Dtype::F32, &[0.0], &mean());
    assert_eq!(server.push(1, &[3.0]).len(), 0);
    server.store.customer_left(worker_id(1), 0, &mut Outbound::default());
    let answers = server.push(0, &[3.0]);
    assert_eq!(read(Dtype::F32, &answers[0].kv.vals), [3.0]);
}

#[test]
fn what_has_no_place_in_an_exchange_is_refused() {
    let mut server = Server::new(1, Dtype::F32, &[0.0], &mean());
    for (kind, says) in
        [(RequestKind::RowSparse, "stype='default'"), (RequestKind::Compressed, "compressed")]
    {
        let head = command_of(kind, Dtype::F32);
        let meta = Meta { head, sender: 9, push: true, request: true, ..Meta::default() };
        let mut out = Outbound::default();
        server.store.serve(meta, &frames(Dtype::F32, &[1.0]), &mut out);
        let error = &out.answers[0].request.error;
        assert!(error.contains(says), "{error}");
    }
    let refused = server.store.held.optimizer(9, 0, b"any").unwrap_err().to_string();
    assert!(refused.contains("workers keep the optimizer"), "{refused}");
}

#[test]
fn a_policy_that_makes_no_sense_refuses_each_push_and_says_why() {
    let push = |server: &mut Server| server.push(0, &[1.0])[0].request.error.clone();
    let mut later = Server::new(1, Dtype::F32, &[0.0], &mean());
    assert_eq!(later.store.exchange(&mean()), Ok(()), "it may be said again");
    assert!(later.store.exchange(&spec(0, false, 1)).is_err());
    assert!(push(&mut later).contains("another exchange"));
    let mut absurd = Server {
        store: Store::new(StoreConfig::alone(1)),
        dtype: Dtype::F32,
        pushed: 0,
        elastic: false,
    };
    assert!(absurd.store.exchange(&spec(MILLION, false, 1)).is_err());
    assert!(push(&mut absurd).contains("makes no sense"));
    let mut late = Server { store: Store::new(StoreConfig::alone(1)), ..absurd };
    assert_eq!(push(&mut late), "");
    assert!(late.store.exchange(&mean()).is_err());
    assert!(push(&mut late).contains("after keys were made"));
}

#[test]
fn integers_cannot_be_exchanged() {
    let mut server = Server::new(2, Dtype::I32, &[0.0], &mean());
    server.push(0, &[1.0]);
    let answers = server.push(1, &[1.0]);
    assert!(answers[0].request.error.contains("int32 cannot be divided"), "{answers:?}");
}

#[test]
fn a_momentum_that_outgrows_the_deltas_is_said_once() {
    let mut server = Server::new(1, Dtype::F32, &[0.0, 0.0], &spec(500_000, true, MILLION));
    server.round(&[(0, &[1000.0, 0.0])]);
    for _ in 0..2 {
        server.round(&[(0, &[1.0, 0.0])]);
        assert_eq!(server.store.momentum_warning(), None);
    }
    server.round(&[(0, &[1.0, 0.0])]);
    let said = server.store.momentum_warning().unwrap();
    assert!(said.contains("key 3") && said.contains("momentum="), "{said}");
    server.round(&[(0, &[1.0, 0.0])]);
    assert_eq!(server.store.momentum_warning(), None);
    let mut calm = Server::new(1, Dtype::F32, &[0.0, 0.0], &spec(900_000, true, MILLION));
    for _ in 0..100 {
        calm.round(&[(0, &[1.0, 1.0])]);
    }
    assert_eq!(calm.store.momentum_warning(), None, "it is as long as it gets");
}

fn all_of(answers: &[Answer]) -> Vec<NodeId> {
    answers.iter().map(|answer| answer.request.sender).collect()
}

#[test]
fn customers_with_keys_of_their_own_exchange_too() {
    let mut store = Store::new(StoreConfig::alone(2));
    store.exchange(&mean()).unwrap();
    let key: Key = 2 * crate::values::SPACE_KEYS + KEY;
    let mut push = |rank: usize, timestamp, value: f32| {
        let mut frames = frames(Dtype::F32, &[value]);
        frames[0] = Bytes::copy_from_slice(&key.to_ne_bytes());
        let meta = Meta {
            sender: worker_id(rank),
            customer_id: 2,
            own_keys: true,
            head: command_of(RequestKind::Default, Dtype::F32),
            timestamp,
            push: true,
            pull: true,
            request: true,
            ..Meta::default()
        };
        let mut out = Outbound::default();
        store.serve(meta, &frames, &mut out);
        out.answers
    };
    assert_eq!(all_of(&push(0, 1, 5.0)), [9]);
    assert_eq!(all_of(&push(0, 2, 1.0)), Vec::<NodeId>::new());
    let answers = push(1, 3, 3.0);
    assert_eq!((all_of(&answers), read(Dtype::F32, &answers[0].kv.vals)), (vec![9, 11], vec![7.0]));
}
