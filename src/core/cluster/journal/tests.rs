//! What is read from a journal that was cut off or damaged anywhere.

use proptest::prelude::*;

use super::frames::{MAGIC, frame, read};
use super::*;
use crate::cluster::tenures::{KeyTenures, Tenure};
use crate::wire::server_id;

fn member(id: NodeId) -> Member {
    let node = Node {
        role: Role::Server,
        id,
        customer_id: 0,
        hostname: "10.0.0.7".to_owned(),
        port: 4000 + id,
        is_recovery: false,
        abilities: 5,
        incarnation: 77,
        native_port: 9,
        wished_rank: None,
        launched_as: None,
    };
    Member::new(&node, vec![0], Vec::new())
}

fn job() -> State {
    let ids = [8, 10];
    State {
        incarnation: 4711,
        address: "h:1".to_owned(),
        workers: 1,
        servers: 2,
        replicas: 1,
        epoch: 1,
        homes: ids.to_vec(),
        members: ids.map(|id| (id, member(id))).into(),
        serving: ids.map(|id| (id, true)).into(),
        ..State::default()
    }
}

fn entry(node: NodeId, timestamp: i32) -> Entry {
    Entry { node, customer: 0, group: 7, timestamp }
}

/// A job's life.
fn records() -> Vec<Record> {
    let order = Order { key: 3, from: 0, to: 5, owner: 12 };
    let ordered = |order| Ordered { owner: 10, order, replaced: 0 };
    let about = |id, text: &str| About { id, text: text.to_owned() };
    let homes = |homes: [NodeId; 2], joined: &[NodeId], released: &[NodeId]| {
        let (joined, released) = (joined.to_vec(), released.to_vec());
        Change::Homes(Homes { homes: homes.to_vec(), joined, released, ..Homes::default() })
    };
    let keys = |length| Change::Keys(Keys { keys: [(3, 10), (4, length)].into() });
    let taken = |from, to, owner| {
        let parts = vec![Tenure { from, to, owner, since: 1, term: 1 }];
        Change::Taken(Taken { keys: [(3, KeyTenures { parts })].into() })
    };
    let changes = [
        Change::Job(Box::new(job())),
        Change::Claimed(8),
        keys(20),
        Change::Passed(Passed { entries: vec![entry(9, 3), entry(8, 2)], all: true }),
        Change::Joined(member(server_id(2))),
        Change::Epoch(2),
        homes([8, 10], &[12], &[]),
        Change::Draining(10),
        Change::Epoch(3),
        homes([8, 12], &[], &[]),
        Change::Orders(Orders { orders: vec![ordered(order), ordered(Order { key: 4, ..order })] }),
        Change::OrdersOf(OrdersOf {
            keys: [
                (4, KeyOrders::default()),
                (5, KeyOrders { orders: vec![ordered(Order { key: 5, ..order })] }),
            ]
            .into(),
        }),
        Change::Epoch(4),
        homes([8, 12], &[], &[10]),
        Change::Lost(about(8, "lost server 0")),
        Change::Epoch(5),
        keys(0),
        Change::Fixed(about(12, "an application keeps them")),
        Change::Passed(Passed { entries: vec![entry(9, 8)], all: false }),
        Change::Replaced(member(9)),
        taken(0, 8, 8),
        taken(4, 6, 12),
    ];
    changes.into_iter().map(Record::new).collect()
}

fn file(records: &[Record]) -> Vec<u8> {
    [MAGIC.to_vec()].into_iter().chain(records.iter().map(frame)).flatten().collect()
}

fn state_of(records: &[Record]) -> Option<State> {
    let mut state: Option<State> = None;
    records.iter().for_each(|record| state.get_or_insert_default().apply(record));
    state
}

/// Where each record ends.
fn ends(records: &[Record]) -> Vec<usize> {
    let mut at = MAGIC.len();
    let length = |record: &Record| {
        at += frame(record).len();
        at
    };
    records.iter().map(length).collect()
}

#[test]
fn records_add_up() {
    let records = records();
    let state = state_of(&records).unwrap();
    assert_eq!(read(&file(&records)).unwrap().state.as_ref(), Some(&state));
    assert_eq!(state.members.keys().copied().collect::<Vec<_>>(), [8, 9, 10, 12]);
    assert_eq!(state.serving.keys().copied().collect::<Vec<_>>(), [8, 12], "until the next policy");
    assert_eq!((state.epoch, state.homes), (5, vec![8, 12]));
    assert!(state.joining.is_empty() && state.draining.is_empty());
    assert!(state.released.contains_key(&10) && state.lost.contains_key(&8));
    assert_eq!(state.keys, [(3, 10)].into());
    assert_eq!(state.passed, [entry(8, 2)], "who was replaced has passed nothing yet");
    assert_eq!((state.releases_of_all, state.orders.keys().copied().collect()), (1, vec![3, 5]));
    let owners: Vec<_> =
        state.tenures[&3].parts.iter().map(|part| (part.from, part.owner)).collect();
    assert_eq!(owners, [(0, 8), (4, 12), (6, 8)]);
    assert_eq!(state.members[&8].node().unwrap().address(), "10.0.0.7:4008");
}

#[test]
fn a_whole_state_takes_the_place_of_all_before() {
    let mut state = state_of(&records()).unwrap();
    let whole = Record::new(Change::Job(Box::new(job())));
    state.apply(&whole);
    assert_eq!(state, job());
    let mut bytes = file(&records());
    bytes.extend(frame(&whole));
    assert_eq!(read(&bytes).unwrap().state, Some(job()));
}

/// Wherever the writing was cut off: what was complete counts.
#[test]
fn torn_tails_are_cut_off() {
    let records = records();
    let (bytes, ends) = (file(&records), ends(&records));
    for cut in 0..=bytes.len() {
        let read = read(&bytes[..cut]).unwrap();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(read.state, state_of(&records[..complete]), "cut at {cut}");
        assert!(!read.damaged, "cut at {cut}");
        let sound = if cut < MAGIC.len() { 0 } else { MAGIC.len() };
        assert_eq!(read.sound, ends[..complete].last().copied().unwrap_or(sound));
    }
}

#[test]
fn another_file_is_no_journal() {
    assert_eq!(read(b"#!/bin/sh\n"), None);
    assert_eq!(read(b"#!"), None);
    assert!(read(b"").is_some());
}

proptest! {
    /// Whatever bit is wrong: nothing is believed from there on, and it is noticed unless it is the
    /// end.
    #[test]
    fn what_is_damaged_is_not_believed(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let records = records();
        let mut bytes = file(&records);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let Some(read) = read(&bytes) else {
            prop_assert!(at < MAGIC.len());
            return Ok(());
        };
        let intact = ends(&records).iter().filter(|end| **end <= at).count();
        prop_assert_eq!(read.state, state_of(&records[..intact]));
        prop_assert_eq!(read.damaged, intact + 1 < records.len());
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut all = MAGIC.to_vec();
        all.append(&mut bytes);
        let _ = read(&all);
        let _ = read(&all[MAGIC.len()..]);
    }
}

#[test]
fn where_copies_are_kept_is_known_after_a_restart() {
    let mut state = job();
    let copies = vec![CopyPlace { owner: 8, holder: 10 }];
    let homes = Homes { homes: vec![8, 10], copies: copies.clone(), ..Homes::default() };
    let record = Record::new(Change::Homes(homes)).to_bytes();
    state.apply(&Record::from_bytes(&record).unwrap());
    assert_eq!(state.copies, copies);
    // The next policy may name none.
    state.apply(&Record::new(Change::Homes(Homes::default())));
    assert!(state.copies.is_empty());
}
