//! Words about batch sizes: in every job of ours, with and without servers, and between a worker
//! and the scheduler only.

use super::*;
use crate::wire::balance::SessionStatus;
use crate::wire::elastic::Topic;
use bytes::Bytes;

fn told(job: &Job, node: usize) -> Vec<(NodeId, Bytes)> {
    let words = job.events[node].iter().filter_map(|action| match action {
        Action::Told { from, bytes, .. } => Some((*from, bytes.clone())),
        _ => None,
    });
    words.collect()
}

fn word(to: NodeId, text: &'static str) -> Event {
    Event::Tell(vec![Tell {
        to,
        topic: Topic::Batches,
        bytes: Bytes::from_static(text.as_bytes()),
    }])
}

#[test]
fn workers_and_the_scheduler_hear_each_other() {
    for servers in [0, 1] {
        let mut job = Job::of(2, servers);
        job.feed(servers + 1, word(SCHEDULER, "too early"));
        job.start();
        let worker = job.nodes[servers + 1].me().id;
        job.feed(servers + 1, word(SCHEDULER, "more"));
        job.feed(0, word(worker, "less"));
        job.settle();
        assert_eq!(told(&job, 0), [(worker, Bytes::from_static(b"more"))]);
        assert_eq!(told(&job, servers + 1), [(SCHEDULER, Bytes::from_static(b"less"))]);
        // From one worker to another it is nothing.
        let other = job.nodes[servers + 2].me().id;
        job.feed(servers + 1, word(other, "psst"));
        job.settle();
        assert_eq!(told(&job, servers + 2), []);
    }
}

#[test]
fn status_shows_the_sessions() {
    let mut job = Job::of(1, 0);
    job.start();
    let sessions = vec![SessionStatus { name: "a".to_owned(), ..SessionStatus::default() }];
    job.feed(0, Event::Sessions(sessions.clone()));
    let status = job.nodes[0].status(job.now);
    assert_eq!(status.sessions, sessions);
    assert_eq!(Status::from_json(&status.json()), Some(status));
}
