//! A worker and what owners tell it, without anything between them.

use bytes::Bytes;

use super::*;
use crate::kv::flights::{Answered, Outgoing, PartAnswer};
use crate::values::KvPairs;
use crate::wire::Meta;
use crate::wire::elastic::{PartReply, Route};
use crate::wire::trees::{Overlay, TreeNode, TreeTable};

const A: NodeId = 8;
const B: NodeId = 10;
const KEY: Key = 7;
const NOW: Duration = Duration::from_secs(1);
/// As many elements of a byte.
const LENGTH: u64 = 3 * ASKS_FROM;

/// Trees over both workers, whose roots are these.
fn overlay(number: u64, roots: &[NodeId]) -> Arc<Trees> {
    let tree = |root: &NodeId| {
        let node = |rank| TreeNode { node: worker_id(rank), up: *root, down: *root };
        TreeTable { root: *root, weight: 1, nodes: vec![node(0), node(1)] }
    };
    let trees = roots.iter().map(tree).collect();
    let mut known = Trees::default();
    assert!(known.learn(&Overlay { number, floor: 0, trees }));
    Arc::new(known)
}

/// Those of worker 1, which knows trees to `A`.
fn flights() -> Flights {
    let mut flights = Flights::new(vec![A, B]);
    flights.set_trees(NOW, worker_id(1), overlay(1, &[A]));
    flights
}

fn push(flights: &mut Flights, timestamp: i32, bytes: u64) -> Vec<Outgoing> {
    let keys = Bytes::copy_from_slice(&KEY.to_ne_bytes());
    let vals = Bytes::from(vec![1; bytes as usize]);
    let lens = Bytes::copy_from_slice(&(bytes as i32).to_ne_bytes());
    let meta = Meta { timestamp, push: true, request: true, ..Meta::default() };
    let (kv, form) = (KvPairs { keys, vals, lens }, Form::Dense { size: 1 });
    let mut out = Vec::new();
    flights.begin(NOW, Slice { meta, rank: 0, key: KEY, form, kv }, &mut out).unwrap();
    flights.validate().unwrap();
    out
}

/// What is sent after an answer to a message.
fn answer(flights: &mut Flights, to: &Outgoing, told: PartReply) -> (Answered, Vec<Outgoing>) {
    let PartReply { again, ticket, tickets, routes, overlay, .. } = told;
    let asked = to.meta.answered().unwrap();
    let reply = PartReply { again, ticket, tickets, routes, overlay, ..asked };
    let answer = PartAnswer {
        timestamp: to.meta.timestamp,
        from: to.meta.recver,
        reply: Some(&reply),
        pairs: KvPairs::default(),
        refused: false,
    };
    let mut out = Vec::new();
    let answered = flights.answered(NOW, answer, &mut out).unwrap();
    flights.validate().unwrap();
    (answered, out)
}

/// To whom, whether it asks, bytes of values, and the ticket.
fn sent(out: &[Outgoing]) -> Vec<(NodeId, bool, usize, Option<Ticket>)> {
    let told = |message: &Outgoing| {
        let ask = message.meta.ask().unwrap();
        let ticket = ask.ticket.as_deref().copied();
        (message.meta.recver, ask.asks, message.kv.vals.len(), ticket)
    };
    out.iter().map(told).collect()
}

fn ticket(round: u64) -> Ticket {
    Ticket { overlay: 1, tree: 0, round }
}

fn route(from: u64, to: u64, term: u64, owner: NodeId) -> Route {
    Route { from, to, term, owner }
}

fn again() -> PartReply {
    PartReply { again: true, overlay: 1, ..PartReply::default() }
}

#[test]
fn a_first_push_asks_and_its_parts_go_along_trees() {
    let mut flights = flights();
    let question = push(&mut flights, 0, LENGTH);
    assert_eq!(sent(&question), [(A, true, 0, None)]);
    let half = LENGTH / 2;
    let told = |from, to, ticket| PartTicket { from, to, ticket };
    let tickets = vec![
        told(0, half, Some(ticket(1))),
        told(half, LENGTH, None),
        // What an owner cannot say of this push.
        told(LENGTH, LENGTH, Some(ticket(2))),
        told(half, 0, Some(ticket(2))),
    ];
    let routes = vec![route(0, half, 2, A), route(half, LENGTH, 2, A)];
    let (answered, out) =
        answer(&mut flights, &question[0], PartReply { tickets, routes, ..again() });
    assert_eq!(answered, Answered::Open);
    let me = worker_id(1);
    let bytes = half as usize;
    assert_eq!(sent(&out), [(me, false, bytes, Some(ticket(1))), (A, false, bytes, None)]);
    // With the end of the round both are told.
    for part in &out {
        let next = Some(Box::new(ticket(2)));
        answer(&mut flights, part, PartReply { ticket: next, overlay: 1, ..PartReply::default() });
    }
    let next = push(&mut flights, 1, LENGTH);
    assert_eq!(sent(&next), [(me, false, bytes, Some(ticket(2))); 2]);
}

/// A compressed push goes along the tree too, though it has few bytes: values come down there.
#[test]
fn a_compressed_push_has_a_ticket() {
    let mut flights = flights();
    let elements = LENGTH / 4;
    let compressed = |flights: &mut Flights, timestamp: i32| {
        let words = (elements / 16 * 4) as usize;
        let kv = KvPairs {
            keys: Bytes::copy_from_slice(bytemuck::cast_slice(&[elements, KEY])),
            vals: Bytes::from(vec![1; words]),
            lens: Bytes::copy_from_slice(bytemuck::cast_slice(&[0, words as i32])),
        };
        let meta = Meta { timestamp, push: true, request: true, ..Meta::default() };
        let form = Form::TwoBit { first: 0 };
        let mut out = Vec::new();
        flights.begin(NOW, Slice { meta, rank: 0, key: KEY, form, kv }, &mut out).unwrap();
        out
    };
    let question = compressed(&mut flights, 0);
    assert_eq!(sent(&question), [(A, true, 0, None)]);
    let whole = vec![route(0, elements, 2, A)];
    let told = PartReply { ticket: Some(Box::new(ticket(1))), routes: whole, ..again() };
    let (_, out) = answer(&mut flights, &question[0], told);
    let words = (elements / 4) as usize;
    assert_eq!(sent(&out), [(worker_id(1), false, words, Some(ticket(1)))]);
}

#[test]
fn who_is_told_of_no_ticket_pushes_alone_until_there_are_other_trees() {
    let mut flights = flights();
    let question = push(&mut flights, 0, LENGTH);
    let whole = vec![route(0, LENGTH, 1, A)];
    let (_, alone) = answer(&mut flights, &question[0], PartReply { routes: whole, ..again() });
    let values = (A, false, LENGTH as usize, None);
    assert_eq!(sent(&alone), [values]);
    answer(&mut flights, &alone[0], PartReply { overlay: 1, ..PartReply::default() });
    let alone = push(&mut flights, 1, LENGTH);
    assert_eq!(sent(&alone), [values]);
    // Newer trees while it is under way, of which its owner knows too.
    flights.set_trees(NOW, worker_id(1), overlay(2, &[A]));
    answer(&mut flights, &alone[0], PartReply { overlay: 2, ..PartReply::default() });
    let alone = push(&mut flights, 2, LENGTH);
    assert_eq!(sent(&alone), [values]);
    flights.set_trees(NOW, worker_id(1), overlay(3, &[A]));
    answer(&mut flights, &alone[0], PartReply { overlay: 2, ..PartReply::default() });
    assert_eq!(sent(&push(&mut flights, 3, LENGTH)), [(A, true, 0, None)]);
}

#[test]
fn another_owner_is_asked_too_and_nobody_twice() {
    let mut flights = flights();
    flights.set_trees(NOW, worker_id(1), overlay(2, &[A, B]));
    let question = push(&mut flights, 0, LENGTH);
    let moved = vec![route(0, LENGTH, 2, B)];
    let (_, question) = answer(&mut flights, &question[0], PartReply { routes: moved, ..again() });
    assert_eq!(sent(&question), [(B, true, 0, None)]);
    // It says nothing at all, and is not asked in a circle.
    let (_, alone) = answer(&mut flights, &question[0], again());
    assert_eq!(sent(&alone), [(B, false, LENGTH as usize, None)]);
}

#[test]
fn a_push_whose_ticket_is_void_goes_alone_at_once() {
    let mut flights = flights();
    let question = push(&mut flights, 0, LENGTH);
    let (routes, by) = (vec![route(0, LENGTH, 1, A)], Some(Box::new(ticket(1))));
    let told = PartReply { routes, ticket: by, ..again() };
    let (_, by_tree) = answer(&mut flights, &question[0], told);
    let bytes = LENGTH as usize;
    assert_eq!(sent(&by_tree), [(worker_id(1), false, bytes, Some(ticket(1)))]);
    let part = KeyPart { key: KEY, from: 0, to: LENGTH };
    flights.void_ticket(part, Void::of(ticket(1)));
    let (_, alone) = answer(&mut flights, &by_tree[0], again());
    assert_eq!(sent(&alone), [(A, false, bytes, None)]);
}

#[test]
fn who_is_told_of_trees_before_they_come_waits_for_them() {
    let mut flights = Flights::new(vec![A]);
    let alone = push(&mut flights, 0, LENGTH);
    assert_eq!(sent(&alone), [(A, false, LENGTH as usize, None)]);
    let (routes, by) = (vec![route(0, LENGTH, 1, A)], Some(Box::new(ticket(1))));
    let told = PartReply { routes, ticket: by, ..again() };
    let (answered, out) = answer(&mut flights, &alone[0], told);
    assert_eq!((answered, out), (Answered::Open, Vec::new()));
    flights.set_trees(NOW, worker_id(1), overlay(1, &[A]));
    let mut out = Vec::new();
    flights.retry(NOW, &mut out).unwrap();
    assert_eq!(sent(&out), [(worker_id(1), false, LENGTH as usize, Some(ticket(1)))]);
}

#[test]
fn what_is_said_late_takes_no_newer_ticket_away() {
    let mut flights = flights();
    let first = push(&mut flights, 0, LENGTH);
    let second = push(&mut flights, 1, LENGTH);
    assert_eq!(sent(&second), [(A, true, 0, None)]);
    let (routes, by) = (vec![route(0, LENGTH, 1, A)], Some(Box::new(ticket(1))));
    let told = PartReply { routes, ticket: by, ..again() };
    let (_, by_tree) = answer(&mut flights, &first[0], told.clone());
    let next = Some(Box::new(ticket(2)));
    answer(
        &mut flights,
        &by_tree[0],
        PartReply { ticket: next, overlay: 1, ..PartReply::default() },
    );
    // Said before that round was over.
    let (_, by_tree) = answer(&mut flights, &second[0], told);
    assert_eq!(sent(&by_tree), [(worker_id(1), false, LENGTH as usize, Some(ticket(2)))]);
}

#[test]
fn some_pushes_ask_nobody() {
    // Little values, and a server to which no tree leads.
    let mut flights = flights();
    assert_eq!(sent(&push(&mut flights, 0, 8)), [(A, false, 8, None)]);
    let values = LENGTH as usize;
    flights.set_trees(NOW, worker_id(1), overlay(2, &[B]));
    assert_eq!(sent(&push(&mut flights, 1, LENGTH)), [(A, false, values, None)]);
    // A worker in no tree.
    let mut flights = Flights::new(vec![A]);
    flights.set_trees(NOW, worker_id(2), overlay(1, &[A]));
    assert_eq!(sent(&push(&mut flights, 0, LENGTH)), [(A, false, values, None)]);
    // The one that makes keys.
    let mut flights = Flights::new(vec![A]);
    flights.set_trees(NOW, worker_id(0), overlay(1, &[A]));
    let made = push(&mut flights, 0, LENGTH);
    assert_eq!(sent(&made), [(A, false, values, None)]);
    let routes = vec![route(0, LENGTH, 1, A)];
    answer(&mut flights, &made[0], PartReply { routes, ..PartReply::default() });
    assert_eq!(sent(&push(&mut flights, 1, LENGTH)), [(A, true, 0, None)]);
}

#[test]
fn who_asked_and_does_not_fit_is_refused_by_the_owner() {
    let mut flights = flights();
    let question = push(&mut flights, 0, LENGTH);
    let told = PartReply { routes: vec![route(0, LENGTH - 1, 1, A)], ..again() };
    let (_, whole) = answer(&mut flights, &question[0], told);
    assert_eq!(sent(&whole), [(A, false, LENGTH as usize, None)]);
}

#[test]
fn a_push_uses_the_ticket_in_the_place_of_one_that_is_void() {
    let new = |round| Ticket { overlay: 2, ..ticket(round) };
    let void = |round| Void { ticket: ticket(round), next: Some(new(round)) };
    let part = KeyPart { key: KEY, from: 0, to: LENGTH };
    let (me, bytes) = (worker_id(1), LENGTH as usize);
    let mut flights = flights();
    let question = push(&mut flights, 0, LENGTH);
    let (routes, by) = (vec![route(0, LENGTH, 1, A)], Some(Box::new(ticket(1))));
    let (_, by_tree) =
        answer(&mut flights, &question[0], PartReply { routes, ticket: by, ..again() });
    flights.set_trees(NOW, me, overlay(2, &[A]));
    // One that is under way is sent again.
    flights.void_ticket(part, void(1));
    let (_, by_new) =
        answer(&mut flights, &by_tree[0], PartReply { ticket: Some(Box::new(new(1))), ..again() });
    assert_eq!(sent(&by_new), [(me, false, bytes, Some(new(1)))]);
    // What is void is told later, by the answer of the round before.
    flights.void_ticket(part, void(2));
    let next = Some(Box::new(ticket(2)));
    answer(
        &mut flights,
        &by_new[0],
        PartReply { ticket: next, overlay: 2, ..PartReply::default() },
    );
    let by_new = push(&mut flights, 1, LENGTH);
    assert_eq!(sent(&by_new), [(me, false, bytes, Some(new(2)))]);
    // It was told before.
    let next = Some(Box::new(ticket(3)));
    answer(
        &mut flights,
        &by_new[0],
        PartReply { ticket: next, overlay: 2, ..PartReply::default() },
    );
    flights.void_ticket(part, void(3));
    // And is heard twice, or late.
    flights.void_ticket(part, Void::of(ticket(3)));
    flights.void_ticket(part, void(1));
    let by_new = push(&mut flights, 2, LENGTH);
    assert_eq!(sent(&by_new), [(me, false, bytes, Some(new(3)))]);
    // The one in its place is void, too, of which it hears first.
    let next = Some(Box::new(ticket(4)));
    answer(
        &mut flights,
        &by_new[0],
        PartReply { ticket: next, overlay: 2, ..PartReply::default() },
    );
    flights.void_ticket(part, Void::of(new(4)));
    flights.void_ticket(part, void(4));
    assert_eq!(sent(&push(&mut flights, 3, LENGTH)), [(A, true, 0, None)]);
}
