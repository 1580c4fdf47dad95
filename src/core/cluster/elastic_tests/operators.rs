//! Operators: what they are told, and for how long the scheduler keeps their channels.

use super::cases::{question, status_word, told, way, with_values};
use super::store::{BYTES, LENGTH};
use super::world::SECOND;
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::cluster::{Action, Event};
use crate::scheduler::Status;
use crate::wire::NodeId;
use crate::wire::word::{AnswerWay, Word};

#[test]
fn operators_see_the_job() {
    let mut world = with_values(3);
    world.join();
    world.pass(SECOND);
    world.dies(10);
    world.feed(0, Event::Drain { id: 12 });
    let told = world.ask(status_word).unwrap();
    let status = Status::from_json(&told.text).unwrap();
    assert_eq!((status.phase.as_str(), status.workers, status.servers), ("changing", 1, 3));
    let state = |id: NodeId| status.nodes.iter().find(|n| n.id == id).unwrap().state.clone();
    assert_eq!([8, 9, 10, 12, 14].map(state), ["live", "live", "dead", "draining", "live"]);
    let bytes: u64 = status.nodes.iter().map(|node| node.bytes).sum();
    assert_eq!(bytes, BYTES * LENGTH, "each element of the array once");
    assert_eq!((status.eta, status.predicted), (None, None));
    world.pass(10 * SECOND);
    let status = Status::from_json(&world.ask(status_word).unwrap().text).unwrap();
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
        let told = world.ask(status_word).unwrap();
        assert!(!told.text.is_empty(), "question {asked}");
        let opened = world.actions[0].iter().rev().find_map(|action| match action {
            Action::ConnectPending { key, .. } => Some(*key),
            _ => None,
        });
        world.feed(0, Event::ChannelDown { id: opened.unwrap() });
    }
}

/// Otherwise a stranger's one message would make the scheduler connect to any place.
#[test]
fn operators_are_answered_where_they_ask_or_not_at_all() {
    let mut world = with_values(2);
    let drain = |way: AnswerWay| Word::Drain { server: 8, way };
    let mut asked = |word: Word| {
        let seen = world.actions[0].len();
        world.feed(0, question(word));
        let actions = &world.actions[0][seen..];
        let connects = actions.iter().any(|action| matches!(action, Action::ConnectPending { .. }));
        let answers = actions.iter().filter_map(|action| match action {
            Action::Answer { message } => told(message)?.ok(),
            _ => None,
        });
        (connects, answers.map(|answer| answer.text).collect::<Vec<_>>())
    };
    for at in ["", "10.0.0.9:9", "10.0.0.1:22", "victim:80"] {
        let (connects, answers) = asked(status_word(way(true, at)));
        assert!(!connects && Status::from_json(&answers[0]).is_some(), "{at:?}");
    }
    for at in ["10.0.0.1:22", "victim:80", "127.0.0.1:22", "10.0.0.9", "10.0.0.9:0"] {
        assert_eq!(asked(drain(way(false, at))), (false, vec![]), "{at}");
    }
    assert_eq!(asked(status_word(way(false, "10.0.0.9:9"))), (true, vec![]));
    let (_, answers) = asked(drain(way(true, "")));
    assert!(answers[0].contains("server 0"), "{answers:?}: nobody had drained it before");
}

/// Who comes, is emptied and is let go; each with its text, and what programs are to know.
#[test]
fn what_happens_is_an_event() {
    let mut world = with_values(3);
    world.join();
    world.pass(SECOND);
    world.feed(0, Event::Drain { id: 12 });
    world.feed(0, Event::Drain { id: 99 });
    world.pass(10 * SECOND);
    let said = |kind: JobEventKind| -> Vec<&NewEvent> {
        let events = world.actions[0].iter().filter_map(|action| match action {
            Action::Note(event) if event.kind == kind => Some(event),
            _ => None,
        });
        events.collect()
    };
    let nodes: Vec<(Option<NodeId>, bool)> = said(JobEventKind::Node)
        .iter()
        .map(|event| (event.node, event.text.ends_with("is to be emptied")))
        .collect();
    assert_eq!(nodes, [(Some(14), false), (Some(12), true)]);
    assert_eq!(said(JobEventKind::Operator)[0].level, Level::Warning);
    let policies = said(JobEventKind::Policy);
    for event in &policies {
        let (epoch, servers) = (event.numbers["epoch"], event.numbers["servers"]);
        assert!(event.text.starts_with(&format!("policy {epoch}: {servers} servers")), "{event:?}");
    }
    let epoch = world.nodes[0].policy().epoch;
    assert_eq!(policies.last().unwrap().numbers["epoch"], epoch as f64);
}
