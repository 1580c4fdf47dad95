//! What is told of topics: in every job of ours, with and without servers, and between the
//! scheduler and another node only.

use super::*;
use crate::wire::{decode_meta, encode_meta};
use bytes::Bytes;

/// One that nobody here knows, as the next topic will be.
const NEXT: Topic = Topic::Later(0);

fn told(job: &Job, node: usize) -> Vec<(NodeId, Topic, Bytes)> {
    let words = job.events[node].iter().filter_map(|action| match action {
        Action::Told { from, topic, bytes } => Some((*from, *topic, bytes.clone())),
        _ => None,
    });
    words.collect()
}

fn word(to: NodeId, topic: Topic, text: &'static str) -> Event {
    Event::Tell(vec![Tell { to, topic, bytes: Bytes::from_static(text.as_bytes()) }])
}

/// For the topics that are known and for one that is not: it needs no event, action or field.
#[test]
fn the_scheduler_and_the_others_hear_each_other() {
    for (servers, topic) in
        [(0, Topic::Batches), (1, Topic::Batches), (1, Topic::Measure), (1, NEXT)]
    {
        let mut job = Job::of(2, servers);
        job.feed(servers + 1, word(SCHEDULER, topic, "too early"));
        job.start();
        for node in 1..servers + 3 {
            let id = job.nodes[node].me().id;
            job.feed(node, word(SCHEDULER, topic, "more"));
            job.feed(0, word(id, topic, "less"));
            job.settle();
            assert_eq!(told(&job, 0).pop(), Some((id, topic, Bytes::from_static(b"more"))));
            assert_eq!(told(&job, node), [(SCHEDULER, topic, Bytes::from_static(b"less"))]);
        }
        assert_eq!(told(&job, 0).len(), servers + 2);
        // From one worker to another it is nothing.
        let other = job.nodes[servers + 2].me().id;
        job.feed(servers + 1, word(other, topic, "psst"));
        job.settle();
        assert_eq!(told(&job, servers + 2).len(), 1);
    }
}

/// Stock has no place for it.
#[test]
fn a_stock_scheduler_is_told_nothing() {
    for stock in [true, false] {
        let mut configs = vec![config(Role::Scheduler, "s", 1, 1, 1)];
        configs.push(config(Role::Server, "b", 100, 1, 1));
        configs.push(config(Role::Worker, "a", 200, 1, 1));
        if stock {
            configs[0].node.abilities = 0;
        }
        let mut job = Job::new(configs);
        job.start();
        job.feed(1, word(SCHEDULER, NEXT, "more"));
        job.settle();
        assert_eq!(told(&job, 0).is_empty(), stock);
    }
}

/// As it travels: by the fields that messages have.
#[test]
fn a_new_topic_goes_over_the_wire() {
    let mut job = Job::of(1, 0);
    job.start();
    let mut actions = Vec::new();
    job.nodes[1].handle(job.now, word(SCHEDULER, NEXT, "more"), &mut actions);
    let [Action::Send { to: SCHEDULER, message }] = &actions[..] else { panic!("{actions:?}") };
    let mut bytes = Vec::new();
    encode_meta(&message.meta, &mut bytes);
    let message = Message { meta: decode_meta(&bytes).unwrap(), data: Default::default() };
    let from = job.nodes[1].me().id;
    job.feed(0, Event::Received { from: Some(from), message });
    assert_eq!(told(&job, 0), [(from, NEXT, Bytes::from_static(b"more"))]);
}

/// For what goes from worker to worker, as a probe of their link does.
#[test]
fn workers_that_meet_are_connected_once() {
    let mut job = Job::of(2, 1);
    job.start();
    let [server, other] = [1, 3].map(|i| job.nodes[i].me().id);
    let before = job.events[2].len();
    for id in [server, other, other, 99, job.nodes[2].me().id] {
        job.feed(2, Event::Meet { id });
    }
    let news = &job.events[2][before..];
    let [Action::Connect { node, .. }] = news else { panic!("{news:?}") };
    assert_eq!(node.id, other);
}
