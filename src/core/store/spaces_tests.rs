//! Customers with keys of their own at a store: each is served as if it were alone.

use bytes::Bytes;

use super::Outbound;
use super::command::Head;
use super::error::StoreError;
use super::{Answer, Store, StoreConfig};
use crate::keys::KeyName;
use crate::values::compression::{Compression, TwoBit};
use crate::values::kind::{RequestKind, command_of};
use crate::values::{Dtype, KeySpace};
use crate::wire::{Key, Meta, NodeId};

const SECOND: i32 = 1;

/// The frames of a request, its keys where those of the customer lie.
fn frames(customer: i32, keys: &[Key], values: &[f32], lens: &[i32]) -> Vec<Bytes> {
    let keys = Bytes::copy_from_slice(bytemuck::cast_slice(keys));
    let space = KeySpace::of_customer(customer, 1).ok();
    let keys = space.map_or(keys.clone(), |space| space.place(&keys).unwrap());
    let all: [&[u8]; 2] = [bytemuck::cast_slice(values), bytemuck::cast_slice(lens)];
    [keys].into_iter().chain(all.map(Bytes::copy_from_slice)).collect()
}

fn of(customer_id: i32, worker: NodeId) -> Meta {
    let own_keys = customer_id != 0;
    Meta { customer_id, own_keys, sender: worker, request: true, ..Meta::default() }
}

impl Store {
    fn answers(&mut self, meta: Meta, frames: &[Bytes]) -> Vec<Answer> {
        let mut answers = Vec::new();
        self.request(meta, frames, &mut answers);
        self.validate().unwrap();
        answers
    }

    fn pushed(&mut self, (customer, worker): (i32, NodeId), key: Key, values: &[f32]) -> usize {
        let frames = frames(customer, &[key], values, &[values.len() as i32 * 4]);
        let meta = Meta { push: true, head: 0, ..of(customer, worker) };
        let answers = self.answers(meta, &frames);
        assert!(answers.iter().all(|answer| answer.request.error.is_empty()), "{answers:?}");
        answers.len()
    }

    fn pulled(&mut self, customer: i32, key: Key) -> Vec<f32> {
        let frames = frames(customer, &[key], &[], &[]);
        let answers = self.answers(Meta { pull: true, head: 0, ..of(customer, 9) }, &frames);
        assert_eq!(answers[0].kv.keys, frames[0], "a worker finds its keys");
        let (words, _) = answers[0].kv.vals.as_chunks::<4>();
        words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
    }

    fn commanded(&mut self, customer: i32, head: Head, body: Bytes) {
        let head = head.number();
        let meta = Meta { head, body, simple_app: true, timestamp: 1, ..of(customer, 9) };
        self.obey(&meta, &mut Outbound::default()).unwrap();
    }
}

fn alone() -> Store {
    Store::new(StoreConfig::alone(2))
}

#[test]
fn one_number_is_two_keys() {
    let mut store = alone();
    for customer in [0, SECOND] {
        store.commanded(customer, Head::SyncMode, Bytes::new());
    }
    assert_eq!(store.pushed((0, 9), 3, &[1.0]), 1);
    assert_eq!(store.pushed((SECOND, 9), 3, &[10.0, 20.0]), 1, "its first push makes it");
    assert_eq!(store.pushed((SECOND, 9), 3, &[1.0, 2.0]), 0);
    assert_eq!(store.pushed((0, 11), 3, &[5.0]), 0, "the round is another one");
    assert_eq!(store.pushed((SECOND, 11), 3, &[3.0, 4.0]), 2);
    assert_eq!(store.pulled(SECOND, 3), [4.0, 6.0]);
    assert_eq!(store.pulled(0, 3), [1.0]);
    assert!(!store.is_shared_by_all() && alone().is_shared_by_all());
}

#[test]
fn what_one_commands_is_nothing_to_the_other() {
    let mut store = alone();
    store.commanded(SECOND, Head::SyncMode, Bytes::new());
    store.commanded(SECOND, Head::MultiPrecision, Bytes::new());
    let two_bit = Compression::TwoBit(TwoBit::new(0.5).unwrap());
    store.commanded(SECOND, Head::Compression, two_bit.to_body().into_bytes().into());
    let (first, second) = (store.held.modes.of(0), store.held.modes.of(1));
    assert!(second.sync && second.multi_precision && second.compression == two_bit);
    assert!(!first.sync && !first.multi_precision && first.compression == Compression::None);
    // So the first one is asynchronous, and lacks an optimizer.
    store.pushed((0, 9), 3, &[1.0]);
    let meta = Meta { push: true, head: 0, ..of(0, 9) };
    let answers = store.answers(meta, &frames(0, &[3], &[1.0], &[4]));
    assert!(answers[0].request.error.contains("dist_async needs"), "{answers:?}");
}

#[test]
fn lengths_and_rows_count_from_the_begin_of_the_space() {
    let mut store = alone();
    store.commanded(SECOND, Head::SyncMode, Bytes::new());
    let two_bit = Compression::TwoBit(TwoBit::new(0.5).unwrap());
    store.commanded(SECOND, Head::Compression, two_bit.to_body().into_bytes().into());
    store.pushed((SECOND, 9), 3, &[0.0; 16]);
    // The first key says that there are 16 elements: all of them are the threshold.
    let compressed = |worker| {
        let head = command_of(RequestKind::Compressed, Dtype::F32);
        let words = [f32::from_bits(u32::MAX)];
        (Meta { push: true, head, ..of(SECOND, worker) }, frames(SECOND, &[16, 3], &words, &[0, 4]))
    };
    for worker in [9, 11] {
        let (meta, frames) = compressed(worker);
        let answers = store.answers(meta, &frames);
        assert!(answers.iter().all(|answer| answer.request.error.is_empty()), "{answers:?}");
    }
    assert_eq!(store.pulled(SECOND, 3), [1.0; 16]);
    let rows = |keys: &[Key], values: &[f32], lens: &[i32], push| {
        let head = command_of(RequestKind::RowSparse, Dtype::F32);
        (Meta { push, pull: !push, head, ..of(SECOND, 9) }, frames(SECOND, keys, values, lens))
    };
    let (meta, all) = rows(&[5, 5, 6, 7], &[1.0, 2.0, 3.0], &[0, 4, 4, 4], true);
    assert_eq!(store.answers(meta, &all)[0].request.error, "");
    let (meta, some) = rows(&[5, 6], &[], &[], false);
    assert_eq!(store.answers(meta, &some)[0].kv.vals, bytemuck::bytes_of(&2.0_f32));
}

#[test]
fn a_key_in_the_space_of_another_is_refused() {
    let mut store = alone();
    let placed = frames(SECOND, &[3], &[1.0], &[4]);
    for (meta, frames, text) in [
        (of(0, 9), placed.clone(), "is too large"),
        (Meta { own_keys: false, ..of(SECOND, 9) }, placed.clone(), "is too large"),
        (of(2, 9), placed, "customer 2: key"),
        (of(SECOND, 9), frames(0, &[3], &[1.0], &[4]), "is too large"),
    ] {
        let answers = store.answers(Meta { push: true, head: 0, ..meta }, &frames);
        assert!(answers[0].request.error.contains(text), "{answers:?}");
    }
    assert!(store.is_empty());
}

#[test]
fn an_error_names_the_customer() {
    let mut store = alone();
    let meta = Meta { pull: true, head: 0, ..of(SECOND, 9) };
    let answers = store.answers(meta, &frames(SECOND, &[3], &[], &[]));
    assert_eq!(
        answers[0].request.error,
        "key 3 of customer 1 was not initialised: call kv.init first"
    );
    let of_none = store.answers(Meta { pull: true, head: 0, ..of(SECOND, 9) }, &[]);
    assert!(of_none[0].request.error.starts_with("customer 1: the request is malformed"));
}

/// Every one that has a key says whose it is. Only that of a key outside its space has the number
/// of the wire.
#[test]
fn all_errors_name_keys_alike() {
    let key = KeyName::of((1 << 40) + 3, 1);
    let (worker, dtype) = (0, Dtype::F32);
    let errors = [
        StoreError::Unknown { key },
        StoreError::Size { worker, key, expected: 1, got: 2, cut: false },
        StoreError::Type { worker, key, expected: dtype, got: dtype },
        StoreError::RowsToDense { key },
        StoreError::DenseToRows { key },
        StoreError::RowsOfDense { key },
        StoreError::Row { worker, key, rows: 1, row: 2 },
        StoreError::Unfit { class: "LARS", what: "dense", key, reason: "it is cut" },
        StoreError::Elsewhere { key },
        StoreError::Overlap { key },
    ];
    for error in errors {
        assert!(
            error.names_a_key() && error.to_string().contains("key 3 of customer 1"),
            "{error}"
        );
    }
    let others = [StoreError::NoOptimizer, StoreError::Full(1), StoreError::Malformed("")];
    assert!(others.iter().all(|error| !error.names_a_key()));
}
