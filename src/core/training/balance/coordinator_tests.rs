//! Who may take part, and what the others get when somebody does not any more.

use super::*;
use crate::wire::balance::{
    BalanceKind, BalanceOpen, BalanceOrder, BalanceOrdered, BalanceReport, BalanceRule, BalanceSkip,
};
use crate::wire::worker_id;

fn settings(rank: u32) -> BalanceOpen {
    BalanceOpen {
        length: 1000,
        total: 64,
        members: 2,
        quantum: 1,
        rule: BalanceRule::CpuLast as i32,
        lookahead: 1,
        min: 1,
        rank,
        instance: 7,
        ..BalanceOpen::default()
    }
}

fn word(kind: BalanceKind, rank: u32, iteration: u64) -> BalanceMessage {
    BalanceMessage {
        kind: kind as i32,
        session: "a".to_owned(),
        rank,
        instance: 7,
        iteration,
        ..BalanceMessage::default()
    }
}

fn opening(open: BalanceOpen) -> BalanceMessage {
    let (rank, instance) = (open.rank, open.instance);
    BalanceMessage { open: Some(open), instance, ..word(BalanceKind::Open, rank, 0) }
}

fn report(rank: u32, iteration: u64, seconds: f64) -> BalanceMessage {
    let reports = vec![BalanceReport { seconds, cpu: 1.0, memory: 1.0 }];
    BalanceMessage { reports, ..word(BalanceKind::Report, rank, iteration) }
}

fn worker(rank: usize, life: u64) -> Worker {
    Worker { node: worker_id(rank), life }
}

struct TestCoordinator(Coordinator);

impl TestCoordinator {
    fn new() -> Self {
        Self(Coordinator::default())
    }

    /// What follows, as (rank, kind, iteration).
    fn handle(&mut self, message: &BalanceMessage) -> Vec<BalanceMessage> {
        let mut out = Vec::new();
        self.0.handle(worker(message.rank as usize, 0), message, &mut out);
        self.0.validate().unwrap();
        out.into_iter().map(|(_, message)| message).collect()
    }

    fn open(&mut self, open: BalanceOpen) -> Vec<BalanceMessage> {
        self.handle(&opening(open))
    }

    fn lost(&mut self, rank: usize) -> Vec<BalanceMessage> {
        let mut out = Vec::new();
        self.0.lost(worker_id(rank), Gone::HasLeft, &mut out);
        out.into_iter().map(|(_, message)| message).collect()
    }
}

/// (rank, until, last share) of each grant.
fn grants(words: &[BalanceMessage]) -> Vec<(u32, u64, u32, u32)> {
    let grants = words.iter().filter(|word| word.kind == BalanceKind::Grant as i32);
    grants
        .map(|word| {
            let share = word.shares.last().unwrap();
            (word.rank, word.iteration, share.start, share.size)
        })
        .collect()
}

fn refusal(words: &[BalanceMessage]) -> &str {
    let refused = words.iter().find(|word| word.kind == BalanceKind::Refused as i32);
    &refused.expect("it was not refused").text
}

fn begun() -> TestCoordinator {
    let mut coordinator = TestCoordinator::new();
    assert_eq!(coordinator.open(settings(0))[0].text, "rank 1 to open it");
    assert_eq!(grants(&coordinator.open(settings(1))), [(0, 2, 0, 32), (1, 2, 32, 32)]);
    // Two iterations may begin at once; from here on one is lent at a time.
    (0..2).for_each(|rank| assert_eq!(coordinator.handle(&report(rank, 1, 1.0)), []));
    coordinator
}

#[test]
fn sizes_follow_the_reports_one_iteration_later() {
    let mut coordinator = begun();
    assert_eq!(coordinator.handle(&report(0, 2, 3.0)), []);
    let after = coordinator.handle(&report(1, 2, 1.0));
    assert_eq!(grants(&after), [(0, 3, 0, 16), (1, 3, 16, 48)]);
    // The same again is not counted again.
    assert_eq!(coordinator.handle(&report(1, 2, 1.0)), []);
    let asks = BalanceMessage { asks: true, ..report(1, 2, 1.0) };
    let answer = coordinator.handle(&asks);
    assert_eq!(grants(&answer), [(1, 3, 16, 48)]);
    assert_eq!(answer[0].text, "rank 0, 1 to report iteration 2 (by its script)");
    assert_eq!(coordinator.0.status()[0].largest, 48);
}

#[test]
fn an_opening_that_came_twice_is_answered_twice() {
    let mut coordinator = begun();
    let again = coordinator.open(settings(1));
    assert_eq!((again[0].kind, again[0].iteration), (BalanceKind::Opened as i32, 1));
    assert_eq!(grants(&again), [(1, 2, 32, 32)]);
}

#[test]
fn workers_must_agree_and_have_ranks_of_their_own() {
    let mut coordinator = TestCoordinator::new();
    coordinator.open(settings(0));
    let other = BalanceOpen { total: 65, instance: 8, ..settings(1) };
    assert!(refusal(&coordinator.open(other)).contains("rank 0 has total=64, rank 1 65"));
    let other = BalanceOpen { rule: BalanceRule::Gpu as i32, instance: 8, ..settings(1) };
    assert!(refusal(&coordinator.open(other)).contains("rank 0 has the rule cpu-last, rank 1 gpu"));
    let other = BalanceOpen { lookahead: 3, instance: 8, ..settings(1) };
    assert!(refusal(&coordinator.open(other)).contains("rank 0 has prefetch=0, rank 1 2"));
    let mut coordinator = begun();
    let taken = opening(BalanceOpen { instance: 8, ..settings(1) });
    let mut out = Vec::new();
    coordinator.0.handle(worker(5, 0), &taken, &mut out);
    assert!(refusal(&[out.remove(0).1]).contains("rank 1 is taken: it is open at worker 1"));
    let stranger = BalanceMessage { instance: 8, ..report(1, 1, 1.0) };
    assert!(refusal(&coordinator.handle(&stranger)).contains("does not take part"));
}

#[test]
fn workers_must_take_samples_in_the_same_order() {
    let order = |rank, order: BalanceOrder, order_hash| BalanceOpen {
        order: order as i32,
        order_hash,
        ..settings(rank)
    };
    let both = |first: BalanceOpen, second: BalanceOpen| {
        let mut coordinator = TestCoordinator::new();
        coordinator.open(first);
        let words = coordinator.open(second);
        if grants(&words).is_empty() { refusal(&words).to_owned() } else { String::new() }
    };
    let (shuffled, stored) =
        (order(0, BalanceOrder::Shuffled, 0), order(1, BalanceOrder::Stored, 0));
    let text = both(shuffled.clone(), stored);
    assert!(text.contains("rank 0 takes samples in an order shuffled by seed=0, rank 1 as they"));
    let (own, other) = (order(0, BalanceOrder::Own, 17), order(1, BalanceOrder::Own, 18));
    let text = both(own.clone(), other);
    assert!(text.contains("hash 0000000000000011, rank 1 in") && text.contains("0012"), "{text}");
    assert_eq!(both(own.clone(), order(1, BalanceOrder::Own, 17)), "");
    assert!(both(own, order(1, BalanceOrder::Shuffled, 0)).contains("rank 1 in an order shuffled"));
    // An older worker does not say it.
    assert_eq!(both(shuffled, settings(1)), "");
}

#[test]
fn orders_of_later_epochs_are_compared() {
    let ordered = |rank, iteration, epoch, hash| {
        let ordered = Some(BalanceOrdered { epoch, hash });
        BalanceMessage { ordered, ..report(rank, iteration, 1.0) }
    };
    let mut coordinator = begun();
    assert_eq!(coordinator.handle(&ordered(0, 1, 1, 5)), []);
    assert_eq!(coordinator.handle(&ordered(1, 1, 1, 5)), []);
    // Many epochs later the first ones are forgotten.
    (2..40).for_each(|epoch| assert_eq!(coordinator.handle(&ordered(0, 1, epoch, epoch)), []));
    assert_eq!(coordinator.handle(&ordered(1, 1, 39, 39)), []);
    let words = coordinator.handle(&ordered(1, 1, 38, 7));
    assert!(refusal(&words).contains("in epoch 38 rank 0 takes samples"), "{words:?}");
}

#[test]
fn a_session_begins_where_its_workers_say() {
    let mut coordinator = TestCoordinator::new();
    let first = |rank, first| BalanceOpen { first, ..settings(rank) };
    let words = coordinator.open(first(0, 40));
    assert_eq!((words[0].iteration, words[0].knows_first), (40, true));
    let words = coordinator.open(BalanceOpen { instance: 8, ..first(1, 30) });
    assert!(refusal(&words).contains("rank 0 begins with iteration 40, rank 1 with 30"));
    assert_eq!(grants(&coordinator.open(first(1, 40))), [(0, 42, 0, 32), (1, 42, 32, 32)]);
    (0..2).for_each(|rank| _ = coordinator.handle(&report(rank, 41, 1.0)));
    // A process that comes later begins where the others are, whatever it says.
    coordinator.lost(1);
    let words = coordinator.open(BalanceOpen { instance: 9, ..first(1, 0) });
    assert_eq!((words[0].kind, words[0].iteration), (BalanceKind::Opened as i32, 42));
    let dealt = BalanceOpen { rule: BalanceRule::Dealt as i32, epochs: 3, ..first(0, 2) };
    let mut coordinator = TestCoordinator::new();
    coordinator.open(BalanceOpen { members: 1, ..dealt });
    let words = coordinator.handle(&word(BalanceKind::Ask, 0, 0));
    assert_eq!(words[0].dealt.unwrap().epoch, 2);
}

#[test]
fn iterations_are_skipped_by_all_or_by_nobody() {
    let skip = |rank, from, to| {
        let skip = Some(BalanceSkip { from, to });
        BalanceMessage { skip, asks: true, ..report(rank, to, 0.0) }
    };
    let mut coordinator = begun();
    let words = coordinator.handle(&skip(0, 1, 40));
    assert!(words[0].text.contains("rank 1 to report iteration 1 (by its script) (rank 0 has"));
    assert!(words[0].text.contains("skipped to iteration 40"), "{words:?}");
    // Who computes what another one skips is told.
    let mut other = begun();
    other.handle(&skip(0, 1, 40));
    let text = refusal(&other.handle(&report(1, 2, 1.0))).to_owned();
    assert!(text.contains("rank 0 skips the iterations from 1 to 39, and rank 1 has computed"));
    let mut other = begun();
    other.handle(&skip(0, 1, 40));
    assert!(refusal(&other.handle(&skip(1, 1, 20))).contains("rank 0 skips to iteration 40, rank"));
    // The other one does so too, and says it twice. It asks besides.
    let all = [(0, 41, 0, 32), (1, 41, 32, 32), (1, 41, 32, 32)];
    assert_eq!(grants(&coordinator.handle(&skip(1, 1, 40))), all);
    assert_eq!(grants(&coordinator.handle(&skip(1, 1, 40))), [(1, 41, 32, 32)]);
    coordinator.handle(&report(0, 41, 1.0));
    assert_eq!(grants(&coordinator.handle(&report(1, 41, 1.0))), [(0, 42, 0, 32), (1, 42, 32, 32)]);
    assert!(
        refusal(&coordinator.handle(&skip(0, 41, u64::MAX))).contains("rank 0 skips to iteration")
    );
}

/// All is dealt, and a worker waits for what another one has not reported.
#[test]
fn who_waits_for_what_is_dealt_hears_for_whom() {
    let mut coordinator = TestCoordinator::new();
    let dealt = |rank| BalanceOpen {
        rule: BalanceRule::Dealt as i32,
        epochs: 1,
        length: 128,
        ..settings(rank)
    };
    (0..2).for_each(|rank| _ = coordinator.open(dealt(rank)));
    (0..2).for_each(|number| _ = coordinator.handle(&word(BalanceKind::Ask, 0, number)));
    let words = coordinator.handle(&word(BalanceKind::Ask, 1, 0));
    assert_eq!(words[0].kind, BalanceKind::Wait as i32);
    assert_eq!(words[0].text, "all is dealt; rank 0 (2) to report batches");
    // An old question for a batch that it has is no wait.
    coordinator.handle(&report(0, 1, 1.0));
    assert_eq!(coordinator.handle(&word(BalanceKind::Ask, 0, 0)), []);
}

/// The word that it has closed the session was lost.
#[test]
fn a_node_that_opens_again_has_closed_what_it_had() {
    let mut coordinator = begun();
    let words = coordinator.open(BalanceOpen { instance: 8, ..settings(1) });
    let waits = words.iter().find(|word| word.kind == BalanceKind::Wait as i32).unwrap();
    assert_eq!((waits.instance, waits.text.as_str()), (8, "rank 0 to close it"));
    assert!(refusal(&coordinator.handle(&report(1, 2, 1.0))).contains("does not take part"));
    // Before batches have begun it has its place at once.
    let mut coordinator = TestCoordinator::new();
    coordinator.open(settings(1));
    let words = coordinator.open(BalanceOpen { instance: 8, ..settings(1) });
    assert_eq!((words[0].kind, words[0].instance), (BalanceKind::Opened as i32, 8));
    assert_eq!(grants(&coordinator.open(settings(0))), [(0, 2, 0, 32), (1, 2, 32, 32)]);
}

/// Nobody else is left: nothing would ever lend it the next iteration.
#[test]
fn the_only_worker_that_opens_again_begins_anew() {
    let mut coordinator = TestCoordinator::new();
    let alone = |instance| BalanceOpen { members: 1, instance, ..settings(0) };
    assert_eq!(grants(&coordinator.open(alone(7))), [(0, 2, 0, 64)]);
    coordinator.handle(&report(0, 2, 1.0));
    assert_eq!(grants(&coordinator.open(alone(8))), [(0, 2, 0, 64)]);
}

/// A session for each phase: nobody begins the next one while others are in the one before.
#[test]
fn who_opens_again_waits_until_all_have_closed() {
    let mut coordinator = begun();
    coordinator.handle(&word(BalanceKind::Close, 0, 0));
    // The next session is not this one: it may have another total.
    let again = BalanceOpen { instance: 8, total: 128, ..settings(0) };
    let words = coordinator.open(again.clone());
    assert_eq!((words[0].kind, words.len()), (BalanceKind::Wait as i32, 1));
    assert_eq!((words[0].text.as_str(), words[0].instance), ("rank 1 to close it", 8));
    coordinator.handle(&word(BalanceKind::Close, 1, 0));
    assert_eq!(coordinator.open(again)[0].kind, BalanceKind::Opened as i32);
    let words = coordinator.open(BalanceOpen { instance: 9, total: 128, ..settings(1) });
    assert_eq!(grants(&words), [(0, 2, 0, 64), (1, 2, 64, 64)]);
}

/// It would share iterations that the others never begin.
#[test]
fn nobody_joins_a_session_that_a_worker_has_closed() {
    let three = |rank| BalanceOpen { members: 3, ..settings(rank) };
    let mut coordinator = TestCoordinator::new();
    (0..3).for_each(|rank| _ = coordinator.open(three(rank)));
    coordinator.lost(2);
    coordinator.handle(&word(BalanceKind::Close, 0, 0));
    let new = BalanceOpen { instance: 8, ..three(2) };
    assert!(refusal(&coordinator.open(new.clone())).contains("Open a session of another name"));
    // A process in the place of the one that closed it is another one, too.
    let again = BalanceOpen { instance: 8, ..three(0) };
    assert_eq!(coordinator.open(again.clone())[0].kind, BalanceKind::Wait as i32);
    coordinator.lost(0);
    assert!(refusal(&coordinator.open(again)).contains("a worker has closed it"));
    // When all have closed it, the name is free.
    coordinator.handle(&word(BalanceKind::Close, 1, 0));
    assert_eq!(coordinator.open(new)[0].text, "rank 0, 1 to open it");
}

/// Nobody has missed anything yet.
#[test]
fn a_place_is_free_again_that_was_closed_before_batches_began() {
    let mut coordinator = TestCoordinator::new();
    coordinator.open(settings(0));
    coordinator.handle(&word(BalanceKind::Close, 0, 0));
    coordinator.open(settings(1));
    let words = coordinator.open(BalanceOpen { instance: 8, ..settings(0) });
    assert_eq!(grants(&words), [(0, 2, 0, 32), (1, 2, 32, 32)]);
}

/// Where batches are dealt, a process takes what is left.
#[test]
fn batches_are_dealt_to_who_comes_when_others_have_closed() {
    let rule = BalanceRule::Dealt as i32;
    let dealt = |rank| BalanceOpen { rule, members: 3, ..settings(rank) };
    let mut coordinator = TestCoordinator::new();
    (0..3).for_each(|rank| _ = coordinator.open(dealt(rank)));
    coordinator.lost(2);
    coordinator.handle(&word(BalanceKind::Close, 0, 0));
    let again = BalanceOpen { instance: 8, ..dealt(0) };
    assert_eq!(coordinator.open(again)[0].text, "rank 1 to close it");
    let words = coordinator.open(BalanceOpen { instance: 8, ..dealt(2) });
    assert_eq!((words[0].kind, words[0].instance), (BalanceKind::Opened as i32, 8));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let bad = |change: fn(&mut BalanceOpen)| {
        let mut open = settings(0);
        change(&mut open);
        let mut coordinator = TestCoordinator::new();
        let text = refusal(&coordinator.open(open)).to_owned();
        assert!(coordinator.0.is_empty());
        text
    };
    assert!(bad(|open| open.members = 0).contains("0 workers"));
    assert!(bad(|open| open.members = u32::MAX).contains("can share a session"));
    assert!(bad(|open| open.rank = 2).contains("rank 2 is not below"));
    assert!(bad(|open| open.total = 1).contains("too few for 2 workers"));
    assert!(bad(|open| open.total = 0).contains("0 samples"));
    assert!(bad(|open| open.length = 63).contains("the epoch has 63"));
    assert!(bad(|open| open.length = u64::MAX).contains("are possible"));
    assert!(bad(|open| (open.length, open.wraps) = (0, true)).contains("an epoch of 0 samples"));
    assert!(bad(|open| open.lookahead = 0).contains("0 iterations ahead"));
    assert!(bad(|open| open.quantum = 0).contains("quantum 0: 1 to 32"));
    assert!(bad(|open| open.quantum = 33).contains("quantum 33: 1 to 32"));
    assert!(
        bad(|open| (open.total, open.length, open.quantum) = (u32::MAX, 1 << 40, 5000))
            .contains("1 to 4096")
    );
    assert!(bad(|open| open.min = 0).contains("1 sample at least"));
    assert!(bad(|open| (open.min, open.max) = (9, 8)).contains("min 9 is above max 8"));
    assert!(bad(|open| open.rule = 99).contains("does not know the rule"));
    assert!(bad(|open| open.instance = 0).contains("number"));
    assert!(bad(|open| open.first = u64::MAX).contains("cannot begin with iteration"));
}

#[test]
fn bounds_that_cannot_hold_all_samples_are_told_to_all() {
    let mut coordinator = TestCoordinator::new();
    coordinator.open(BalanceOpen { max: 30, ..settings(0) });
    let words = coordinator.open(BalanceOpen { max: 30, ..settings(1) });
    let refused = words.iter().filter(|word| word.kind == BalanceKind::Refused as i32);
    assert_eq!(refused.count(), 2);
    assert!(refusal(&words).contains("cannot share 64 samples"));
    assert!(coordinator.0.is_empty());
    // And when one is left that cannot take all.
    let mut coordinator = TestCoordinator::new();
    coordinator.open(BalanceOpen { max: 40, ..settings(0) });
    coordinator.open(BalanceOpen { max: 40, ..settings(1) });
    coordinator.handle(&report(0, 2, 1.0));
    assert!(refusal(&coordinator.lost(1)).contains("cannot share 64 samples"));
}

#[test]
fn others_go_on_without_a_worker_that_is_gone() {
    let mut coordinator = begun();
    coordinator.handle(&report(0, 2, 1.0));
    let words = coordinator.lost(1);
    assert_eq!(grants(&words), [(0, 3, 0, 64)]);
    assert_eq!(words[0].shares.last().unwrap().workers, 1);
    // Another process in its place begins with the iteration that is lent next.
    let words = coordinator.open(BalanceOpen { instance: 9, ..settings(1) });
    assert_eq!((words[0].kind, words[0].iteration), (BalanceKind::Opened as i32, 3));
    let after = coordinator.handle(&report(0, 3, 2.0));
    assert_eq!(grants(&after), [(0, 4, 0, 32), (1, 4, 32, 32)]);
    assert!(after.iter().all(|word| word.shares.last().unwrap().workers == 2));
    // It closes; then the other one does, and nothing is left.
    let close = BalanceMessage { instance: 9, ..word(BalanceKind::Close, 1, 0) };
    coordinator.handle(&close);
    assert_eq!(grants(&coordinator.handle(&report(0, 4, 1.0))), [(0, 5, 0, 64)]);
    assert_eq!(coordinator.handle(&word(BalanceKind::Close, 0, 0)), []);
    assert!(coordinator.0.is_empty());
    assert_eq!(coordinator.handle(&word(BalanceKind::Close, 0, 0)), []);
    assert!(refusal(&coordinator.handle(&report(0, 4, 1.0))).contains("open it again"));
}

#[test]
fn no_report_goes_beyond_the_lease() {
    let mut coordinator = begun();
    assert!(refusal(&coordinator.handle(&report(0, 5, 1.0))).contains("lent until 2"));
    let many = BalanceMessage {
        reports: vec![BalanceReport::default(); 2000],
        ..word(BalanceKind::Report, 0, 2)
    };
    assert!(refusal(&coordinator.handle(&many)).contains("another version"));
    assert!(
        refusal(&coordinator.handle(&word(BalanceKind::Ask, 0, 0))).contains("nothing is dealt")
    );
    assert!(
        refusal(&coordinator.handle(&word(BalanceKind::Unknown, 0, 0))).contains("another version")
    );
}

#[test]
fn sessions_are_bounded() {
    let mut coordinator = TestCoordinator::new();
    for number in 0..=64 {
        let name = format!("session {number}");
        let message = BalanceMessage { session: name, ..opening(settings(0)) };
        let words = coordinator.handle(&message);
        assert_eq!(words[0].kind == BalanceKind::Refused as i32, number == 64);
    }
    let long = BalanceMessage { session: "x".repeat(129), ..opening(settings(0)) };
    assert!(refusal(&coordinator.handle(&long)).contains("1 to 128 bytes"));
}

#[test]
fn what_a_dead_worker_had_is_dealt_again() {
    let rule = BalanceRule::Dealt as i32;
    let open = |rank| BalanceOpen {
        rule,
        length: 100,
        total: 40,
        epochs: 1,
        lookahead: 2,
        ..settings(rank)
    };
    let mut coordinator = TestCoordinator::new();
    (0..2).for_each(|rank| assert_eq!(coordinator.open(open(rank)).len(), 1));
    let ask = |coordinator: &mut TestCoordinator, rank, number| {
        let words = coordinator.handle(&word(BalanceKind::Ask, rank, number));
        words.first().and_then(|word| word.dealt).map(|dealt| (dealt.place, dealt.size))
    };
    assert_eq!(ask(&mut coordinator, 0, 0), Some((0, 40)));
    assert_eq!(ask(&mut coordinator, 0, 0), Some((0, 40)), "the answer was lost");
    assert_eq!(ask(&mut coordinator, 1, 0), Some((40, 40)));
    assert_eq!(ask(&mut coordinator, 0, 1), Some((80, 20)));
    // All is dealt, and worker 1 may still be lost with what it has.
    assert_eq!(ask(&mut coordinator, 0, 2), None);
    coordinator.handle(&word(BalanceKind::Report, 0, 2));
    let words = coordinator.lost(1);
    assert_eq!(words[0].dealt.unwrap().place, 40);
    assert_eq!(words[0].iteration, 2);
    assert_eq!(ask(&mut coordinator, 0, 3), None);
    let words = coordinator.handle(&word(BalanceKind::Report, 0, 3));
    assert_eq!(words[0].dealt.unwrap().size, 0, "there are no more");
    assert!(refusal(&coordinator.handle(&word(BalanceKind::Ask, 0, 9))).contains("too many"));
}
