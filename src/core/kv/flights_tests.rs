use bytes::Bytes;

use super::part::{By, PartWay};
use super::*;
use crate::keys::KeyName;
use crate::values::form::one_len;
use crate::values::key_at;
use crate::wire::elastic::PartAsk;
use crate::wire::word::Policy;

#[path = "flights_ahead_tests.rs"]
mod values_ahead;

const A: NodeId = 8;
const B: NodeId = 10;
const NOW: Duration = Duration::from_secs(1);

fn slice(timestamp: i32, push: bool, values: &[u8]) -> Slice {
    let keys = Bytes::copy_from_slice(&7_u64.to_ne_bytes());
    let (vals, lens) = if push {
        (Bytes::copy_from_slice(values), one_len(values.len()))
    } else {
        (Bytes::new(), Bytes::new())
    };
    let kv = KvPairs { keys, vals, lens };
    let meta = Meta { timestamp, push, pull: !push, request: true, ..Meta::default() };
    Slice { meta, rank: 0, key: 7, form: Form::Dense { size: 1 }, kv }
}

fn ask(message: &Outgoing) -> &PartAsk {
    message.meta.ask().unwrap()
}

/// What a server says of the part that a message is about, if there is nothing new.
fn reply(message: &Outgoing) -> PartReply {
    PartReply::from(ask(message))
}

fn route(from: u64, to: u64, term: u64, owner: NodeId) -> Route {
    Route { from, to, term, owner }
}

/// An answer to a message that brings nothing.
fn answer_to<'a>(to: &Outgoing, reply: &'a PartReply) -> PartAnswer<'a> {
    PartAnswer {
        timestamp: to.meta.timestamp,
        from: to.meta.recver,
        reply: Some(reply),
        pairs: KvPairs::default(),
        refused: false,
    }
}

/// What a server answers to a message.
fn answer(
    flights: &mut Flights,
    to: &Outgoing,
    routes: &[Route],
    again: bool,
) -> (Answered, Vec<Outgoing>) {
    let reply = PartReply { again, routes: routes.to_vec(), ..reply(to) };
    let mut out = Vec::new();
    let answered = flights.answered(NOW, answer_to(to, &reply), &mut out).unwrap();
    check(flights);
    (answered, out)
}

fn begin(flights: &mut Flights, slice: Slice) -> Vec<Outgoing> {
    let mut out = Vec::new();
    flights.begin(NOW, slice, &mut out).unwrap();
    check(flights);
    out
}

/// All that is promised holds; and the set of those that wait is what a walk over all would find.
fn check(flights: &Flights) {
    assert_eq!(flights.validate(), Ok(()));
    let all = flights.open.iter().filter(|(_, flight)| flight.parts.iter().any(Part::waits));
    let all: BTreeMap<u64, SliceName> = all.map(|(name, flight)| (flight.number, *name)).collect();
    assert_eq!(flights.waiting, all);
}

fn parts(out: &[Outgoing]) -> Vec<(NodeId, u64, u64, &[u8])> {
    out.iter().map(|o| (o.meta.recver, ask(o).from, ask(o).to, &o.kv.vals[..])).collect()
}

/// Flights that know a key of 8 elements, half of it at each of two servers.
fn halves() -> Flights {
    let mut flights = Flights::new(vec![A, B]);
    let first = begin(&mut flights, slice(0, true, b"01234567"));
    assert_eq!(parts(&first), [(A, 0, 0, &b"01234567"[..])]);
    let routes = [route(0, 4, 2, A), route(4, 8, 2, B)];
    assert!(matches!(answer(&mut flights, &first[0], &routes, false).0, Answered::Whole { .. }));
    flights
}

#[test]
fn a_key_that_is_not_known_goes_home_and_then_to_its_owners() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    assert_eq!(parts(&out), [(A, 0, 4, &b"abcd"[..]), (B, 4, 8, &b"efgh"[..])]);
    assert!(out.iter().all(|o| ask(o).after == 1), "the push before it had timestamp 0");
    assert_eq!(answer(&mut flights, &out[1], &[], false).0, Answered::Open);
    assert!(flights.has(1));
    assert!(matches!(answer(&mut flights, &out[0], &[], false).0, Answered::Whole { rank: 0, .. }));
    assert!(!flights.has(1));
    assert_eq!(answer(&mut flights, &out[0], &[], false).0, Answered::Unknown, "said twice");
}

#[test]
fn values_are_put_together_in_order() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, false, b""));
    let mut brought = Vec::new();
    for (message, vals) in out.iter().zip(["xxxx", "yyyy"]).rev() {
        let pairs = KvPairs {
            keys: message.kv.keys.clone(),
            vals: Bytes::from_static(vals.as_bytes()),
            lens: one_len(4),
        };
        let mut more = Vec::new();
        let reply = reply(message);
        let answer = PartAnswer { pairs, ..answer_to(message, &reply) };
        brought.push(flights.answered(NOW, answer, &mut more).unwrap());
    }
    assert_eq!(brought[0], Answered::Open);
    let Answered::Whole { rank: 0, brought } = &brought[1] else { panic!("{brought:?}") };
    let Brought { pairs, more } = brought;
    assert_eq!(key_at(&pairs.keys, 0), Some(7));
    assert_eq!((&pairs.vals[..], &more[0][..]), (&b"xxxx"[..], &b"yyyy"[..]));
    assert_eq!(pairs.lens, one_len(8));
}

#[test]
fn a_part_that_was_turned_away_is_cut_anew() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    let routes = [route(4, 6, 3, A), route(6, 8, 3, B)];
    let (answered, again) = answer(&mut flights, &out[1], &routes, true);
    assert_eq!(answered, Answered::Open);
    assert_eq!(parts(&again), [(A, 4, 6, &b"ef"[..]), (B, 6, 8, &b"gh"[..])]);
}

#[test]
fn a_server_that_says_nothing_new_is_asked_again_later() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    assert!(answer(&mut flights, &out[1], &[], true).1.is_empty());
    assert!(flights.waits());
    let mut out = Vec::new();
    flights.retry(NOW + RETRY / 2, &mut out).unwrap();
    assert!(out.is_empty() && flights.waits());
    flights.retry(NOW + RETRY, &mut out).unwrap();
    assert_eq!(parts(&out), [(B, 4, 8, &b"efgh"[..])]);
    assert!(!flights.waits());
}

#[test]
fn what_a_dead_server_had_waits_for_a_policy() {
    let mut flights = halves();
    begin(&mut flights, slice(1, true, b"abcdefgh"));
    flights.lost(NOW, B);
    check(&flights);
    let mut out = Vec::new();
    flights.retry(NOW + RETRY, &mut out).unwrap();
    assert!(out.is_empty());
    let taken = KeyRoute { key: 7, route: route(4, 8, 1 << 32, A) };
    let word = RoutedPolicy {
        policy: Policy { epoch: 1, homes: vec![A, A], lost: vec![B], ..Policy::default() },
        routes: vec![taken],
    };
    flights.policy(NOW, &word, &mut out).unwrap();
    assert_eq!(parts(&out), [(A, 4, 8, &b"efgh"[..])]);
    assert_eq!(ask(&out[0]).epoch, 1);
    // A new key of the dead server's rank has a new home.
    let other = Slice { rank: 1, key: 9, ..slice(2, true, b"zz") };
    assert_eq!(begin(&mut flights, other)[0].meta.recver, A);
}

/// It left before the request reached it, and answers nothing.
#[test]
fn what_a_released_server_had_goes_where_the_policy_says() {
    let mut flights = halves();
    begin(&mut flights, slice(1, true, b"abcdefgh"));
    let now = KeyRoute { key: 7, route: route(4, 8, 9, A) };
    let homes = vec![A, A];
    let word = RoutedPolicy {
        policy: Policy { epoch: 1, homes, released: vec![B], ..Policy::default() },
        routes: vec![now],
    };
    let mut out = Vec::new();
    flights.policy(NOW, &word, &mut out).unwrap();
    assert_eq!(parts(&out), [(A, 4, 8, &b"efgh"[..])]);
}

#[test]
fn a_request_goes_where_pieces_have_moved_to() {
    let mut flights = halves();
    let first = begin(&mut flights, slice(1, true, b"abcdefgh"));
    let told = |from, to, term| KeyRoute { key: 7, route: route(from, to, term, A) };
    flights.learn(&[told(4, 8, 9)]);
    check(&flights);
    // What is under way is answered by the former owner, whatever it says.
    let (_, again) = answer(&mut flights, &first[1], &[], true);
    assert_eq!(parts(&again), [(A, 4, 8, &b"efgh"[..])]);
    let second = begin(&mut flights, slice(2, true, b"ABCDEFGH"));
    assert_eq!(parts(&second), [(A, 0, 4, &b"ABCD"[..]), (A, 4, 8, &b"EFGH"[..])]);
    // An older one is not believed.
    flights.learn(&[KeyRoute { key: 7, route: route(4, 8, 1, B) }]);
    assert_eq!(begin(&mut flights, slice(3, true, b"ABCDEFGH"))[1].meta.recver, A);
}

#[test]
fn a_later_push_does_not_overtake_one_that_waits() {
    let mut flights = halves();
    let first = begin(&mut flights, slice(1, true, b"abcdefgh"));
    let second = begin(&mut flights, slice(2, true, b"ABCDEFGH"));
    assert_eq!(ask(&second[0]).after, 2);
    // The first is turned away and goes to another server: the second, turned away too, follows it
    // there.
    let moved = [route(4, 8, 3, A)];
    let (_, out) = answer(&mut flights, &first[1], &moved, true);
    assert_eq!(parts(&out), [(A, 4, 8, &b"efgh"[..])]);
    // A third one, which knows already, does not go before the second, which is still at the old
    // owner.
    let third = begin(&mut flights, slice(3, true, b"........"));
    assert_eq!(parts(&third), [(A, 0, 4, &b"...."[..])]);
    let (_, out) = answer(&mut flights, &second[1], &moved, true);
    assert_eq!(parts(&out), [(A, 4, 8, &b"EFGH"[..]), (A, 4, 8, &b"...."[..])]);
}

#[test]
fn a_push_of_another_size_is_refused_where_the_key_is_cut() {
    let mut flights = halves();
    let mut out = Vec::new();
    let begun = flights.begin(NOW, slice(1, true, b"abc"), &mut out);
    assert_eq!(begun, Err(KvError::PieceMismatch { key: KeyName::new(7, 0), expected: 8, got: 3 }));
    assert!(out.is_empty() && !flights.has(1));
}

/// All who push to it hear the same from the owner.
#[test]
fn a_push_of_another_size_goes_as_it_is_to_an_only_owner() {
    let mut flights = Flights::new(vec![A, B]);
    let first = begin(&mut flights, slice(1, true, b"abcdefgh"));
    answer(&mut flights, &first[0], &[route(0, 8, 1, A)], false);
    for values in [&b"abc"[..], b"abcdefghijk"] {
        let out = begin(&mut flights, slice(2, true, values));
        assert_eq!(parts(&out), [(A, 0, 8, values)]);
        flights.forget(2);
    }
}

#[test]
fn a_server_without_pieces_answers_for_the_slice() {
    let mut flights = Flights::new(vec![A, B]);
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    assert_eq!(out[0].meta.recver, A);
    let mut more = Vec::new();
    let reply = reply(&out[0]);
    let answer = PartAnswer { reply: None, ..answer_to(&out[0], &reply) };
    let answered = flights.answered(NOW, answer, &mut more).unwrap();
    assert!(matches!(answered, Answered::Whole { rank: 0, .. }));
}

#[test]
fn a_refusal_ends_the_slice() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    let mut more = Vec::new();
    let reply = reply(&out[1]);
    let refusal = PartAnswer { refused: true, ..answer_to(&out[1], &reply) };
    let answered = flights.answered(NOW, refusal, &mut more).unwrap();
    assert_eq!(answered, Answered::Refused { rank: 0 });
    assert!(!flights.has(1));
    // The next push does not name it as the one before.
    assert_eq!(ask(&begin(&mut flights, slice(2, true, b"abcdefgh"))[0]).after, 1);
}

#[test]
fn compressed_values_are_cut_at_words() {
    let first = 1000_u64;
    let keys: Vec<u8> = [first + 40, 7].iter().flat_map(|key| key.to_ne_bytes()).collect();
    let kv = KvPairs {
        keys: keys.into(),
        vals: Bytes::from_static(b"aaaabbbbcccc"),
        lens: Bytes::copy_from_slice(bytemuck::cast_slice(&[0_i32, 12])),
    };
    let form = Form::TwoBit { first };
    let cut = form.cut(&kv, true, 16, 40).unwrap();
    assert_eq!((key_at(&cut.keys, 0), key_at(&cut.keys, 1)), (Some(first + 24), Some(7)));
    assert_eq!(&cut.vals[..], b"bbbbcccc");
    assert_eq!(&cut.lens[..], bytemuck::cast_slice::<i32, u8>(&[0, 8]));
    assert_eq!(form.check(&kv, 7, 40), Ok(()));
    assert!(form.check(&kv, 7, 49).is_err());
    assert!(form.cut(&kv, true, 16, 64).is_err());
}

#[test]
fn a_pull_overtakes_values_of_other_keys_only() {
    let mut flights = halves();
    assert!(begin(&mut flights, slice(1, false, b"")).iter().all(|pull| pull.meta.overtakes));
    let push = begin(&mut flights, slice(2, true, b"abcdefgh"));
    assert!(push.iter().all(|push| !push.meta.overtakes));
    assert!(begin(&mut flights, slice(3, false, b"")).iter().all(|pull| !pull.meta.overtakes));
    answer(&mut flights, &push[0], &[], false);
    answer(&mut flights, &push[1], &[], false);
    assert!(begin(&mut flights, slice(4, false, b"")).iter().all(|pull| pull.meta.overtakes));
}

/// The first push of a key by a worker that came back makes it, and is no push before the next one.
#[test]
fn a_worker_that_came_back_makes_its_keys_first() {
    let mut flights = Flights::come_back(vec![A], 5, true);
    let init = begin(&mut flights, slice(0, true, &[1; 4]));
    let said = |message: &Outgoing| (ask(message).life, ask(message).init, ask(message).after);
    assert_eq!(said(&init[0]), (5, true, 0));
    let (_, again) = answer(&mut flights, &init[0], &[route(0, 4, 9, A)], true);
    assert_eq!(said(&again[0]), (5, true, 0), "wherever it is sent");
    assert!(matches!(answer(&mut flights, &again[0], &[], false).0, Answered::Whole { .. }));
    let first = begin(&mut flights, slice(1, true, &[2; 4]));
    assert_eq!(said(&first[0]), (5, false, 0));
    answer(&mut flights, &first[0], &[], false);
    let second = begin(&mut flights, slice(2, true, &[3; 4]));
    assert_eq!(said(&second[0]), (5, false, 2));
    let pull = begin(&mut flights, slice(3, false, &[]));
    assert_eq!(said(&pull[0]), (5, false, 0));
    let mut other = Flights::come_back(vec![A], 5, false);
    assert_eq!(said(&begin(&mut other, slice(0, true, &[1; 4]))[0]), (5, false, 0));
}

/// Nobody knows how long the values of an opaque key are: it goes whole to its owner.
#[test]
fn an_opaque_key_is_never_cut() {
    let mut flights = Flights::new(vec![A, B]);
    let first = begin(&mut flights, slice(1, true, &[1, 2, 3]));
    assert_eq!(parts(&first), [(A, 0, 0, &[1, 2, 3][..])]);
    let there = route(0, u64::MAX, 5, B);
    let (answered, again) = answer(&mut flights, &first[0], &[there], true);
    assert_eq!((answered, parts(&again)), (Answered::Open, vec![(B, 0, 0, &[1, 2, 3][..])]));
    assert_eq!(ask(&again[0]).term, 5);
    let (answered, _) = answer(&mut flights, &again[0], &[there], false);
    assert!(matches!(answered, Answered::Whole { .. }));
    // Whatever its length is now.
    let next = begin(&mut flights, slice(2, true, &[1; 9]));
    assert_eq!(parts(&next), [(B, 0, 0, &[1; 9][..])]);
}

/// A server that joined answers nobody who has not heard of it: what is sent there before would be
/// lost.
#[test]
fn nothing_goes_to_a_server_before_a_policy_names_it() {
    let mut flights = Flights::new(vec![A]);
    let first = begin(&mut flights, slice(1, true, &[1; 4]));
    let (answered, again) = answer(&mut flights, &first[0], &[route(0, 4, 9, B)], true);
    assert_eq!((answered, again.len()), (Answered::Open, 0));
    let mut out = Vec::new();
    flights.retry(Duration::from_secs(60), &mut out).unwrap();
    assert!(out.is_empty() && flights.waits());
    let word = RoutedPolicy {
        policy: Policy { epoch: 2, homes: vec![A], servers: vec![A, B], ..Policy::default() },
        ..RoutedPolicy::default()
    };
    flights.policy(Duration::from_secs(60), &word, &mut out).unwrap();
    assert_eq!(parts(&out), [(B, 0, 4, &[1; 4][..])]);
}

#[test]
fn a_key_without_an_element_is_found_again() {
    let mut flights = Flights::new(vec![A, B]);
    let out = begin(&mut flights, slice(0, true, b""));
    let (answered, again) = answer(&mut flights, &out[0], &[route(0, 1, 2, B)], true);
    assert_eq!((answered, parts(&again)), (Answered::Open, vec![(B, 0, 1, &b""[..])]));
    assert!(matches!(answer(&mut flights, &again[0], &[], false).0, Answered::Whole { .. }));
    let next = begin(&mut flights, slice(1, true, b""));
    assert_eq!(parts(&next)[0].0, B);
}

/// Where a part that is under way belongs, and whom it was given to, are two things.
fn send_by(flights: &mut Flights, timestamp: i32, at: usize, next: NodeId) {
    flights.known.insert(next);
    let part = &mut flights.open.get_mut(&(timestamp, 0)).unwrap().parts[at];
    assert!(part.sent().is_some());
    part.state = PartState::Sent(PartWay { next, by: By::Itself });
}

#[test]
fn an_answer_comes_the_way_that_the_part_went() {
    const RELAY: NodeId = 13;
    let mut flights = halves();
    let mut out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    send_by(&mut flights, 1, 1, RELAY);
    assert_eq!(answer(&mut flights, &out[1], &[], false).0, Answered::Unknown);
    assert_eq!(answer(&mut flights, &out[0], &[], false).0, Answered::Open);
    out[1].meta.recver = RELAY;
    assert!(matches!(answer(&mut flights, &out[1], &[], false).0, Answered::Whole { .. }));
}

#[test]
fn a_part_waits_if_its_owner_or_who_brings_it_there_is_lost() {
    const RELAY: NodeId = 13;
    for lost in [RELAY, B] {
        let mut flights = halves();
        begin(&mut flights, slice(1, true, b"abcdefgh"));
        send_by(&mut flights, 1, 1, RELAY);
        flights.lost(NOW, lost);
        check(&flights);
        assert!(flights.waits());
        let mut out = Vec::new();
        flights.retry(NOW, &mut out).unwrap();
        // Without the one it goes straight to the other.
        let sent = parts(&out);
        assert_eq!(sent, [(B, 4, 8, &b"efgh"[..])][..usize::from(lost == RELAY)]);
        assert_eq!(flights.waits(), lost == B);
    }
}

#[test]
fn a_push_does_not_overtake_one_that_went_another_way_to_the_same_owner() {
    const RELAY: NodeId = 13;
    let mut flights = halves();
    let first = begin(&mut flights, slice(1, true, b"abcdefgh"));
    send_by(&mut flights, 1, 1, RELAY);
    let second = begin(&mut flights, slice(2, true, b"ABCDEFGH"));
    assert_eq!(parts(&second), [(A, 0, 4, &b"ABCD"[..])]);
    let by_relay =
        Outgoing { meta: Meta { recver: RELAY, ..first[1].meta.clone() }, ..first[1].clone() };
    let (_, freed) = answer(&mut flights, &by_relay, &[], false);
    assert_eq!(parts(&freed), [(B, 4, 8, &b"EFGH"[..])]);
}

/// It may answer all the same: it does not know that it is dead for the others. What it says is not
/// what became of the key.
#[test]
fn an_answer_of_a_server_that_was_given_up_is_none() {
    let mut flights = halves();
    let sent = begin(&mut flights, slice(1, false, b""));
    let taken = KeyRoute { key: 7, route: route(4, 8, 1 << 32, A) };
    let word = RoutedPolicy {
        policy: Policy { epoch: 1, homes: vec![A, A], lost: vec![B], ..Policy::default() },
        routes: vec![taken],
    };
    let mut again = Vec::new();
    flights.policy(NOW, &word, &mut again).unwrap();
    assert_eq!(parts(&again), [(A, 4, 8, &b""[..])]);
    for says_again in [false, true] {
        let (late, out) = answer(&mut flights, &sent[1], &[], says_again);
        assert_eq!((late, out.len()), (Answered::Unknown, 0));
    }
    assert_eq!(answer(&mut flights, &sent[0], &[], false).0, Answered::Open);
    assert!(matches!(answer(&mut flights, &again[0], &[], false).0, Answered::Whole { .. }));
}

#[test]
fn only_those_that_wait_are_looked_at_again() {
    let mut flights = Flights::new(vec![A]);
    for timestamp in 0..20 {
        let key = 100 + timestamp as u64;
        let first = begin(&mut flights, Slice { key, ..slice(timestamp, true, &[1; 4]) });
        if timestamp % 10 == 0 {
            // Its owner is not known yet.
            answer(&mut flights, &first[0], &[route(0, 4, 9, B)], true);
        }
    }
    assert_eq!((flights.open.len(), flights.waiting.len()), (20, 2));
    flights.forget(0);
    check(&flights);
    let word = RoutedPolicy {
        policy: Policy { epoch: 2, homes: vec![A], servers: vec![A, B], ..Policy::default() },
        ..RoutedPolicy::default()
    };
    let mut out = Vec::new();
    flights.policy(NOW, &word, &mut out).unwrap();
    check(&flights);
    assert_eq!(parts(&out), [(B, 0, 4, &[1; 4][..])]);
    assert!(!flights.waits() && flights.has(10) && !flights.has(0));
}

/// Whoever is told ends its request. Until then it waits as before, and holds up nobody else.
#[test]
fn what_fits_no_piece_waits_until_its_request_is_ended() {
    let mut flights = Flights::new(vec![A]);
    let first = begin(&mut flights, slice(1, true, &[1; 6]));
    let reply = PartReply {
        again: true,
        routes: vec![route(0, 4, 5, A), route(4, 8, 5, A)],
        ..reply(&first[0])
    };
    let mut out = Vec::new();
    let misfit = flights.answered(NOW, answer_to(&first[0], &reply), &mut out);
    assert!(misfit.is_err());
    check(&flights);
    assert!(flights.waits());
    flights.forget(1);
    assert!(!flights.waits());
}

/// The slice that is spoilt.
const NAME: SliceName = (1, 0);

/// Something that no rule leads to is named.
#[test]
fn what_is_wrong_is_named() {
    type Spoil = fn(&mut Flights);
    fn part(flights: &mut Flights) -> &mut Part {
        &mut flights.open.get_mut(&NAME).unwrap().parts[0]
    }
    let all: [(Spoil, &str); 10] = [
        (|flights| _ = flights.waiting.insert(1, NAME), "a part of it waits: false"),
        (|flights| part(flights).state = PartState::Waiting(NOW), "a part of it waits: true"),
        (
            |flights| flights.open.get_mut(&NAME).unwrap().slice.rank = 5,
            "it is named (1, 5); the next one is 2",
        ),
        (|flights| flights.next = 1, "it is named (1, 0); the next one is 1"),
        (|flights| _ = flights.waiting.insert(9, (2, 0)), "(2, 0))) waits, and is not open"),
        (|flights| flights.order.end(7, NAME, false), "none of the open ones of its key"),
        (|flights| flights.order.add(9, (4, 0)), "pushes of 1 keys are open, listed are 2"),
        (|flights| part(flights).to = 3, "the part 4..8 does not begin at 3"),
        (|flights| _ = flights.lost.insert(B), "4..8 is at 10, which is lost or unknown"),
        (
            |flights| {
                let parts = &mut flights.open.get_mut(&NAME).unwrap().parts;
                parts.iter_mut().for_each(|part| part.state = PartState::Done(Bytes::new()));
            },
            "all 2 parts of it are answered",
        ),
    ];
    for (spoil, text) in all {
        let mut flights = halves();
        begin(&mut flights, slice(1, true, b"abcdefgh"));
        spoil(&mut flights);
        let found = flights.validate().expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}

/// A debug build stops at the entry after which something is wrong.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a broken invariant: slice 1, (1, 0)")]
fn a_debug_build_looks_at_what_an_entry_touched() {
    let mut flights = halves();
    let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
    flights.open.get_mut(&NAME).unwrap().parts[0].to = 3;
    let mut more = Vec::new();
    let _ = flights.answered(NOW, answer_to(&out[1], &reply(&out[1])), &mut more);
}
