//! An owner and the three workers of a tree, without anything between them.

use super::super::state::TreesHere;
use super::*;
use crate::store::{Store, StoreConfig};
use crate::trees::name_of;
use crate::values::Dtype;
use crate::values::KvPairs;
use crate::values::kind::{RequestKind, command_of};
use crate::wire::trees::{HopKind, TreeNode, TreeTable};
use crate::wire::{Payload, server_id, worker_id};
use bytes::Bytes;

const KEY: Key = 3;
const AT: At = At { key: KEY, index: 0 };
const WORKERS: usize = 3;

/// Worker 0 sums what all send; values go to each one.
fn overlay(number: u64, floor: u64) -> Overlay {
    let root = server_id(0);
    let node = |rank: usize| TreeNode {
        node: worker_id(rank),
        up: if rank == 0 { root } else { worker_id(0) },
        down: root,
    };
    let nodes = (0..WORKERS).map(node).collect();
    Overlay { number, floor, trees: vec![TreeTable { root, nodes, weight: 1 }] }
}

/// The push of a worker in a round, counted from 1.
fn push(rank: usize, round: i32, ticket: Option<Ticket>) -> Meta {
    // The first worker's push 0 makes the key.
    let after = if rank > 0 && round == 1 { 0 } else { round as u32 };
    let ticket = ticket.map(Box::new);
    let placed = PartAsk { after, to: 1, term: 1, ticket, ahead: true, ..PartAsk::default() };
    Meta {
        sender: worker_id(rank),
        customer_id: 0,
        timestamp: round,
        request: true,
        push: true,
        head: command_of(RequestKind::Default, Dtype::F32),
        payload: Payload::Ask(placed),
        ..Meta::default()
    }
}

fn frames(value: f32) -> Vec<Bytes> {
    let frames = [&KEY.to_ne_bytes()[..], &value.to_ne_bytes(), &4_i32.to_ne_bytes()];
    frames.map(Bytes::copy_from_slice).to_vec()
}

/// A server with the key, which knows the trees.
fn server() -> Store {
    let mut store = Store::new(StoreConfig { elastic: true, ..StoreConfig::alone(WORKERS) });
    store.held.set_sync(0).unwrap();
    store.overlay(&overlay(1, 0), &mut Outbound::default());
    let mut first = push(0, 0, None);
    first.payload = Payload::Ask(PartAsk::default());
    store.serve(first, &frames(0.0), &mut Outbound::default());
    store
}

fn serve(store: &mut Store, request: Meta, value: f32) -> Vec<Answer> {
    serve_all(store, request, value).answers
}

fn serve_all(store: &mut Store, request: Meta, value: f32) -> Outbound {
    let mut out = Outbound::default();
    store.serve(request, &frames(value), &mut out);
    store.validate().unwrap();
    out
}

/// What each answer says of the next round, and whether it is *again*.
fn told(answers: &[Answer]) -> Vec<(NodeId, Option<Ticket>, bool)> {
    let told = answers.iter().map(|answer| {
        let reply = answer.request.reply().unwrap();
        (answer.request.sender, reply.ticket.as_deref().copied(), reply.again)
    });
    told.collect()
}

/// All push alone; the ticket of the next round.
fn round_alone(store: &mut Store, round: i32) -> Option<Ticket> {
    let mut answers = Vec::new();
    for rank in 0..WORKERS {
        answers = serve(store, push(rank, round, None), 1.0);
    }
    let told = told(&answers);
    assert_eq!(told.len(), WORKERS);
    assert!(told.iter().all(|(_, ticket, again)| *ticket == told[0].1 && !again));
    told[0].1
}

/// The sum of these workers' pushes, sent by worker 0.
fn sum(ranks: &[usize], round: i32, ticket: Ticket) -> Meta {
    let names = ranks.iter().map(|rank| name_of(&push(*rank, round, None))).collect();
    let hop = Hop { kind: HopKind::Up.into(), ticket, names, key: KEY };
    let request = push(0, round, None);
    let placed = PartAsk { life: 0, after: 0, ..request.ask().cloned().unwrap() };
    Meta { payload: Payload::Up(placed, Box::new(hop)), timestamp: 0, ..request }
}

fn value(store: &Store) -> f32 {
    store.held.piece(AT).unwrap().value.buffer().elements::<f32>()[0]
}

fn question(rank: usize, round: i32) -> Meta {
    let mut request = push(rank, round, None);
    if let Some(placed) = request.ask_mut() {
        placed.asks = true;
    }
    request
}

/// The tickets that these messages say are void, and those in their place.
fn voids(downs: &[(Meta, KvPairs)]) -> Vec<(Ticket, Option<Ticket>)> {
    let void = downs.iter().filter_map(|(meta, _)| {
        let hop = meta.hop().filter(|hop| hop.kind() == HopKind::Void)?;
        let reply = meta.reply().filter(|reply| reply.again)?;
        assert_eq!(meta.customer_id, 0, "it is for the customer that pushes");
        Some((hop.ticket, reply.ticket.as_deref().copied()))
    });
    void.collect()
}

#[test]
fn a_round_gives_out_the_ticket_of_the_next_one() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    assert_eq!(ticket, Ticket { overlay: 1, tree: 0, round: 2 });
    let Outbound { answers, downs: down, .. } =
        serve_all(&mut store, sum(&[0, 1, 2], 2, ticket), 5.0);
    assert!(answers.is_empty());
    assert_eq!(value(&store), 5.0);
    assert_eq!(down.iter().map(|(meta, _)| meta.recver).collect::<Vec<_>>(), [9, 11, 13]);
    for (meta, kv) in &down {
        let hop = meta.hop().unwrap();
        assert_eq!((hop.kind(), hop.ticket, hop.names.len()), (HopKind::Down, ticket, 1));
        let next = meta.reply().unwrap().ticket.as_deref().unwrap();
        assert_eq!((next.overlay, next.round), (1, 3));
        assert_eq!(kv.vals[..], 5.0_f32.to_ne_bytes());
    }
}

#[test]
fn who_is_in_the_tree_and_comes_alone_is_told_the_ticket() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1);
    let answers = serve(&mut store, push(1, 2, None), 1.0);
    assert_eq!(told(&answers), [(worker_id(1), ticket, true)]);
    // One that knows it cannot come by it. Then nobody does.
    let down = serve_all(&mut store, push(1, 2, ticket), 1.0).downs;
    assert_eq!(voids(&down), [(ticket.unwrap(), None); WORKERS]);
    for rank in [0, 2] {
        serve(&mut store, push(rank, 2, None), 1.0);
    }
    assert_eq!((value(&store), store.held.piece(AT).unwrap().version), (3.0, 2));
}

#[test]
fn a_sum_by_another_ticket_is_told_to_be_void() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    for other in [Ticket { round: 3, ..ticket }, Ticket { round: 1, ..ticket }] {
        let down = serve_all(&mut store, sum(&[0, 1, 2], 2, other), 5.0).downs;
        assert_eq!(down.len(), WORKERS);
    }
    // No tree is known down which it could be told.
    let strange = sum(&[0, 1, 2], 2, Ticket { tree: 7, ..ticket });
    assert!(serve_all(&mut store, strange, 5.0).downs.is_empty());
    assert_eq!(store.held.piece(AT).unwrap().version, 1);
    serve(&mut store, sum(&[0, 1, 2], 2, ticket), 5.0);
    assert_eq!((value(&store), store.held.piece(AT).unwrap().version), (5.0, 2));
}

#[test]
fn a_question_is_answered_by_what_became_of_the_push() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    // Counted: the answer has the values.
    let answers = serve(&mut store, question(2, 1), 0.0);
    assert_eq!(told(&answers), [(worker_id(2), Some(ticket), false)]);
    assert_eq!(answers[0].kv.vals[..], 3.0_f32.to_ne_bytes());
    // Not here: it is to be pushed, by the ticket.
    let answers = serve(&mut store, question(1, 2), 0.0);
    assert_eq!(told(&answers), [(worker_id(1), Some(ticket), true)]);
    // In the open round: answered with that.
    serve(&mut store, sum(&[0, 1], 2, ticket), 2.0);
    assert!(serve(&mut store, question(1, 2), 0.0).is_empty());
    let answers = serve(&mut store, sum(&[2], 2, ticket), 1.0);
    assert_eq!(told(&answers).len(), 1);
    assert_eq!((answers[0].request.sender, value(&store)), (worker_id(1), 3.0));
    assert!(!answers[0].request.reply().unwrap().again);
}

#[test]
fn below_the_floor_a_round_that_has_begun_goes_on_alone() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    serve(&mut store, sum(&[0, 1], 2, ticket), 2.0);
    store.overlay(&overlay(2, 2), &mut Outbound::default());
    assert!(serve(&mut store, sum(&[2], 2, ticket), 1.0).is_empty());
    let answers = serve(&mut store, question(2, 2), 0.0);
    assert_eq!(told(&answers), [(worker_id(2), None, true)]);
    let answers = serve(&mut store, push(2, 2, None), 1.0);
    assert_eq!((answers.len(), value(&store)), (1, 3.0));
    // Nobody has pushed to the next one: it has another ticket in its place.
    let next = store.held.piece(AT).unwrap().ticket().unwrap();
    assert_eq!((next.overlay, next.round), (2, 3));
    store.overlay(&overlay(3, 3), &mut Outbound::default());
    let answers = serve(&mut store, question(0, 3), 0.0);
    assert_eq!(told(&answers), [(worker_id(0), Some(Ticket { overlay: 3, ..next }), true)]);
}

#[test]
fn new_trees_take_the_next_round_of_what_is_done() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    let next = Ticket { overlay: 2, ..ticket };
    let mut out = Outbound::default();
    store.overlay(&overlay(2, 0), &mut out);
    store.validate().unwrap();
    assert_eq!(voids(&out.downs), [(ticket, Some(next)); WORKERS]);
    // A sum that was under way is not taken. One by the new ticket is.
    let down = serve_all(&mut store, sum(&[0, 1, 2], 2, ticket), 5.0).downs;
    assert_eq!(voids(&down), [(ticket, None); WORKERS]);
    let down = serve_all(&mut store, sum(&[0, 1, 2], 2, next), 5.0).downs;
    assert_eq!((value(&store), voids(&down)), (5.0, vec![]));
}

#[test]
fn a_round_that_has_begun_goes_on_along_its_trees() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    serve(&mut store, sum(&[0, 1], 2, ticket), 2.0);
    let mut out = Outbound::default();
    store.overlay(&overlay(2, 0), &mut out);
    assert_eq!((out.downs.len(), out.answers.len()), (0, 0));
    serve(&mut store, sum(&[2], 2, ticket), 1.0);
    assert_eq!(value(&store), 3.0);
    let next = store.held.piece(AT).unwrap().ticket().unwrap();
    assert_eq!((next.overlay, next.round), (2, 3));
}

#[test]
fn a_ticket_stays_where_no_new_tree_is_of_those_who_pushed() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    let mut wider = overlay(2, 0);
    let node = TreeNode { node: worker_id(9), up: server_id(0), down: server_id(0) };
    wider.trees[0].nodes.push(node);
    for other in [wider, Overlay { trees: vec![], ..overlay(3, 0) }] {
        let mut out = Outbound::default();
        store.overlay(&other, &mut out);
        assert_eq!((out.downs.len(), store.held.piece(AT).unwrap().ticket()), (0, Some(ticket)));
    }
    serve(&mut store, sum(&[0, 1, 2], 2, ticket), 5.0);
    assert_eq!(value(&store), 5.0);
}

/// Another key is a round behind: its round may be under way.
#[test]
fn only_what_is_as_far_as_any_gets_new_tickets() {
    let mut store = server();
    let other = KEY + 1;
    let as_other = |frames: Vec<Bytes>| {
        let mut frames = frames;
        frames[0] = Bytes::copy_from_slice(&other.to_ne_bytes());
        frames
    };
    let mut first = push(0, 0, None);
    first.payload = Payload::Ask(PartAsk::default());
    store.serve(first, &as_other(frames(0.0)), &mut Outbound::default());
    for rank in 0..WORKERS {
        store.serve(push(rank, 1, None), &as_other(frames(1.0)), &mut Outbound::default());
    }
    let ticket = round_alone(&mut store, 1).unwrap();
    serve(&mut store, sum(&[0, 1, 2], 2, ticket), 3.0);
    let mut out = Outbound::default();
    store.overlay(&overlay(2, 0), &mut out);
    let key = |(meta, _): &(Meta, KvPairs)| meta.hop().unwrap().key;
    assert_eq!(out.downs.iter().map(key).collect::<Vec<_>>(), [KEY; WORKERS]);
    let behind = store.held.piece(At { key: other, index: 0 }).unwrap().ticket().unwrap();
    assert_eq!((behind.overlay, behind.round), (1, 2));
}

/// A worker takes leave after others have got their tickets, and before it has pushed.
#[test]
fn no_sum_waits_for_a_worker_that_has_left() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    let mut out = Outbound::default();
    store.customer_left(worker_id(2), 0, &mut out);
    assert_eq!(voids(&out.downs), [(ticket, None); WORKERS]);
    // The others push alone, so that it can be told for whom they wait, and by no new trees.
    for rank in [0, 1] {
        assert!(serve(&mut store, push(rank, 2, None), 1.0).is_empty());
    }
    store.overlay(&overlay(2, 0), &mut out);
    let answers = serve(&mut store, push(2, 2, None), 1.0);
    assert_eq!(told(&answers).iter().map(|(_, ticket, _)| *ticket).collect::<Vec<_>>(), [None; 3]);
}

#[test]
fn rounds_that_no_tree_can_carry_have_no_ticket() {
    // A worker that is in no tree.
    let mut store = server();
    let fewer = Overlay { trees: vec![], ..overlay(2, 0) };
    store.overlay(&fewer, &mut Outbound::default());
    assert_eq!(round_alone(&mut store, 1), None);
    // A tree with somebody who did not push.
    let mut wider = overlay(3, 0);
    let node = TreeNode { node: worker_id(9), up: server_id(0), down: server_id(0) };
    wider.trees[0].nodes.push(node);
    store.overlay(&wider, &mut Outbound::default());
    assert_eq!(round_alone(&mut store, 2), None);
    // Sums in the order of ranks.
    store.overlay(&overlay(4, 0), &mut Outbound::default());
    store.held.config.order = SumOrder::Ranks;
    assert_eq!(round_alone(&mut store, 3), None);
    store.held.config.order = SumOrder::Arrival;
    assert!(round_alone(&mut store, 4).is_some());
}

#[test]
fn trees_of_one_root_get_what_their_weights_say() {
    let mut store = server();
    let mut two = overlay(2, 0);
    two.trees.push(TreeTable { weight: 3, ..two.trees[0].clone() });
    store.overlay(&two, &mut Outbound::default());
    let trees = &mut store.known.trees;
    let mut given = [0, 0];
    for _ in 0..40 {
        given[trees.choose(4, |_| true).unwrap() as usize] += 1;
    }
    assert_eq!(given, [10, 30]);
    // Or the tree depends on the piece alone: the same in each round, and nearly by weights.
    let mut given = [0, 0];
    for piece in 0..400_u64 {
        let (key, from) = (piece / 20, piece % 20 * 16);
        let part = KeyPart { key, from, to: from + 16 };
        let of = |trees: &TreesHere| trees.choose_fixed(part, |_| true);
        let tree = of(trees).unwrap();
        trees.choose(4, |_| true);
        assert_eq!(of(trees), Some(tree));
        given[tree as usize] += 1;
    }
    assert!((90..=110).contains(&given[0]), "{given:?}");
}

/// An overlay that comes after a newer one changes nothing of what is given out.
#[test]
fn a_late_overlay_renews_no_ticket() {
    let mut store = server();
    let ticket = round_alone(&mut store, 1).unwrap();
    let mut out = Outbound::default();
    store.overlay(&overlay(4, 0), &mut out);
    let renewed = store.mover(&mut Outbound::default()).ticket(AT).unwrap();
    assert_eq!((ticket.overlay, renewed.overlay), (1, 4));
    let mut late = Outbound::default();
    store.overlay(&overlay(3, 0), &mut late);
    assert!(late.answers.is_empty());
    assert_eq!(store.mover(&mut Outbound::default()).ticket(AT), Some(renewed));
    store.validate().unwrap();
}
