//! Jobs as the launcher meets them: who ends when, and what follows. Times are arguments.

use super::*;

const GRACE: Duration = Duration::from_secs(15);
const OK: ProcessOutcome = ProcessOutcome::Exited(0);
use Importance::{Needed, Replaceable, ReplaceableWorker, Worker};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn job() -> Job {
    let names =
        [("scheduler", Needed), ("server 0", Needed), ("worker 0", Worker), ("worker 1", Worker)];
    Job::new(names.iter().map(|(l, w)| ((*l).to_owned(), *w)).collect(), GRACE, None)
}

fn signals(actions: &[RunAction]) -> Vec<(usize, Signal)> {
    actions
        .iter()
        .filter_map(|a| if let RunAction::Signal(i, s) = a { Some((*i, *s)) } else { None })
        .collect()
}

#[test]
fn all_ended_well() {
    let mut job = job();
    for index in 0..4 {
        assert!(!job.is_finished());
        assert_eq!(job.ended(at(1), index, OK), []);
    }
    assert!(job.is_finished());
    assert_eq!(job.exit_code(), 0);
}

#[test]
fn a_failure_gives_the_others_grace_then_term_then_kill() {
    let mut job = job();
    let said = job.ended(at(1), 3, ProcessOutcome::Exited(7));
    assert_eq!(
        said,
        [RunAction::Say("worker 1 ended with exit code 7; the others have 15 s to end".into())]
    );
    assert_eq!(job.deadline(), Some(at(16)));
    assert_eq!(job.tick(at(15)), []);
    assert_eq!(job.ended(at(15), 2, OK), []);
    assert_eq!(signals(&job.tick(at(16))), [(0, Signal::SIGTERM), (1, Signal::SIGTERM)]);
    assert_eq!(job.ended(at(17), 0, ProcessOutcome::Signaled(Signal::SIGTERM)), []);
    assert_eq!(signals(&job.tick(at(21))), [(1, Signal::SIGKILL)]);
    job.ended(at(21), 1, ProcessOutcome::Signaled(Signal::SIGKILL));
    assert!(job.is_finished());
    assert_eq!(job.exit_code(), 7);
}

#[test]
fn failures_are_told_in_the_order_of_their_ends_without_those_we_asked_for() {
    let mut job = job();
    job.ended(at(1), 2, ProcessOutcome::Exited(1));
    job.ended(at(2), 3, ProcessOutcome::Signaled(Signal::SIGINT));
    // No worker is left: nothing is waited for.
    assert_eq!(job.deadline(), Some(at(4)));
    job.tick(at(4));
    job.ended(at(5), 0, ProcessOutcome::Signaled(Signal::SIGTERM));
    job.ended(at(5), 1, ProcessOutcome::Signaled(Signal::SIGTERM));
    let ends = job.failures().into_iter().map(|failed| (failed.index, failed.at));
    assert_eq!(ends.collect::<Vec<_>>(), [(2, at(1)), (3, at(2))]);
}

#[test]
fn a_job_whose_worker_never_came_is_ended_with_a_text() {
    let mut job = job();
    assert!(!job.wants_to_know_if_complete());
    job.ended(at(1), 3, OK);
    assert!(job.wants_to_know_if_complete());
    let actions = job.is_incomplete(at(3));
    let Some(RunAction::Say(text)) = actions.first() else { panic!("{actions:?}") };
    assert!(text.contains("worker 1 ended before it was in the job"), "{text}");
    assert_eq!(signals(&actions).len(), 3);
    assert_eq!(job.is_incomplete(at(4)), [], "it is said once");
    for index in 0..3 {
        job.ended(at(4), index, ProcessOutcome::Signaled(Signal::SIGTERM));
    }
    assert_eq!((job.exit_code(), job.failures()), (1, vec![]));
}

#[test]
fn nobody_asks_where_no_worker_waits() {
    let mut job = job();
    job.ended(at(1), 2, OK);
    job.ended(at(1), 3, OK);
    assert!(!job.wants_to_know_if_complete());
    assert_eq!(job.is_incomplete(at(2)), []);
}

#[test]
fn who_aborts_because_of_a_failure_is_not_its_cause() {
    let mut job = job();
    job.ended(at(1), 2, ProcessOutcome::Exited(7));
    assert_eq!(job.ended(at(2), 3, ProcessOutcome::Signaled(Signal::SIGABRT)).len(), 1);
    assert_eq!(job.exit_code(), 7);
}

#[test]
fn servers_that_stay_after_the_workers_are_ended_and_count() {
    let mut job = job();
    job.ended(at(1), 2, OK);
    job.ended(at(2), 3, OK);
    assert_eq!(job.deadline(), Some(at(17)));
    job.ended(at(3), 0, OK);
    assert_eq!(signals(&job.tick(at(17))), [(1, Signal::SIGTERM)]);
    job.ended(at(17), 1, ProcessOutcome::Signaled(Signal::SIGTERM));
    assert_eq!(job.exit_code(), 143);
}

#[test]
fn a_server_that_is_not_missed_does_not_count() {
    let names = [("scheduler", Needed), ("server 0", Replaceable), ("worker 0", Worker)];
    let processes =
        names.iter().map(|(label, importance)| ((*label).to_owned(), *importance)).collect();
    let mut job = Job::new(processes, GRACE, None);
    let said = job.ended(at(1), 1, ProcessOutcome::Signaled(Signal::SIGKILL));
    assert_eq!(
        said,
        [RunAction::Say("server 0 was ended by SIGKILL; the others go on if they can".into())]
    );
    assert_eq!(job.deadline(), None);
    assert_eq!(job.exit_code(), 137, "so far");
    job.ended(at(9), 2, OK);
    job.ended(at(9), 0, OK);
    assert!(job.is_finished());
    assert_eq!(job.exit_code(), 0);
}

#[test]
fn a_server_that_is_missed_ends_the_workers_and_they_count() {
    let names = [("scheduler", Needed), ("server 0", Replaceable), ("worker 0", Worker)];
    let processes =
        names.iter().map(|(label, importance)| ((*label).to_owned(), *importance)).collect();
    let mut job = Job::new(processes, GRACE, None);
    job.ended(at(1), 1, ProcessOutcome::Signaled(Signal::SIGKILL));
    job.ended(at(2), 2, ProcessOutcome::Exited(255));
    assert_eq!(job.deadline(), Some(at(4)));
    job.ended(at(3), 0, OK);
    assert_eq!(job.exit_code(), 255);
}

#[test]
fn workers_go_on_without_one_and_one_is_enough() {
    let names =
        [("scheduler", Needed), ("worker 0", ReplaceableWorker), ("worker 1", ReplaceableWorker)];
    let job = || {
        let processes =
            names.iter().map(|(label, importance)| ((*label).to_owned(), *importance)).collect();
        Job::new(processes, GRACE, None)
    };
    let mut goes_on = job();
    let said = goes_on.ended(at(1), 1, ProcessOutcome::Signaled(Signal::SIGKILL));
    assert_eq!(
        said,
        [RunAction::Say("worker 0 was ended by SIGKILL; the others go on if they can".into())]
    );
    assert_eq!((goes_on.deadline(), goes_on.exit_code()), (None, 137));
    goes_on.ended(at(9), 2, OK);
    assert_eq!(goes_on.deadline(), Some(at(24)), "the scheduler alone");
    goes_on.ended(at(9), 0, OK);
    assert_eq!(goes_on.exit_code(), 0);
    let mut nobody = job();
    nobody.ended(at(1), 1, ProcessOutcome::Exited(7));
    nobody.ended(at(2), 2, ProcessOutcome::Exited(8));
    assert_eq!(nobody.deadline(), Some(at(4)), "nothing can come of the scheduler alone");
    nobody.ended(at(3), 0, OK);
    assert_eq!(nobody.exit_code(), 7);
}

#[test]
fn servers_alone_may_run_for_ever() {
    let mut job =
        Job::new(vec![("server 0".into(), Needed), ("server 1".into(), Needed)], GRACE, None);
    job.ended(at(1), 0, OK);
    assert_eq!(job.deadline(), None);
}

#[test]
fn a_signal_is_passed_on_and_the_second_one_kills() {
    let mut job = job();
    job.ended(at(0), 0, OK);
    // Workers leave the job first: else they would miss the others, and say so.
    let passed = job.interrupted(at(1), Signal::SIGINT);
    assert_eq!(signals(&passed), [(2, Signal::SIGINT), (3, Signal::SIGINT)]);
    assert_eq!(job.deadline(), Some(at(3)));
    assert_eq!(signals(&job.tick(at(3))), [(1, Signal::SIGINT)]);
    assert_eq!(signals(&job.interrupted(at(2), Signal::SIGINT)).len(), 3);
    for index in 1..4 {
        job.ended(at(2), index, ProcessOutcome::Signaled(Signal::SIGKILL));
    }
    assert_eq!(job.exit_code(), 130);
}

#[test]
fn the_others_get_a_signal_as_soon_as_no_worker_is_left() {
    let mut job = job();
    job.interrupted(at(1), Signal::SIGINT);
    job.ended(at(1), 2, ProcessOutcome::Signaled(Signal::SIGINT));
    let passed = job.ended(at(2), 3, ProcessOutcome::Exited(1));
    assert_eq!(signals(&passed), [(0, Signal::SIGINT), (1, Signal::SIGINT)]);
    for index in 0..2 {
        assert_eq!(job.ended(at(2), index, ProcessOutcome::Signaled(Signal::SIGINT)), []);
    }
    assert_eq!((job.exit_code(), job.failures()), (130, vec![]));
}

#[test]
fn the_limit_ends_all() {
    let mut job = Job::new(vec![("worker 0".into(), Worker)], GRACE, Some(at(5)));
    assert_eq!(job.deadline(), Some(at(5)));
    assert_eq!(signals(&job.tick(at(5))), [(0, Signal::SIGTERM)]);
    assert_eq!(signals(&job.tick(at(10))), [(0, Signal::SIGKILL)]);
    assert!(!job.is_finished());
    job.tick(at(20));
    assert!(job.is_finished(), "a process that survives SIGKILL must not keep us");
    assert_eq!(job.exit_code(), TIMED_OUT);
}
