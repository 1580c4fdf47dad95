//! Workers that die and come back, of whom rounds wait for some and not for others: the lease waits
//! for the same ones. Plays the scheduler's side by hand; `world_tests` plays both at random.

use super::*;
use crate::wire::balance::{BalanceKind, BalanceOpen, BalanceReport, BalanceRule};
use crate::wire::worker_id;

/// Three workers that share 48 samples, one iteration ahead.
struct TestCoordinator {
    coordinator: Coordinator,
    /// The life and the opening of each rank.
    lives: [u64; 3],
    instances: [u64; 3],
    length: u64,
}

impl TestCoordinator {
    fn new() -> Self {
        Self { coordinator: Coordinator::default(), lives: [0; 3], instances: [1; 3], length: 4800 }
    }

    /// All of the beginning have opened it, and computed two iterations.
    fn begun() -> Self {
        Self::new().begin()
    }

    fn begin(mut self) -> Self {
        (0..3).for_each(|rank| _ = self.open(rank));
        for iteration in 1..=2 {
            (0..3).for_each(|rank| _ = self.report(rank, iteration));
        }
        self
    }

    fn handle(&mut self, rank: usize, message: &BalanceMessage) -> Vec<BalanceMessage> {
        let worker = Worker { node: worker_id(rank), life: self.lives[rank] };
        let mut out = Outbox::new();
        self.coordinator.handle(worker, message, &mut out);
        self.coordinator.validate().unwrap();
        out.into_iter().map(|(_, message)| message).collect()
    }

    fn word(&self, kind: BalanceKind, rank: usize, iteration: u64) -> BalanceMessage {
        BalanceMessage {
            kind: kind as i32,
            session: "a".to_owned(),
            rank: rank as u32,
            instance: self.instances[rank],
            iteration,
            ..BalanceMessage::default()
        }
    }

    fn open(&mut self, rank: usize) -> Vec<BalanceMessage> {
        let open = BalanceOpen {
            length: self.length,
            total: 48,
            members: 3,
            quantum: 1,
            rule: BalanceRule::Fixed as i32,
            lookahead: 1,
            min: 1,
            rank: rank as u32,
            instance: self.instances[rank],
            passes: true,
            ..BalanceOpen::default()
        };
        let message = BalanceMessage { open: Some(open), ..self.word(BalanceKind::Open, rank, 0) };
        self.handle(rank, &message)
    }

    fn report(&mut self, rank: usize, computed: u64) -> Vec<BalanceMessage> {
        let reports = vec![BalanceReport { seconds: 1.0, cpu: 1.0, memory: 1.0 }];
        let said = self.word(BalanceKind::Report, rank, computed);
        self.handle(rank, &BalanceMessage { reports, asks: true, ..said })
    }

    fn lost(&mut self, rank: usize, gone: Gone) -> Vec<BalanceMessage> {
        let mut out = Outbox::new();
        self.coordinator.lost(worker_id(rank), gone, &mut out);
        self.coordinator.validate().unwrap();
        out.into_iter().map(|(_, message)| message).collect()
    }

    /// Another process is started in the place of a dead one. Its first iteration, and what it may
    /// begin.
    fn returns(&mut self, rank: usize, life: u64) -> (u64, u64) {
        self.lives[rank] = life;
        self.instances[rank] += 1;
        let words = self.open(rank);
        let opened = words.iter().find(|word| word.kind == BalanceKind::Opened as i32).unwrap();
        (opened.iteration, until(&words, rank))
    }
}

fn until(words: &[BalanceMessage], rank: usize) -> u64 {
    let grant =
        |word: &&BalanceMessage| (word.kind, word.rank) == (BalanceKind::Grant as i32, rank as u32);
    words.iter().rfind(grant).map_or(0, |word| word.iteration)
}

/// The last share of the newest grant to a rank: from which iteration on, and its size.
fn share(words: &[BalanceMessage], rank: usize) -> (u64, u32) {
    let of = |word: &&BalanceMessage| (word.rank, word.shares.is_empty()) == (rank as u32, false);
    let share = words.iter().rfind(of).and_then(|word| word.shares.last()).unwrap();
    (share.from, share.size)
}

#[test]
fn nobody_waits_for_the_report_of_one_that_rounds_do_not_wait_for() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(1, Gone::IsMissed);
    // It begins with the first free iteration, when the others do.
    assert_eq!(coordinator.returns(1, 7), (3, 3));
    coordinator.report(0, 3);
    let words = coordinator.report(2, 3);
    assert_eq!((until(&words, 0), until(&words, 1), until(&words, 2)), (4, 4, 4));
    assert_eq!((share(&words, 0), share(&words, 1)), ((3, 16), (3, 16)));
    // It pushes and waits for the others, who go on without its report.
    for iteration in 4..=5 {
        coordinator.report(0, iteration);
        let words = coordinator.report(2, iteration);
        assert_eq!(until(&words, 0), iteration + 1);
        assert_eq!(share(&words, 1), (3, 16), "it is in time");
    }
}

#[test]
fn what_one_is_too_late_for_the_others_compute() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(1, Gone::IsMissed);
    assert_eq!(coordinator.returns(1, 7).0, 3);
    let mut words = Vec::new();
    for iteration in 3..=10 {
        coordinator.report(0, iteration);
        words = coordinator.report(2, iteration);
    }
    // It has the iterations 3 to 5, and the others have all of those after.
    assert_eq!((share(&words, 0), share(&words, 1)), ((6, 24), (6, 0)));
    let newest = words.iter().rfind(|word| word.rank == 1).unwrap();
    let sizes: Vec<(u64, u32)> =
        newest.shares.iter().map(|share| (share.from, share.size)).collect();
    assert_eq!(sizes.last_chunk(), Some(&[(3, 16), (6, 0)]), "what it owes is not forgotten");
    // Once it has computed what it owes, it takes part again.
    assert_eq!(share(&coordinator.report(1, 6), 1), (6, 0));
    coordinator.report(0, 11);
    let words = coordinator.report(2, 11);
    assert_eq!((share(&words, 0), share(&words, 1)), ((11, 16), (11, 16)));
}

/// By its last batch a worker knows that an epoch is over.
#[test]
fn of_the_last_iteration_of_an_epoch_all_have_some() {
    let mut coordinator = TestCoordinator { length: 48 * 8, ..TestCoordinator::new() }.begin();
    coordinator.lost(1, Gone::IsMissed);
    coordinator.returns(1, 7);
    let mut words = Vec::new();
    for iteration in 3..=9 {
        coordinator.report(0, iteration);
        words = coordinator.report(2, iteration);
    }
    let newest = words.iter().rfind(|word| word.rank == 1).unwrap();
    let sizes: Vec<(u64, u32)> =
        newest.shares.iter().map(|share| (share.from, share.size)).collect();
    assert_eq!(sizes.last_chunk(), Some(&[(3, 16), (6, 0), (7, 16), (8, 0)]));
}

#[test]
fn where_none_of_the_beginning_is_left_the_one_that_is_back_for_longest_is_waited_for() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(1, Gone::IsMissed);
    coordinator.returns(1, 7);
    coordinator.lost(2, Gone::IsMissed);
    coordinator.returns(2, 9);
    let words = coordinator.lost(0, Gone::IsMissed);
    // It has reported nothing, so it is one further.
    assert_eq!((until(&words, 1), until(&words, 2)), (5, 5));
    let words = coordinator.report(1, 5);
    assert_eq!((until(&words, 1), until(&words, 2)), (6, 6));
    assert_eq!(coordinator.report(2, 4)[0].text, "rank 1 to report iteration 5 (by its script)");
}

#[test]
fn one_that_replaces_another_goes_on_where_that_one_was() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.report(0, 3);
    assert_eq!(coordinator.lost(1, Gone::IsReplaced), []);
    assert_eq!(
        coordinator.report(0, 3)[0].text,
        "a process that replaces rank 1, and for rank 2 to report \
                                            iteration 2 (by its script)"
    );
    coordinator.report(2, 3);
    assert_eq!(coordinator.report(0, 3)[0].text, "a process that replaces rank 1");
    assert_eq!(until(&coordinator.report(0, 3), 0), 3, "the others wait for it");
    // Its first batch may be measured with the second one.
    assert_eq!(coordinator.coordinator.take_notes(), [""; 0]);
    assert_eq!(coordinator.returns(1, 0), (2, 4));
    let notes = coordinator.coordinator.take_notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("replaces worker 1 goes on with iteration 2"), "{notes:?}");
    assert!(notes[0].contains("If the former process had pushed gradients of iteration 2"));
    assert_eq!(coordinator.coordinator.take_notes(), [""; 0], "said once");
    assert_eq!(share(&coordinator.report(1, 2), 1), (3, 16));
    coordinator.report(1, 3);
    assert_eq!(until(&coordinator.report(1, 4), 1), 4, "and it for them");
}

/// Its initial values count as gradients, whatever the former one had pushed.
#[test]
fn a_replaced_worker_0_is_said_to_be_late_in_any_case() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(0, Gone::IsReplaced);
    coordinator.returns(0, 0);
    let notes = coordinator.coordinator.take_notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("As worker 0 it pushes initial values again"), "{notes:?}");
    // Where rounds go on without the dead, nobody is late; before the begin, nothing was pushed.
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(1, Gone::IsMissed);
    coordinator.returns(1, 5);
    assert!(coordinator.coordinator.take_notes().is_empty());
    let mut coordinator = TestCoordinator::new();
    coordinator.open(0);
    coordinator.lost(0, Gone::IsReplaced);
    coordinator.returns(0, 0);
    assert!(coordinator.coordinator.take_notes().is_empty());
}

#[test]
fn a_place_that_is_kept_is_taken_though_a_worker_has_closed() {
    let mut coordinator = TestCoordinator::begun();
    coordinator.lost(1, Gone::IsReplaced);
    let close = coordinator.word(BalanceKind::Close, 0, 0);
    coordinator.handle(0, &close);
    assert_eq!(coordinator.returns(1, 0).0, 2);
    // All others may be gone: the place is kept all the same.
    coordinator.lost(1, Gone::IsReplaced);
    coordinator.lost(2, Gone::IsReplaced);
    assert!(!coordinator.coordinator.is_empty());
    assert_eq!(coordinator.returns(1, 0).0, 2);
}

#[test]
fn a_session_does_not_wait_for_the_dead_to_begin() {
    let mut coordinator = TestCoordinator::new();
    coordinator.open(0);
    assert_eq!(coordinator.lost(2, Gone::IsMissed), []);
    let words = coordinator.open(1);
    assert_eq!((share(&words, 0), share(&words, 1)), ((0, 24), (0, 24)));
    assert_eq!(coordinator.returns(2, 7).0, 2);
}
