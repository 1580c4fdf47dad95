//! A job whose workers train while deltas travel: who says so, who hears of it, and who keeps a job
//! from it.

use std::time::Duration;

use super::cases::status_word;
use super::world::{SECOND, World, config};
use crate::chronicle::{Level, NewEvent};
use crate::cluster::{Action, Event};
use crate::scheduler::{RoundTimes, Status, WorkerTime};
use crate::wire::exchange::{ExchangeMode, ExchangeSpec, OuterRule};
use crate::wire::{Role, ability};

const ABLE: u64 = ability::EXCHANGES;

fn spec() -> ExchangeSpec {
    let outer = OuterRule { momentum: 500_000, nesterov: true, rate: 1_000_000 };
    let mode = ExchangeMode::Nbsync as i32;
    ExchangeSpec { mode, steps: 1, keep: true, sections: 8, outer, ..ExchangeSpec::default() }
}

/// A job of two workers and two servers that asks for it. `able`: which ports can do it.
fn job(able: impl Fn(i32) -> u64) -> World {
    World::with(1, 2, 2, |config| {
        config.node.abilities |= able(config.node.port);
        if config.role == Role::Scheduler {
            config.exchange = Some(spec());
        }
    })
}

#[test]
fn all_hear_of_it_with_the_first_policy_and_every_later_one_says_it() {
    let mut world = job(|_| ABLE);
    world.make_array();
    world.pass(SECOND);
    for node in &world.nodes {
        assert_eq!((node.exchange(), node.policy().epoch), (Some(spec()), 1));
        let live: Vec<_> = node.policy().live.iter().map(|live| (live.node, live.since)).collect();
        assert_eq!(live, [(9, 0), (11, 0)], "rounds must know who has left");
        assert!(!node.has_elastic_workers());
    }
    let victim = world.index(10);
    world.kill(victim);
    world.pass(5 * SECOND);
    let policy = world.nodes[0].policy();
    assert_eq!((policy.exchange, policy.live.len()), (Some(spec()), 2));
    assert!(policy.epoch > 1 && world.failure().is_none());
    assert_eq!(world.nodes[world.index(9)].exchange(), Some(spec()));
}

fn logs(world: &World) -> usize {
    let said = format!("exchange: {}", spec().describe());
    let logs = world.actions[0].iter().filter_map(|action| match action {
        Action::Note(NewEvent { level: Level::Info, text, .. }) => Some(text),
        _ => None,
    });
    logs.filter(|text| **text == said).count()
}

fn status(world: &mut World) -> Status {
    Status::from_json(&world.ask(status_word).unwrap().text).unwrap()
}

#[test]
fn operators_see_it_and_the_scheduler_logs_it_once() {
    let mut world = job(|_| ABLE);
    world.make_array();
    world.pass(SECOND);
    assert_eq!(logs(&world), 1);
    assert_eq!(status(&mut world).exchange, Some(spec().describe()));
    let mut plain = World::with(1, 2, 2, |config| config.node.abilities |= ABLE);
    plain.pass(SECOND);
    assert_eq!((logs(&plain), status(&mut plain).exchange), (0, None));
}

#[test]
fn without_it_policies_say_nothing_of_it() {
    let world = World::with(1, 2, 2, |config| config.node.abilities |= ABLE);
    assert_eq!((world.nodes[0].exchange(), world.nodes[0].policy().live.len()), (None, 0));
}

#[test]
fn a_node_that_cannot_do_it_keeps_the_job_from_its_start_and_is_named() {
    for (lacks, who) in [(1, "scheduler"), (101, "server 1"), (103, "worker 1")] {
        let world = job(|port| if port == lacks { 0 } else { ABLE });
        let text = world.failure().unwrap();
        assert!(
            text.contains(who) && text.contains("its version is older, or its values"),
            "{text}"
        );
        assert!(world.nodes.iter().all(|node| node.failure().is_some()));
        assert!(world.nodes.iter().all(|node| node.policy().epoch == 0), "no key was made");
    }
    let not_elastic = World::with(1, 2, 2, |config| {
        config.node.abilities |= ABLE;
        if config.role == Role::Worker {
            config.node.abilities &= !ability::ELASTIC;
        }
        if config.role == Role::Scheduler {
            config.exchange = Some(spec());
        }
    });
    let text = not_elastic.failure().unwrap();
    assert!(text.contains("worker 0") && text.contains("does not follow keys that move"), "{text}");
    let stock = World::with(1, 2, 2, |config| {
        config.node.abilities |= ABLE;
        if config.node.port == 102 {
            config.node.abilities = 0;
        }
        if config.role == Role::Scheduler {
            config.exchange = Some(spec());
        }
    });
    let text = stock.failure().unwrap();
    assert!(text.contains("worker 0") && text.contains("is stock"), "{text}");
}

#[test]
fn a_server_that_cannot_do_it_does_not_join() {
    let mut world = job(|_| ABLE);
    world.pass(SECOND);
    let joins = world.join();
    world.pass(SECOND);
    let text = &world.nodes[joins].failure().unwrap().text;
    assert!(text.contains("cannot exchange deltas"), "{text}");
    let mut told = config(Role::Server, 900, 2, 2);
    told.node.abilities |= ability::JOINS | ABLE;
    let able = world.add(told);
    world.feed(able, Event::Register { customer_id: 0 });
    world.pass(SECOND);
    assert_eq!(world.nodes[able].failure(), None);
}

#[test]
fn a_scheduler_that_is_started_again_goes_on_as_the_job_began() {
    for told in [None, Some(ExchangeSpec { sections: 2, ..spec() }), Some(spec())] {
        let mut world = job(|_| ABLE);
        world.make_array();
        world.pass(SECOND);
        world.kill_scheduler();
        world.scheduler.as_mut().unwrap().exchange = told;
        world.restart_scheduler();
        world.pass(3 * SECOND);
        for node in &world.nodes {
            assert_eq!((node.exchange(), node.policy().live.len()), (Some(spec()), 2));
        }
        let warned = world.actions[0].iter().any(|action| {
            matches!(action, Action::Note(NewEvent { level: Level::Warning, text, .. })
                if text.contains("began with another PSLITE_SYNC"))
        });
        assert_eq!(warned, told != Some(spec()));
        assert!(logs(&world) > 0, "it says with what it goes on");
    }
}

#[test]
fn a_job_that_began_without_it_is_told_that_it_goes_on_so() {
    let mut world = World::with(1, 2, 2, |config| config.node.abilities |= ABLE);
    world.make_array();
    world.pass(SECOND);
    world.kill_scheduler();
    world.scheduler.as_mut().unwrap().exchange = Some(spec());
    world.restart_scheduler();
    world.pass(3 * SECOND);
    assert_eq!((world.nodes[0].exchange(), world.failure()), (None, None));
    let warned = world.actions[0].iter().any(|action| {
        matches!(action, Action::Note(event) if event.text.contains("PSLITE_SYNC has no effect"))
    });
    assert!(warned);
}

/// Workers that compute 0.2 and 0.8 s of an iteration of 3.2 s.
fn times() -> RoundTimes {
    let time = |computes: u64| WorkerTime {
        computes: Duration::from_millis(computes),
        waits: Duration::from_millis(3200 - computes),
    };
    RoundTimes { workers: [(9, time(200)), (11, time(800))].into(), ..RoundTimes::default() }
}

#[test]
fn a_plain_job_is_told_what_an_exchange_would_bring() {
    let mut world = World::with(1, 2, 2, |config| config.node.abilities |= ABLE);
    assert_eq!(status(&mut world).exchange_advice, "", "nothing is measured");
    world.shown.times = times();
    let said = status(&mut world).exchange_advice;
    // The mean of 16 and 4 steps where each takes one.
    let expected = "PSLITE_SYNC=nbsync would do 10.0 x the steps (the slowest worker computes \
                    0.80 s of each 3.20 s; speeds differ 4.0 x): by steps alone, see \
                    docs/nbsync.md";
    assert_eq!(said, expected);
    let mut one = times();
    one.workers.remove(&11);
    world.shown.times = one;
    assert_eq!(status(&mut world).exchange_advice, "", "of one worker nothing is known");
    let mut busy = times();
    for time in busy.workers.values_mut() {
        (time.computes, time.waits) = (Duration::from_secs(3), Duration::from_millis(500));
    }
    world.shown.times = busy;
    assert_eq!(status(&mut world).exchange_advice, "", "it would bring little");
}

#[test]
fn who_cannot_exchange_is_not_told_to() {
    let mut able = job(|_| ABLE);
    able.shown.times = times();
    assert_eq!(status(&mut able).exchange_advice, "", "it does so");
    let mut old = World::with(1, 2, 2, |_| ());
    old.shown.times = times();
    assert_eq!(status(&mut old).exchange_advice, "", "its nodes are of an earlier version");
}
