//! Which trees nodes are told of.

use super::world::{SECOND, World};
use crate::cluster::{Action, Event};
use crate::wire::ability;
use crate::wire::trees::OVERLAYS_KEPT;

/// A job whose nodes know trees.
fn job() -> World {
    let mut world = World::with(1, 2, 1, |config| {
        config.node.abilities |= ability::TREES;
        config.scheduler.abilities |= ability::TREES;
    });
    world.pass(SECOND);
    world
}

/// The scheduler's owner plants trees; they are under way.
fn plant(world: &mut World, lossy: bool) {
    let over = world.nodes[0].overlay().number;
    world.feed(0, Event::Overlay { over, trees: Vec::new(), lossy });
}

/// The overlays that a node was told of, in order.
fn told(world: &World, i: usize) -> Vec<u64> {
    let number = |action: &Action| match action {
        Action::Overlay(overlay) => Some(overlay.number),
        _ => None,
    };
    world.actions[i].iter().filter_map(number).collect()
}

fn reconnects(world: &mut World, i: usize) {
    let id = world.nodes[i].me().id;
    world.lose_to(i);
    world.feed(0, Event::ChannelUp { id });
    world.settle();
}

/// Who lacks one of them cannot pass on what goes along it.
#[test]
fn a_connection_that_takes_overlays_with_it_brings_all_of_them_again() {
    let mut world = job();
    let (a, b) = (world.index(9), world.index(11));
    plant(&mut world, false);
    world.settle();
    (0..3).for_each(|_| plant(&mut world, false));
    reconnects(&mut world, a);
    assert_eq!((told(&world, a), told(&world, b)), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    // What went along those below the floor is lost anyway.
    plant(&mut world, true);
    plant(&mut world, false);
    reconnects(&mut world, a);
    assert_eq!(told(&world, a), [1, 2, 3, 4, 5, 6]);
    assert_eq!(world.nodes[a].overlay().floor, 5);
    // Nobody keeps more than so many.
    let many = OVERLAYS_KEPT + 3;
    (0..many).for_each(|_| plant(&mut world, false));
    reconnects(&mut world, a);
    let newest = 6 + many;
    let expected: Vec<u64> = (1..=6).chain(newest - OVERLAYS_KEPT + 1..=newest).collect();
    assert_eq!(told(&world, a), expected);
}

/// What waits for the new connection arrives before the overlays that the old one took with it.
#[test]
fn an_overlay_that_comes_after_a_newer_one_is_heard_too() {
    let mut world = job();
    let a = world.index(9);
    plant(&mut world, false);
    world.settle();
    (0..2).for_each(|_| plant(&mut world, false));
    world.lose_to(a);
    plant(&mut world, false);
    world.feed(0, Event::ChannelUp { id: world.nodes[a].me().id });
    world.settle();
    assert_eq!(told(&world, a), [1, 4, 2, 3]);
    assert_eq!(world.nodes[a].overlay().number, 4);
}
