//! `validate` names what is wrong with a state that was spoilt on purpose, and nothing of one that
//! was not.

use bytes::Bytes;

use super::copies::{Three, key};
use crate::store::Store;
use crate::store::moving::kept::Waiting;
use crate::store::pieces::tensor::{Copied, Source};
use crate::values::Buffer;
use crate::values::value::Value;
use crate::wire::elastic::{Mark, Order, PartAsk, Route};
use crate::wire::{Meta, NodeId, Payload};

/// Something that no rule leads to.
type Spoil = fn(&mut Store);

fn piece(store: &mut Store, spoil: impl FnOnce(&mut crate::store::pieces::tensor::Piece)) {
    spoil(&mut store.held.tensors.get_mut(&key()).unwrap().pieces[0]);
}

fn elastic(store: &mut Store) -> &mut crate::store::moving::Elsewhere {
    &mut store.known
}

fn push() -> Meta {
    let payload = Payload::Ask(PartAsk::default());
    Meta { sender: 9, timestamp: 7, push: true, request: true, payload, ..Meta::default() }
}

/// A server that owns a key of which its replica has a copy, and whose other half has just left.
fn spoilt(id: NodeId, spoil: Spoil) -> Result<(), String> {
    let mut three = Three::new(3, 1);
    let order = Order { key: key(), from: 16, to: 40, owner: 12 };
    let store = three.store(8);
    let mut out = Default::default();
    store.orders(&[order], &mut out);
    assert_eq!(three.store(id).validate(), Ok(()));
    spoil(three.store(id));
    three.store(id).validate()
}

#[test]
fn what_is_wrong_with_pieces_and_their_copies_is_named() {
    let all: [(Spoil, &str); 12] = [
        (|store| piece(store, |piece| piece.to = 32), "bytes are the value of 32 elements"),
        (|store| piece(store, |piece| piece.to = 0), "the part 0..0 is empty"),
        (|store| piece(store, |piece| piece.term = 0), "and it has term 0"),
        (
            |store| piece(store, |piece| piece.value = Value::new(Buffer::zeroed(8))),
            "8 bytes are the value of 16 elements",
        ),
        (
            |store| piece(store, |piece| piece.master = Some(Buffer::zeroed(8))),
            "Some(8) bytes are the float32 copy of 16 elements",
        ),
        (|store| piece(store, |piece| piece.version -= 1), "has version Some(1) of 0"),
        (
            |store| {
                let (to, confirmed) = (8, Some(1));
                piece(store, |piece| piece.copied = Copied::Sent { to, since: 1, confirmed });
            },
            "is copied to, itself",
        ),
        (
            |store| {
                let source = Some(Source { server: 8, told: true });
                piece(store, |piece| piece.source = source);
            },
            "of 8 came from, or",
        ),
        (
            |store| {
                let mut tensor = store.held.tensors.remove(&key()).unwrap();
                tensor.length = 8;
                store.held.tensors.insert(key(), tensor);
            },
            "the part 0..16 ends behind 8",
        ),
        (
            |store| {
                let tensor = store.held.tensors.get_mut(&key()).unwrap();
                let copy = tensor.pieces[0].part(0, 16, None);
                tensor.pieces.push(copy);
            },
            "the part 0..16 begins before 16",
        ),
        (|store| store.held.tensors.get_mut(&key()).unwrap().pieces.clear(), "it has no piece"),
        (
            |store| {
                let route = Route { from: 0, to: 16, term: 1 << 40, owner: 12 };
                elastic(store).learn(key(), route);
            },
            "elsewhere since",
        ),
    ];
    for (spoil, text) in all {
        let found = spoilt(8, spoil).expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}

#[test]
fn what_waits_for_nothing_is_named() {
    let all: [(Spoil, &str); 6] = [
        (
            |store| {
                let wait = Waiting { from: 0, to: 16, version: 1, answers: Vec::new() };
                elastic(store).waiting.insert(key(), vec![wait]);
            },
            "answers about version 1 of 0..16 wait for nothing",
        ),
        (
            |store| assert!(elastic(store).parked.push(key() + 1, &push(), &[Bytes::new()])),
            "request 7 of 9 is parked, and nothing keeps it",
        ),
        (
            |store| {
                store.held.stalls.begin(key(), 0);
            },
            "1 rounds wait, and 0 are open",
        ),
        (|store| elastic(store).servers.collecting = Some(1), "policy Some(1) is expected"),
        (|store| elastic(store).copies.unsaid = Some(Default::default()), "none is expected"),
        (|store| elastic(store).replica.at = Some(8), "the replica of 8 is Some(8)"),
    ];
    for (spoil, text) in all {
        let found = spoilt(8, spoil).expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}

#[test]
fn what_is_wrong_with_what_left_and_with_copies_is_named() {
    let all: [(NodeId, Spoil, &str); 5] = [
        (
            8,
            |store| elastic(store).leaving.get_mut(&key()).unwrap()[0].written.piece.from = 8,
            "8..40 has left for 12, and a part of it is here",
        ),
        (8, |store| elastic(store).leaving.get_mut(&key()).unwrap()[0].to = 8, "where it is"),
        (8, |store| elastic(store).leaving.get_mut(&key()).unwrap()[0].term = 1, "not 1 + 1"),
        (8, |store| elastic(store).servers.live.reverse(), "the servers are not in order"),
        (
            10,
            |store| {
                let copies = &mut elastic(store).copies.of;
                let copy = copies.remove(&(key(), 8)).unwrap();
                copies.insert((key(), 10), copy);
            },
            "it is its own replica",
        ),
    ];
    for (id, spoil, text) in all {
        let found = spoilt(id, spoil).expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}

/// A mark that is not found counts its push twice.
#[test]
fn marks_out_of_order_are_named() {
    let mut marks = crate::store::pieces::marks::Marks::default();
    let mark = |worker| Mark { worker, customer: 0, timestamp: 1, life: 0 };
    marks.add(&[mark(11), mark(9)]);
    assert_eq!(marks.validate(), Ok(()));
    marks.spoil();
    let found = marks.validate().unwrap_err();
    assert!(found.contains("two marks are not in order"), "{found}");
}

/// The counters of bytes and requests are what lies there.
#[test]
fn wrong_counters_are_named() {
    let mut three = Three::new(2, 1);
    let store = three.store(8);
    assert_eq!(store.validate(), Ok(()));
    elastic(store).parked.spoil();
    let found = store.validate().unwrap_err();
    assert!(found.contains("0 requests of 0 bytes wait, and (1, 0) are counted"), "{found}");
}

/// A debug build stops at the entry after which something is wrong.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a broken invariant: key")]
fn a_debug_build_looks_at_what_an_entry_touched() {
    let mut three = Three::new(2, 1);
    piece(three.store(8), |piece| piece.term = 0);
    three.push(9);
}
