//! Nodes that stand still: none of their limits counts that.

use super::*;
use crate::awake::{AwakeClock, STEP};

/// All who live stand still for so long, and go on together.
fn stand_still(job: &mut Job, time: Duration) {
    job.now += AwakeClock::new().read(time);
    for event in [Event::StoodStill, Event::Tick] {
        for i in (0..job.nodes.len()).filter(|i| !job.dead[*i]).collect::<Vec<_>>() {
            job.feed(i, event.clone());
        }
        job.settle();
    }
}

fn fails(job: &Job) -> bool {
    (0..job.nodes.len()).any(|i| !job.dead[i] && job.failure(i).is_some())
}

/// In all of them something is missing, and its limit has `left` to go when the job stands still.
fn holds_on((name, mut job): (&str, Job), left: Duration) {
    assert!(!fails(&job), "{name}: it fails before the pause");
    stand_still(&mut job, 5000 * STEP);
    job.pass(left - 2 * STEP);
    assert!(!fails(&job), "{name}: it takes its own pause for others' silence");
    job.pass(70 * SECOND);
    assert!(fails(&job), "{name}: it does not miss them any more");
}

/// A job of two workers and two servers, of which the last worker says no more.
fn silent(heartbeat_timeout: Option<Duration>) -> Job {
    let mut configs = vec![config(Role::Scheduler, "s", 1, 2, 2)];
    configs.extend((0..2).map(|i| config(Role::Server, "b", 100 + i, 2, 2)));
    configs.extend((0..2).map(|i| config(Role::Worker, "a", 200 + i, 2, 2)));
    configs.iter_mut().for_each(|config| config.heartbeat_timeout = heartbeat_timeout);
    let mut job = Job::new(configs);
    job.start();
    job.dead[4] = true;
    job
}

#[test]
fn no_limit_counts_a_pause() {
    let mut job = silent(None);
    job.pass(50 * SECOND);
    // It begins anew.
    holds_on(("silence", job), 60 * SECOND);

    let mut job = silent(Some(40 * SECOND));
    job.pass(30 * SECOND);
    holds_on(("PS_HEARTBEAT_TIMEOUT", job), 40 * SECOND);

    let mut job = silent(Some(5 * SECOND));
    job.pass(50 * SECOND);
    // 60 s from when it was missed.
    holds_on(("PSLITE_RECOVERY_WAIT", job), 14 * SECOND);

    let mut job = silent(None);
    job.kill(4);
    job.pass(SECOND / 2);
    holds_on(("PSLITE_PEER_TIMEOUT", job), 5 * SECOND / 2);

    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 1, 1), config(Role::Worker, "a", 2, 1, 1)];
    configs.iter_mut().for_each(|config| config.start_timeout = Some(20 * SECOND));
    let mut job = Job::new(configs);
    job.start();
    job.pass(10 * SECOND);
    holds_on(("PSLITE_START_TIMEOUT", job), 10 * SECOND);
}

#[test]
fn silence_begins_anew_once_within_its_limit() {
    let mut job = silent(None);
    for _ in 0..2 {
        job.pass(25 * SECOND);
        stand_still(&mut job, 75 * SECOND);
    }
    // 26 s since the first pause, which alone counts.
    job.pass(33 * SECOND);
    assert!(!fails(&job));
    job.pass(3 * SECOND);
    assert!(fails(&job));
}

#[test]
fn a_job_that_stands_still_again_and_again_is_whole() {
    let mut job = silent(None);
    job.dead[4] = false;
    for _ in 0..100 {
        stand_still(&mut job, 75 * SECOND);
        job.pass(SECOND / 2);
    }
    assert!(!fails(&job));
}

/// One that was stopped alone goes on, and says so: that makes nobody watch it again.
#[test]
fn signs_of_life_of_one_that_was_given_up_mean_nothing() {
    let mut job = silent(Some(5 * SECOND));
    job.pass(10 * SECOND);
    let id = job.nodes[4].me().id;
    assert!(job.nodes[0].dead_nodes(job.now, SECOND).contains(&id));
    job.dead[4] = false;
    job.pass(10 * SECOND);
    assert!(job.nodes[0].dead_nodes(job.now, 60 * SECOND).contains(&id));
}
