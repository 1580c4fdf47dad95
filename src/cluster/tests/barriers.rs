//! Whom barriers wait for, whom they free, and what is said of them.

use super::*;

#[test]
fn a_barrier_frees_its_own_group_only() {
    let mut job = Job::of(2, 2);
    job.start();
    let (server, worker) = (1, 3);
    job.barrier(server, 1, 0, ALL_GROUP);
    job.barrier(worker, 2, 0, WORKER_GROUP);
    assert_eq!(job.done(worker, 2), None);
    job.barrier(worker + 1, 3, 0, WORKER_GROUP);
    assert_eq!((job.done(worker, 2), job.done(worker + 1, 3)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(job.done(server, 1), None, "the workers' barrier freed a server");
    for (i, ticket) in [(0, 10), (2, 11), (3, 12), (4, 13)] {
        job.barrier(i, ticket, 0, ALL_GROUP);
    }
    assert_eq!(job.done(server, 1), Some(Ok(())));
}

#[test]
fn the_same_member_counts_once() {
    let mut job = Job::of(2, 1);
    job.start();
    job.barrier(2, 1, 0, WORKER_GROUP);
    job.barrier(2, 2, 0, WORKER_GROUP);
    assert_eq!(job.done(2, 1), None, "one worker made a barrier of two");
}

#[test]
fn a_wrong_group_is_an_error_at_once() {
    let mut job = Job::of(1, 1);
    job.start();
    job.barrier(2, 1, 0, SERVER_GROUP);
    assert_eq!(job.done(2, 1).unwrap().unwrap_err().kind, FailureKind::Config);
}

#[test]
fn customers_that_come_late_have_their_own_barriers() {
    let mut job = Job::of(2, 1);
    job.start();
    for worker in [2, 3] {
        job.feed(worker, Event::Register { customer_id: 1 });
    }
    job.settle();
    // The scheduler sits in the exit barrier for the whole job.
    job.barrier(0, 9, 0, ALL_GROUP);
    job.barrier(2, 1, 1, ALL_GROUP);
    assert_eq!(job.done(2, 1), None);
    job.barrier(3, 2, 1, ALL_GROUP);
    assert_eq!((job.done(2, 1), job.done(3, 2)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(job.done(0, 9), None);
}

/// After 10, 20, 40, 80 and 160 s.
#[test]
fn whom_a_barrier_waits_for_is_said_less_and_less_often() {
    let mut job = Job::of(1, 1);
    job.start();
    job.barrier(0, 9, 0, ALL_GROUP);
    job.pass(165 * SECOND);
    let says = |action: &&Action| matches!(action, Action::Log { text, .. } if text.contains("a barrier of group 7 waits for"));
    assert_eq!(job.events[0].iter().filter(says).count(), 5);
}
