//! What is left of nodes for which the job has no place.

use super::*;

/// Channels of the scheduler to nodes that have no id.
fn pending(job: &Job) -> i32 {
    let change = |action: &Action| match action {
        Action::ConnectPending { .. } => 1,
        Action::Rename { from: id, .. } | Action::Disconnect { id } if *id < 0 => -1,
        _ => 0,
    };
    job.events[0].iter().map(change).sum()
}

#[test]
fn nodes_that_are_turned_away_leave_no_channel() {
    let worker = |port| config(Role::Worker, "a", port, 2, 1);
    let scheduler = config(Role::Scheduler, "s", 1, 2, 1);
    let mut forming = Job::new(vec![scheduler.clone(), worker(10), worker(11), worker(12)]);
    forming.start();
    assert!(forming.failure(3).unwrap().contains("one too many"));
    let server = config(Role::Server, "b", 20, 2, 1);
    let mut complete = Job::new(vec![scheduler, worker(10), worker(11), server, worker(12)]);
    complete.start();
    assert!(complete.failure(4).unwrap().contains("the job is complete"));
    assert_eq!((pending(&forming), pending(&complete)), (3, 1), "what they are told goes out");
    for job in [&mut forming, &mut complete] {
        job.pass(6 * SECOND);
    }
    assert_eq!((pending(&forming), pending(&complete)), (2, 0), "two workers wait for a server");
}
