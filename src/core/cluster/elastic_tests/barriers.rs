//! Barriers of elastic jobs: who is waited for, and what a scheduler that comes back, or a
//! connection, does to them.

use super::cases::with_values;
use super::world::{SECOND, World};
use crate::cluster::{Action, Event};
use crate::wire::{ALL_GROUP, Command, SCHEDULER, SERVER_GROUP, WORKER_GROUP};

#[test]
fn barriers_wait_for_those_of_the_beginning_that_are_left() {
    let mut world = with_values(3);
    let (worker, joined) = (world.worker(), world.join());
    world.pass(SECOND);
    world.dies(10);
    world.enter(worker, 1, WORKER_GROUP + SERVER_GROUP, false);
    world.enter(world.index(8), 1, WORKER_GROUP + SERVER_GROUP, false);
    assert_eq!(world.done(worker, 1), None);
    world.dies(12);
    assert_eq!(world.done(worker, 1), Some(Ok(())), "nobody is left who could come");
    world.enter(worker, 2, ALL_GROUP, true);
    world.enter(world.index(8), 2, ALL_GROUP, true);
    for i in [worker, world.index(8)] {
        assert_eq!(world.done(i, 2), Some(Ok(())));
    }
    assert!(world.dead[joined], "who joined is let go, and waits in no barrier");
    assert_eq!(world.failure(), None);
}

/// Half of them are in when the scheduler is lost; others come before and after.
#[test]
fn barriers_are_entered_again() {
    let mut world = World::new(1, 3, 1);
    let workers: Vec<usize> = (2..5).collect();
    world.enter(workers[0], 1, WORKER_GROUP, false);
    world.kill_scheduler();
    world.enter(workers[1], 1, WORKER_GROUP, false);
    world.pass(5 * SECOND);
    world.restart_scheduler();
    world.pass(2 * SECOND);
    assert!(workers.iter().all(|i| world.done(*i, 1).is_none()));
    world.enter(workers[2], 1, WORKER_GROUP, false);
    assert!(workers.iter().all(|i| world.done(*i, 1) == Some(Ok(()))));
}

/// The release had reached one worker when the scheduler was lost: it reaches the others all the
/// same, and the next barrier is another one.
#[test]
fn a_release_that_was_lost_comes_again() {
    let mut world = World::new(1, 2, 1);
    let (a, b) = (2, 3);
    world.enter(a, 1, WORKER_GROUP, false);
    world.asks_to_enter(b, 1, WORKER_GROUP, false);
    world.deliver_to(0);
    world.deliver_to(a);
    world.kill_scheduler();
    assert_eq!((world.done(a, 1), world.done(b, 1)), (Some(Ok(())), None));
    world.enter(a, 2, WORKER_GROUP, false);
    world.restart_scheduler();
    world.pass(2 * SECOND);
    assert_eq!(world.done(b, 1), Some(Ok(())));
    assert_eq!(world.done(a, 2), None, "the other has not come");
    world.enter(b, 2, WORKER_GROUP, false);
    assert_eq!((world.done(a, 2), world.done(b, 2)), (Some(Ok(())), Some(Ok(()))));
}

/// A connection that breaks makes a worker ask again, though it was heard: it is let out twice, and
/// still waits in the next barrier.
#[test]
fn a_release_that_comes_twice_frees_one_barrier() {
    let mut world = World::new(1, 2, 1);
    let (a, b) = (2, 3);
    world.enter(a, 1, WORKER_GROUP, false);
    world.enter(b, 1, WORKER_GROUP, false);
    // What it says again when its connection is back, which comes late.
    let asked = world.actions[a].iter().find_map(|action| match action {
        Action::Send { to: SCHEDULER, message } => {
            let command = message.meta.control().map(|control| control.command);
            (command == Some(Command::Barrier)).then(|| message.clone())
        }
        _ => None,
    });
    world.enter(a, 2, WORKER_GROUP, false);
    let from = Some(world.id(a));
    world.feed(0, Event::Received { from, message: asked.unwrap() });
    world.settle();
    assert_eq!((world.done(a, 1), world.done(a, 2)), (Some(Ok(())), None));
    world.enter(b, 2, WORKER_GROUP, false);
    assert_eq!((world.done(a, 2), world.done(b, 2)), (Some(Ok(())), Some(Ok(()))));
}

/// The scheduler's connection to a worker breaks with the release in it, while the worker's own one
/// stands: it does not ask again.
#[test]
fn a_release_that_broke_with_its_connection_comes_again() {
    let mut world = World::new(1, 2, 1);
    let (a, b) = (2, 3);
    world.enter(a, 1, WORKER_GROUP, false);
    world.asks_to_enter(b, 1, WORKER_GROUP, false);
    world.deliver_to(0);
    world.lose_to(b);
    world.settle();
    assert_eq!((world.done(a, 1), world.done(b, 1)), (Some(Ok(())), None));
    let id = world.id(b);
    world.feed(0, Event::ChannelUp { id });
    world.settle();
    assert_eq!(world.done(b, 1), Some(Ok(())));
    world.enter(a, 2, WORKER_GROUP, false);
    assert_eq!(world.done(a, 2), None, "the other has not come");
    world.enter(b, 2, WORKER_GROUP, false);
    assert_eq!((world.done(a, 2), world.done(b, 2)), (Some(Ok(())), Some(Ok(()))));
}
