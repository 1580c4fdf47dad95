//! A server that has its list of nodes, but no policy yet.

use super::world::{SECOND, World, config};
use crate::cluster::{Action, Cluster, Event};
use crate::wire::elastic::{SchedulerMessage, SchedulerMessageKind};
use crate::wire::{Command, Control, Message, Role, SCHEDULER};

/// The first policy is lost with a connection, and the scheduler already asks for claims, and
/// orders moves: a store that was made for that would know of no policy.
#[test]
fn nothing_is_asked_of_a_server_before_its_first_policy() {
    let world = World::new(1, 1, 2);
    let told = config(Role::Server, world.nodes[world.index(8)].me().port, 1, 2);
    let mut server = Cluster::new(told, SECOND);
    let mut hear = |control: Control| {
        let (message, mut out) = (Message::control(control), Vec::new());
        server.handle(SECOND, Event::Received { from: Some(SCHEDULER), message }, &mut out);
        out
    };
    let word = |kind: SchedulerMessageKind, epoch: u64| {
        let mut control = Control::new(Command::Heartbeat);
        let policy = SchedulerMessage {
            servers: vec![8, 10],
            homes: vec![8, 10],
            workers: 1,
            ..SchedulerMessage::default()
        };
        control.word = Some(Box::new(SchedulerMessage { kind: kind as i32, epoch, ..policy }));
        control
    };
    let mut list = Control::new(Command::AddNode);
    list.nodes = world.nodes.iter().map(|node| node.me().clone()).collect();
    hear(list);
    let asked = |action: &Action| matches!(action, Action::Collect { .. } | Action::Orders { .. });
    for kind in [SchedulerMessageKind::Collect, SchedulerMessageKind::Orders] {
        assert!(!hear(word(kind, 2)).iter().any(asked), "{kind:?}");
    }
    let policy = hear(word(SchedulerMessageKind::Policy, 1));
    assert!(policy.iter().any(|action| matches!(action, Action::Policy { .. })), "{policy:?}");
    for kind in [SchedulerMessageKind::Collect, SchedulerMessageKind::Orders] {
        assert!(hear(word(kind, 2)).iter().any(asked), "{kind:?}");
    }
}
