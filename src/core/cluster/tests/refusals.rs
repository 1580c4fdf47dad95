//! Jobs that cannot begin: settings that differ, addresses that nobody reaches, nodes that end by
//! themselves. Everybody hears why, also those that come later.

use super::*;
use crate::wire::{Origin, Setting};

fn told(mut config: ClusterConfig, workers: u32, bound: u32) -> ClusterConfig {
    config.settings = vec![
        Setting::new("DMLC_NUM_WORKER", workers.to_string()),
        Setting::new("MXNET_KVSTORE_BIGARRAY_BOUND", bound.to_string()),
    ];
    config
}

/// A scheduler, a server and two workers; the second of these was told that.
fn one_was_told(workers: u32, bound: u32) -> Job {
    let usual = |role, host, port| told(config(role, host, port, 2, 1), 2, 7);
    let configs = vec![
        usual(Role::Scheduler, "s", 1),
        usual(Role::Worker, "a", 10),
        told(config(Role::Worker, "a", 11, workers as usize, 1), workers, bound),
        usual(Role::Server, "b", 20),
    ];
    Job::new(configs)
}

/// What stands in both places, under which all end.
fn all_hear(job: &Job, parts: &[&str]) {
    for i in 0..job.nodes.len() {
        let text = job.failure(i).unwrap_or_else(|| panic!("{i} does not know"));
        assert!(parts.iter().all(|part| text.contains(part)), "{i}: {text}");
        assert!(job.events[i].iter().any(|action| matches!(action, Action::Failed(_))), "{i}");
    }
}

#[test]
fn both_values_and_both_nodes_are_named_to_all() {
    let mut job = one_was_told(3, 7);
    job.start();
    let parts = ["DMLC_NUM_WORKER is 3 at the worker at a:11", "2 at the scheduler (s:1)"];
    all_hear(&job, &parts);
    let mut job = one_was_told(2, 8);
    job.start();
    let parts = ["BIGARRAY_BOUND is 8 at the worker at a:11", "7 at the worker at a:10"];
    all_hear(&job, &parts);
    let mut job = one_was_told(2, 7);
    job.start();
    assert!(job.nodes.iter().all(Cluster::is_ready));
}

/// The scheduler would be gone, and they would wait for it.
#[test]
fn those_who_come_later_hear_it_too() {
    let mut job = one_was_told(3, 7);
    for i in [0, 2] {
        job.feed(i, Event::Register { customer_id: 0 });
    }
    job.settle();
    let ended = |job: &Job, i: usize| {
        job.events[i].iter().any(|action| matches!(action, Action::Failed(_)))
    };
    assert!(ended(&job, 2) && !ended(&job, 0) && job.failure(0).is_some());
    job.pass(3 * SECOND);
    assert!(!ended(&job, 0), "it stays");
    for i in [1, 3] {
        job.feed(i, Event::Register { customer_id: 0 });
    }
    job.settle();
    all_hear(&job, &["DMLC_NUM_WORKER is 3"]);
    let mut alone = one_was_told(3, 7);
    for i in [0, 2] {
        alone.feed(i, Event::Register { customer_id: 0 });
    }
    alone.settle();
    alone.pass(6 * SECOND);
    assert!(ended(&alone, 0), "but not for ever");
}

#[test]
fn a_node_that_comes_late_with_other_settings_is_refused_and_the_job_goes_on() {
    let usual = |role, host, port| told(config(role, host, port, 1, 1), 1, 7);
    let mut configs = vec![
        usual(Role::Scheduler, "s", 1),
        usual(Role::Worker, "a", 10),
        usual(Role::Server, "b", 20),
        told(config(Role::Worker, "a", 11, 1, 1), 1, 8),
    ];
    configs.iter_mut().for_each(|config| config.heartbeat_timeout = Some(5 * SECOND));
    let mut job = Job::new(configs);
    (0..3).for_each(|i| job.feed(i, Event::Register { customer_id: 0 }));
    job.settle();
    job.feed(3, Event::Register { customer_id: 0 });
    job.settle();
    let text = job.failure(3).unwrap();
    assert!(text.contains("is 8 at the worker at a:11 and 7 at the worker at a:10"), "{text}");
    assert!((0..3).all(|i| job.failure(i).is_none()));
}

/// A node that says nothing is stock, or of an earlier version.
#[test]
fn who_says_nothing_is_compared_with_nobody_but_reads_the_list() {
    let mut configs = vec![
        config(Role::Scheduler, "s", 1, 1, 1),
        config(Role::Worker, "a", 10, 3, 1),
        config(Role::Server, "b", 20, 1, 1),
    ];
    configs[2].node.abilities = 0;
    let mut job = Job::new(configs);
    job.start();
    assert!(job.nodes[2].is_ready());
    let text = job.failure(1).unwrap();
    assert!(
        text.contains("has 1 workers and 1 servers") && text.contains("told 3 and 1"),
        "{text}"
    );
}

#[test]
fn a_loopback_address_of_another_host_ends_the_start() {
    for host in ["127.0.0.1", "0.0.0.0", "255.255.255.255"] {
        let mut job = Job::new(vec![
            config(Role::Scheduler, "s", 1, 1, 1),
            config(Role::Worker, host, 10, 1, 1),
            config(Role::Server, "b", 20, 1, 1),
        ]);
        job.feed(0, Event::Register { customer_id: 0 });
        job.feed(2, Event::Register { customer_id: 0 });
        job.settle();
        job.feed(1, Event::Register { customer_id: 0 });
        let (_, target, from, mut message) = job.wire.pop_front().unwrap();
        if let Some(control) = message.meta.control_mut() {
            control.origin = Some(Origin { address: "10.0.0.7".parse().unwrap(), is_here: false });
        }
        job.feed(target, Event::Received { from, message });
        job.settle();
        all_hear(&job, &[host, "10.0.0.7", "DMLC_NODE_HOST"]);
    }
}

#[test]
fn a_node_that_ends_by_itself_says_why() {
    // It has not registered: the others go on waiting, and know.
    let mut job = Job::of(2, 1);
    (0..3).for_each(|i| job.feed(i, Event::Register { customer_id: 0 }));
    job.settle();
    let message = giving_up("a worker on host x: PSLITE_LOG=loud is not a level".to_owned(), 0);
    job.feed(0, Event::Received { from: None, message: message.clone() });
    job.settle();
    let hears = |job: &Job, i: usize| {
        let said = |action: &&Action| match action {
            Action::Note(event) => event.text.contains("PSLITE_LOG=loud"),
            _ => false,
        };
        job.events[i].iter().filter(said).count()
    };
    assert_eq!([0, 1, 2].map(|i| hears(&job, i)), [1; 3]);
    job.feed(0, Event::Received { from: None, message });
    job.settle();
    assert_eq!([0, 1, 2].map(|i| hears(&job, i)), [1; 3], "said once");
    for n in 0..100 {
        let message = giving_up(format!("{n}{}", "x".repeat(5000)), 0);
        job.feed(0, Event::Received { from: None, message });
    }
    job.settle();
    let text = job.nodes[0].overview().note;
    assert!(text.len() < 10_000, "a stranger fills no memory: {}", text.len());
    // It has: then the job ends, with its reason in place of "its connection is gone".
    job.feed(2, Event::CannotGoOn("the disk is full".to_owned()));
    job.settle();
    job.feed(3, Event::Register { customer_id: 0 });
    job.settle();
    for i in [0, 1, 3] {
        let text = job.failure(i).unwrap();
        assert!(text.contains("a:200") && text.contains("the disk is full"), "{i}: {text}");
    }
}

/// Another program may listen there, or a stock scheduler, which says nothing yet.
#[test]
fn registered_is_who_was_answered() {
    let mut job = Job::of(2, 1);
    let text = |job: &Job| job.nodes[2].waiting_text();
    job.feed(2, Event::Register { customer_id: 0 });
    assert!(text(&job).contains("has not answered"), "{}", text(&job));
    job.settle();
    assert!(text(&job).starts_with("registered with the scheduler at s:1"), "{}", text(&job));
}

#[test]
fn another_wire_is_named_to_all() {
    let mut job = Job::of(2, 1);
    (0..3).for_each(|i| job.feed(i, Event::Register { customer_id: 0 }));
    job.settle();
    let node = job.nodes[3].me().clone();
    job.feed(0, Event::OtherWire { node, its: "byteps", ours: "mxnet" });
    job.settle();
    all_hear(&job, &["PSLITE_WIRE is byteps at the worker at a:201", "mxnet at the scheduler"]);
}
