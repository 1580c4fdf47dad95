//! Sums that count for several workers: at a round, and at a server with pieces and a replica.

use bytes::Bytes;

use super::*;
use crate::keys::KeyName;
use crate::random::Random;
use crate::store::Outbound;
use crate::store::holdings::At;
use crate::store::pieces::round::{Quorum, Round};
use crate::store::{Store, StoreConfig};
use crate::trees::name_of;
use crate::values::kind::{RequestKind, command_of};
use crate::values::{Buffer, Dtype};
use crate::wire::elastic::PartAsk;
use crate::wire::transfer::Transfer;
use crate::wire::trees::Hop;
use crate::wire::{Key, Payload, worker_id};

/// A key of the first server's range.
const KEY: Key = 3;
const AT: At = At { key: KEY, index: 0 };

/// The push of a worker, by rank, in a round, counted from 0, of all of which it pushes to.
fn push(rank: usize, round: i32) -> Meta {
    // The first worker's push of round -1 makes the key.
    let after = if rank > 0 && round == 0 { 0 } else { (round + 1) as u32 };
    let placed = PartAsk { after, to: 1, term: 1, ..PartAsk::default() };
    Meta {
        sender: worker_id(rank),
        customer_id: 0,
        timestamp: round + 1,
        request: true,
        push: true,
        head: command_of(RequestKind::Default, Dtype::F32),
        payload: Payload::Ask(placed),
        ..Meta::default()
    }
}

/// The sum of these pushes, each of one digit, handed in by a node that is none of their workers.
fn sum(pushes: &[(usize, i32)]) -> Contribution {
    let names = pushes.iter().map(|(rank, round)| name(*rank, *round));
    let digits = pushes.iter().map(|(rank, _)| digit(*rank)).sum();
    Contribution { sum: values(digits), pushes: Pushes::several(request(names)).unwrap() }
}

fn name(rank: usize, round: i32) -> PushName {
    name_of(&push(rank, round))
}

/// A request that hands in a sum of these.
fn request(names: impl IntoIterator<Item = PushName>) -> Meta {
    let hop = Hop { names: names.into_iter().collect(), ..Hop::default() };
    Meta { sender: worker_id(50), timestamp: 77, ..push(0, 0) }.along(hop)
}

fn own(rank: usize, round: i32) -> Contribution {
    Contribution::of(push(rank, round), values(digit(rank)))
}

fn digit(rank: usize) -> f32 {
    10_f32.powi(rank as i32)
}

fn values(value: f32) -> Addend {
    Addend::Dense(Bytes::copy_from_slice(&value.to_ne_bytes()))
}

fn quorum(workers: usize) -> Quorum {
    Quorum { workers, live: None, space: 0, keeps_order: false }
}

fn take(round: &mut Round, contribution: Contribution) {
    let like = Buffer::zeroed(4);
    round.push(contribution, Dtype::F32, &quorum(3), &like).unwrap();
}

/// A server whose key three workers push to, its replica being another one.
fn server() -> Store {
    let config = StoreConfig { servers: 2, elastic: true, replicas: 1, ..StoreConfig::alone(3) };
    let mut store = Store::new(config);
    store.held.set_sync(0).unwrap();
    let meta = push(0, -1);
    let payload = Payload::Ask(PartAsk::default());
    let frames = [&KEY.to_ne_bytes()[..], &0_f32.to_ne_bytes(), &4_i32.to_ne_bytes()];
    let frames = frames.map(Bytes::copy_from_slice);
    store.serve(Meta { payload, ..meta }, &frames, &mut Outbound::default());
    store
}

/// What a contribution leads to.
fn give(store: &mut Store, contribution: Contribution) -> Result<Outbound, StoreError> {
    let mut out = Outbound::default();
    store.contribute(AT, contribution, &mut out).map(|()| out)
}

fn value(store: &Store) -> f32 {
    store.held.piece(AT).unwrap().value.buffer().elements::<f32>()[0]
}

fn counts(store: &Store, rank: usize, round: i32) -> bool {
    store.held.piece(AT).unwrap().marks.count(&Name::of(&push(rank, round)))
}

#[test]
fn a_sum_of_two_counts_for_both_workers() {
    let mut round = Round::default();
    take(&mut round, sum(&[(0, 0), (2, 0)]));
    assert!(round.complete(&quorum(3)).is_none());
    assert_eq!(round.lacks(&quorum(3), (0..3).map(worker_id)), [worker_id(1)]);
    assert_eq!(round.pushed().collect::<Vec<_>>(), [worker_id(0), worker_id(2)]);
    take(&mut round, own(1, 0));
    let complete = round.complete(&quorum(3)).unwrap();
    let askers: Vec<_> = complete.contributors.iter().map(|one| one.request().sender).collect();
    assert_eq!(askers, [worker_id(50), worker_id(1)], "each contribution has one answer");
    let mut total = Buffer::zeroed(4);
    complete.sum.write(Dtype::F32, &mut total).unwrap();
    assert_eq!(total.elements::<f32>(), [111.0]);
    assert!(!round.is_open());
}

#[test]
fn a_sum_of_workers_who_have_pushed_waits_for_the_next_round() {
    let mut round = Round::default();
    take(&mut round, own(0, 0));
    take(&mut round, sum(&[(1, 0), (2, 0)]));
    take(&mut round, sum(&[(0, 1), (1, 1), (2, 1)]));
    let now = |rank: usize, timestamp| round.holds(Customer::of(&push(rank, 0)), timestamp);
    assert!(now(0, 1) && now(2, 1) && now(1, 2) && !now(1, 3));
    assert_eq!(round.complete(&quorum(3)).unwrap().contributors.len(), 2);
    let next = round.next_push().unwrap();
    assert_eq!(next.pushes.count(), 3);
    take(&mut round, next);
    assert_eq!(round.complete(&quorum(3)).unwrap().contributors.len(), 1);
    assert!(round.next_push().is_none());
}

#[test]
fn a_sum_with_a_push_of_somebody_who_lives_counts_when_others_of_it_are_dead() {
    let dead = |ranks: &'static [usize]| {
        move |who: Customer| ranks.iter().any(|rank| worker_id(*rank) == who.worker)
    };
    let mut round = Round::default();
    take(&mut round, sum(&[(0, 0), (1, 0)]));
    take(&mut round, sum(&[(0, 1), (1, 1)]));
    round.wait_as(4);
    assert_eq!(round.forget(dead(&[0])), None);
    assert_eq!(round.complete(&quorum(2)).unwrap().contributors.len(), 1);
    let next = round.next_push().unwrap();
    take(&mut round, next);
    round.wait_as(5);
    assert_eq!(round.forget(dead(&[0, 1])), Some(5));
    assert!(!round.is_open());
}

#[test]
fn names_are_some_and_each_customer_has_one() {
    assert!(Pushes::several(request([])).is_err());
    assert!(Pushes::several(request([name(1, 0), name(0, 0), name(1, 0)])).is_err());
    assert!(Pushes::several(request([name(1, 0), name(1, 1)])).is_err());
    assert!(Pushes::several(request((0..=NAMES_MAX).map(|rank| name(rank, 0)))).is_err());
}

#[test]
fn what_counted_in_a_sum_counts_once_however_it_comes_again() {
    let mut store = server();
    assert!(give(&mut store, sum(&[(0, 0), (1, 0)])).unwrap().answers.is_empty());
    let out = give(&mut store, own(2, 0)).unwrap();
    assert_eq!(value(&store), 111.0);
    assert!((0..3).all(|rank| counts(&store, rank, 0) && !counts(&store, rank, 1)));
    // The replica hears the names, not who handed them in.
    let [shipped] = &out.transfers[..] else { panic!("{:?}", out.transfers) };
    let Transfer::Round(round) = &shipped.transfer else { panic!("{shipped:?}") };
    let marked: Vec<_> = round.marks.iter().map(|mark| mark.worker).collect();
    assert_eq!(marked, [0, 1, 2].map(worker_id));
    for again in [sum(&[(0, 0), (1, 0)]), sum(&[(1, 0), (2, 0)]), own(1, 0)] {
        let out = give(&mut store, again).unwrap();
        assert!(out.transfers.is_empty());
    }
    assert_eq!((value(&store), store.held.piece(AT).unwrap().version), (111.0, 1));
}

#[test]
fn the_same_sum_twice_in_a_round_counts_once() {
    let mut store = server();
    for _ in 0..2 {
        give(&mut store, sum(&[(0, 0), (1, 0)])).unwrap();
    }
    give(&mut store, own(1, 0)).unwrap();
    assert_eq!(value(&store), 0.0);
    give(&mut store, own(2, 0)).unwrap();
    assert_eq!((value(&store), store.held.piece(AT).unwrap().version), (111.0, 1));
    assert!(!store.held.piece(AT).unwrap().round.is_open());
}

#[test]
fn a_sum_of_which_a_part_is_known_is_refused_and_changes_nothing() {
    let refused = Err(StoreError::Overlap { key: KeyName::new(KEY as i64, 0) });
    let is_refused = |store: &mut Store, sum| give(store, sum).map(|_| ()) == refused;
    let mut store = server();
    give(&mut store, own(0, 0)).unwrap();
    // One of them is in the open round.
    assert!(is_refused(&mut store, sum(&[(0, 0), (1, 0)])));
    // One of them is for a later round, the other for this one.
    assert!(is_refused(&mut store, sum(&[(0, 1), (1, 0)])));
    // One of them waits for the next round.
    give(&mut store, own(0, 1)).unwrap();
    give(&mut store, own(1, 0)).unwrap();
    assert!(is_refused(&mut store, sum(&[(0, 1), (1, 1)])));
    give(&mut store, own(2, 0)).unwrap();
    assert_eq!(value(&store), 111.0);
    // One of them has counted.
    assert!(is_refused(&mut store, sum(&[(1, 1), (2, 0)])));
    give(&mut store, sum(&[(1, 1), (2, 1)])).unwrap();
    assert_eq!((value(&store), store.held.piece(AT).unwrap().version), (111.0, 2));
}

#[test]
fn a_sum_that_has_overtaken_a_push_before_it_is_not_taken() {
    let mut store = server();
    give(&mut store, own(0, 0)).unwrap();
    // Nobody has brought the push of round 0 of worker 1, and worker 0 is in that round.
    let out = give(&mut store, sum(&[(1, 1), (2, 1)])).unwrap();
    assert!(out.answers.is_empty(), "no tree is known down which that could be told");
    assert!(!counts(&store, 2, 1));
    give(&mut store, sum(&[(1, 0), (2, 0)])).unwrap();
    assert_eq!(value(&store), 111.0);
}

/// Whoever sums, and whatever comes again: each round has the push of each worker once.
#[test]
fn any_grouping_with_repetitions_counts_each_push_once() {
    const WORKERS: usize = 3;
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut store = server();
        let mut overlaps = 0;
        for round in 0..20 {
            let mut groups: Vec<Vec<usize>> = Vec::new();
            for rank in 0..WORKERS {
                match random.below(groups.len() as u64 + 1) as usize {
                    new if new == groups.len() => groups.push(vec![rank]),
                    old => groups[old].push(rank),
                }
            }
            for group in groups {
                let names: Vec<_> = group.iter().map(|rank| (*rank, round)).collect();
                let first =
                    if let [(rank, round)] = names[..] { own(rank, round) } else { sum(&names) };
                give(&mut store, first).unwrap();
                let stray = 1 + random.below((1 << WORKERS) - 1);
                let some = (0..WORKERS).filter(|rank| stray & (1 << rank) != 0);
                let here = |rank: &usize| {
                    let piece = store.held.piece(AT).unwrap();
                    let name = Name::of(&push(*rank, round));
                    piece.marks.count(&name) || piece.round.holds(name.who, name.timestamp)
                };
                let some: Vec<_> = some.map(|rank| (rank, here(&rank))).collect();
                if some.iter().all(|(_, here)| !here) {
                    continue; // It would be the first of these, not a repetition.
                }
                let is_whole = some.iter().all(|(_, here)| *here);
                let names: Vec<_> = some.iter().map(|(rank, _)| (*rank, round)).collect();
                assert_eq!(give(&mut store, sum(&names)).is_ok(), is_whole);
                overlaps += u32::from(!is_whole);
            }
            assert_eq!(value(&store), 111.0, "seed {seed}, round {round}");
            assert_eq!(store.held.piece(AT).unwrap().version, round as u64 + 1);
        }
        assert!(overlaps > 0, "seed {seed}");
    }
}

/// What goes down a tree is one answer: it has values if anybody in it wants them.
#[test]
fn values_come_if_one_of_two_sums_wants_them() {
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let sum = |rank: usize, ahead: bool| {
            let mut meta = request([PushName { wants: ahead, ..name(rank, 0) }]);
            meta.ask_mut().unwrap().ahead = ahead;
            Pushes::several(meta).unwrap()
        };
        let (mut one, other) = (sum(1, first), sum(0, second));
        assert!(one.goes_with(&other));
        one.join(other);
        let joined = one.into_request();
        assert_eq!(joined.ask().unwrap().ahead, first || second);
        let wants: Vec<bool> = joined.hop().unwrap().names.iter().map(|name| name.wants).collect();
        assert_eq!(wants, [second, first]);
    }
}
