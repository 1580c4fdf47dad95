//! Opaque keys: one server at a time here, several with workers and an application in `play`.

mod play;
mod promises;

use std::time::Duration;

use bytes::Bytes;

use super::first_pushes::FirstPushes;
use super::*;
use crate::store::{Answer, Outgoing, StoreError};
use crate::wire::elastic::{Holding, KeyRoute, OPAQUE_END, Order, PartAsk};
use crate::wire::transfer::{FirstPush, Transfer, TransferKind};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{FlatTransfer, Payload};

const NOW: Duration = Duration::ZERO;
const KEY: Key = 7;
const TERM: u64 = (1 << 32) + 1;

fn server(id: NodeId, stateless: bool) -> Opaque {
    let forgets = !stateless;
    let mut server = Opaque::new(OpaqueConfig { id, app_id: 0, servers: 2, stateless, forgets });
    server.policy(NOW, &policy(1), &mut Vec::new());
    server
}

fn policy(epoch: u64) -> RoutedPolicy {
    at_homes(epoch, [8, 10], Vec::new())
}

fn at_homes(epoch: u64, homes: [NodeId; 2], routes: Vec<KeyRoute>) -> RoutedPolicy {
    let (servers, homes) = (vec![8, 10], homes.to_vec());
    RoutedPolicy { policy: Policy { epoch, servers, homes, ..Policy::default() }, routes }
}

fn key_bytes(key: Key) -> Bytes {
    Bytes::copy_from_slice(&key.to_ne_bytes())
}

fn request(worker: NodeId, timestamp: i32, push: bool, pull: bool) -> Meta {
    let payload = Payload::Ask(PartAsk { epoch: 1, ..PartAsk::default() });
    Meta { sender: worker, timestamp, push, pull, request: true, payload, ..Meta::default() }
}

fn push(worker: NodeId, timestamp: i32) -> Meta {
    request(worker, timestamp, true, false)
}

fn placed(meta: Meta, change: impl FnOnce(&mut PartAsk)) -> Meta {
    let mut placed = meta.ask().cloned().unwrap_or_default();
    change(&mut placed);
    Meta { payload: Payload::Ask(placed), ..meta }
}

fn serve(server: &mut Opaque, now: Duration, request: Meta) -> Vec<Step> {
    let mut frames = vec![key_bytes(KEY)];
    if request.push {
        frames.push(Bytes::from(vec![request.sender as u8; 16]));
    }
    let mut steps = Vec::new();
    server.serve(now, request, &frames, &mut steps);
    steps
}

/// The number under which the application knows the one request that it was given.
fn given(steps: &[Step]) -> i32 {
    match steps {
        [Step::Give(meta, _)] => meta.timestamp,
        other => panic!("not given to the application: {other:?}"),
    }
}

/// Serves a request, which the application answers at once, and the answer arrives.
fn answered(server: &mut Opaque, request: Meta) -> AnswerOutcome {
    let number = given(&serve(server, NOW, request));
    let answered = server.answered(number, 0).unwrap();
    let due = answered.fetch.is_some_and(|fetch| server.fetched(fetch));
    AnswerOutcome { due: answered.due || due, ..answered }
}

fn again(steps: &[Step]) -> Vec<Route> {
    match steps {
        [Step::Answer(Answer { request, .. })] => {
            let reply = request.reply().unwrap();
            assert!(reply.again && request.error.is_empty(), "{request:?}");
            reply.routes.clone()
        }
        other => panic!("not answered again: {other:?}"),
    }
}

fn order(server: &mut Opaque, now: Duration, to: NodeId) -> Vec<Step> {
    let mut steps = Vec::new();
    let order = Order { key: KEY, from: 0, to: OPAQUE_END, owner: to };
    server.orders(now, &[order], &mut steps);
    steps
}

fn advance(server: &mut Opaque, now: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    server.advance(now, &mut steps);
    steps
}

fn export(server: &mut Opaque, state: Result<Bytes, String>) -> Vec<Step> {
    let mut steps = Vec::new();
    server.exported(NOW, KEY, state, &mut steps);
    steps
}

fn import(server: &mut Opaque, taken: Result<(), String>) -> Vec<Step> {
    let mut steps = Vec::new();
    server.imported(NOW, KEY, taken, &mut steps);
    steps
}

fn sent(steps: &[Step]) -> Outgoing {
    let transfers: Vec<&Outgoing> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Transfer(outgoing) => Some(outgoing),
            _ => None,
        })
        .collect();
    assert_eq!(transfers.len(), 1, "{steps:?}");
    transfers[0].clone()
}

fn first_pushes(sent: &Outgoing) -> usize {
    let Transfer::MoveOpaque(opaque) = &sent.transfer else { panic!("{sent:?}") };
    opaque.first_pushes.len()
}

fn take(server: &mut Opaque, from: NodeId, sent: &Outgoing) -> Vec<Step> {
    let mut steps = Vec::new();
    server.transfer(NOW, from, &sent.transfer, &sent.frames, &mut steps).unwrap();
    steps
}

fn held_as(server: &Opaque) -> Vec<(Holding, u64)> {
    let claims = server.claims();
    claims.iter().map(|claim| (Holding::try_from(claim.holding).unwrap(), claim.term)).collect()
}

/// A key at server 8 that both workers have pushed to once, and its way to server 10.
fn moved(old: &mut Opaque, new: &mut Opaque) -> Vec<Step> {
    for worker in [9, 11] {
        answered(old, push(worker, 1));
    }
    order(old, NOW, 10);
    let left = sent(&export(old, Ok(Bytes::from_static(b"state"))));
    take(new, 8, &left)
}

#[test]
fn a_key_leaves_when_the_application_has_answered_all_and_not_before() {
    let (mut old, mut new) = (server(8, false), server(10, false));
    answered(&mut old, push(9, 1));
    answered(&mut old, push(11, 1));
    let open = given(&serve(&mut old, NOW, push(9, 2)));
    assert!(order(&mut old, NOW, 10).is_empty(), "a push is not answered");
    // It may be that the application answers that push only when the others have pushed too.
    let other = given(&serve(&mut old, NOW, push(11, 2)));
    assert!(serve(&mut old, NOW, push(9, 3)).is_empty(), "that one waits for nobody");
    assert!(!old.answered(open, 0).unwrap().due);
    assert!(old.answered(other, 0).unwrap().due);
    assert!(matches!(advance(&mut old, NOW)[..], [Step::Export(KEY)]));
    assert!(serve(&mut old, NOW, push(11, 3)).is_empty());

    let steps = export(&mut old, Ok(Bytes::from_static(b"state")));
    let left = sent(&steps);
    let route = Route { from: 0, to: OPAQUE_END, term: TERM + 1, owner: 10 };
    for answer in &steps[1..] {
        assert_eq!(again(std::slice::from_ref(answer)), [route]);
    }
    assert_eq!((steps.len(), left.to), (3, 10), "what came meanwhile goes there");
    assert_eq!(again(&serve(&mut old, NOW, push(9, 3))), [route]);
    assert_eq!(held_as(&old), [(Holding::Leaving, TERM)]);

    let steps = take(&mut new, 8, &left);
    assert!(matches!(&steps[..], [Step::Import(KEY, state)] if state[..] == b"state"[..]));
    let early = placed(push(9, 3), |placed| (placed.term, placed.after) = (TERM + 1, 3));
    assert!(serve(&mut new, NOW, early).is_empty(), "it is not there yet");
    let steps = import(&mut new, Ok(()));
    let told = sent(&steps[..1]);
    given(&steps[1..]);
    assert_eq!(held_as(&new), [(Holding::Owner, TERM + 1)]);
    assert!(matches!(take(&mut old, 10, &told)[..], [Step::Forget(KEY)]));
    assert_eq!(held_as(&old), []);
    assert!(take(&mut old, 10, &told).is_empty(), "said twice");
}

#[test]
fn answers_say_where_the_key_is_and_go_back_as_they_were_asked() {
    let mut server = server(8, false);
    let first = answered(&mut server, placed(push(9, 5), |placed| placed.slice = 1));
    let request = first.request.unwrap();
    let back = request.reply().cloned().unwrap();
    assert_eq!((request.timestamp, request.sender, back.slice), (5, 9, 1));
    let own = Route { from: 0, to: OPAQUE_END, term: TERM, owner: 8 };
    assert_eq!((back.routes, back.again, back.epoch), (vec![own], false, 1));
    let known = placed(request_pull(6), |placed| placed.term = TERM);
    assert!(answered(&mut server, known).request.unwrap().reply().unwrap().routes.is_empty());
    assert_eq!(server.answered(4242, 0), None, "it was given no such request");
}

fn request_pull(timestamp: i32) -> Meta {
    request(9, timestamp, false, true)
}

#[test]
fn two_requests_of_one_name_are_told_apart() {
    let mut server = server(8, false);
    let one = given(&serve(&mut server, NOW, placed(push(9, 1), |placed| placed.slice = 0)));
    let mut steps = Vec::new();
    let request = placed(push(9, 1), |placed| placed.slice = 1);
    server.serve(NOW, request, &[key_bytes(KEY + 1), Bytes::new()], &mut steps);
    let other = given(&steps);
    assert_ne!(one, other);
    let slice = |answered: AnswerOutcome| answered.request.unwrap().reply().unwrap().slice;
    assert_eq!(slice(server.answered(other, 0).unwrap()), 1);
    assert_eq!(slice(server.answered(one, 0).unwrap()), 0);
    assert_eq!(server.answered(one, 0), None, "answered twice");
}

#[test]
fn a_push_counts_once_wherever_it_is_sent() {
    let (mut old, mut new) = (server(8, false), server(10, false));
    moved(&mut old, &mut new);
    import(&mut new, Ok(()));
    let asked = |meta| placed(meta, |placed| placed.term = TERM + 1);
    let steps = serve(&mut new, NOW, asked(push(9, 1)));
    let [Step::Answer(Answer { request, .. })] = &steps[..] else { panic!("{steps:?}") };
    assert!(!request.reply().unwrap().again, "it counted at the former owner");
    // Its values are still wanted.
    let steps = serve(&mut new, NOW, asked(request_both(9, 1)));
    assert!(matches!(&steps[..], [Step::Give(meta, _)] if meta.pull && !meta.push));
    let next = placed(asked(push(9, 3)), |placed| placed.after = 3);
    assert!(again(&serve(&mut new, NOW, next.clone())).is_empty(), "the push before is missing");
    given(&serve(&mut new, NOW, placed(asked(push(9, 2)), |placed| placed.after = 2)));
    given(&serve(&mut new, NOW, next));
}

fn request_both(worker: NodeId, timestamp: i32) -> Meta {
    request(worker, timestamp, true, true)
}

#[test]
fn what_is_held_is_let_through_when_it_takes_too_long() {
    let mut server = server(8, false);
    answered(&mut server, push(9, 1));
    let open = given(&serve(&mut server, NOW, push(9, 2)));
    order(&mut server, NOW, 10);
    assert!(serve(&mut server, NOW, push(9, 3)).is_empty());
    assert!(serve(&mut server, NOW, request_pull(4)).is_empty(), "it stays behind the push");
    assert!(advance(&mut server, HOLD).is_empty(), "nobody's requests go through now");
    assert!(serve(&mut server, HOLD, push(11, 1)).is_empty(), "nobody's, or it might never end");
    let steps = advance(&mut server, HOLD * 2);
    let asked: Vec<(NodeId, bool)> = steps
        .iter()
        .map(|step| match step {
            Step::Give(meta, _) => (meta.sender, meta.push),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, [(9, true), (9, false), (11, true)], "in their order");
    assert!(serve(&mut server, HOLD * 3, push(9, 5)).is_empty(), "and again");
    assert!(!server.answered(open, 0).unwrap().due, "three are open");
}

#[test]
fn an_order_that_is_taken_back_lets_all_through() {
    let mut server = server(8, false);
    let open = given(&serve(&mut server, NOW, push(9, 1)));
    order(&mut server, NOW, 10);
    assert!(serve(&mut server, NOW, push(9, 2)).is_empty());
    given(&order(&mut server, NOW, 8));
    assert!(!server.answered(open, 0).unwrap().due);
    // So does a policy: the scheduler repeats what is still to be followed.
    order(&mut server, NOW, 10);
    assert!(serve(&mut server, NOW, push(9, 3)).is_empty());
    let mut steps = Vec::new();
    server.policy(NOW, &policy(2), &mut steps);
    given(&steps);
    assert!(order(&mut server, NOW, 12).is_empty() && server.ordered.is_empty(), "who is that?");
}

#[test]
fn a_key_that_cannot_be_given_or_taken_stays() {
    let (mut old, mut new) = (server(8, false), server(10, false));
    answered(&mut old, push(9, 1));
    order(&mut old, NOW, 10);
    assert!(
        matches!(&export(&mut old, Err("no".into()))[..], [Step::Warn(text)] if text.contains("no"))
    );
    assert_eq!(held_as(&old), [(Holding::Owner, TERM)]);

    order(&mut old, NOW, 10);
    let left = sent(&export(&mut old, Ok(Bytes::new())));
    take(&mut new, 8, &left);
    let early = placed(push(9, 2), |placed| placed.term = TERM + 1);
    assert!(serve(&mut new, NOW, early).is_empty());
    let steps = import(&mut new, Err("full".into()));
    let back = Route { from: 0, to: OPAQUE_END, term: TERM + 2, owner: 8 };
    assert_eq!(again(&steps[2..]), [back]);
    assert_eq!(held_as(&new), []);
    let steps = take(&mut old, 10, &sent(&steps[..2]));
    assert!(matches!(&steps[..], [Step::Warn(text)] if text.contains("full")));
    assert_eq!(held_as(&old), [(Holding::Owner, TERM + 2)]);
    answered(&mut old, placed(push(9, 2), |placed| placed.term = TERM + 2));
}

#[test]
fn between_claims_and_policy_nothing_is_new_and_no_former_owner_is_told() {
    let (mut old, mut new) = (server(8, false), server(10, false));
    assert!(new.collect(2, &[]).is_empty());
    moved(&mut old, &mut new);
    assert!(import(&mut new, Ok(())).is_empty(), "the claims of both would have nothing of it");
    assert_eq!(old.collect(2, &[]).len(), 1);
    let mut steps = Vec::new();
    let other = [key_bytes(KEY + 1), Bytes::new()];
    old.serve(NOW, push(9, 2), &other, &mut steps);
    assert!(steps.is_empty(), "its home may be another one soon");
    new.policy(NOW, &policy(1), &mut steps);
    assert!(steps.is_empty(), "an older policy");
    new.policy(NOW, &policy(2), &mut steps);
    assert_eq!(sent(&steps).transfer.kind(), TransferKind::Moved);
    let word = at_homes(2, [10, 10], Vec::new());
    let mut steps = Vec::new();
    old.policy(NOW, &word, &mut steps);
    assert!(again(&steps).is_empty(), "its home is the other one now");
}

#[test]
fn a_new_home_learns_of_the_keys_of_its_range() {
    let mut server = server(10, false);
    let known = Route { from: 0, to: OPAQUE_END, term: TERM, owner: 8 };
    let routes = vec![KeyRoute { key: KEY, route: known }];
    let word = at_homes(2, [10, 10], routes);
    let later = placed(push(9, 1), |placed| placed.epoch = 2);
    assert!(serve(&mut server, NOW, later).is_empty(), "a policy that is not here yet");
    let mut steps = Vec::new();
    server.policy(NOW, &word, &mut steps);
    assert_eq!(again(&steps), [known]);
    let mut steps = Vec::new();
    server.serve(NOW, push(9, 2), &[key_bytes(KEY + 1), Bytes::new()], &mut steps);
    given(&steps);
    assert_eq!(held_as(&server), [(Holding::Owner, (2 << 32) + 1)]);
}

// ---- where nothing is kept between rounds -------------------------------------------------------

/// The first push of each worker, then a whole round.
fn begun(server: &mut Opaque) {
    for worker in [9, 11] {
        answered(server, push(worker, 1));
    }
    for (timestamp, pull) in [(2, false), (3, true)] {
        for worker in [9, 11] {
            answered(server, request(worker, timestamp, !pull, pull));
        }
    }
}

#[test]
fn a_round_is_never_split() {
    let (mut old, mut new) = (server(8, true), server(10, true));
    begun(&mut old);
    answered(&mut old, push(9, 4));
    assert!(order(&mut old, NOW, 10).is_empty(), "pushed by one, and answered at once");
    assert!(serve(&mut old, NOW, push(9, 6)).is_empty());
    assert!(!answered(&mut old, push(11, 4)).due);
    assert!(serve(&mut old, NOW, request_pull(7)).is_empty(), "it stays behind the push");
    assert!(!answered(&mut old, request(11, 5, false, true)).due, "the other one has not pulled");
    let mut steps = Vec::new();
    old.policy(NOW, &policy(2), &mut steps);
    assert_eq!(steps.len(), 2, "without an order nothing is held: {steps:?}");

    let (mut old, _) = (server(8, true), ());
    begun(&mut old);
    let left = sent(&order(&mut old, NOW, 10));
    assert_eq!(first_pushes(&left), 2, "the first push of each, not that of a round");
    assert_eq!(left.frames.len(), 5);
    let steps = take(&mut new, 8, &left);
    let told = sent(&steps[2..]);
    for (step, worker) in steps.iter().zip([9, 11]) {
        let Step::Give(meta, frames) = step else { panic!("{step:?}") };
        assert_eq!(
            (meta.sender, meta.push, &frames[1][..]),
            (worker, true, &[worker as u8; 16][..])
        );
        let swallowed = new.answered(meta.timestamp, 0).unwrap();
        assert_eq!(swallowed.request, None, "nobody asked for it");
    }
    assert!(take(&mut old, 10, &told).is_empty(), "there is nothing to forget");
    // And back: the application still has what these pushes made.
    let steps = order(&mut new, NOW, 8);
    let back = sent(&steps);
    assert_eq!(first_pushes(&back), 2);
    let steps = take(&mut old, 10, &back);
    assert_eq!(sent(&steps).transfer.kind(), TransferKind::Moved);
    assert_eq!(held_as(&old), [(Holding::Owner, TERM + 2)]);
}

#[test]
fn a_key_leaves_when_all_have_what_they_pushed_for() {
    let mut old = server(8, true);
    begun(&mut old);
    for worker in [9, 11] {
        answered(&mut old, push(worker, 4));
    }
    assert!(!answered(&mut old, request(9, 5, false, true)).due);
    let number = given(&serve(&mut old, NOW, request(11, 5, false, true)));
    assert!(order(&mut old, NOW, 10).is_empty());
    let AnswerOutcome { fetch, due, .. } = old.answered(number, 0).unwrap();
    assert!(!due && advance(&mut old, NOW).is_empty(), "nobody else could say it again");
    assert!(old.fetched(fetch.unwrap()));
    assert_eq!(sent(&advance(&mut old, NOW)).to, 10);
    assert!(!old.fetched(fetch.unwrap()), "said twice, of a key that is gone");
}

#[test]
fn a_key_whose_new_owner_dies_before_it_leaves_stays() {
    for stateless in [true, false] {
        let mut old = server(8, stateless);
        answered(&mut old, push(9, 1));
        let number = given(&serve(&mut old, NOW, push(11, 1)));
        assert!(order(&mut old, NOW, 10).is_empty());
        old.collect(2, &[10]);
        old.answered(number, 0).unwrap();
        assert!(advance(&mut old, NOW).is_empty());
        assert_eq!(held_as(&old), [(Holding::Owner, TERM)]);
    }
}

#[test]
fn a_key_moves_before_its_first_round_and_who_comes_later_makes_it_there() {
    let (mut old, mut new) = (server(8, true), server(10, true));
    answered(&mut old, push(9, 1));
    let left = sent(&order(&mut old, NOW, 10));
    let steps = take(&mut new, 8, &left);
    let replay = given(&steps[..1]);
    assert!(order(&mut new, NOW, 8).is_empty(), "the application has not made it yet");
    new.answered(replay, 0).unwrap();
    let asked = |meta| placed(meta, |placed| placed.term = TERM + 1);
    assert!(answered(&mut new, asked(push(11, 1))).due, "that made the key, and began no round");
    let left = sent(&advance(&mut new, NOW));
    assert_eq!(first_pushes(&left), 2);
}

#[test]
fn first_pushes_are_those_before_the_first_round() {
    let note = |first: &mut FirstPushes, timestamp, push, pull, new| {
        let request = request(9, timestamp, push, pull);
        first.note(&request, &[key_bytes(KEY), Bytes::from(vec![timestamp as u8])], new);
    };
    let values = |first: &FirstPushes| -> Vec<u8> {
        first.all().iter().map(|kept| kept.frames[1][0]).collect()
    };
    let mut first = FirstPushes::default();
    note(&mut first, 1, true, false, true);
    note(&mut first, 2, true, false, false);
    note(&mut first, 3, true, false, false);
    assert_eq!(values(&first), [1, 2, 3]);
    note(&mut first, 4, false, true, false);
    note(&mut first, 5, true, false, false);
    assert_eq!(
        values(&first),
        [1, 2],
        "3 was pushed for what was pulled, and 5 is of the next round"
    );
    note(&mut first, 6, true, false, true);
    assert_eq!(values(&first), [6], "another process");
    for timestamp in 7..20 {
        note(&mut first, timestamp, true, false, false);
    }
    assert!(!first.are_complete() && first.all().len() == 8);

    let mut first = FirstPushes::default();
    note(&mut first, 1, true, true, true);
    note(&mut first, 2, true, true, false);
    assert_eq!(values(&first), [1], "a round by one request");
}

#[test]
fn malformed_transfers_are_refused() {
    let (mut old, new) = (server(8, false), || server(10, false));
    answered(&mut old, push(9, 1));
    order(&mut old, NOW, 10);
    let Outgoing { transfer, frames, .. } = sent(&export(&mut old, Ok(Bytes::new())));
    let refused = |mut server: Opaque, transfer: &Transfer, frames: &[Bytes]| {
        let mut steps = Vec::new();
        let taken = server.transfer(NOW, 8, transfer, frames, &mut steps);
        assert!(matches!(taken, Err(StoreError::Transfer(_))), "{taken:?} {transfer:?}");
        assert!(steps.is_empty());
    };
    let flat = FlatTransfer::from(&transfer);
    let wrong = [
        FlatTransfer { from: 1, ..flat.clone() },
        FlatTransfer { to: 5, ..flat.clone() },
        FlatTransfer { term: 0, ..flat.clone() },
        FlatTransfer { term: u64::MAX, ..flat.clone() },
        FlatTransfer { key: u64::MAX, ..flat.clone() },
        FlatTransfer { key: KEY + 1, ..flat.clone() },
        FlatTransfer { kind: TransferKind::Seed.into(), ..flat.clone() },
        FlatTransfer { kind: 77, ..flat.clone() },
    ];
    for wrong in wrong {
        refused(new(), &wrong.into(), &frames);
    }
    for frames in [&frames[..0], &frames[..1], &[frames[0].clone(), Bytes::new(), Bytes::new()][..]]
    {
        refused(new(), &transfer, frames);
    }
    refused(server(10, true), &transfer, &frames);
    let push = FirstPush { worker: 9, frames: 4, ..Default::default() };
    for count in [0, 1, 4, u32::MAX] {
        let push = FirstPush { frames: count, ..push };
        let wrong = FlatTransfer { first_pushes: vec![push; 2], ..flat.clone() }.into();
        refused(server(10, true), &wrong, &frames);
        refused(new(), &wrong, &frames);
    }
    let mut twice = new();
    take(&mut twice, 8, &Outgoing { to: 10, transfer: transfer.clone(), frames: frames.clone() });
    import(&mut twice, Ok(()));
    refused(twice, &transfer, &frames);
}

#[test]
fn requests_about_several_keys_or_none_are_refused() {
    let mut server = server(8, false);
    let two: Bytes = [KEY.to_ne_bytes(), (KEY + 1).to_ne_bytes()].concat().into();
    for keys in [Bytes::new(), two, key_bytes(u64::MAX), Bytes::from_static(b"abc")] {
        let mut steps = Vec::new();
        server.serve(NOW, push(9, 1), &[keys, Bytes::new()], &mut steps);
        let [Step::Answer(Answer { request, .. })] = &steps[..] else { panic!("{steps:?}") };
        assert!(!request.error.is_empty());
    }
    assert!(server.claims().is_empty());
}
