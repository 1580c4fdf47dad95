//! Whom barriers wait for, whom they free, and what is said of them.

use super::*;
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::scheduler::OldestWait;
use crate::wire::elastic::StalledRound;

impl Job {
    /// Who waits for whom.
    pub(super) fn waits(&self) -> Vec<String> {
        self.waits.waiting(self.now, &self.nodes[0]).lines
    }

    /// The same as numbers.
    pub(super) fn oldest_waits(&self) -> Vec<OldestWait> {
        self.waits.oldest(self.now, &self.nodes[0])
    }
}

/// A server or worker tells which round has waited for long.
fn stalled(round: Option<StalledRound>) -> Event {
    let bytes = round.map_or_else(Default::default, |round| round.bytes());
    Event::Tell(vec![Tell { to: SCHEDULER, topic: Topic::Stall, bytes }])
}

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
    assert_eq!(job.done(2, 1).unwrap().unwrap_err().kind, JobFailureKind::Config);
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
    assert_eq!(steps(&job).len(), 5);
    assert_eq!(said(&job), [""; 0]);
}

/// As the membership would have said it.
pub(super) fn action_of(line: LogLine) -> Action {
    match line {
        LogLine::Event(event) => Action::Note(event),
        LogLine::Step(text) => Action::Log { text },
    }
}

/// What the scheduler has warned of barriers.
fn said(job: &Job) -> Vec<&str> {
    of_barriers(job, |action| match action {
        Action::Note(NewEvent {
            level: Level::Warning, kind: JobEventKind::Wait, text, ..
        }) => Some(text.as_str()),
        _ => None,
    })
}

/// What it has said of them to whoever wants to see each step.
fn steps(job: &Job) -> Vec<&str> {
    of_barriers(job, |action| match action {
        Action::Log { text } => Some(text.as_str()),
        _ => None,
    })
}

fn of_barriers(job: &Job, text: fn(&Action) -> Option<&str>) -> Vec<&str> {
    let all = job.events[0].iter().filter_map(text);
    all.filter(|text| text.starts_with("a barrier of")).collect()
}

/// The scheduler's and the servers' time in the exit barrier is not the workers'.
#[test]
fn who_keeps_workers_waiting_is_said_and_shown() {
    let mut job = Job::of(2, 1);
    job.start();
    job.barrier(0, 9, 0, ALL_GROUP);
    job.barrier(1, 9, 0, ALL_GROUP);
    job.pass(50 * SECOND);
    job.barrier(2, 1, 0, ALL_GROUP);
    job.pass(8 * SECOND);
    assert_eq!(said(&job), [""; 0], "too early");
    job.pass(3 * SECOND);
    let missing = job.nodes[3].me().describe();
    let text =
        |waited| format!("a barrier of all nodes (group 7) has waited {waited} s for {missing}");
    assert_eq!(said(&job).len(), 1);
    assert!(said(&job)[0].ends_with(&format!("s for {missing}")));
    assert_eq!(job.waits(), [text(11)]);
    let missing = job.nodes[3].me().id;
    assert_eq!(job.oldest_waits(), [OldestWait { node: missing, seconds: 11.0 }]);
    job.barrier(3, 1, 0, ALL_GROUP);
    assert_eq!(job.waits(), [""; 0]);
    assert!(job.oldest_waits().is_empty());
}

/// A barrier and a round wait for one worker: the longer wait counts. A round for which all have
/// pushed waits for its server.
#[test]
fn the_longest_wait_for_each_node_is_shown() {
    let mut job = Job::of(2, 1);
    job.start();
    let id_of = |job: &Job, i: usize| job.nodes[i].me().id;
    let [server, first, second] = [1, 2, 3].map(|i| id_of(&job, i));
    job.pass(30 * SECOND);
    job.barrier(2, 1, 0, WORKER_GROUP);
    job.pass(5 * SECOND);
    let waits = |missing: Vec<NodeId>| StalledRound {
        key: 3,
        round: 1,
        waited: 20_000,
        pushed: vec![first],
        missing,
        space: 0,
    };
    let oldest = |node, seconds| OldestWait { node, seconds };
    assert_eq!(job.oldest_waits(), [oldest(second, 5.0)]);
    job.feed(1, stalled(Some(waits(vec![second]))));
    job.settle();
    assert_eq!(job.oldest_waits(), [oldest(second, 20.0)]);
    job.feed(1, stalled(Some(waits(Vec::new()))));
    job.settle();
    assert_eq!(job.oldest_waits(), [oldest(server, 20.0), oldest(second, 5.0)]);
    job.feed(1, stalled(None));
    job.settle();
    assert_eq!(job.oldest_waits(), [oldest(second, 5.0)]);
}

/// As after `kv.init` of a key that is there already: the first worker's push is a gradient for
/// which the second one's is missing, and that one is in the barrier behind it.
#[test]
fn who_waits_for_each_other_is_said_once() {
    let mut job = Job::of(2, 1);
    job.start();
    let id_of = |job: &Job, i: usize| job.nodes[i].me().id;
    let round = StalledRound {
        key: 3,
        round: 1,
        waited: 10_000,
        pushed: vec![id_of(&job, 2)],
        missing: vec![id_of(&job, 3)],
        space: 0,
    };
    let circles = |job: &Job| {
        let is = |action: &&Action| {
            matches!(action, Action::Note(event)
                if event.text.starts_with("nodes wait"))
        };
        job.events[0].iter().filter(is).count()
    };
    job.feed(1, stalled(Some(round)));
    job.settle();
    job.barrier(3, 1, 0, WORKER_GROUP);
    job.pass(9 * SECOND);
    assert_eq!(circles(&job), 0, "the barrier is young");
    job.pass(40 * SECOND);
    assert_eq!(circles(&job), 1);
    let (server, one, other) =
        (job.nodes[1].me().describe(), job.nodes[2].me().describe(), job.nodes[3].me().describe());
    let status = job.waits();
    assert_eq!(status.len(), 3, "{status:?}");
    let barrier = "a barrier of all workers (group 4)";
    let round = format!("round 1 of key 3 at {server}");
    assert_eq!(
        status[2],
        format!(
            "nodes wait for each other: {barrier} waits for {one}, which is in {round}; {round} \
             waits for {other}, which is in {barrier}"
        )
    );
    job.feed(1, stalled(None));
    job.settle();
    assert_eq!(job.waits().len(), 1);
}

/// Along a tree a sum waits at a relay, and the server knows nothing of the round. Workers tell
/// what they wait for, and who tells nothing has not pushed.
#[test]
fn whom_a_round_along_a_tree_waits_for_is_said() {
    let mut job = Job::of(3, 1);
    job.start();
    let workers = [2, 3, 4].map(|i| (i, job.nodes[i].me().id));
    let round = |id| StalledRound {
        key: 3,
        round: 31,
        waited: 10_000,
        pushed: vec![id],
        ..StalledRound::default()
    };
    let said = |job: &Job| -> Vec<String> {
        let text = |action: &Action| match action {
            Action::Note(event) if event.text.contains("along a tree") => Some(event.text.clone()),
            _ => None,
        };
        job.events[0].iter().filter_map(text).collect()
    };
    job.pass(10 * SECOND);
    for (i, id) in &workers[..2] {
        job.feed(*i, stalled(Some(round(*id))));
        job.settle();
    }
    assert_eq!(said(&job), [""; 0], "others may be about to tell");
    job.pass(3 * SECOND);
    let last = job.nodes[4].me().describe();
    let name = "round 31 of key 3 along a tree has waited";
    assert_eq!(said(&job), [format!("{name} 12 s for {last}")]);
    assert_eq!(job.waits(), [format!("{name} 13 s for {last}")]);
    // Then twice as late each time.
    job.pass(8 * SECOND);
    assert_eq!(said(&job).len(), 1);
    job.pass(10 * SECOND);
    assert_eq!(said(&job).len(), 2);
    // That one waits for a later key: values come to nobody.
    let other = StalledRound { key: 5, ..round(workers[2].1) };
    job.feed(4, stalled(Some(other)));
    job.settle();
    let waits = job.waits();
    assert!(waits.iter().all(|text| text.ends_with("and all workers have pushed")), "{waits:?}");
    for (i, _) in workers {
        job.feed(i, stalled(None));
    }
    job.settle();
    assert_eq!(job.waits(), [""; 0]);
}

/// Barriers of all nodes in the middle of a job, as an application may have them, do not end it.
#[test]
fn a_death_after_barriers_of_all_is_no_leave() {
    for leaving in [false, true] {
        let mut configs = vec![config(Role::Scheduler, "s", 1, 1, 1)];
        configs.push(config(Role::Server, "b", 20, 1, 1));
        configs.push(config(Role::Worker, "a", 10, 1, 1));
        configs[0].standing_scheduler = true;
        let mut job = Job::new(configs);
        job.start();
        for ticket in 0..3 {
            let leaving = leaving && ticket == 2;
            for i in [1, 2] {
                let (customer_id, group) = (0, ALL_GROUP);
                job.feed(
                    i,
                    Event::EnterBarrier { ticket, customer_id, group, leaving, instance: false },
                );
            }
            job.settle();
            assert_eq!(job.done(2, ticket), Some(Ok(())), "barrier {ticket}");
        }
        job.kill(1);
        job.pass(10 * SECOND);
        assert_eq!(job.failure(0).is_some(), !leaving, "leaving: {leaving}");
        assert_eq!(job.nodes[0].job_is_over(), leaving);
    }
}
