//! What workers say step by step, at one server and at several.

use bytes::Bytes;
use prost::Message;

use super::*;
use crate::store::StoreConfig;
use crate::store::command::Head;
use crate::store::command::agreements::TEXT_MAX;
use crate::values::Dtype;
use crate::values::kind::{RequestKind, command_of};
use crate::values::server_key_ranges;
use crate::wire::elastic::{LiveWorker, PartAsk};
use crate::wire::server_id;
use crate::wire::transfer::Transfer;
use crate::wire::word::{Policy, RoutedPolicy};
use AgreeState::{Again, Agreed as Yes, Differs, Waits};

use crate::wire::agreement::Fact;

const A: NodeId = 9;
const B: NodeId = 11;
const C: NodeId = 13;

fn facts(said: &[(&str, &str)]) -> Vec<Fact> {
    let fact = |(subject, value): &(&str, &str)| Fact {
        subject: (*subject).to_owned(),
        value: (*value).to_owned(),
    };
    said.iter().map(fact).collect()
}

fn step(step: u64, said: &[(&str, &str)]) -> Agree {
    Agree { step, facts: facts(said), ..Agree::default() }
}

fn repeated(step: u64) -> Agree {
    Agree { step, repeated: true, ..Agree::default() }
}

fn back(said: &[(&str, &str)]) -> Agree {
    Agree { step: 1, facts: facts(said), back: true, ..Agree::default() }
}

fn request(from: NodeId, life: u64, said: &Agree) -> Meta {
    let payload = (life > 0).then(|| PartAsk { life, ..PartAsk::default() }).into();
    let (head, body) = (Head::Agree.number(), Bytes::from(said.encode_to_vec()));
    Meta { head, body, payload, sender: from, simple_app: true, request: true, ..Meta::default() }
}

/// What a server answers, and what it then tells others.
fn say_to(store: &mut Store, from: (NodeId, u64), said: &Agree) -> (AgreeState, String, Outbound) {
    let mut out = Outbound::default();
    let body = store.agree(&request(from.0, from.1, said), &mut out).unwrap();
    let answer = Agreed::decode(&body[..]).unwrap();
    assert_eq!(answer.makes_keys, from.1 > 0);
    (answer.state(), answer.text, out)
}

fn say(store: &mut Store, from: NodeId, said: &Agree) -> (AgreeState, String) {
    let (state, text, _) = say_to(store, (from, 0), said);
    (state, text)
}

fn server(workers: usize) -> Store {
    Store::new(StoreConfig::alone(workers))
}

const W: (&str, &str) = ("array 'w'", "float32 of shape (4,)");
const B1: (&str, &str) = ("array 'b'", "int8 of shape (2,)");

#[test]
fn all_say_the_same_in_any_order() {
    let mut store = server(3);
    let (state, text) = say(&mut store, A, &step(1, &[W, B1]));
    assert_eq!(state, Waits);
    assert!(text.contains("array 'b' (int8 of shape (2,))"), "{text}");
    assert!(text.ends_with("of worker 0 waits for worker 1, worker 2"), "{text}");
    assert_eq!(say(&mut store, B, &step(1, &[B1, W])).0, Waits);
    assert_eq!(say(&mut store, A, &repeated(1)).0, Waits);
    assert_eq!(say(&mut store, C, &step(1, &[W, B1])), (Yes, String::new()));
    assert_eq!(say(&mut store, A, &repeated(1)), (Yes, String::new()));
    // One may be in the next step before the others have heard of this one's end.
    assert_eq!(say(&mut store, A, &step(2, &[])).0, Waits);
    assert_eq!(say(&mut store, B, &repeated(1)).0, Yes);
}

#[test]
fn who_differs_is_named_and_all_hear_it() {
    let other = ("array 'w'", "float64 of shape (5,)");
    let cases: [(&[_], &str); 4] = [
        (&[other], "array 'w': worker 0 says float32 of shape (4,), and worker 1 says float64"),
        (&[B1], "worker 0 says array 'w' (float32 of shape (4,)), and worker 1 says array 'b'"),
        (&[], "worker 0 says array 'w' (float32 of shape (4,)), and worker 1 does not"),
        (&[W, B1], "worker 1 says array 'b' (int8 of shape (2,)), and worker 0 does not"),
    ];
    for (said, part) in cases {
        let mut store = server(2);
        assert_eq!(say(&mut store, A, &step(1, &[W])).0, Waits);
        let (state, text) = say(&mut store, B, &step(1, said));
        assert_eq!(state, Differs);
        assert!(text.contains(part), "{text}");
        assert!(text.contains("all workers must make the same arrays"), "{text}");
        assert_eq!(say(&mut store, A, &repeated(1)), (Differs, text));
    }
}

#[test]
fn what_all_have_said_stays_so() {
    let mut store = server(2);
    for worker in [A, B] {
        say(&mut store, worker, &step(1, &[W]));
    }
    let (state, text) = say(&mut store, B, &step(2, &[("array 'w'", "int8 of shape (4,)")]));
    assert_eq!(state, Differs);
    assert!(text.contains("worker 0 says float32 of shape (4,), and worker 1 says int8"), "{text}");
}

#[test]
fn customers_are_apart() {
    let mut store = server(2);
    say(&mut store, A, &step(1, &[W]));
    let mut other = request(B, 0, &step(1, &[B1]));
    other.customer_id = 1;
    let body = store.agree(&other, &mut Outbound::default()).unwrap();
    assert_eq!(Agreed::decode(&body[..]).unwrap().state(), Waits);
}

#[test]
fn who_closed_its_store_makes_nothing_more() {
    let mut store = server(2);
    say(&mut store, B, &Agree { closes: true, ..Agree::default() });
    let (state, text) = say(&mut store, A, &step(1, &[W]));
    assert_eq!(state, Differs);
    assert!(text.contains("and worker 1 has closed its store"), "{text}");
}

#[test]
fn a_server_that_was_not_told_asks_for_all() {
    let mut store = server(2);
    assert_eq!(say(&mut store, A, &repeated(3)).0, Again);
    assert_eq!(say(&mut store, A, &step(3, &[W])).0, Waits);
    // The other one was told by another server that this step is passed.
    assert_eq!(say(&mut store, B, &step(4, &[])).0, Waits);
    assert_eq!(say(&mut store, A, &repeated(3)).0, Yes);
    assert_eq!(say(&mut store, A, &step(4, &[])).0, Yes);
    let other = ("array 'w'", "int8 of shape (4,)");
    assert_eq!(say(&mut store, A, &step(5, &[other])).0, Differs, "it is known all the same");
}

#[test]
fn one_that_is_replaced_says_what_the_others_have_said() {
    let mut store = server(2);
    for worker in [A, B] {
        say(&mut store, worker, &step(1, &[W]));
    }
    say(&mut store, A, &step(2, &[B1]));
    store.forget_node(B);
    assert_eq!(say(&mut store, B, &back(&[W])).0, Yes);
    let (state, text) = say(&mut store, B, &back(&[("array 'w'", "int8 of shape (4,)")]));
    assert!(state == Differs && text.contains("worker 1 says int8"), "{text}");
    let (state, text) = say(&mut store, B, &back(&[B1]));
    assert!(state == Waits && text.contains("array 'b' of worker 1, which came back"), "{text}");
    assert_eq!(say(&mut store, A, &repeated(2)).0, Yes, "the one that is left waits for nobody");
    assert_eq!(say(&mut store, B, &back(&[B1])).0, Yes);
    // Nobody of the beginning is left: the rest may make something new.
    store.forget_node(A);
    assert_eq!(say(&mut store, A, &back(&[W, B1])).0, Yes);
    let asks = Agree { step: 0, ..back(&[("array 'c'", "int8")]) };
    assert_eq!(say(&mut store, A, &asks).0, Waits, "asking makes nothing");
    assert_eq!(say(&mut store, A, &back(&[("array 'c'", "int8")])).0, Yes);
    assert_eq!(say(&mut store, B, &back(&[("array 'c'", "int8")])).0, Yes);
}

#[test]
fn what_the_dead_said_is_forgotten() {
    let mut store = server(2);
    say(&mut store, B, &step(1, &[B1]));
    assert_eq!(say(&mut store, A, &step(1, &[W])).0, Differs);
    store.forget_node(B);
    assert_eq!(say(&mut store, A, &repeated(1)).0, Again);
    assert_eq!(say(&mut store, A, &step(1, &[W])).0, Waits);
    assert_eq!(say(&mut store, B, &back(&[W])).0, Waits);
    assert_eq!(say(&mut store, A, &repeated(1)).0, Yes);
    assert_eq!(say(&mut store, B, &back(&[W])).0, Yes);
}

fn push(from: NodeId, timestamp: i32) -> (Meta, Vec<Bytes>) {
    let key = server_key_ranges(1)[0].begin + 7;
    let frames = vec![
        Bytes::copy_from_slice(&key.to_ne_bytes()),
        Bytes::copy_from_slice(&[0_u8; 4]),
        Bytes::copy_from_slice(&4_i32.to_ne_bytes()),
    ];
    let head = command_of(RequestKind::Default, Dtype::F32);
    (Meta { head, sender: from, timestamp, push: true, request: true, ..Meta::default() }, frames)
}

#[test]
fn one_that_waits_for_a_round_and_one_that_waits_for_it_are_told() {
    let mut store = server(2);
    store.held.set_sync(SHARED).unwrap();
    let send = |store: &mut Store, from, timestamp| {
        let (meta, frames) = push(from, timestamp);
        store.request(meta, &frames, &mut Vec::new());
    };
    send(&mut store, A, 0);
    for worker in [A, B] {
        say(&mut store, worker, &step(1, &[W]));
    }
    let stands = Agree { step: 1, stands: true, ..Agree::default() };
    send(&mut store, B, 1);
    assert_eq!(say(&mut store, B, &stands).0, Yes, "the other one may be slow");
    assert_eq!(say(&mut store, A, &step(2, &[B1])).0, Waits);
    let (state, text) = say(&mut store, B, &stands);
    assert_eq!(state, Differs);
    assert!(
        text.contains("worker 0 says array 'b' (int8 of shape (2,)), and worker 1 does not: "),
        "{text}"
    );
    assert!(text.contains("it waits for a round of key 7"), "{text}");
    assert_eq!(say(&mut store, A, &repeated(2)), (Differs, text));
}

#[test]
fn one_that_waits_for_a_round_without_the_other_in_it_is_no_circle() {
    let mut store = server(2);
    store.held.set_sync(SHARED).unwrap();
    for worker in [A, B] {
        say(&mut store, worker, &step(1, &[W]));
    }
    assert_eq!(say(&mut store, A, &step(2, &[B1])).0, Waits);
    let stands = Agree { step: 1, stands: true, ..Agree::default() };
    assert_eq!(say(&mut store, B, &stands).0, Yes, "its answer is on the way");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let mut store = server(1);
    let long = "x".repeat(TEXT_MAX + 1);
    for body in [vec![255], step(1, &[(&long, "")]).encode_to_vec()] {
        let meta = Meta { body: body.into(), ..request(A, 0, &Agree::default()) };
        let refused = store.agree(&meta, &mut Outbound::default()).unwrap_err();
        assert!(matches!(refused, StoreError::Malformed(_)));
    }
}

// ---- jobs whose pieces move ---------------------------------------------------------------------

fn elastic(id: NodeId) -> Store {
    Store::new(StoreConfig { servers: 2, elastic: true, id, ..StoreConfig::alone(2) })
}

fn policy(store: &mut Store, epoch: u64, servers: &[NodeId], live: &[(NodeId, u64)]) {
    let live = live.iter().map(|(node, since)| LiveWorker {
        node: *node,
        since: *since,
        customers: vec![0],
        incarnation: u64::from(node.unsigned_abs()),
    });
    let word = RoutedPolicy {
        policy: Policy {
            epoch,
            servers: servers.to_vec(),
            homes: vec![8, 10],
            live: live.collect(),
            ..Policy::default()
        },
        ..RoutedPolicy::default()
    };
    store.policy(&word, &mut Outbound::default());
}

/// Workers die, come back and leave: steps wait for those of the beginning that are left.
#[test]
fn steps_go_on_without_the_dead_and_those_who_left() {
    let mut store = elastic(server_id(0));
    policy(&mut store, 1, &[8, 10], &[(A, 0), (B, 0)]);
    assert_eq!(say(&mut store, A, &step(1, &[W])).0, Waits);
    policy(&mut store, 2, &[8, 10], &[(A, 0)]);
    assert_eq!(say(&mut store, A, &repeated(1)).0, Yes);
    policy(&mut store, 3, &[8, 10], &[(A, 0), (B, 3)]);
    let come_back = |store: &mut Store, said: &Agree| say_to(store, (B, 3), said).0;
    assert_eq!(come_back(&mut store, &back(&[W])), Yes);
    assert_eq!(come_back(&mut store, &back(&[B1])), Waits);
    assert_eq!(say(&mut store, B, &step(2, &[B1])).0, Waits, "the former process says nothing");
    assert_eq!(say(&mut store, A, &step(2, &[])).0, Yes, "it does not wait for the one behind");
    store.customer_left(A, 0, &mut Outbound::default());
    assert_eq!(come_back(&mut store, &back(&[B1])), Yes, "nobody else is left");
}

/// Without the values of rank 0 the first push of another worker would become the value.
#[test]
fn what_is_made_waits_for_the_values_of_rank_0() {
    let mut store = elastic(server_id(0));
    let makes = |step: Agree| Agree { makes: true, ..step };
    policy(&mut store, 1, &[8, 10], &[(A, 0), (B, 0)]);
    assert_eq!(say(&mut store, B, &makes(step(1, &[W, B1]))).0, Waits);
    policy(&mut store, 2, &[8, 10], &[(B, 0)]);
    let (state, text) = say(&mut store, B, &repeated(1));
    assert!(state == Waits && text.ends_with("waits for worker 0"), "{text}");
    policy(&mut store, 3, &[8, 10], &[(A, 3), (B, 0)]);
    let come_back = |store: &mut Store, said: &Agree| say_to(store, (A, 3), said).0;
    // It asks what there is before it sends values, and has sent one, and then both.
    assert_eq!(come_back(&mut store, &back(&[W])), Waits);
    assert_eq!(come_back(&mut store, &makes(back(&[W]))), Waits);
    assert_eq!(say(&mut store, B, &repeated(1)).0, Waits);
    assert_eq!(come_back(&mut store, &makes(back(&[W, B1]))), Waits);
    assert_eq!(say(&mut store, B, &repeated(1)).0, Yes);
    assert_eq!(come_back(&mut store, &makes(back(&[W, B1]))), Yes);
    // What makes nothing does not wait for it.
    policy(&mut store, 4, &[8, 10], &[(B, 0)]);
    assert_eq!(say(&mut store, B, &step(2, &[("lr", "0.1")])).0, Yes);
    assert_eq!(say(&mut store, B, &makes(step(3, &[("array 'c'", "int8")]))).0, Waits);
}

/// A server that joined is told of facts, so that it knows them when the others have left.
#[test]
fn servers_that_joined_are_told() {
    let (mut first, mut joined) = (elastic(server_id(0)), elastic(server_id(2)));
    for store in [&mut first, &mut joined] {
        policy(store, 2, &[8, 10, 12], &[(A, 0), (B, 0)]);
    }
    say(&mut first, A, &step(1, &[W]));
    let (state, _, out) = say_to(&mut first, (B, 0), &step(1, &[W]));
    assert_eq!(state, Yes);
    let [told] = &out.transfers[..] else { panic!("{:?}", out.transfers) };
    assert!(told.to == 12 && matches!(told.transfer, Transfer::CommandsEnd(_)), "{told:?}");
    joined.transfer(8, &told.transfer, &[], &mut Outbound::default()).unwrap();
    policy(&mut joined, 3, &[12], &[(A, 0), (B, 3)]);
    assert_eq!(say_to(&mut joined, (B, 3), &back(&[W])).0, Yes);
    let (state, text, _) = say_to(&mut joined, (B, 3), &back(&[("array 'w'", "int8")]));
    assert!(state == Differs && text.contains("another worker says float32"), "{text}");
    // What was told is not told again.
    say(&mut first, A, &step(2, &[B1]));
    let (_, _, out) = say_to(&mut first, (B, 0), &step(2, &[B1]));
    let told = &out.transfers[0].transfer;
    let Transfer::CommandsEnd(end) = told else { panic!("{told:?}") };
    let [agreed] = &end.agreed[..] else { panic!("{end:?}") };
    assert_eq!(agreed.facts, facts(&[B1]));
}
