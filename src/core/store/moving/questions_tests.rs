//! An owner that is asked how to push, without anything between it and the workers.

use bytes::Bytes;

use super::*;
use crate::store::{Outbound, PART_BYTES, Store, StoreConfig, SumOrder};
use crate::trees::name_of;
use crate::values::Dtype;
use crate::values::kind::{RequestKind, command_of};
use crate::wire::elastic::{LiveWorker, PartAsk};
use crate::wire::trees::{Hop, HopKind, Overlay, Ticket, TreeNode, TreeTable};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Payload, server_id};

const KEY: Key = 3;
const WORKERS: usize = 2;
/// Elements of the key, of four bytes each.
const LENGTH: u64 = 96;
/// Of a part.
const PART: u64 = 32;

/// What an answer says: is it *again*, the ticket, and those of parts.
type Told = (bool, Option<Ticket>, Vec<(u64, u64, Option<Ticket>)>);

fn overlay(number: u64, workers: usize) -> Overlay {
    let root = server_id(0);
    let node = |rank| TreeNode { node: worker_id(rank), up: root, down: root };
    let nodes = (0..workers).map(node).collect();
    Overlay { number, floor: 0, trees: vec![TreeTable { root, nodes, weight: 1 }] }
}

/// A server with the key, which worker 0 has made. Long pieces are cut if `part_bytes` is little.
fn server(part_bytes: u64) -> Store {
    let mut store = Store::new(StoreConfig {
        elastic: true,
        part_bytes: part_bytes as usize,
        ..StoreConfig::alone(WORKERS)
    });
    store.held.set_sync(0).unwrap();
    store.overlay(&overlay(1, WORKERS), &mut Outbound::default());
    let answers = serve(&mut store, push(0, 0, PartAsk::default()), LENGTH);
    let reply = answers[0].request.reply().unwrap();
    assert_eq!((reply.overlay, reply.routes.len()), (0, 1), "its next push may have a ticket");
    store
}

fn push(rank: usize, timestamp: i32, placed: PartAsk) -> Meta {
    let after = if rank == 0 { timestamp as u32 } else { timestamp.max(1) as u32 - 1 };
    let placed = PartAsk { after: if timestamp < 2 && rank > 0 { 0 } else { after }, ..placed };
    Meta {
        sender: worker_id(rank),
        customer_id: 0,
        timestamp,
        request: true,
        push: true,
        head: command_of(RequestKind::Default, Dtype::F32),
        payload: Payload::Ask(placed),
        ..Meta::default()
    }
}

/// How is that worker to push `[from, to)`?
fn question(rank: usize, from: u64, to: u64) -> Meta {
    let term = u64::from(to > 0);
    push(rank, 1, PartAsk { from, to, term, asks: true, overlay: 1, ..PartAsk::default() })
}

fn serve(store: &mut Store, request: Meta, elements: u64) -> Vec<crate::store::Answer> {
    let values = vec![1.0_f32; elements as usize];
    let vals: &[u8] = bytemuck::cast_slice(&values);
    let lens = (vals.len() as i32).to_ne_bytes();
    let frames = [&KEY.to_ne_bytes()[..], vals, &lens].map(Bytes::copy_from_slice);
    let mut out = Outbound::default();
    store.serve(request, &frames, &mut out);
    store.validate().unwrap();
    out.answers
}

fn told(answers: &[crate::store::Answer]) -> Vec<Told> {
    let told = |answer: &crate::store::Answer| {
        let reply = answer.request.reply().unwrap();
        assert_eq!(answer.request.error, "");
        let parts = reply.tickets.iter().map(|part| (part.from, part.to, part.ticket));
        (reply.again, reply.ticket.as_deref().copied(), parts.collect())
    };
    answers.iter().map(told).collect()
}

fn asks(store: &mut Store, request: Meta) -> Told {
    told(&serve(store, request, 0)).remove(0)
}

fn ticket(round: u64) -> Ticket {
    Ticket { overlay: 1, tree: 0, round }
}

#[test]
fn all_who_ask_are_told_one_ticket_and_a_sum_ends_the_round() {
    let mut store = server(PART_BYTES as u64);
    for (rank, to) in [(0, LENGTH), (1, 0), (0, LENGTH)] {
        let expected = (true, Some(ticket(1)), Vec::new());
        assert_eq!(asks(&mut store, question(rank, 0, to)), expected);
    }
    let range = PartAsk { to: LENGTH, term: 1, ..PartAsk::default() };
    let names = (0..WORKERS).map(|rank| name_of(&push(rank, 1, range.clone()))).collect();
    let hop = Hop { kind: HopKind::Up.into(), ticket: ticket(1), names, key: KEY };
    let sum = push(0, 1, range).along(hop);
    assert!(serve(&mut store, sum, LENGTH).is_empty());
    let piece = store.held.piece(At { key: KEY, index: 0 }).unwrap();
    assert_eq!((piece.version, piece.ticket()), (1, Some(ticket(2))));
}

#[test]
fn a_long_piece_is_cut_before_its_first_round() {
    let mut store = server(4 * PART);
    let parts: Vec<_> =
        (0..LENGTH / PART).map(|at| (at * PART, (at + 1) * PART, Some(ticket(1)))).collect();
    // The second one does not know that it is cut.
    for rank in 0..WORKERS {
        let expected = (true, None, parts.clone());
        assert_eq!(asks(&mut store, question(rank, 0, LENGTH)), expected, "worker {rank}");
    }
    assert_eq!(asks(&mut store, question(0, PART, 2 * PART)), (true, parts[1].2, Vec::new()));
}

#[test]
fn parts_that_a_round_is_cut_into_have_tickets_at_once() {
    let mut store = server(PART_BYTES as u64);
    let whole = || PartAsk { to: LENGTH, term: 1, ..PartAsk::default() };
    assert!(serve(&mut store, push(0, 1, whole()), LENGTH).is_empty());
    store.held.config.part_bytes = 4 * PART as usize;
    let answers = told(&serve(&mut store, push(1, 1, whole()), LENGTH));
    let parts: Vec<_> =
        (0..LENGTH / PART).map(|at| (at * PART, (at + 1) * PART, Some(ticket(2)))).collect();
    assert_eq!(answers, [(false, None, parts.clone()), (false, None, parts)]);
    // Of the push that has counted nobody is told how to push it.
    let answer = asks(&mut store, question(1, 0, LENGTH));
    assert_eq!(answer, (true, None, Vec::new()));
}

#[test]
fn nobody_gets_a_ticket_where_no_tree_can_carry_the_round() {
    let alone = (true, None, Vec::new());
    // Somebody has pushed alone.
    let mut store = server(PART_BYTES as u64);
    let whole = PartAsk { to: LENGTH, term: 1, ..PartAsk::default() };
    serve(&mut store, push(1, 1, whole), LENGTH);
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)), alone);
    // Sums in the order of ranks; no rounds.
    let mut store = server(PART_BYTES as u64);
    store.held.config.order = SumOrder::Ranks;
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)), alone);
    store.held.config.order = SumOrder::Arrival;
    store.held.modes.change(0).unwrap().sync = false;
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)), alone);
    // A tree with somebody who is no worker of the job.
    store.held.modes.change(0).unwrap().sync = true;
    store.overlay(&overlay(2, WORKERS + 1), &mut Outbound::default());
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)), alone);
    store.overlay(&overlay(3, WORKERS), &mut Outbound::default());
    assert!(asks(&mut store, question(0, 0, LENGTH)).1.is_some());
    // A second customer of a worker, whose first one may come along the tree.
    let second = Meta { customer_id: 1, ..question(1, 0, LENGTH) };
    assert_eq!(asks(&mut store, second), alone);
    // A key that nobody has made.
    let mut store = server(PART_BYTES as u64);
    store.held.tensors.clear();
    assert_eq!(asks(&mut store, question(1, 0, 0)), alone);
}

#[test]
fn a_worker_with_two_customers_gets_none() {
    let mut store = server(PART_BYTES as u64);
    let live = |rank: usize, customers: &[i32]| LiveWorker {
        node: worker_id(rank),
        customers: customers.to_vec(),
        ..LiveWorker::default()
    };
    let word = RoutedPolicy {
        policy: Policy {
            epoch: 1,
            servers: vec![server_id(0)],
            homes: vec![server_id(0)],
            live: vec![live(0, &[0]), live(1, &[0, 1])],
            ..Policy::default()
        },
        ..RoutedPolicy::default()
    };
    store.policy(&word, &mut Outbound::default());
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)), (true, None, Vec::new()));
}

#[test]
fn a_ticket_that_is_void_is_not_given_out_again() {
    let mut store = server(PART_BYTES as u64);
    assert_eq!(asks(&mut store, question(0, 0, LENGTH)).1, Some(ticket(1)));
    let by = Some(Box::new(ticket(1)));
    let mut out = Outbound::default();
    store.mover(&mut out).void_ticket(At { key: KEY, index: 0 });
    assert_eq!(out.downs.len(), WORKERS);
    assert_eq!(asks(&mut store, question(1, 0, LENGTH)), (true, None, Vec::new()));
    // By newer trees it is another one.
    store.overlay(&overlay(2, WORKERS), &mut Outbound::default());
    let newer = asks(&mut store, question(1, 0, LENGTH)).1;
    assert_eq!(newer, by.map(|before| Ticket { overlay: 2, ..*before }));
}

#[test]
fn what_has_come_from_another_server_has_a_ticket_after_a_round() {
    let mut store = server(PART_BYTES as u64);
    let mut piece = store.held.tensors.get_mut(&KEY).unwrap().pieces.remove(0);
    store.whereabouts().withhold_ticket(&mut piece);
    store.held.tensors.get_mut(&KEY).unwrap().insert(piece);
    store.overlay(&overlay(2, WORKERS), &mut Outbound::default());
    assert_eq!(asks(&mut store, question(1, 0, LENGTH)), (true, None, Vec::new()));
    for rank in 0..WORKERS {
        let whole = PartAsk { to: LENGTH, term: 1, ..PartAsk::default() };
        serve(&mut store, push(rank, 1, whole), LENGTH);
    }
    let next = store.held.piece(At { key: KEY, index: 0 }).unwrap().ticket();
    assert_eq!(next, Some(Ticket { overlay: 2, ..ticket(2) }));
}
