//! A worker's side, with answers that come late, twice or never.

use super::*;
use crate::wire::balance::{
    BalanceDealt, BalanceKind, BalanceMessage, BalanceOpen, BalanceOrdered, BalanceReport,
    BalanceRule, BalanceShare, BalanceSkip,
};
use std::time::Duration;

const NOW: Duration = Duration::from_secs(100);

fn settings() -> BalanceOpen {
    BalanceOpen {
        length: 100,
        total: 32,
        members: 2,
        quantum: 1,
        rule: BalanceRule::Cpu as i32,
        lookahead: 2,
        min: 1,
        rank: 1,
        instance: 5,
        ..BalanceOpen::default()
    }
}

fn answer(kind: BalanceKind, iteration: u64) -> BalanceMessage {
    let kind = kind as i32;
    BalanceMessage { kind, rank: 1, instance: 5, iteration, ..BalanceMessage::default() }
}

fn grant(until: u64, shares: &[(u64, u32, u32)]) -> BalanceMessage {
    let shares = shares.iter().map(|(from, start, size)| BalanceShare {
        from: *from,
        start: *start,
        size: *size,
        workers: 0,
    });
    BalanceMessage { shares: shares.collect(), ..answer(BalanceKind::Grant, until) }
}

fn opened(settings: BalanceOpen) -> Participant {
    let (mut worker, message) = Participant::open("a", settings, NOW).unwrap();
    assert_eq!(message.kind, BalanceKind::Open as i32);
    worker.received(NOW, &answer(BalanceKind::Opened, 0), &mut Vec::new());
    worker
}

/// Takes the next one, which needs no asking.
fn batch(worker: &mut Participant) -> (u64, u64, u64, u32) {
    let mut out = Vec::new();
    let Turn::Batch(batch) = worker.next(NOW, &mut out) else { panic!("nothing to do") };
    assert_eq!(out, []);
    worker.validate().unwrap();
    (batch.iteration, batch.epoch, batch.place, batch.size)
}

#[test]
fn batches_follow_the_shares_over_epochs() {
    let mut worker = opened(settings());
    worker.received(NOW, &grant(5, &[(0, 16, 16), (2, 20, 12), (4, 8, 24)]), &mut Vec::new());
    // 3 iterations of 32 in an epoch of 100: 4 samples are left out.
    assert_eq!(worker.per_epoch(), 3);
    assert_eq!(batch(&mut worker), (0, 0, 16, 16));
    assert_eq!(batch(&mut worker), (1, 0, 48, 16));
    assert_eq!(batch(&mut worker), (2, 0, 84, 12));
    assert_eq!(batch(&mut worker), (3, 1, 20, 12));
    assert_eq!(batch(&mut worker), (4, 1, 40, 24));
    assert_eq!(worker.next(NOW, &mut Vec::new()), Turn::Wait);
    let wraps = opened(BalanceOpen { wraps: true, ..settings() });
    assert_eq!(wraps.per_epoch(), 4);
}

#[test]
fn a_batch_says_how_many_workers_share_its_iteration() {
    let mut worker = opened(settings());
    let mut shares = grant(3, &[(0, 16, 16), (1, 0, 32)]);
    shares.shares[1].workers = 1;
    worker.received(NOW, &shares, &mut Vec::new());
    let mut workers = || match worker.next(NOW, &mut Vec::new()) {
        Turn::Batch(batch) => batch.workers,
        turn => panic!("{turn:?}"),
    };
    // An older scheduler does not say so: then it is as many as the session is for.
    assert_eq!((workers(), workers(), workers()), (2, 1, 1));
}

#[test]
fn who_waits_asks_once_a_second() {
    let (mut worker, _) = Participant::open("a", settings(), NOW).unwrap();
    let mut out = Vec::new();
    assert_eq!(worker.next(NOW, &mut out), Turn::Wait);
    assert_eq!(out, []);
    // The opening is said again, too.
    worker.tick(NOW + Duration::from_millis(999), &mut out);
    assert_eq!(out, []);
    worker.tick(NOW + Duration::from_secs(1), &mut out);
    assert_eq!(out.pop().unwrap().kind, BalanceKind::Open as i32);
    let text = "rank 0 to close it".to_owned();
    worker.received(NOW, &BalanceMessage { text, ..answer(BalanceKind::Wait, 0) }, &mut out);
    assert_eq!((worker.is_answered(), worker.waits_for()), (false, "rank 0 to close it"));
    worker.tick(NOW + Duration::from_secs(2), &mut out);
    assert_eq!(out.pop().unwrap().kind, BalanceKind::Open as i32);
    worker.received(NOW, &answer(BalanceKind::Opened, 0), &mut out);
    assert_eq!(worker.next(NOW, &mut out), Turn::Wait);
    assert!(out.pop().unwrap().asks && out.is_empty());
    assert_eq!(worker.next(NOW, &mut out), Turn::Wait);
    // An answer that it has to wait is no reason to ask again at once.
    let mut wait = grant(0, &[(0, 0, 16)]);
    wait.text = "rank 0".to_owned();
    worker.received(NOW, &wait, &mut out);
    assert_eq!((worker.next(NOW, &mut out), worker.waits_for()), (Turn::Wait, "rank 0"));
    assert_eq!(out, []);
    worker.tick(NOW + Duration::from_secs(1), &mut out);
    assert!(out[0].asks && out.len() == 1);
}

#[test]
fn older_and_foreign_words_change_nothing() {
    let mut worker = opened(settings());
    let mut out = Vec::new();
    worker.received(NOW, &grant(4, &[(0, 0, 16)]), &mut out);
    worker.received(NOW, &grant(2, &[(0, 0, 32)]), &mut out);
    let foreign = BalanceMessage { instance: 6, ..answer(BalanceKind::Refused, 0) };
    worker.received(NOW, &foreign, &mut out);
    worker.received(NOW, &answer(BalanceKind::Opened, 7), &mut out);
    worker.received(NOW, &grant(9, &[]), &mut out);
    worker.received(NOW, &grant(9, &[(4, 0, 1), (4, 0, 2)]), &mut out);
    assert_eq!(batch(&mut worker), (0, 0, 0, 16));
    assert_eq!((worker.progress(), out), ((1, 0), vec![]));
}

#[test]
fn reports_are_in_order_and_repeated() {
    let seconds = |seconds| BalanceReport { seconds, ..BalanceReport::default() };
    let mut worker = opened(settings());
    worker.received(NOW, &grant(20, &[(0, 0, 16)]), &mut Vec::new());
    assert!(worker.report(0, seconds(1.0)).is_err(), "it has not begun");
    assert_eq!(worker.measured(seconds(1.0)), None);
    (0..15).for_each(|_| _ = batch(&mut worker));
    let said = worker.report(1, seconds(2.0)).unwrap().unwrap();
    assert_eq!((said.iteration, said.reports), (2, vec![seconds(0.0), seconds(2.0)]));
    assert_eq!(worker.report(1, seconds(9.0)), Ok(None));
    let said = worker.measured(seconds(3.0)).unwrap();
    assert_eq!((said.iteration, said.reports.len()), (3, 3));
    let said = worker.report(14, seconds(4.0)).unwrap().unwrap();
    assert_eq!((said.iteration, said.reports.len()), (15, 8));
    assert_eq!(worker.progress(), (15, 15));
}

/// Three iterations of 32 are an epoch.
#[test]
fn what_is_measured_of_an_epochs_first_batch_does_not_count() {
    let report = BalanceReport { seconds: 2.0, cpu: 0.5, memory: 0.0 };
    let measured = |settings: BalanceOpen, batches: u32| {
        let mut worker = opened(settings);
        worker.received(NOW, &grant(9, &[(0, 16, 16)]), &mut Vec::new());
        (0..batches).for_each(|_| _ = batch(&mut worker));
        let said = (0..batches).map(|_| worker.measured(report).unwrap().reports);
        said.map(|reports| reports.last().unwrap().seconds).collect::<Vec<_>>()
    };
    assert_eq!(measured(settings(), 7), [0.0, 2.0, 2.0, 0.0, 2.0, 2.0, 0.0]);
    let wraps = BalanceOpen { wraps: true, ..settings() };
    assert_eq!(measured(wraps, 6), [0.0, 2.0, 2.0, 2.0, 0.0, 2.0]);
    // An epoch of one iteration has no other.
    assert_eq!(measured(BalanceOpen { length: 33, ..settings() }, 2), [2.0, 2.0]);
    // What the worker says itself counts.
    let mut worker = opened(settings());
    worker.received(NOW, &grant(9, &[(0, 16, 16)]), &mut Vec::new());
    batch(&mut worker);
    assert_eq!(worker.report(0, report).unwrap().unwrap().reports, [report]);
}

#[test]
fn an_end_is_final() {
    let mut worker = opened(settings());
    let refused = BalanceMessage { text: "no".to_owned(), ..answer(BalanceKind::Refused, 0) };
    let mut out = Vec::new();
    worker.received(NOW, &refused, &mut out);
    assert_eq!(worker.next(NOW, &mut out), Turn::Refused("no".to_owned()));
    assert_eq!(worker.close(), None);
    let mut worker = opened(settings());
    assert_eq!(worker.close().unwrap().kind, BalanceKind::Close as i32);
    worker.fail("the job is over");
    worker.received(NOW, &refused, &mut out);
    worker.tick(NOW + Duration::from_secs(9), &mut out);
    assert_eq!(worker.next(NOW, &mut out), Turn::Refused("the session was closed".to_owned()));
    assert_eq!(out, []);
    let mut worker = opened(settings());
    worker.fail("the job is over");
    assert_eq!(worker.next(NOW, &mut out), Turn::Refused("the job is over".to_owned()));
}

#[test]
fn dealt_batches_are_asked_for_ahead() {
    let dealt = |number, place| BalanceMessage {
        dealt: Some(BalanceDealt { epoch: 0, place, size: 32 * u32::from(place < 96) }),
        ..answer(BalanceKind::Deal, number)
    };
    let rule = BalanceRule::Dealt as i32;
    let (mut worker, _) =
        Participant::open("a", BalanceOpen { rule, lookahead: 3, ..settings() }, NOW).unwrap();
    let mut out = Vec::new();
    worker.received(NOW, &answer(BalanceKind::Opened, 0), &mut out);
    let asks = |out: &mut Vec<BalanceMessage>| {
        let kinds = |message: &BalanceMessage| message.kind == BalanceKind::Ask as i32;
        let asked: Vec<u64> = out.iter().filter(|m| kinds(m)).map(|m| m.iteration).collect();
        out.clear();
        asked
    };
    assert_eq!(asks(&mut out), [0]);
    worker.received(NOW, &dealt(0, 0), &mut out);
    worker.received(NOW, &dealt(0, 64), &mut out); // Twice.
    assert_eq!(asks(&mut out), [1]);
    let Turn::Batch(Batch { place: 0, size: 32, .. }) = worker.next(NOW, &mut out) else {
        panic!("no batch");
    };
    worker.received(NOW, &dealt(1, 32), &mut out);
    worker.received(NOW, &dealt(2, 64), &mut out);
    assert_eq!(asks(&mut out), [2]);
    worker.validate().unwrap();
    assert!(matches!(worker.next(NOW, &mut out), Turn::Batch(Batch { place: 32, .. })));
    worker.received(NOW, &dealt(3, 96), &mut out);
    assert!(matches!(worker.next(NOW, &mut out), Turn::Batch(Batch { place: 64, .. })));
    assert_eq!(worker.next(NOW, &mut out), Turn::End);
    assert_eq!(asks(&mut out), [3]);
}

#[test]
fn a_session_may_begin_later_if_the_scheduler_knows_that() {
    let first = BalanceOpen { first: 7, ..settings() };
    let (mut worker, _) = Participant::open("a", first.clone(), NOW).unwrap();
    let opened = BalanceMessage { knows_first: true, ..answer(BalanceKind::Opened, 7) };
    worker.received(NOW, &opened, &mut Vec::new());
    worker.received(NOW, &grant(9, &[(7, 0, 16)]), &mut Vec::new());
    // Iteration 7 of epochs of three.
    assert_eq!(batch(&mut worker), (7, 2, 32, 16));
    assert_eq!(worker.progress(), (8, 7));
    let (mut worker, _) = Participant::open("a", first, NOW).unwrap();
    worker.received(NOW, &answer(BalanceKind::Opened, 0), &mut Vec::new());
    assert!(worker.refusal().unwrap().contains("an older version"));
}

#[test]
fn what_is_skipped_is_said_until_it_is_known() {
    let mut worker = opened(settings());
    worker.received(NOW, &grant(3, &[(0, 16, 16)]), &mut Vec::new());
    batch(&mut worker);
    batch(&mut worker);
    worker.report(0, BalanceReport { seconds: 1.0, ..BalanceReport::default() }).unwrap();
    let said = worker.skip(6).unwrap().unwrap();
    assert_eq!((said.iteration, said.skip), (6, Some(BalanceSkip { from: 1, to: 6 })));
    assert_eq!((said.reports.len(), worker.progress()), (0, (6, 6)));
    assert_eq!(worker.skip(6).unwrap(), None);
    assert!(worker.skip(u64::MAX).unwrap_err().contains("is the last one"));
    // That word was lost: it asks, and says it again.
    let mut out = Vec::new();
    assert_eq!(worker.next(NOW, &mut out), Turn::Wait);
    assert_eq!((out[0].skip, out[0].asks), (said.skip, true));
    worker.received(NOW, &grant(8, &[(0, 16, 16), (3, 8, 24)]), &mut Vec::new());
    assert_eq!(batch(&mut worker), (6, 2, 8, 24));
    let dealt = BalanceOpen { rule: BalanceRule::Dealt as i32, ..settings() };
    assert!(opened(dealt).skip(3).unwrap_err().contains("none can be skipped"));
}

#[test]
fn since_when_it_waits_for_somebody() {
    let mut worker = opened(settings());
    let waits = |text: &str| BalanceMessage { text: text.to_owned(), ..grant(1, &[(0, 0, 9)]) };
    let at = |seconds| NOW + Duration::from_secs(seconds);
    worker.received(at(1), &waits("rank 0"), &mut Vec::new());
    worker.received(at(5), &waits("rank 0"), &mut Vec::new());
    assert_eq!((worker.waits_for(), worker.waits_since()), ("rank 0", at(1)));
    worker.received(at(6), &waits("rank 1"), &mut Vec::new());
    assert_eq!(worker.waits_since(), at(6));
    assert_eq!(worker.ordered(2, 5).ordered, Some(BalanceOrdered { epoch: 2, hash: 5 }));
}

/// What a worker that came back is too late for, others compute.
#[test]
fn iterations_without_samples_are_passed_over() {
    let mut worker = opened(settings());
    worker.received(NOW, &grant(3, &[(0, 16, 16)]), &mut Vec::new());
    assert_eq!((batch(&mut worker).0, batch(&mut worker).0, batch(&mut worker).0), (0, 1, 2));
    let shares = [(0, 16, 16), (3, 0, 0), (8, 16, 16)];
    worker.received(NOW, &grant(7, &shares[..2]), &mut Vec::new());
    assert!(worker.waits());
    let mut out = Vec::new();
    assert_eq!(worker.next(NOW, &mut out), Turn::Wait);
    assert_eq!(worker.progress(), (7, 0));
    worker.received(NOW, &grant(10, &shares), &mut Vec::new());
    assert!(!worker.waits());
    assert_eq!(batch(&mut worker).0, 8);
    // Reports are of what it computed; what it passed over follows by itself.
    let report = |worker: &mut Participant| {
        let said = worker.measured(BalanceReport { seconds: 1.0, ..BalanceReport::default() });
        worker.validate().unwrap();
        said.map(|said| said.iteration)
    };
    assert_eq!((report(&mut worker), report(&mut worker)), (Some(1), Some(2)));
    assert_eq!(report(&mut worker), Some(8));
    let last = worker.measured(BalanceReport { seconds: 2.0, ..BalanceReport::default() }).unwrap();
    assert_eq!((last.iteration, last.reports.last().map(|r| r.seconds)), (9, Some(2.0)));
    assert_eq!(batch(&mut worker).0, 9);
    // One that has nothing to report says so at once, or others would wait.
    assert_eq!(report(&mut worker), Some(10));
    worker.received(NOW, &grant(12, &[(8, 16, 16), (10, 0, 0), (11, 16, 16)]), &mut Vec::new());
    let mut out = Vec::new();
    let Turn::Batch(next) = worker.next(NOW, &mut out) else { panic!("nothing to do") };
    assert_eq!((next.iteration, out.len(), out[0].iteration), (11, 1, 11));
}
