//! Whatever another node sends, a server goes on: it refuses with a text, and what it holds stays.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{ADAM, store_of_two};
use crate::store::Store;
use crate::store::command::Head;
use crate::store::pickled_tests::pickled;
use crate::store::{Outbound, Outgoing};
use crate::values::server_key_ranges;
use crate::wire::elastic::{KeyRoute, Mark, Order, PartAsk, Route};
use crate::wire::transfer::{Transfer, TransferKind};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{FlatTransfer, Key, Meta, NodeId, Payload};

const LENGTH: usize = 40;

fn store(id: NodeId) -> Store {
    let mut store = store_of_two(id);
    let body = pickled("Adam", ADAM);
    let head = Head::Controller.number();
    let command = Meta { head, body, sender: 9, customer_id: 0, timestamp: 1, ..Meta::default() };
    store.obey(&command, &mut Outbound::default()).unwrap();
    store.held.set_sync(0).unwrap();
    store
}

fn keys() -> [Key; 2] {
    let ranges = server_key_ranges(2);
    [ranges[0].begin + 3, ranges[1].begin + 3]
}

fn push(key: Key, timestamp: i32, placed: PartAsk) -> (Meta, Vec<Bytes>) {
    let values = vec![timestamp as f32; LENGTH];
    let lens = [(LENGTH * 4) as i32];
    let frames = vec![
        Bytes::copy_from_slice(&key.to_ne_bytes()),
        Bytes::copy_from_slice(bytemuck::cast_slice(&values)),
        Bytes::copy_from_slice(bytemuck::cast_slice(&lens)),
    ];
    let meta = Meta {
        head: 0,
        sender: 9,
        customer_id: 0,
        timestamp,
        push: true,
        request: true,
        payload: Payload::Ask(placed),
        ..Meta::default()
    };
    (meta, frames)
}

/// Two servers with a key each, and a copy of the other's; the transfers that made them so.
fn pair() -> ([Store; 2], Vec<Outgoing>) {
    let mut stores = [store(8), store(10)];
    let mut transfers = Vec::new();
    for timestamp in [2, 3] {
        for at in 0..2 {
            let mut out = Outbound::default();
            let (meta, frames) = push(keys()[at], timestamp, PartAsk::default());
            stores[at].serve(meta, &frames, &mut out);
            deliver(&mut stores, at, out, &mut transfers);
        }
    }
    (stores, transfers)
}

fn deliver(stores: &mut [Store; 2], from: usize, out: Outbound, all: &mut Vec<Outgoing>) {
    assert!(out.answers.iter().all(|answer| answer.request.error.is_empty()), "{out:?}");
    for outgoing in out.transfers {
        let to = 1 - from;
        let mut out = Outbound::default();
        let sender = [8, 10][from];
        stores[to].transfer(sender, &outgoing.transfer, &outgoing.frames, &mut out).unwrap();
        all.push(outgoing);
        deliver(stores, to, out, all);
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 0..4_u64,
        5 => 0..50_u64,
        1 => Just(1 << 31),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
        2 => Just(keys()[0]),
        2 => Just(keys()[1]),
    ]
}

fn transfer() -> impl Strategy<Value = FlatTransfer> {
    let numbers = vec(number(), 9);
    let small = (-1..12_i32, -1..9_i32, any::<bool>(), -1..8_i32);
    let lists =
        (vec(number(), 0..4), vec(number(), 0..3), vec(-2..50_i64, 0..4), vec(0..9_i32, 0..3));
    (numbers, small, lists, prop::option::of(vec(any::<u8>(), 0..40))).prop_map(
        |(n, (kind, dtype, has_master, head), (cuts, gone, rows, marks), state)| FlatTransfer {
            space: u32::from(has_master),
            kind,
            key: n[0],
            from: n[1],
            to: n[2],
            term: n[3],
            version: n[4],
            length: n[5],
            dtype,
            row_len: n[6],
            marks: marks
                .iter()
                .map(|at| Mark { worker: *at, customer: 0, timestamp: *at, life: 0 })
                .collect(),
            has_master,
            state: state.map(Bytes::from),
            cuts,
            gone,
            rows,
            head,
            number: n[7],
            worker: 9,
            customer: 0,
            first_pushes: Vec::new(),
            agreed: Vec::new(),
        },
    )
}

fn frames() -> impl Strategy<Value = Vec<Bytes>> {
    let len = prop_oneof![Just(0), Just(8), Just(LENGTH * 4), 0..300_usize];
    let frame = (len, any::<u8>()).prop_map(|(len, byte)| Bytes::from(vec![byte; len]));
    vec(frame, 0..6)
}

/// One thing about a good transfer is wrong.
#[derive(Clone, Debug)]
enum Wrong {
    Key(u64),
    From(u64),
    To(u64),
    Term(u64),
    Version(u64),
    Length(u64),
    Dtype(i32),
    RowLen(u64),
    Master(bool),
    State(Option<Vec<u8>>),
    Generation(u64),
    Rows(Vec<i64>),
    Frame(usize, usize),
    NoFrame(usize),
    MoreFrames,
}

fn wrong() -> impl Strategy<Value = Wrong> {
    let n = number;
    prop_oneof![
        n().prop_map(Wrong::Key),
        n().prop_map(Wrong::From),
        n().prop_map(Wrong::To),
        n().prop_map(Wrong::Term),
        n().prop_map(Wrong::Version),
        n().prop_map(Wrong::Length),
        (-1..9_i32).prop_map(Wrong::Dtype),
        n().prop_map(Wrong::RowLen),
        any::<bool>().prop_map(Wrong::Master),
        prop::option::of(vec(any::<u8>(), 0..60)).prop_map(Wrong::State),
        n().prop_map(Wrong::Generation),
        vec(-2..50_i64, 1..3).prop_map(Wrong::Rows),
        (0..5_usize, 0..200_usize).prop_map(|(at, len)| Wrong::Frame(at, len)),
        (0..5_usize).prop_map(Wrong::NoFrame),
        Just(Wrong::MoreFrames),
    ]
}

fn spoil(Outgoing { to, transfer, mut frames }: Outgoing, wrong: &Wrong) -> Outgoing {
    let mut flat = FlatTransfer::from(&transfer);
    match wrong.clone() {
        Wrong::Key(to) => flat.key = to,
        Wrong::From(to) => flat.from = to,
        Wrong::To(to) => flat.to = to,
        Wrong::Term(to) => flat.term = to,
        Wrong::Version(to) => flat.version = to,
        Wrong::Length(to) => flat.length = to,
        Wrong::Dtype(to) => flat.dtype = to,
        Wrong::RowLen(to) => flat.row_len = to,
        Wrong::Master(to) => flat.has_master = to,
        Wrong::State(to) => flat.state = to.map(Bytes::from),
        Wrong::Generation(to) => flat.number = to,
        Wrong::Rows(to) => flat.rows = to,
        Wrong::Frame(at, len) => {
            if let Some(frame) = frames.get_mut(at) {
                *frame = Bytes::from(vec![7; len]);
            }
        }
        Wrong::NoFrame(at) => {
            if at < frames.len() {
                frames.remove(at);
            }
        }
        Wrong::MoreFrames => frames.push(Bytes::from_static(b"more")),
    }
    Outgoing { to, transfer: flat.into(), frames }
}

/// Gives a store a transfer. If it is refused, nothing has changed; what was there is still served.
fn give(store: &mut Store, from: NodeId, transfer: &Transfer, frames: &[Bytes]) -> bool {
    let before = store.collect(0, &[]);
    let taken = store.transfer(from, transfer, frames, &mut Outbound::default());
    if let Err(error) = &taken {
        assert!(!error.to_string().is_empty());
        assert_eq!(store.collect(0, &[]), before, "{error}: {transfer:?}");
    }
    taken.is_ok()
}

/// The parts of a cut take the place of the copy, also where the owner names a term before it.
#[test]
fn a_cut_of_a_former_term_leaves_no_copy_twice() {
    let (mut stores, _) = pair();
    let mut out = Outbound::default();
    let order = Order { key: keys()[0], from: 16, to: 32, owner: 10 };
    stores[0].orders(&[order], &mut out);
    let all = out.transfers.into_iter().filter(|one| one.to == 10);
    let cuts: Vec<Outgoing> = all.filter(|one| one.transfer.kind() == TransferKind::Cut).collect();
    assert!(!cuts.is_empty(), "the order cuts nothing");
    for cut in cuts {
        let Outgoing { transfer, frames, .. } = spoil(cut, &Wrong::Term(0));
        assert!(give(&mut stores[1], 8, &transfer, &frames));
        assert_eq!(stores[1].validate(), Ok(()));
    }
}

fn is_alive(store: &mut Store, key: Key) {
    let mut out = Outbound::default();
    let (meta, frames) = push(key, 9, PartAsk::default());
    let pull = Meta { push: false, pull: true, ..meta };
    store.serve(pull, &frames[..1], &mut out);
    let answer = &out.answers[0];
    assert_eq!(answer.request.error, "");
    assert_eq!(answer.kv.vals.len(), LENGTH * 4);
}

/// A worker may know a term that this server is to hear of, or name one that nobody ever gave.
#[test]
fn a_request_with_a_newer_term_is_looked_at_again_when_another_one_cuts_the_piece() {
    let (mut stores, _) = pair();
    let key = keys()[0];
    let term = stores[0].held.tensors[&key].pieces[0].term;
    let mut pull = |timestamp, term| {
        let placed = PartAsk { from: 0, to: 16, term, ..PartAsk::default() };
        let (meta, frames) = push(key, timestamp, placed);
        let mut out = Outbound::default();
        let meta = Meta { push: false, pull: true, ..meta };
        stores[0].serve(meta, &frames[..1], &mut out);
        out.answers.iter().map(|answer| answer.request.timestamp).collect::<Vec<i32>>()
    };
    assert!(pull(10, term + 1).is_empty(), "nothing is known of that term");
    assert_eq!(pull(11, term), [11, 10], "the parts of a cut have it");
}

proptest! {
    #[test]
    fn transfers_of_all_kinds(given in vec((transfer(), frames()), 1..8)) {
        let (mut stores, _) = pair();
        for (transfer, frames) in given {
            give(&mut stores[0], 10, &transfer.into(), &frames);
        }
        is_alive(&mut stores[0], keys()[0]);
    }

    #[test]
    fn transfers_with_one_thing_wrong(at in 0..64_usize, wrong in wrong(), moved in any::<bool>()) {
        let (mut stores, mut transfers) = pair();
        let mut out = Outbound::default();
        let order = Order { key: keys()[0], from: 16, to: 32, owner: 10 };
        stores[0].orders(&[order], &mut out);
        if moved {
            transfers = out.transfers;
        }
        let sent: Vec<Outgoing> = transfers.into_iter().filter(|one| one.to == 10).collect();
        let Outgoing { transfer, frames, .. } = spoil(sent[at % sent.len()].clone(), &wrong);
        give(&mut stores[1], 8, &transfer, &frames);
        is_alive(&mut stores[1], keys()[1]);
    }

    #[test]
    fn requests_about_any_part(
        given in vec(
            (0..2_usize, number(), number(), number(), 0..3_u64, 0..6_u32, any::<bool>()), 1..12,
        ),
    ) {
        let (mut stores, _) = pair();
        for (timestamp, (key, from, to, term, epoch, after, pushes)) in (10..).zip(given) {
            let placed = PartAsk { from, to, term, epoch, after, ..PartAsk::default() };
            let (meta, frames) = push(keys()[key], timestamp, placed);
            let part = (to.min(LENGTH as u64).saturating_sub(from) * 4) as usize;
            let len = Bytes::copy_from_slice(&(part as i32).to_ne_bytes());
            let frames = match pushes {
                true => vec![frames[0].clone(), Bytes::from(vec![0; part]), len],
                false => vec![frames[0].clone()],
            };
            let meta = Meta { push: pushes, pull: !pushes, ..meta };
            stores[0].serve(meta, &frames, &mut Outbound::default());
        }
        let pieces = &stores[0].held.tensors[&keys()[0]].pieces;
        let elements = pieces.iter().map(|piece| piece.to - piece.from).sum::<u64>();
        prop_assert_eq!(elements, LENGTH as u64);
    }

    #[test]
    fn words_of_all_kinds(
        words in vec(
            (
                0..4_u64,
                vec(7..12_i32, 0..4),
                vec(0..14_i32, 0..3),
                vec((number(), number(), number(), 7..12_i32, any::<bool>()), 0..4),
            ),
            1..6,
        ),
    ) {
        let (mut stores, _) = pair();
        for (epoch, servers, lost, routes) in words {
            let known = routes.iter().map(|&(key, from, to, owner, promoted)| {
                let term = if promoted { epoch << 32 } else { to };
                let key = keys()[(key % 2) as usize];
                KeyRoute { key, route: Route { from, to, term, owner } }
            });
            let homes = servers.iter().copied().take(2).collect();
            let policy =
                Policy { epoch, homes, servers, lost, replicas: 1, ..Policy::default() };
            let word = RoutedPolicy { policy, routes: known.collect() };
            stores[0].collect(epoch, &word.policy.lost);
            stores[0].policy(&word, &mut Outbound::default());
            let moves: Vec<Order> = routes
                .iter()
                .map(|&(key, from, to, owner, _)| {
                    Order { key: keys()[(key % 2) as usize], from, to, owner }
                })
                .collect();
            stores[0].orders(&moves, &mut Outbound::default());
        }
        for tensor in stores[0].held.tensors.values() {
            prop_assert!(tensor.pieces.windows(2).all(|pair| pair[0].to <= pair[1].from));
        }
    }
}

#[test]
fn what_is_good_is_taken() {
    let (mut stores, _) = pair();
    let mut out = Outbound::default();
    let order = Order { key: keys()[0], from: 16, to: 32, owner: 10 };
    stores[0].orders(&[order], &mut out);
    let kinds: Vec<TransferKind> = out.transfers.iter().map(|one| one.transfer.kind()).collect();
    assert_eq!(kinds, [TransferKind::Cut, TransferKind::Move]);
    for Outgoing { transfer, frames, .. } in &out.transfers {
        assert!(give(&mut stores[1], 8, transfer, frames));
    }
    assert!(!give(&mut stores[1], 8, &out.transfers[1].transfer, &out.transfers[1].frames));
}
