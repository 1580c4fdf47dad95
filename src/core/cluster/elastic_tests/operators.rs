//! Operators: what they are told, and for how long the scheduler keeps their channels.

use super::cases::with_values;
use super::store::{BYTES, LENGTH};
use super::world::SECOND;
use crate::cluster::{Action, Event, Status};
use crate::wire::NodeId;
use crate::wire::elastic::SchedulerMessageKind;

#[test]
fn operators_see_the_job() {
    let mut world = with_values(3);
    world.join();
    world.pass(SECOND);
    world.dies(10);
    world.feed(0, Event::Drain { id: 12 });
    let word = world.ask(SchedulerMessageKind::Status, 0);
    let status = Status::from_json(&word.text).unwrap();
    assert_eq!((status.phase.as_str(), status.workers, status.servers), ("changing", 1, 3));
    let state = |id: NodeId| status.nodes.iter().find(|n| n.id == id).unwrap().state.clone();
    assert_eq!([8, 9, 10, 12, 14].map(state), ["live", "live", "dead", "draining", "live"]);
    let bytes: u64 = status.nodes.iter().map(|node| node.bytes).sum();
    assert_eq!(bytes, BYTES * LENGTH, "each element of the array once");
    assert_eq!((status.eta, status.predicted), (None, None));
    world.pass(10 * SECOND);
    let status = Status::from_json(&world.ask(SchedulerMessageKind::Status, 0).text).unwrap();
    assert_eq!((status.phase.as_str(), status.epoch), ("running", world.nodes[0].policy().epoch));
    let channels = world.actions[0].iter().filter(|a| matches!(a, Action::ConnectPending { .. }));
    let closed =
        world.actions[0].iter().filter(|a| matches!(a, Action::Disconnect { id } if *id < 0));
    assert_eq!(channels.count(), closed.count() + 4 + 1, "guests do not stay (4 have ids now)");
}

/// `pslite drain --wait` asks five times a second, and leaves after each answer. Here three do so.
#[test]
fn guests_that_leave_make_room_for_others() {
    let mut world = with_values(2);
    for asked in 0..200 {
        world.pass(SECOND / 15);
        let told = world.ask(SchedulerMessageKind::Status, 0);
        assert!(!told.text.is_empty(), "question {asked}");
        let opened = world.actions[0].iter().rev().find_map(|action| match action {
            Action::ConnectPending { key, .. } => Some(*key),
            _ => None,
        });
        world.feed(0, Event::ChannelDown { id: opened.unwrap() });
    }
}
