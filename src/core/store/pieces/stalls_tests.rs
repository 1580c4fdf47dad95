//! Rounds that wait: who is named, when nothing is said, what a look costs.

use bytes::Bytes;

use super::*;
use crate::store::{Store, StoreConfig};
use crate::values::Dtype;
use crate::values::kind::{RequestKind, command_of};
use crate::wire::Meta;

const FIRST: Key = u64::MAX / 2;
const LIMIT: Duration = secs(10);

impl OpenRounds {
    /// Rounds in the books.
    pub(in crate::store) fn count(&self) -> usize {
        self.open.len()
    }
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn store() -> Store {
    let mut store = Store::new(StoreConfig { servers: 2, id: 10, ..StoreConfig::alone(2) });
    store.held.set_sync(0).unwrap();
    store
}

fn push(store: &mut Store, at: u64, sender: NodeId, key: u64) {
    let frame = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let frames = [
        frame(&(FIRST + key).to_ne_bytes()),
        frame(&1_f32.to_ne_bytes()),
        frame(&4_i32.to_ne_bytes()),
    ];
    let head = command_of(RequestKind::Default, Dtype::F32);
    let meta = Meta { head, sender, push: true, request: true, ..Meta::default() };
    store.hear(secs(at), &meta, &frames);
    let mut answers = Vec::new();
    store.request(meta, &frames, &mut answers);
    assert!(answers.iter().all(|answer| answer.request.error.is_empty()), "{answers:?}");
}

#[test]
fn a_round_names_who_is_missing_and_what_it_did_last() {
    let mut store = store();
    push(&mut store, 0, 9, 3);
    push(&mut store, 1, 9, 3);
    push(&mut store, 4, 11, 3);
    assert_eq!(store.stalled(secs(100), LIMIT), None, "all compute");
    push(&mut store, 5, 9, 3);
    assert_eq!(store.stalled(secs(14), LIMIT), None, "too early");
    let stall = store.stalled(secs(17), LIMIT).unwrap();
    assert_eq!(stall.pushed, [9]);
    let text = stall.text(|id| format!("node {id}"));
    // The first push made the key; the next two were the first round.
    let said = "round 2 of key 3 has waited 12 s for node 11; it last pushed key 3 13 s ago";
    assert_eq!(text, said);
    push(&mut store, 18, 11, 3);
    assert_eq!(store.stalled(secs(100), LIMIT), None);
}

#[test]
fn the_oldest_round_is_named_and_the_others_are_counted() {
    let mut store = store();
    for key in 0..5 {
        push(&mut store, 0, 9, key);
    }
    for key in [4, 2, 0] {
        push(&mut store, key, 9, key);
    }
    let stall = store.stalled(secs(14), LIMIT).unwrap();
    assert_eq!((stall.key, stall.others, &stall.missing[..]), (4, 2, &[(11, None)][..]));
    assert!(stall.text(|_| String::new()).ends_with("(and 2 other rounds wait)"));
}

#[test]
fn only_rounds_that_wait_are_in_the_books() {
    let mut store = store();
    for key in 0..1000 {
        push(&mut store, 0, 9, key);
        push(&mut store, 0, 9, key);
        push(&mut store, 0, 11, key);
    }
    assert_eq!(store.held.stalls.count(), 0);
    push(&mut store, 1, 9, 7);
    assert_eq!(store.held.stalls.count(), 1);
}

#[test]
fn a_worker_alone_waits_for_nobody() {
    let mut store = store();
    store.held.config.workers = 1;
    push(&mut store, 0, 9, 0);
    push(&mut store, 0, 9, 0);
    assert_eq!(store.held.stalls.next, 0);
}

#[test]
fn words_become_rarer_and_begin_anew_after_a_rest() {
    let mut reminder = Reminder::new(LIMIT);
    let mut said = Vec::new();
    for now in (10..200).chain(2000..2015).map(secs) {
        if reminder.is_due(now) {
            reminder.said(now);
            said.push(now.as_secs());
        }
    }
    assert_eq!(said, [10, 20, 40, 80, 160, 2000, 2010]);
}
