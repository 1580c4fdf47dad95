//! Commands of workers, and servers that joined: who is told before a worker is answered, and what
//! one does that becomes the first of all.

use bytes::Bytes;

use super::{ADAM, MOMENTUM, store_of_two};
use crate::store::Store;
use crate::store::command::Head;
use crate::store::moving::Due;
use crate::store::pickled_tests::pickled;
use crate::store::{Outbound, Outgoing};
use crate::values::Space;
use crate::wire::transfer::{ToldCommand, Transfer};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Meta, NodeId};

const ALL: [NodeId; 4] = [8, 10, 12, 14];

/// Two servers of the beginning and two that joined.
struct Four(Vec<(NodeId, Store)>);

impl Four {
    fn new() -> Self {
        let mut four = Self(ALL.map(|id| (id, store_of_two(id))).into());
        for id in ALL {
            let sent = four.policy(id, 2, &[]);
            four.give_all(id, sent);
        }
        assert!(ALL.iter().all(|id| !four.waits(*id)));
        four
    }

    fn store(&mut self, id: NodeId) -> &mut Store {
        &mut self.0.iter_mut().find(|(of, _)| *of == id).unwrap().1
    }

    fn waits(&mut self, id: NodeId) -> bool {
        self.store(id).whereabouts().known.waits_for_commands()
    }

    /// True if float32 copies were commanded in that space.
    fn is_wide(&mut self, id: NodeId, space: Space) -> bool {
        self.store(id).held.modes.of(space).multi_precision
    }

    fn policy(&mut self, to: NodeId, epoch: u64, lost: &[NodeId]) -> Outbound {
        let servers: Vec<NodeId> = ALL.into_iter().filter(|id| !lost.contains(id)).collect();
        let homes = vec![servers[0], servers[1]];
        let lost = lost.to_vec();
        let word = RoutedPolicy {
            policy: Policy { epoch, servers, homes, lost, replicas: 1, ..Policy::default() },
            ..RoutedPolicy::default()
        };
        let mut out = Outbound::default();
        self.store(to).policy(&word, &mut out);
        out
    }

    fn command(&mut self, to: NodeId, head: Head, timestamp: i32) -> (Due, Outbound) {
        self.command_of(to, (0, head, Bytes::new()), timestamp)
    }

    fn command_of(
        &mut self,
        to: NodeId,
        (customer_id, head, body): (i32, Head, Bytes),
        timestamp: i32,
    ) -> (Due, Outbound) {
        let (head, sender, own_keys) = (head.number(), 9, customer_id != 0);
        let meta = Meta { head, sender, body, timestamp, simple_app: true, ..Meta::default() };
        let meta = Meta { customer_id, own_keys, ..meta };
        let mut out = Outbound::default();
        (self.store(to).obey(&meta, &mut out).unwrap(), out)
    }

    fn give(&mut self, from: NodeId, sent: &Outgoing) -> Outbound {
        let mut out = Outbound::default();
        self.store(sent.to).transfer(from, &sent.transfer, &sent.frames, &mut out).unwrap();
        out
    }

    /// All that follows from what a server sends. How many answers.
    fn give_all(&mut self, from: NodeId, out: Outbound) -> usize {
        let mut answers = out.answers.len();
        for sent in out.transfers {
            let next = self.give(from, &sent);
            answers += self.give_all(sent.to, next);
        }
        answers
    }
}

/// Whoever of the servers of the beginning is asked: else its answer would promise what dies with
/// it.
#[test]
fn each_server_tells_those_that_joined_before_it_answers() {
    for id in [8, 10] {
        let mut four = Four::new();
        let (due, out) = four.command(id, Head::MultiPrecision, 1);
        assert_eq!(due, Due::Later);
        assert_eq!(four.give_all(id, out), 1, "the answer, at the end");
        assert!(four.is_wide(12, 0) && four.is_wide(14, 0));
        assert!(!four.is_wide(12, 1), "it is nothing to a customer with keys of its own");
    }
}

/// What a customer with keys of its own commands counts for them alone, at servers that joined
/// too: each customer's optimizers are counted apart.
#[test]
fn those_that_joined_hear_whose_commands_they_are() {
    let mut four = Four::new();
    let commands = [
        (1, Head::MultiPrecision, Bytes::new()),
        (1, Head::Controller, pickled("Adam", ADAM)),
        (0, Head::Controller, pickled("SGD", MOMENTUM)),
        (0, Head::SyncMode, Bytes::new()),
    ];
    for (timestamp, command) in (1..).zip(commands) {
        let (_, out) = four.command_of(8, command, timestamp);
        four.give_all(8, out);
    }
    for id in [8, 12, 14] {
        assert!(four.is_wide(id, 1) && !four.is_wide(id, 0));
        let modes = &four.store(id).held.modes;
        let class = |space| modes.of(space).optimizer.as_ref().unwrap().class();
        assert_eq!((class(1), class(0)), ("Adam", "SGD"));
        assert_eq!((modes.of(1).sync, modes.of(0).sync), (false, true));
        let generations = [0, 1].map(|space| modes.of(space).generations.current());
        assert_eq!(generations, [1, 1], "neither resets the other");
    }
}

/// Both servers of the beginning die when one has told only the last of all.
#[test]
fn one_that_becomes_the_first_asks_the_others_before_it_serves() {
    let mut four = Four::new();
    let (_, out) = four.command(10, Head::MultiPrecision, 1);
    for sent in out.transfers.iter().filter(|sent| sent.to == 14) {
        four.give(10, sent);
    }
    assert!(!four.is_wide(12, 0));
    let sent = four.policy(12, 3, &[8, 10]);
    let told = |sent: &Outgoing| matches!(sent.transfer, Transfer::CommandsEnd(_));
    assert!(four.waits(12) && !sent.transfers.iter().any(told), "it may not know all itself");
    assert_eq!(four.command(12, Head::Compression, 7).0, Due::Later, "after what was before it");
    let sent = four.policy(14, 3, &[8, 10]);
    assert!(four.waits(14));
    let answers = four.give_all(14, sent);
    assert!(four.is_wide(12, 0) && !four.waits(12) && !four.waits(14));
    assert_eq!(answers, 1, "the command that waited");
}

/// One that joined hears of the newest optimizer alone, and then from a server that has only heard
/// of the one before: that may send what it did by it.
#[test]
fn an_optimizer_that_comes_after_its_successor_is_known() {
    let mut four = Four::new();
    for (from, generation, class, own) in [(8, 2, "Adam", ADAM), (12, 1, "SGD", MOMENTUM)] {
        let head = Head::Controller.number();
        let transfer = Transfer::Command(ToldCommand { space: 0, head, generation, until: 0 });
        four.give(from, &Outgoing { to: 14, transfer, frames: vec![pickled(class, own)] });
    }
    let store = four.store(14);
    let name = |generation| store.held.optimizer_of(0, generation).unwrap().unwrap().class();
    assert_eq!((name(1), name(2)), ("SGD", "Adam"));
    assert_eq!(
        store.held.modes.of(0).optimizer.as_ref().unwrap().class(),
        "Adam",
        "it applies the newest"
    );
}

/// Nobody else is left: there is nobody to ask.
#[test]
fn the_last_one_serves() {
    let mut four = Four::new();
    let _ = four.policy(12, 3, &[8, 10]);
    assert!(four.waits(12));
    let mut out = Outbound::default();
    let (servers, homes, lost) = (vec![12], vec![12, 12], vec![8, 10, 14]);
    let word = RoutedPolicy {
        policy: Policy { epoch: 4, servers, homes, lost, replicas: 1, ..Policy::default() },
        ..RoutedPolicy::default()
    };
    four.store(12).policy(&word, &mut out);
    assert!(!four.waits(12));
    assert_eq!(four.command(12, Head::MultiPrecision, 1).0, Due::Now);
}
