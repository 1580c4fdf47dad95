//! What MXNet's workers send, and what they get. The live comparison with MXNet's own server is in
//! compat-tests.

use pslite_optimizers::Optimizer;
use pslite_optimizers::pickle::{Object, Value};

use super::*;
use crate::keys::KeyName;
use crate::store::StoreConfig;
use crate::values::KvPairs;
use crate::values::kind::command_of;
use crate::wire::elastic::PartAsk;
use crate::wire::{NodeId, Payload};

const FIRST: Key = u64::MAX / 2;

/// SGD that adds half of the gradient.
fn adding() -> Optimizer {
    made("SGD", Vec::new())
}

/// An optimizer with half of the gradient as its step, and these attributes besides.
fn made(class: &str, more: Vec<(String, Value)>) -> Optimizer {
    let number = |name: &str, value| (name.to_owned(), Value::Float(value));
    let mut attributes = vec![
        number("lr", -0.5),
        number("wd", 0.0),
        number("rescale_grad", 1.0),
        number("momentum", 0.0),
        ("clip_gradient".to_owned(), Value::None),
        ("lr_scheduler".to_owned(), Value::None),
        ("multi_precision".to_owned(), Value::Bool(false)),
        ("lazy_update".to_owned(), Value::Bool(true)),
        ("begin_num_update".to_owned(), Value::Int(0)),
        ("num_update".to_owned(), Value::Int(0)),
    ];
    for name in ["lr_mult", "wd_mult", "idx2name", "param_dict", "_all_index_update_counts"] {
        attributes.push((name.to_owned(), Value::Dict(Vec::new())));
    }
    attributes.extend(more);
    let class = format!("mxnet.optimizer.optimizer.{class}");
    Optimizer::from_value(&Value::Object(Box::new(Object { class, attributes }))).unwrap()
}

fn store(workers: usize, sync: bool) -> Store {
    let mut store = Store::new(StoreConfig { servers: 2, id: 10, ..StoreConfig::alone(workers) });
    if sync {
        store.held.set_sync(0).unwrap();
    }
    store
}

fn with_optimizer(workers: usize, sync: bool) -> Store {
    let mut store = store(workers, sync);
    store.held.set_optimizer(0, adding()).unwrap();
    store
}

fn meta(sender: NodeId, timestamp: i32, head: i32, push: bool, pull: bool) -> Meta {
    Meta { sender, timestamp, head, push, pull, request: true, ..Meta::default() }
}

fn frame<T: bytemuck::NoUninit>(values: &[T]) -> Bytes {
    Bytes::copy_from_slice(bytemuck::cast_slice(values))
}

fn pairs<T: bytemuck::NoUninit>(keys: &[u64], vals: &[T], lens: &[i32]) -> Vec<Bytes> {
    let keys: Vec<u64> = keys.iter().map(|key| FIRST + key).collect();
    vec![frame(&keys), frame(vals), frame(lens)]
}

impl Store {
    fn ask(&mut self, meta: Meta, frames: &[Bytes]) -> Vec<Answer> {
        let mut answers = Vec::new();
        self.request(meta, frames, &mut answers);
        answers
    }

    fn push_f32(&mut self, sender: NodeId, key: u64, values: &[f32]) -> Vec<Answer> {
        let lens = [(values.len() * 4) as i32];
        self.ask(meta(sender, 7, 0, true, false), &pairs(&[key], values, &lens))
    }

    fn pull_f32(&mut self, key: u64) -> Vec<f32> {
        let answers = self.ask(meta(9, 8, 0, false, true), &pairs::<u8>(&[key], &[], &[]));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].request.error, "");
        let kv = &answers[0].kv;
        assert_eq!(kv.keys, frame(&[FIRST + key]));
        assert_eq!(kv.lens, frame(&[kv.vals.len() as i32]));
        floats(&kv.vals)
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|raw| f32::from_ne_bytes(raw.try_into().unwrap())).collect()
}

fn senders(answers: &[Answer]) -> Vec<NodeId> {
    assert!(answers.iter().all(|answer| answer.request.error.is_empty()), "{answers:?}");
    answers.iter().map(|answer| answer.request.sender).collect()
}

fn refusal(answers: &[Answer]) -> &str {
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].kv == KvPairs::default());
    &answers[0].request.error
}

#[test]
fn the_first_push_is_the_value_and_the_round_needs_everybody() {
    let mut store = store(2, true);
    assert_eq!(senders(&store.push_f32(9, 3, &[1.0, 2.0])), [9]);
    assert_eq!(store.push_f32(9, 3, &[10.0, 20.0]).len(), 0);
    assert_eq!(store.pull_f32(3), [1.0, 2.0]);
    assert_eq!(senders(&store.push_f32(11, 3, &[0.5, 0.25])), [9, 11]);
    assert_eq!(store.pull_f32(3), [10.5, 20.25]);
    assert_eq!((store.len(), store.bytes()), (1, (8, 0)));
}

#[test]
fn a_push_pull_brings_the_value_after_the_round() {
    let mut store = with_optimizer(2, true);
    store.push_f32(9, 3, &[1.0]);
    let both = |sender| meta(sender, 1, 0, true, true);
    assert!(store.ask(both(9), &pairs(&[3], &[2.0_f32], &[4])).is_empty());
    let answers = store.ask(meta(11, 1, 0, true, false), &pairs(&[3], &[4.0_f32], &[4]));
    assert_eq!(senders(&answers), [9, 11]);
    assert_eq!(floats(&answers[0].kv.vals), [4.0]);
    assert!(answers[1].kv.vals.is_empty());
}

/// A push whose worker wants the values ahead.
fn wants_ahead(sender: NodeId, timestamp: i32, head: i32) -> Meta {
    let payload = Payload::Ask(PartAsk { ahead: true, ..PartAsk::default() });
    Meta { payload, ..meta(sender, timestamp, head, true, false) }
}

#[test]
fn a_round_brings_its_values_to_those_who_want_them_ahead() {
    let mut store = with_optimizer(2, true);
    store.push_f32(9, 3, &[1.0, 2.0]);
    let values = pairs(&[3], &[2.0_f32, 2.0], &[8]);
    assert!(store.ask(wants_ahead(9, 1, 0), &values).is_empty());
    let answers = store.ask(meta(11, 1, 0, true, false), &values);
    assert_eq!(senders(&answers), [9, 11]);
    assert_eq!(floats(&answers[0].kv.vals), [3.0, 4.0]);
    assert_eq!(answers[0].kv.keys, pairs(&[3], &[0_f32], &[])[0]);
    assert_eq!(answers[1].kv, KvPairs::default(), "it did not ask");
}

/// There a pull brings what others have pushed meanwhile.
#[test]
fn nothing_comes_ahead_in_async_or_of_rows() {
    let mut store = with_optimizer(2, false);
    store.push_f32(9, 3, &[1.0]);
    let answers = store.ask(wants_ahead(9, 1, 0), &pairs(&[3], &[2.0_f32], &[4]));
    assert_eq!((senders(&answers), &answers[0].kv), (vec![9], &KvPairs::default()));

    let mut store = with_optimizer(1, true);
    let rows = command_of(RequestKind::RowSparse, Dtype::F32);
    for timestamp in 0..2 {
        let push = pairs(&[3, 3], &[2.0_f32], &[0, 4]);
        let answers = store.ask(wants_ahead(9, timestamp, rows), &push);
        assert_eq!((refusal(&answers), &answers[0].kv), ("", &KvPairs::default()));
    }
}

#[test]
fn nobody_counts_twice_in_a_round() {
    let mut store = store(2, true);
    store.push_f32(9, 3, &[0.0]);
    for value in [1.0, 2.0, 3.0] {
        assert!(store.push_f32(9, 3, &[value]).is_empty());
    }
    assert_eq!(senders(&store.push_f32(11, 3, &[10.0])), [9, 11]);
    assert_eq!(store.pull_f32(3), [11.0]);
    assert_eq!(senders(&store.push_f32(11, 3, &[20.0])), [9, 11]);
    assert_eq!(store.pull_f32(3), [22.0]);
    assert_eq!(senders(&store.push_f32(11, 3, &[30.0])), [9, 11]);
    assert_eq!(store.pull_f32(3), [33.0]);
    for _ in 0..=crate::store::pieces::round::LATER_MAX {
        store.push_f32(9, 3, &[1.0]);
    }
    assert!(refusal(&store.push_f32(9, 3, &[1.0])).contains("wait for the other workers"));
}

/// Each of those that came early goes into the round that begins, not only the first.
#[test]
fn all_who_came_early_are_in_the_next_round() {
    let mut store = store(3, true);
    store.push_f32(9, 3, &[0.0]);
    for sender in [9, 11] {
        assert!(store.push_f32(sender, 3, &[1.0]).is_empty());
        assert!(store.push_f32(sender, 3, &[2.0]).is_empty());
    }
    assert_eq!(senders(&store.push_f32(13, 3, &[1.0])), [9, 11, 13]);
    assert_eq!(senders(&store.push_f32(13, 3, &[2.0])), [9, 11, 13]);
    assert_eq!(store.pull_f32(3), [6.0]);
}

/// A worker that replaces a dead one goes on with the round that is open (`PS_HEARTBEAT_TIMEOUT`).
#[test]
fn the_push_of_a_successor_takes_the_place_of_the_dead_ones() {
    let mut store = store(2, true);
    store.push_f32(9, 3, &[1.0]);
    let pushed = |timestamp| meta(11, timestamp, 0, true, false);
    assert!(store.ask(pushed(8), &pairs(&[3], &[4.0_f32], &[4])).is_empty());
    // What it sent for the next round is nobody's any more.
    assert!(store.ask(pushed(9), &pairs(&[3], &[100.0_f32], &[4])).is_empty());
    store.forget_node(11);
    store.validate().unwrap();
    // The round is not over before its successor has pushed: that asks how far the job is.
    assert!(store.push_f32(9, 3, &[2.0]).is_empty());
    store.validate().unwrap();
    assert_eq!(store.pull_f32(3), [1.0]);
    let answers = store.ask(pushed(0), &pairs(&[3], &[4.0_f32], &[4]));
    let whose = |answer: &Answer| (answer.request.sender, answer.request.timestamp);
    assert_eq!(answers.iter().map(whose).collect::<Vec<_>>(), [(11, 0), (9, 7)]);
    assert_eq!(store.pull_f32(3), [6.0]);
    // Both are in step.
    assert!(store.ask(pushed(1), &pairs(&[3], &[0.5_f32], &[4])).is_empty());
    assert_eq!(senders(&store.push_f32(9, 3, &[0.25])), [11, 9]);
    assert_eq!(store.pull_f32(3), [0.75]);
}

#[test]
fn async_applies_each_push_at_once_and_needs_an_optimizer() {
    let mut store = store(2, false);
    store.push_f32(9, 3, &[1.0]);
    assert!(refusal(&store.push_f32(9, 3, &[1.0])).contains("set_optimizer"));
    let mut store = with_optimizer(2, false);
    store.push_f32(9, 3, &[1.0]);
    assert_eq!(senders(&store.push_f32(11, 3, &[4.0])), [11]);
    assert_eq!(senders(&store.push_f32(11, 3, &[4.0])), [11]);
    assert_eq!(store.pull_f32(3), [5.0]);
}

#[test]
fn values_that_are_under_way_do_not_change() {
    let mut store = with_optimizer(1, true);
    store.push_f32(9, 3, &[1.0]);
    let answers = store.ask(meta(9, 8, 0, false, true), &pairs::<u8>(&[3], &[], &[]));
    store.push_f32(9, 3, &[2.0]);
    assert_eq!((floats(&answers[0].kv.vals), store.pull_f32(3)), (vec![1.0], vec![2.0]));
}

#[test]
fn rows_are_pushed_and_pulled_one_by_one() {
    let mut store = with_optimizer(2, true);
    let head = command_of(RequestKind::RowSparse, Dtype::F32);
    let push = |store: &mut Store, sender, keys: &[u64], values: &[f32]| {
        let mut lens = vec![8; keys.len()];
        lens[0] = 0;
        store.ask(meta(sender, 1, head, true, false), &pairs(keys, values, &lens))
    };
    let all = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0];
    assert_eq!(senders(&push(&mut store, 9, &[5, 5, 6, 7], &all)), [9]);
    assert!(push(&mut store, 9, &[5, 7], &[10.0, 20.0]).is_empty());
    assert_eq!(senders(&push(&mut store, 11, &[5, 5, 7], &[2.0, 2.0, 4.0, 4.0])), [9, 11]);
    // Nobody pushed anything: a round all the same.
    assert!(push(&mut store, 9, &[5], &[]).is_empty());
    assert_eq!(senders(&push(&mut store, 11, &[5], &[])), [9, 11]);
    let pull = |store: &mut Store, keys: &[u64]| {
        store.ask(meta(9, 1, head, false, true), &pairs::<u8>(keys, &[], &[]))
    };
    let answers = pull(&mut store, &[5, 7, 5]);
    assert_eq!(floats(&answers[0].kv.vals), [9.0, 14.0, 1.0, 1.0]);
    assert_eq!(answers[0].kv.lens, frame(&[0_i32, 2, 2]));
    let answers = pull(&mut store, &[5]);
    assert_eq!((answers[0].kv.lens.clone(), answers[0].kv.vals.len()), (frame(&[0_i32]), 0));
    assert!(refusal(&pull(&mut store, &[5, 8])).contains("row 3"));
    assert!(push(&mut store, 9, &[5, 9], &[1.0, 1.0]).is_empty());
    let answers = push(&mut store, 11, &[5], &[]);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.request.error.contains("row 4")), "{answers:?}");
    assert!(refusal(&push(&mut store, 9, &[6, 7], &[1.0, 1.0])).contains("all rows"));
}

#[test]
fn without_an_optimizer_rows_that_nobody_pushed_become_zero() {
    let mut store = store(1, true);
    let head = command_of(RequestKind::RowSparse, Dtype::F32);
    store.ask(meta(9, 1, head, true, false), &pairs(&[5, 5, 6], &[1.0_f32, 2.0], &[0, 4, 4]));
    store.ask(meta(9, 1, head, true, false), &pairs(&[5, 6], &[7.0_f32], &[0, 4]));
    let answers = store.ask(meta(9, 1, head, false, true), &pairs::<u8>(&[5, 5, 6], &[], &[]));
    assert_eq!(floats(&answers[0].kv.vals), [0.0, 7.0]);
}

#[test]
fn halves_have_a_float_copy_with_multi_precision() {
    use half::f16;
    let head = command_of(RequestKind::Default, Dtype::F16);
    let halves = |values: &[f32]| values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
    let mut store = with_optimizer(1, true);
    let push = |store: &mut Store, value: f32| {
        let frames = pairs(&[3], &halves(&[value]), &[2]);
        store.ask(meta(9, 1, head, true, false), &frames)
    };
    let pull = |store: &mut Store| {
        let answers = store.ask(meta(9, 1, head, false, true), &pairs::<u8>(&[3], &[], &[]));
        f16::from_ne_bytes(answers[0].kv.vals[..].try_into().unwrap()).to_f32()
    };
    push(&mut store, 1.0);
    store.held.set_multi_precision(0).unwrap();
    // Each step is too small for a half: only the copy can keep it.
    for _ in 0..8 {
        assert_eq!(senders(&push(&mut store, 0.0005)), [9]);
    }
    assert!((pull(&mut store) - 1.002).abs() < 0.001);
    assert_eq!(store.bytes().0, 6);
}

/// A push for the next round waits as it came: its halves are made floats once.
#[test]
fn halves_that_come_early_are_widened_once() {
    use half::f16;
    let head = command_of(RequestKind::Default, Dtype::F16);
    let mut store = with_optimizer(2, true);
    let first = pairs(&[3], &[f16::from_f32(1.0); 2], &[4]);
    assert_eq!(senders(&store.ask(meta(9, 1, head, true, false), &first)), [9]);
    store.held.set_multi_precision(0).unwrap();
    let mut push = |sender: NodeId, timestamp: i32, value: f32| {
        let frames = pairs(&[3], &[f16::from_f32(value); 2], &[4]);
        let answers = store.ask(meta(sender, timestamp, head, true, false), &frames);
        senders(&answers)
    };
    for early in 2..5 {
        assert!(push(9, early, 2.0).is_empty());
    }
    for late in 2..5 {
        assert_eq!(push(11, late, 4.0).len(), 2);
    }
    let answers = store.ask(meta(9, 5, head, false, true), &pairs::<u8>(&[3], &[], &[]));
    // Three rounds, each half of what both pushed.
    assert_eq!(answers[0].kv.vals, frame(&[f16::from_f32(10.0); 2]));
}

#[test]
fn another_server_can_take_over() {
    let mut store = store(1, true);
    store.push_f32(9, 3, &[1.0, 2.0]);
    let head = command_of(RequestKind::RowSparse, Dtype::F32);
    store.ask(meta(9, 1, head, true, false), &pairs(&[5, 5, 6], &[1.0_f32, 2.0], &[0, 4, 4]));
    let mut other = with_optimizer(2, true);
    for (meta, frames) in store.give_away() {
        assert_eq!(senders(&other.ask(meta, &frames)).len(), 1);
    }
    assert!(store.is_empty());
    assert_eq!(other.pull_f32(3), [1.0, 2.0]);
    let answers = other.ask(meta(9, 1, head, false, true), &pairs::<u8>(&[5, 5, 6], &[], &[]));
    assert_eq!(floats(&answers[0].kv.vals), [1.0, 2.0]);
}

#[test]
fn malformed_requests_are_refused_and_change_nothing() {
    let mut store = store(1, true);
    store.push_f32(9, 3, &[1.0, 2.0]);
    let push = |head| meta(9, 1, head, true, false);
    let one = [1.0_f32];
    let f64_head = command_of(RequestKind::Default, Dtype::F64);
    let cases: Vec<(Meta, Vec<Bytes>)> = vec![
        (push(0), Vec::new()),
        (push(0), vec![Bytes::from_static(b"1234567")]),
        (push(0), pairs(&[3], &one, &[])),
        (push(0), pairs(&[3], &one, &[8])),
        (push(0), pairs(&[3], &one, &[-4])),
        (push(0), pairs(&[3], &one, &[4])),
        (push(0), pairs(&[3], &[1_u8, 2, 3], &[3])),
        (push(6), pairs(&[3], &one, &[4])),
        (push(f64_head), pairs(&[3], &[1.0_f64], &[8])),
        (push(command_of(RequestKind::RowSparse, Dtype::F32)), pairs(&[3, 3], &one, &[0, 4])),
        (push(command_of(RequestKind::RowSparse, Dtype::F32)), pairs(&[4, 5], &one, &[0, 4])),
        (push(command_of(RequestKind::Compressed, Dtype::F32)), pairs(&[3], &one, &[4])),
        (push(0), vec![frame(&[5_u64]), frame(&one), frame(&[4])]),
        (meta(9, 1, 0, false, true), pairs::<u8>(&[4], &[], &[])),
        (meta(9, 1, 1, false, true), pairs::<u8>(&[3, 3], &[], &[])),
    ];
    for (meta, frames) in cases {
        let text = format!("{meta:?} {frames:?}");
        let answers = store.ask(meta, &frames);
        assert!(answers.len() == 1 && !answers[0].request.error.is_empty(), "{text}");
    }
    assert_eq!((store.pull_f32(3), store.len()), (vec![1.0, 2.0], 1));
}

#[test]
fn a_push_that_does_not_fit_fails_its_round_for_all() {
    let rows = command_of(RequestKind::RowSparse, Dtype::F32);
    for reversed in [false, true] {
        let mut store = store(3, true);
        store.push_f32(9, 3, &[1.0, 2.0]);
        let mut pushes = vec![
            (meta(9, 7, 0, true, false), pairs(&[3], &[1.0_f32, 1.0], &[8])),
            (meta(11, 7, rows, true, false), pairs(&[3, 3], &[1.0_f32], &[0, 4])),
            (meta(13, 7, 0, true, false), pairs(&[3], &[1.0_f32], &[4])),
        ];
        if reversed {
            pushes.reverse();
        }
        let mut answers = Vec::new();
        for (meta, frames) in pushes {
            assert_eq!(answers, Vec::<String>::new(), "before all are here");
            answers.extend(store.ask(meta, &frames).into_iter().map(|answer| answer.request.error));
        }
        // Of two mistakes that of the first worker is told, whichever came first.
        let text = StoreError::RowsToDense { key: KeyName::new(3, 0) }.to_string();
        assert_eq!(answers, [text.clone(), text.clone(), text]);
        assert_eq!(store.pull_f32(3), [1.0, 2.0]);
        for worker in [9, 11, 13] {
            store.push_f32(worker, 3, &[1.0, 2.0]);
        }
        assert_eq!(store.pull_f32(3), [3.0, 6.0], "the next round is like any");
    }
}

#[test]
fn a_round_that_cannot_be_applied_is_answered_to_all() {
    let mut store = with_optimizer(2, true);
    let head = command_of(RequestKind::Default, Dtype::I32);
    let push = |store: &mut Store, sender| {
        store.ask(meta(sender, 1, head, true, false), &pairs(&[3], &[1_i32], &[4]))
    };
    push(&mut store, 9);
    push(&mut store, 9);
    let answers = push(&mut store, 11);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.request.error.contains("int32")), "{answers:?}");
}

#[test]
fn a_new_optimizer_begins_without_state() {
    let mut store = with_optimizer(1, true);
    assert!(store.held.optimizer(9, 0, b"cos\nsystem\n(S'true'\ntR.").is_err());
    store.push_f32(9, 3, &[1.0]);
    store.push_f32(9, 3, &[2.0]);
    assert!(store.held.piece(At { key: FIRST + 3, index: 0 }).unwrap().state.is_some());
    store.held.set_optimizer(0, adding()).unwrap();
    assert!(store.held.piece(At { key: FIRST + 3, index: 0 }).unwrap().state.is_none());
}

/// Its owner asks before the first push of a row_sparse key; dense keys, and keys that are known,
/// are fine.
#[test]
fn what_the_optimizer_has_no_kernel_for_is_known_before_it_comes() {
    let more =
        [("eta", 0.001), ("eps", 1e-8)].map(|(name, value)| (name.to_owned(), Value::Float(value)));
    let mut more = more.to_vec();
    more.push(("momentum_correction".to_owned(), Value::Bool(true)));
    let lars = made("LARS", more);
    let (dense, rows) = (
        command_of(RequestKind::Default, Dtype::F32),
        command_of(RequestKind::RowSparse, Dtype::F32),
    );
    let matrix = pairs(&[7, 7, 8], &[1.0_f32; 4], &[0, 8, 8]);
    let first = meta(9, 0, rows, true, false);
    let mut store = with_optimizer(1, true);
    assert_eq!(store.cannot_take(&first, &matrix), None);
    store.held.set_optimizer(0, lars).unwrap();
    let error = store.cannot_take(&first, &matrix);
    assert!(
        matches!(&error, Some(StoreError::Unfit { class: "LARS", what: "row_sparse", key, .. })
            if *key == KeyName::new(7, 0)),
        "{error:?}"
    );
    assert_eq!(store.cannot_take(&meta(9, 0, rows, false, true), &matrix), None);
    assert_eq!(store.cannot_take(&meta(9, 0, dense, true, false), &matrix), None);
    assert!(store.is_only_values());
    let value = pairs(&[1], &[1.0_f32], &[4]);
    for timestamp in 0..2 {
        store.ask(meta(9, timestamp, dense, true, false), &value);
        assert_eq!(store.is_only_values(), timestamp == 0, "the second push is a gradient");
    }
}
