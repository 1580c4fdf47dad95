//! Elastic jobs, one thing at a time.

use super::world::{SECOND, World, config};
use crate::cluster::{Action, Cluster, Event, JobFailure, MemberState, Tell};
use crate::wire::topic::{ProbeRequest, Topic};
use crate::wire::word::{AnswerWay, ClaimWord, Difference, OperatorAnswer, RoutedPolicy, Word};
use crate::wire::{
    ALL_GROUP, Control, Message, NodeId, Origin, Role, SCHEDULER, SERVER_GROUP, ability, server_id,
};

impl World {
    pub(super) fn enter(&mut self, i: usize, ticket: u64, group: i32, leaving: bool) {
        self.asks_to_enter(i, ticket, group, leaving);
        self.settle();
    }

    /// The same, but nobody has heard it yet.
    pub(super) fn asks_to_enter(&mut self, i: usize, ticket: u64, group: i32, leaving: bool) {
        self.feed(
            i,
            Event::EnterBarrier { ticket, customer_id: 0, group, leaving, instance: false },
        );
    }

    pub(super) fn done(&self, i: usize, ticket: u64) -> Option<Result<(), JobFailure>> {
        self.actions[i].iter().find_map(|action| match action {
            Action::BarrierDone { ticket: t, result } if *t == ticket => Some(result.clone()),
            _ => None,
        })
    }

    pub(super) fn worker(&self) -> usize {
        (0..self.nodes.len()).find(|i| self.nodes[*i].me().role == Role::Worker).unwrap()
    }

    pub(super) fn dies(&mut self, id: NodeId) {
        let victim = self.index(id);
        self.kill(victim);
        self.pass(5 * SECOND);
    }

    fn drain(&mut self, id: NodeId) {
        self.feed(0, Event::Drain { id });
        self.pass(5 * SECOND);
    }

    fn policies(&self, i: usize) -> usize {
        self.actions[i].iter().filter(|a| matches!(a, Action::Policy(_))).count()
    }

    /// The question of an operator of an earlier version; the answer.
    pub(super) fn ask(
        &mut self,
        word: impl FnOnce(AnswerWay) -> Word,
    ) -> Result<OperatorAnswer, String> {
        let seen = self.actions[0].len();
        self.feed(0, question(word(way(false, "10.0.0.9:9"))));
        let answer = self.actions[0][seen..].iter().find_map(|action| match action {
            Action::Send { to, message } if *to < 0 => told(message),
            _ => None,
        });
        self.settle();
        answer.expect("no answer")
    }

    /// As [`Self::ask`], for the refusal.
    fn refuses_to_drain(&mut self, server: NodeId) -> String {
        self.ask(|way| Word::Drain { server, way }).unwrap_err()
    }
}

/// What a message tells an operator.
pub(super) fn told(message: &Message) -> Option<Result<OperatorAnswer, String>> {
    match message.meta.control()?.word.as_deref()? {
        Word::Told(told) => Some(told.clone()),
        _ => None,
    }
}

pub(super) fn way(own_connection: bool, at: &str) -> AnswerWay {
    AnswerWay { own_connection, listens_at: at.to_owned() }
}

pub(super) fn with_values(servers: usize) -> World {
    let mut world = World::new(1, 1, servers);
    world.make_array();
    world.pass(SECOND);
    world
}

#[test]
fn a_job_of_our_nodes_has_a_policy_before_it_is_ready() {
    let world = World::new(1, 2, 2);
    for node in &world.nodes {
        assert!(node.is_ready() && node.is_elastic());
        let policy = node.policy();
        assert_eq!((policy.epoch, policy.replicas, policy.workers), (1, 1, 2));
        assert_eq!((&policy.servers, &policy.homes), (&vec![8, 10], &vec![8, 10]));
    }
    let meets = |i: usize, id: NodeId| {
        world.actions[i].iter().any(|a| matches!(a, Action::Connect { node, .. } if node.id == id))
    };
    let (a, b) = (world.index(8), world.index(10));
    assert!(meets(a, 10) && meets(b, 8) && !meets(a, 8), "servers meet each other");
}

#[test]
fn one_server_alone_has_no_replica() {
    assert_eq!(World::new(1, 1, 1).nodes[0].policy().replicas, 0);
}

#[test]
fn the_death_of_one_changes_homes_and_goes_on() {
    let mut world = with_values(3);
    world.dies(8);
    assert_eq!(world.failure(), None);
    world.check();
    let policy = world.nodes[0].policy().clone();
    assert_eq!((policy.epoch, policy.lost), (2, vec![8]));
    assert_eq!((policy.servers, policy.homes), (vec![10, 12], vec![10, 10, 12]));
    for i in 1..world.nodes.len() {
        let lost = Action::NodeLost { id: 8, reason: String::new() };
        let lost =
            |action: &&Action| std::mem::discriminant(*action) == std::mem::discriminant(&lost);
        assert!(world.dead[i] || world.actions[i].iter().filter(lost).count() == 1, "node {i}");
    }
    let worker = world.worker();
    assert_eq!(world.nodes[worker].ids_of(SERVER_GROUP), Some(vec![10, 12]));
}

/// The sender hears of a probe, and nobody else; nothing is asked of those who are gone.
#[test]
fn the_sender_is_asked_for_a_probe() {
    let mut world = with_values(2);
    let worker = world.worker();
    let from = world.id(worker);
    let bytes = ProbeRequest { to: 8 }.bytes();
    let asked = |world: &World, i: usize| {
        let probe = |action: &&Action| match action {
            Action::Told { from: SCHEDULER, topic: Topic::Probe, bytes: told } => *told == bytes,
            _ => false,
        };
        world.actions[i].iter().filter(probe).count()
    };
    let tell = |to| Event::Tell(vec![Tell { to, topic: Topic::Probe, bytes: bytes.clone() }]);
    world.feed(0, tell(from));
    world.settle();
    assert_eq!(asked(&world, worker), 1);
    let others: Vec<usize> = (0..world.nodes.len()).filter(|i| *i != worker).collect();
    assert!(others.iter().all(|i| asked(&world, *i) == 0));
    // A word of anybody but the scheduler counts for nothing, and neither does a wish of another
    // node.
    world.feed(others[1], tell(from));
    world.dies(8);
    world.feed(0, tell(8));
    world.settle();
    assert_eq!(asked(&world, worker), 1);
    assert!((0..world.nodes.len()).all(|i| i == worker || asked(&world, i) == 0));
}

/// An application's own handler: nothing of it is known elsewhere.
#[test]
fn the_death_of_one_that_never_claimed_ends_the_job() {
    let mut world = World::new(1, 1, 2);
    let fixed = Some("an application keeps them".to_owned());
    let i = world.index(10);
    world.feed(i, Event::Claims(ClaimWord { epoch: 1, fixed, ..ClaimWord::default() }));
    world.settle();
    world.dies(10);
    let text = world.failure().unwrap();
    assert!(text.contains("server 1") && text.contains("an application keeps them"), "{text}");
}

/// Servers where an application's own handler keeps the values, and helps to move them.
fn with_handlers() -> World {
    let mut world = World::new(1, 1, 2);
    for id in [8, 10] {
        let i = world.index(id);
        let claims = Vec::new();
        world.feed(
            i,
            Event::Claims(ClaimWord { epoch: 1, claims, opaque: true, ..ClaimWord::default() }),
        );
    }
    world.settle();
    world
}

/// Such a server waits in the exit barrier from the beginning. It is needed all the same.
#[test]
fn the_death_of_one_whose_keys_have_no_copies_ends_the_job() {
    for leaves in [false, true] {
        let mut world = with_handlers();
        let i = world.index(10);
        if leaves {
            world.feed(i, Event::Leaving { customer_id: 0 });
            world.settle();
        }
        world.dies(10);
        let text = world.failure().unwrap();
        assert!(text.contains("server 1") && text.contains("nobody has copies"), "{text}");
    }
}

#[test]
fn one_with_a_store_gets_no_keys_of_an_applications_handler() {
    let mut world = with_handlers();
    let joined = world.join();
    world.pass(SECOND);
    let id = world.id(joined);
    assert_eq!(world.nodes[0].able_servers(), [8, 10]);
    let members = world.nodes[0].overview().members;
    let state = members.iter().find(|member| member.node.id == id).map(|member| member.state);
    assert_eq!(state, Some(MemberState::Fixed));
    world.dies(id);
    assert_eq!(world.failure(), None, "it had nothing");
}

#[test]
fn without_replicas_a_death_ends_the_job_and_names_what_is_lost() {
    let mut world = World::with(1, 1, 2, |config| config.replicas = Some(0));
    world.make_array();
    world.dies(8);
    let text = world.failure().unwrap();
    assert!(text.contains("0..10 of key 3") && text.contains("server 0"), "{text}");
}

#[test]
fn the_death_of_a_worker_ends_the_job() {
    let mut world = with_values(2);
    let worker = world.worker();
    world.kill(worker);
    world.pass(5 * SECOND);
    assert!(world.failure().unwrap().contains("worker 0"));
}

#[test]
fn one_taken_for_dead_is_told_and_ends() {
    let mut world = with_values(2);
    let i = world.index(8);
    world.feed(0, Event::Unreachable { id: 8 });
    world.pass(3 * SECOND);
    assert!(world.dead[i]);
    let text = world.nodes[i].failure().unwrap().text.clone();
    assert!(text.contains("others serve in its place"), "{text}");
    assert_eq!(world.failure(), None);
    world.check();
}

/// Two servers lose each other; the first word decides.
#[test]
fn of_two_that_accuse_each_other_one_lives() {
    let mut world = with_values(3);
    let (a, b) = (world.index(8), world.index(10));
    world.feed(a, Event::Unreachable { id: 10 });
    world.feed(b, Event::Unreachable { id: 8 });
    world.pass(5 * SECOND);
    assert_eq!(world.failure(), None);
    assert_eq!(world.nodes[0].policy().servers.len(), 2, "{:?}", world.nodes[0].policy());
    world.check();
}

#[test]
fn a_server_joins_and_is_in_the_next_policy() {
    let mut world = with_values(2);
    world.unable = Some(world.nodes.len());
    let i = world.join();
    world.settle();
    assert_eq!(world.id(i), server_id(2));
    assert_eq!(world.nodes[0].policy().servers, [8, 10], "before it has the commands");
    assert_eq!(world.nodes[world.worker()].joining(), [12]);
    world.unable = None;
    world.pass(SECOND);
    let policy = world.nodes[0].policy();
    assert_eq!((policy.epoch, &policy.servers, &policy.homes), (2, &vec![8, 10, 12], &vec![8, 10]));
    assert_eq!(world.nodes[world.worker()].ids_of(SERVER_GROUP), Some(vec![8, 10]));
    world.check();
    world.join();
    world.pass(SECOND);
    world.dies(10);
    let again = world.join();
    world.pass(SECOND);
    assert_eq!(world.id(again), server_id(4), "ids are never given out again");
}

#[test]
fn only_a_job_whose_nodes_all_follow_can_be_joined() {
    let mut world = World::with(1, 1, 2, |config| {
        if config.role == Role::Worker {
            config.node.abilities = ability::PSLITE;
        }
    });
    assert!(world.nodes.iter().all(|node| node.is_ready() && !node.is_elastic()));
    assert!((0..4).all(|i| world.policies(i) == 0));
    let i = world.join();
    world.settle();
    let text = world.nodes[i].failure().unwrap().text.clone();
    assert!(text.contains("worker 0") && text.contains("does not follow"), "{text}");
    let told = world.refuses_to_drain(8);
    assert!(told.contains("worker 0"), "{told:?}");
    world.dies(8);
    assert!(world.failure().unwrap().contains("server 0"), "as ever");
}

#[test]
fn a_drained_server_ends_empty() {
    let mut world = with_values(3);
    world.drain(8);
    assert!(world.dead[world.index(8)]);
    let policy = world.nodes[0].policy().clone();
    assert_eq!((policy.servers, policy.released, policy.lost), (vec![10, 12], vec![8], vec![]));
    assert_eq!(policy.homes, [10, 10, 12]);
    world.check();
    assert!(world.refuses_to_drain(8).contains("not in the job any more"));
    assert!(world.refuses_to_drain(9).contains("no server"));
    world.drain(10);
    let told = world.refuses_to_drain(12);
    assert!(told.contains("no other server"), "{told:?}");
    assert_eq!(world.failure(), None);
}

#[test]
fn the_weight_of_a_drained_server_is_spread() {
    let mut world = World::new(1, 1, 5);
    world.make_array();
    world.drain(8);
    let owners: Vec<NodeId> =
        world.nodes[0].pieces()[&3].pieces.iter().map(|piece| piece.owner).collect();
    assert_eq!(owners, [10, 12, 14, 16], "each a part");
}

/// The scheduler dies before those that joined have heard that the job is over.
#[test]
fn those_that_joined_are_let_go_by_a_scheduler_that_comes_back() {
    let mut world = with_values(2);
    let (worker, joined) = (world.worker(), world.join());
    world.pass(SECOND);
    let first = [world.index(8), world.index(10), worker];
    first.iter().for_each(|i| world.enter(*i, 1, ALL_GROUP, false));
    let exit = Event::EnterBarrier {
        ticket: 2,
        customer_id: 0,
        group: ALL_GROUP,
        leaving: true,
        instance: false,
    };
    first.iter().for_each(|i| world.feed(*i, exit.clone()));
    world.deliver_to(0);
    world.kill_scheduler();
    assert!(!world.dead[joined] && world.journal.releases_of_all == 2);
    world.restart_scheduler();
    world.pass(2 * SECOND);
    assert!(world.dead[joined]);
}

/// What a server sends to one that has not heard of it is dropped: so all hear of it before it
/// serves, even if the scheduler died after it had told nobody.
#[test]
fn all_know_who_joined_before_it_serves() {
    let mut world = with_values(3);
    let joined = world.join();
    world.deliver_to(0);
    world.deliver_to(joined);
    world.kill_scheduler();
    assert!(world.nodes[world.index(8)].node(server_id(3)).is_none());
    world.restart_scheduler();
    world.pass(3 * SECOND);
    assert!(world.nodes[0].policy().servers.contains(&server_id(3)), "it never serves");
    for id in [8, 10, 12] {
        let i = world.index(id);
        let node = &world.nodes[i];
        assert!(node.node(server_id(3)).is_some(), "server {id} does not know it");
    }
}

/// Whoever asks as a stranger may not say who it is, nor fill the scheduler's memory.
#[test]
fn nonsense_of_strangers_changes_nothing() {
    let mut world = with_values(2);
    let before = world.actions[0].len();
    for text in ["", "host", ":1", "host:0", "host:99999", &format!("{}:1", "x".repeat(300))] {
        world.feed(0, by_stranger(Word::Drain { server: 8, way: way(false, text) }));
    }
    let text = "host:1".to_owned();
    let policy = Word::Policy { policy: RoutedPolicy::default(), text };
    for word in [Word::Claims(ClaimWord::default()), policy, Word::Unknown] {
        world.feed(0, by_stranger(word));
    }
    assert_eq!(world.actions[0].len(), before);
    for _ in 0..200 {
        world.ask_and_forget();
    }
    let channels = |action: &&Action| matches!(action, Action::ConnectPending { .. });
    assert!(world.actions[0][before..].iter().filter(channels).count() <= 64);
}

impl World {
    fn ask_and_forget(&mut self) {
        self.feed(0, question(status_word(way(false, "10.0.0.9:9"))));
    }
}

/// An operator asks how the job is.
pub(super) const fn status_word(way: AnswerWay) -> Word {
    Word::Status { way, chronicle: None }
}

fn by_stranger(word: Word) -> Event {
    Event::Received { from: None, message: Message::control(Control::saying(word)) }
}

/// An operator asks from 10.0.0.9.
pub(super) fn question(word: Word) -> Event {
    let mut control = Control::saying(word);
    control.origin = Some(Origin { address: "10.0.0.9".parse().unwrap(), is_here: false });
    Event::Received { from: None, message: Message::control(control) }
}

// ---- the scheduler is lost ----------------------------------------------------------------------

#[test]
fn a_scheduler_with_a_journal_is_waited_for() {
    let mut world = with_values(2);
    world.kill_scheduler();
    world.pass(59 * SECOND);
    assert!((1..4).all(|i| world.nodes[i].failure().is_none()));
    world.pass(5 * SECOND);
    for i in 1..4 {
        let text = world.nodes[i].failure().unwrap().text.clone();
        assert!(text.contains("scheduler") && text.contains("did not come back"), "{text}");
    }
}

#[test]
fn without_a_journal_its_loss_ends_the_job() {
    let mut world = World::with(1, 1, 2, |config| config.node.abilities &= !ability::JOURNAL);
    world.kill_scheduler();
    world.pass(5 * SECOND);
    assert!((1..4).all(|i| world.nodes[i].failure().is_some()));
}

#[test]
fn it_comes_back_and_knows_the_job() {
    let mut world = with_values(3);
    let joined = world.join();
    world.pass(SECOND);
    world.dies(10);
    let (before, pieces) = (world.nodes[0].policy().clone(), world.nodes[0].pieces().clone());
    world.kill_scheduler();
    world.pass(10 * SECOND);
    world.restart_scheduler();
    world.pass(3 * SECOND);
    assert_eq!(world.failure(), None);
    world.check();
    let after = world.nodes[0].policy();
    assert!(after.epoch > before.epoch);
    assert_eq!((&after.servers, &after.lost), (&before.servers, &before.lost));
    assert_eq!(world.nodes[0].pieces(), &pieces);
    assert_eq!(world.nodes[0].me().incarnation, 1, "the job's name stays");
    world.drain(world.id(joined));
    assert!(world.dead[joined]);
    let newcomer = world.join();
    world.pass(SECOND);
    assert_eq!(world.id(newcomer), server_id(4));
    world.check();
}

#[test]
fn a_server_that_died_meanwhile_is_noticed() {
    let mut world = with_values(3);
    world.kill_scheduler();
    let victim = world.index(8);
    world.kill(victim);
    world.pass(10 * SECOND);
    assert_eq!(world.nodes[world.worker()].failure(), None, "it waits for the scheduler's word");
    world.restart_scheduler();
    world.pass(8 * SECOND);
    assert_eq!(world.failure(), None);
    assert_eq!(world.nodes[0].policy().servers, [10, 12]);
    world.check();
}

/// It has nothing of what the dead one had.
#[test]
fn one_that_joins_before_a_death_is_noticed_gets_a_place_of_its_own() {
    let mut world = with_values(3);
    world.kill_scheduler();
    let victim = world.index(10);
    world.kill(victim);
    world.restart_scheduler();
    let joined = world.join();
    world.pass(8 * SECOND);
    assert_eq!(world.failure(), None);
    assert_eq!(world.id(joined), server_id(3));
    assert_eq!(world.nodes[0].policy().servers, [8, 12, 14]);
    world.check();
}

/// Both copies of a key are gone, and only the journal knows that it was there.
#[test]
fn a_key_that_nobody_claims_after_a_restart_is_missed() {
    let mut world = with_values(3);
    world.kill_scheduler();
    for id in [8, 10] {
        let victim = world.index(id);
        world.kill(victim);
    }
    world.restart_scheduler();
    world.pass(8 * SECOND);
    assert!(world.failure().unwrap().contains("0..10 of key 3"), "{:?}", world.failure());
}

#[test]
fn the_journal_of_another_job_is_refused() {
    let world = with_values(2);
    for (workers, servers, port) in [(2, 2, 1), (1, 3, 1), (1, 2, 7)] {
        let config = config(Role::Scheduler, port, workers, servers);
        let error = Cluster::resume(config, &world.journal, world.now).unwrap_err();
        assert!(error.contains("1 workers and 2 servers"), "{error}");
    }
    assert!(!world.journal.ended);
    let mut world = world;
    world.feed(0, Event::Finalizing);
    assert!(world.journal.ended);
    assert_eq!(world.id(0), SCHEDULER);
}

/// With PS_HEARTBEAT_TIMEOUT a server may be started again under the eyes of the job.
#[test]
fn a_restarted_server_joins_as_a_new_one() {
    let mut world = World::with(1, 1, 2, |config| config.heartbeat_timeout = Some(5 * SECOND));
    world.make_array();
    world.pass(SECOND);
    let former = world.index(8);
    let mut again = config(Role::Server, world.nodes[former].me().port, 1, 2);
    again.node.incarnation = 4711;
    world.dead[former] = true;
    let address = world.nodes[former].me().address();
    assert_eq!(again.node.address(), address);
    let i = world.add(again);
    world.feed(i, Event::Register { customer_id: 0 });
    world.settle();
    assert_eq!((world.id(i), world.nodes[i].me().is_recovery), (server_id(2), true));
    world.pass(SECOND);
    assert_eq!(world.failure(), None);
    assert_eq!(world.nodes[0].policy().servers, [10, 12]);
    world.check();
}

#[test]
fn a_difference_that_follows_on_what_was_never_heard_makes_the_scheduler_ask_all() {
    let mut world = World::new(1, 1, 2);
    world.settle();
    let (server, epoch) = (world.index(8), world.nodes[0].policy().epoch);
    let said = |number, since, gone| {
        Event::Claims(ClaimWord {
            difference: Difference { number, since, gone },
            epoch,
            ..ClaimWord::default()
        })
    };
    world.feed(server, said(5, 0, Vec::new()));
    world.feed(server, said(6, 5, vec![1]));
    world.settle();
    assert_eq!(world.nodes[0].policy().epoch, epoch);
    world.feed(server, said(8, 7, Vec::new()));
    world.settle();
    assert!(world.nodes[0].policy().epoch > epoch);
}
