//! A server that has its list of nodes, but no policy yet.

use super::world::{SECOND, World, config};
use crate::cluster::{Action, Cluster, Event};
use crate::wire::word::{Policy, RoutedPolicy, Word};
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
    let says = |word: &Word| Control::saying(word.clone());
    let questions = [
        Word::Collect { epoch: 2, lost: Vec::new(), text: String::new() },
        Word::Orders { epoch: 2, moves: Vec::new() },
    ];
    let mut list = Control::new(Command::AddNode);
    list.nodes = world.nodes.iter().map(|node| node.me().clone()).collect();
    hear(list);
    let asked = |action: &Action| matches!(action, Action::Collect { .. } | Action::Orders { .. });
    for word in &questions {
        assert!(!hear(says(word)).iter().any(asked), "{word:?}");
    }
    let (servers, homes) = (vec![8, 10], vec![8, 10]);
    let policy = Policy { epoch: 1, servers, homes, workers: 1, ..Policy::default() };
    let policy = RoutedPolicy { policy, routes: Vec::new() };
    let policy = hear(says(&Word::Policy { policy, text: String::new() }));
    assert!(policy.iter().any(|action| matches!(action, Action::Policy(_))), "{policy:?}");
    for word in &questions {
        assert!(hear(says(word)).iter().any(asked), "{word:?}");
    }
}
