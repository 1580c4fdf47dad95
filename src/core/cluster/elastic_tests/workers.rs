//! Workers that die, come back and leave, in a job whose nodes all go on without them.

use super::world::{SECOND, World, config};
use crate::chronicle::{Level, NewEvent};
use crate::cluster::{Action, Event, MemberState};
use crate::wire::elastic::LiveWorker;
use crate::wire::word::ClaimWord;
use crate::wire::{ALL_GROUP, NodeId, Role, SERVER_GROUP, WORKER_GROUP, ability};

fn elastic(workers: usize, servers: usize) -> World {
    let mut world = World::with(1, workers, servers, |config| {
        config.node.abilities |= ability::ELASTIC_WORKERS;
        config.scheduler.abilities |= ability::ELASTIC_WORKERS;
    });
    world.make_array();
    world.pass(SECOND);
    world
}

/// Who lives, and since when.
fn live(world: &World) -> Vec<(NodeId, u64)> {
    world.nodes[0].policy().live.iter().map(|worker| (worker.node, worker.since)).collect()
}

impl World {
    /// A worker's process is started, with a port of its own.
    fn start_worker(&mut self, port: i32, abilities: u64) -> usize {
        let mut config = config(Role::Worker, port, 3, 2);
        config.node.abilities |= abilities;
        config.scheduler.abilities |= abilities;
        let index = self.add(config);
        self.feed(index, Event::Register { customer_id: 0 });
        self.settle();
        index
    }

    fn of(&self, id: NodeId) -> usize {
        (0..self.nodes.len()).find(|i| !self.dead[*i] && self.id(*i) == id).unwrap()
    }

    fn dies_soon(&mut self, id: NodeId) {
        let victim = self.of(id);
        self.kill(victim);
        self.pass(5 * SECOND);
    }

    fn waits(&mut self, i: usize, ticket: u64, group: i32, leaving: bool) -> bool {
        self.feed(
            i,
            Event::EnterBarrier { ticket, customer_id: 0, group, leaving, instance: false },
        );
        self.settle();
        !self.passed(i, ticket)
    }

    fn passed(&self, i: usize, ticket: u64) -> bool {
        self.actions[i].iter().any(|action| match action {
            Action::BarrierDone { ticket: of, result } if *of == ticket => {
                assert_eq!(*result, Ok(()));
                true
            }
            _ => false,
        })
    }

    fn goes_on(&self) {
        for i in (0..self.nodes.len()).filter(|i| !self.dead[*i]) {
            assert_eq!(self.nodes[i].failure(), None, "node {i}");
            assert_eq!(self.nodes[i].policy(), self.nodes[0].policy(), "node {i}");
        }
    }
}

const SAYS: u64 = ability::ELASTIC_WORKERS;

#[test]
fn a_policy_without_the_dead_one_follows() {
    let mut world = elastic(3, 2);
    assert_eq!(live(&world), [(9, 0), (11, 0), (13, 0)]);
    world.dies_soon(11);
    world.goes_on();
    let policy = world.nodes[0].policy();
    assert_eq!((policy.epoch, policy.workers, &policy.lost), (2, 3, &Vec::new()));
    let worker = |node| {
        let incarnation = world.nodes[0].node(node).unwrap().incarnation;
        LiveWorker { node, since: 0, customers: vec![0], incarnation }
    };
    assert_eq!(policy.live, [worker(9), worker(13)]);
    world.check();
}

#[test]
fn it_takes_all_nodes_to_go_on_without_one() {
    let mut world = World::with(1, 2, 2, |config| {
        if config.node.role != Role::Server {
            config.node.abilities |= SAYS;
        }
    });
    assert!(!world.nodes[0].has_elastic_workers() && live(&world).is_empty());
    world.kill(world.of(9));
    world.pass(5 * SECOND);
    assert!(world.nodes[0].failure().unwrap().text.contains("worker 0"));
}

#[test]
fn the_last_one_ends_the_job() {
    let mut world = elastic(2, 2);
    world.dies_soon(9);
    world.goes_on();
    world.dies_soon(11);
    let text = world.nodes[0].failure().unwrap().text.clone();
    assert!(text.contains("worker 1") && text.contains("no worker is left"), "{text}");
}

/// MXNet's own server counts the pushes of all workers, and so may an application whose keys move.
#[test]
fn a_server_that_waits_for_all_ends_the_job() {
    for (opaque, why) in [(false, Some("an application keeps them")), (true, None)] {
        let mut world = elastic(3, 2);
        let fixed = why.map(str::to_owned);
        for server in [8, 10].map(|id| world.of(id)) {
            let fixed = fixed.clone();
            world.feed(
                server,
                Event::Claims(ClaimWord { epoch: 1, opaque, fixed, ..ClaimWord::default() }),
            );
        }
        world.settle();
        world.dies_soon(11);
        let text = world.nodes[0].failure().unwrap().text.clone();
        let why = why.unwrap_or("an application's own handler keeps its values");
        assert!(text.contains("worker 1") && text.contains(why), "{text}");
    }
}

#[test]
fn another_process_gets_its_place() {
    let mut world = elastic(3, 2);
    world.dies_soon(11);
    let back = world.start_worker(300, SAYS);
    world.pass(SECOND);
    world.goes_on();
    assert_eq!(world.id(back), 11);
    assert!(world.nodes[back].me().is_recovery && world.nodes[back].is_ready());
    assert_eq!(live(&world), [(9, 0), (11, 3), (13, 0)]);
    assert_eq!((world.nodes[back].my_life(), world.nodes[world.of(9)].my_life()), (3, 0));
    world.dies_soon(11);
    let third = world.start_worker(301, SAYS);
    world.pass(SECOND);
    world.goes_on();
    assert_eq!((live(&world)[1], world.nodes[third].my_life()), ((11, 5), 5));
    world.check();
}

/// It waits until the former one is missed; a word about that one which comes late does not mean
/// it.
#[test]
fn one_that_is_started_at_once_gets_the_place_when_the_death_is_noticed() {
    let mut world = elastic(3, 2);
    let victim = world.of(11);
    world.kill(victim);
    let back = world.start_worker(300, SAYS);
    assert!(!world.nodes[back].is_ready());
    world.pass(8 * SECOND);
    world.goes_on();
    assert_eq!((world.id(back), live(&world).len()), (11, 3));
    assert!(world.nodes[back].my_life() > 0);
}

/// At the address of the former one: that cannot live any more.
#[test]
fn one_at_the_same_address_takes_the_place_at_once() {
    let mut world = elastic(3, 2);
    let victim = world.of(11);
    let port = world.nodes[victim].me().port;
    world.dead[victim] = true;
    let mut config = config(Role::Worker, port, 3, 2);
    config.node.abilities |= SAYS;
    config.node.incarnation = 4711;
    let back = world.add(config);
    world.feed(back, Event::Register { customer_id: 0 });
    world.pass(SECOND);
    world.goes_on();
    assert_eq!((world.id(back), live(&world).len()), (11, 3));
}

#[test]
fn who_does_not_say_it_gets_no_place() {
    let mut world = elastic(3, 2);
    world.dies_soon(11);
    let stranger = world.start_worker(300, 0);
    world.pass(SECOND);
    assert!(world.nodes[stranger].failure().unwrap().text.contains("PSLITE_ELASTIC_WORKERS"));
    world.goes_on();
}

/// Else the death of a worker would end the job for that server.
#[test]
fn a_server_that_joins_must_say_it_too() {
    let mut world = elastic(3, 2);
    let stranger = world.join();
    world.pass(SECOND);
    let text = world.nodes[stranger].failure().unwrap().text.clone();
    assert!(text.contains("PSLITE_ELASTIC_WORKERS"), "{text}");
    world.goes_on();
}

/// It was cut off, and ends when it is told.
#[test]
fn one_taken_for_dead_ends() {
    let mut world = elastic(3, 2);
    let i = world.of(11);
    world.feed(0, Event::Unreachable { id: 11 });
    world.pass(3 * SECOND);
    let text = world.nodes[i].failure().unwrap().text.clone();
    assert!(world.dead[i] && text.contains("go on without it"), "{text}");
    world.goes_on();
}

#[test]
fn barriers_do_not_wait_for_the_dead() {
    let mut world = elastic(3, 2);
    let (a, b) = (world.of(9), world.of(13));
    assert!(world.waits(a, 1, WORKER_GROUP, false) && world.waits(b, 1, WORKER_GROUP, false));
    world.dies_soon(11);
    assert!(world.passed(a, 1) && world.passed(b, 1), "it alone was missing");
    assert!(world.waits(a, 2, WORKER_GROUP, false) && !world.waits(b, 2, WORKER_GROUP, false));
    world.goes_on();
}

/// What a dead one had entered does not count for the one in its place.
#[test]
fn one_that_came_back_is_waited_for_once_it_has_come_to_a_barrier_and_at_the_end() {
    let mut world = elastic(3, 2);
    let (a, b) = (world.of(9), world.of(13));
    let (victim, first) = (world.of(11), world.of(8));
    assert!(world.waits(victim, 1, WORKER_GROUP, false));
    world.dies_soon(11);
    let back = world.start_worker(300, SAYS);
    world.pass(SECOND);
    assert!(world.waits(a, 1, WORKER_GROUP, false));
    assert!(!world.waits(b, 1, WORKER_GROUP, false), "it may be anywhere in its script");
    assert!(world.waits(back, 1, WORKER_GROUP, false));
    assert!(world.waits(a, 2, WORKER_GROUP, false));
    assert!(!world.waits(b, 2, WORKER_GROUP, false) && world.passed(back, 1));
    assert!(world.waits(a, 3, WORKER_GROUP, false) && world.waits(b, 3, WORKER_GROUP, false));
    assert!(!world.waits(back, 2, WORKER_GROUP, false), "now it is waited for");
    // At the end all are, also one that has come to no barrier.
    world.dies_soon(11);
    let third = world.start_worker(301, SAYS);
    world.pass(SECOND);
    for i in [a, b] {
        world.feed(i, Event::Leaving { customer_id: 0 });
        assert!(world.waits(i, 4, WORKER_GROUP, false));
    }
    world.feed(third, Event::Leaving { customer_id: 0 });
    assert!(!world.waits(third, 1, WORKER_GROUP, false) && world.passed(a, 4));
    let servers = [first, world.of(10)];
    for i in servers {
        assert!(world.waits(i, 9, ALL_GROUP, true));
    }
    assert!(world.waits(a, 9, ALL_GROUP, true) && world.waits(b, 9, ALL_GROUP, true));
    assert!(!world.waits(third, 9, ALL_GROUP, true));
    assert!(world.passed(a, 9) && world.passed(first, 9));
    assert_eq!(world.nodes[0].failure(), None);
}

/// One that has no more steps waits for the others in the exit barrier; they meet without it.
#[test]
fn who_took_leave_is_waited_for_at_the_end_only() {
    let mut world = elastic(3, 2);
    let (a, b, c) = (world.of(9), world.of(11), world.of(13));
    world.feed(a, Event::Leaving { customer_id: 0 });
    assert!(world.waits(a, 1, ALL_GROUP, true));
    assert!(world.waits(b, 1, WORKER_GROUP, false) && !world.waits(c, 1, WORKER_GROUP, false));
    world.pass(5 * SECOND);
    world.goes_on();
}

/// MXNet's servers come to the exit barrier when rank 0 has told them to stop.
#[test]
fn where_rank_0_is_dead_the_scheduler_stops_the_servers() {
    let mut world = elastic(3, 3);
    let (a, b) = (world.of(11), world.of(13));
    let stopped = |world: &World, i: usize| {
        world.actions[i].iter().filter(|action| matches!(action, Action::Stop)).count()
    };
    let servers = [8, 10, 12].map(|id| world.of(id));
    world.dies_soon(9);
    assert!(world.waits(a, 1, ALL_GROUP, true));
    assert!(servers.iter().all(|i| stopped(&world, *i) == 0), "others train");
    assert!(world.waits(servers[1], 1, ALL_GROUP, true) && world.waits(b, 1, ALL_GROUP, true));
    assert_eq!(servers.map(|i| stopped(&world, i)), [1, 0, 1], "one is in the barrier already");
    // A word that may be lost with a connection is said again.
    world.feed(0, Event::ChannelUp { id: 8 });
    world.settle();
    assert_eq!(stopped(&world, servers[0]), 2);
    assert!(world.waits(servers[0], 1, ALL_GROUP, true));
    assert!(!world.waits(servers[2], 1, ALL_GROUP, true));
    assert!(world.passed(a, 1) && world.passed(b, 1) && world.passed(servers[0], 1));
}

#[test]
fn rank_0_stops_the_servers_itself_if_it_lives() {
    let mut world = elastic(3, 2);
    world.dies_soon(11);
    for id in [9, 13] {
        let i = world.of(id);
        assert!(world.waits(i, 1, ALL_GROUP, true));
    }
    let stop = |action: &Action| matches!(action, Action::Stop);
    assert!(!world.actions.iter().flatten().any(stop));
}

#[test]
fn the_scheduler_comes_back_and_knows_who_lives() {
    let mut world = elastic(3, 2);
    world.dies_soon(11);
    world.start_worker(300, SAYS);
    world.pass(SECOND);
    world.dies_soon(13);
    let before = live(&world);
    assert_eq!(before, [(9, 0), (11, 3)]);
    world.kill_scheduler();
    // One more registers, and is not in a policy yet when it dies again.
    world.restart_scheduler();
    world.pass(3 * SECOND);
    assert_eq!(live(&world), before);
    let back = world.start_worker(301, SAYS);
    assert_eq!(world.id(back), 13);
    world.kill_scheduler();
    world.restart_scheduler();
    world.pass(3 * SECOND);
    world.goes_on();
    assert_eq!(live(&world).len(), 3);
    assert_eq!(world.nodes[back].my_life(), live(&world)[2].1);
}

/// What the scheduler of a job warned of since it was started last.
fn warnings(world: &World) -> Vec<&str> {
    let begin = world.actions[0].iter().rposition(|action| matches!(action, Action::Ready));
    let heard = world.actions[0][..begin.unwrap()].iter().rev();
    let last = heard.take_while(|action| !matches!(action, Action::Policy(_)));
    let warned = last.filter_map(|action| match action {
        Action::Note(NewEvent { level: Level::Warning, text, .. }) => Some(&text[..]),
        _ => None,
    });
    warned.collect()
}

/// What the job began with counts, for those who come later too.
#[test]
fn a_scheduler_that_is_started_again_without_being_asked_goes_on_without_workers_that_die() {
    let mut world = elastic(3, 2);
    world.kill_scheduler();
    world.scheduler.as_mut().unwrap().node.abilities &= !SAYS;
    world.restart_scheduler();
    world.pass(3 * SECOND);
    let warned = warnings(&world);
    assert!(matches!(warned[..], [text] if text.contains("began with it")), "{warned:?}");
    world.dies_soon(11);
    world.goes_on();
    assert_eq!(live(&world), [(9, 0), (13, 0)]);
    let back = world.start_worker(300, SAYS);
    world.pass(SECOND);
    assert!(world.nodes[back].has_elastic_workers() && world.id(back) == 11);
    world.dies_soon(9);
    world.goes_on();
}

#[test]
fn a_scheduler_that_is_started_again_cannot_make_the_others_go_on_without_workers() {
    let mut world = World::with(1, 3, 2, |config| {
        if config.node.role != Role::Scheduler {
            config.node.abilities |= SAYS;
        }
    });
    world.make_array();
    world.pass(SECOND);
    world.kill_scheduler();
    world.scheduler.as_mut().unwrap().node.abilities |= SAYS;
    world.restart_scheduler();
    world.pass(3 * SECOND);
    let warned = warnings(&world);
    assert!(matches!(warned[..], [text] if text.contains("has no effect")), "{warned:?}");
    assert!(!world.nodes[0].has_elastic_workers() && live(&world).is_empty());
    world.dies_soon(11);
    assert!(world.nodes[0].failure().unwrap().text.contains("worker 1"));
}

/// A journal of a version that did not note it: then what all say now counts.
#[test]
fn an_older_journal_does_not_say_whether_the_job_goes_on_without_workers() {
    for (says, goes_on) in [(true, true), (false, false)] {
        let mut world = elastic(3, 2);
        world.kill_scheduler();
        world.journal.elastic_workers = None;
        if !says {
            world.scheduler.as_mut().unwrap().node.abilities &= !SAYS;
        }
        world.restart_scheduler();
        world.pass(3 * SECOND);
        assert_eq!(world.nodes[0].has_elastic_workers(), goes_on);
    }
}

#[test]
fn operators_see_who_is_gone_and_who_is_back() {
    let mut world = elastic(3, 2);
    world.dies_soon(11);
    let state = |world: &World, id: NodeId| {
        let members = world.nodes[0].overview().members;
        members.into_iter().find(|member| member.node.id == id).unwrap().state
    };
    assert_eq!((state(&world, 9), state(&world, 11)), (MemberState::Live, MemberState::Dead));
    world.start_worker(300, SAYS);
    world.pass(SECOND);
    assert_eq!(state(&world, 11), MemberState::Back);
    let lines: Vec<&str> = world.actions[0]
        .iter()
        .filter_map(|action| match action {
            Action::Note(event) => Some(event.text.as_str()),
            _ => None,
        })
        .collect();
    let said = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(said("the job goes on without worker 1"), "{lines:?}");
    assert!(said("policy 2: 2 servers, 2 of 3 workers"), "{lines:?}");
    assert!(said("policy 3: 2 servers, 3 of 3 workers; back: worker 1"), "{lines:?}");
}

/// A server's death meanwhile changes nothing of that.
#[test]
fn servers_and_workers_may_die_together() {
    let mut world = elastic(3, 3);
    let (server, worker) = (world.of(10), world.of(13));
    world.kill(server);
    world.kill(worker);
    world.pass(6 * SECOND);
    world.goes_on();
    assert_eq!((live(&world).len(), world.nodes[0].policy().servers.len()), (2, 2));
    assert_eq!(world.nodes[0].ids_of(SERVER_GROUP), Some(vec![8, 12]));
    world.check();
}
