//! Whole jobs on virtual time: many state machines, their messages delivered by the test in order
//! of the channels. No sockets, no clock.

mod barriers;
mod customers;
mod guests;
mod pauses;
mod refusals;
mod replacements;
mod topics;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::*;
use crate::scheduler::{LogLine, WaitWatch};
use crate::wire::topic::Topic;
use crate::wire::{
    ALL_GROUP, EMPTY, Message, Node, NodeId, Role, SCHEDULER, SERVER_GROUP, WORKER_GROUP, ability,
    id_to_rank,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A job whose nodes are connected by the test.
struct Job {
    now: Duration,
    nodes: Vec<Cluster>,
    /// Which channels each node has: key to address.
    channels: Vec<BTreeMap<NodeId, String>>,
    /// Under which id each node's channel to an address presents itself.
    names: Vec<BTreeMap<NodeId, Option<NodeId>>>,
    wire: VecDeque<(usize, usize, Option<NodeId>, Message)>,
    events: Vec<Vec<Action>>,
    dead: Vec<bool>,
    /// The scheduler's; what it says is among its actions.
    waits: WaitWatch,
}

/// A node that listens there; the scheduler is at `s:1`.
pub(crate) fn config(
    role: Role,
    host: &str,
    port: i32,
    workers: usize,
    servers: usize,
) -> ClusterConfig {
    let node = |role, id, host: &str, port| Node {
        role,
        id,
        customer_id: 0,
        hostname: host.to_owned(),
        port,
        is_recovery: false,
        abilities: ability::PSLITE,
        incarnation: port as u64,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    };
    let id = if role == Role::Scheduler { SCHEDULER } else { EMPTY };
    ClusterConfig {
        role,
        num_workers: workers,
        num_servers: servers,
        node: node(role, id, host, port),
        scheduler: node(Role::Scheduler, SCHEDULER, "s", 1),
        heartbeat_interval: Some(SECOND),
        heartbeat_timeout: None,
        silence_limit: 60 * SECOND,
        channel_down_limit: 3 * SECOND,
        start_timeout: None,
        report_interval: 10 * SECOND,
        trees: false,
        exchange: None,
        recovery_wait: 60 * SECOND,
        standing_scheduler: false,
        replicas: None,
        planned: false,
        scheduler_wait: 60 * SECOND,
        group_size: 1,
        instance_barriers: false,
        rank_order: RankOrder::Address,
        settings: Vec::new(),
        doubt: String::new(),
    }
}

impl Job {
    fn new(configs: Vec<ClusterConfig>) -> Self {
        let count = configs.len();
        let nodes = configs.into_iter().map(|c| Cluster::new(c, Duration::ZERO)).collect();
        let mut job = Self {
            now: Duration::ZERO,
            nodes,
            channels: vec![BTreeMap::new(); count],
            names: vec![BTreeMap::new(); count],
            wire: VecDeque::new(),
            events: vec![Vec::new(); count],
            dead: vec![false; count],
            waits: WaitWatch::new(10 * SECOND),
        };
        for i in 0..count {
            if !job.nodes[i].is_scheduler() {
                job.channels[i].insert(SCHEDULER, "s:1".to_owned());
                job.names[i].insert(SCHEDULER, None);
                job.feed(i, Event::ChannelUp { id: SCHEDULER });
            }
        }
        job
    }

    fn of(workers: usize, servers: usize) -> Self {
        let mut configs = vec![config(Role::Scheduler, "s", 1, workers, servers)];
        configs.extend(
            (0..servers).map(|i| config(Role::Server, "b", 100 + i as i32, workers, servers)),
        );
        configs.extend(
            (0..workers).map(|i| config(Role::Worker, "a", 200 + i as i32, workers, servers)),
        );
        Self::new(configs)
    }

    fn feed(&mut self, i: usize, event: Event) {
        let ticks = matches!(event, Event::Tick);
        let (mut actions, mut lines) = (Vec::new(), Vec::new());
        self.nodes[i].handle(self.now, event, &mut actions);
        for action in actions {
            match &action {
                Action::Connect { node, identity } => {
                    self.channels[i].insert(node.id, node.address());
                    self.names[i].insert(node.id, *identity);
                }
                Action::ConnectPending { key, node } => {
                    self.channels[i].insert(*key, node.address());
                    self.names[i].insert(*key, Some(SCHEDULER));
                }
                Action::Rename { from, to } => {
                    let address = self.channels[i].remove(from).unwrap();
                    self.channels[i].insert(*to, address);
                    let name = self.names[i].remove(from).unwrap();
                    self.names[i].insert(*to, name);
                }
                Action::Send { to, message } => self.post(i, *to, message.clone()),
                Action::Told { from, topic: Topic::Stall, bytes } if i == 0 => {
                    self.waits.told(self.now, *from, bytes, &self.nodes[0], &mut lines);
                }
                Action::CustomerLeft { id, .. } if i == 0 => self.waits.left(*id),
                _ => {}
            }
            self.events[i].push(action);
        }
        if ticks && i == 0 {
            self.waits.look(self.now, &self.nodes[0], &mut lines);
        }
        self.events[i].extend(lines.into_iter().map(barriers::action_of));
    }

    fn post(&mut self, i: usize, to: NodeId, message: Message) {
        if to == self.nodes[i].me().id {
            self.wire.push_back((i, i, Some(to), message));
            return;
        }
        let address = self.channels[i].get(&to).unwrap_or_else(|| panic!("no channel to {to}"));
        let target = self.nodes.iter().position(|n| n.me().address() == *address).unwrap();
        self.wire.push_back((i, target, self.names[i][&to], message));
    }

    /// Delivers everything that is under way; newest channel first if `reverse`.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let Some((_, target, from, message)) = self.wire.pop_front() else { return };
            if !self.dead[target] {
                self.feed(target, Event::Received { from, message });
            }
        }
        panic!("the job does not come to rest");
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += SECOND / 2;
            for i in 0..self.nodes.len() {
                if !self.dead[i] {
                    self.feed(i, Event::Tick);
                }
            }
            self.settle();
        }
    }

    fn start(&mut self) {
        for i in 0..self.nodes.len() {
            self.feed(i, Event::Register { customer_id: 0 });
        }
        self.settle();
    }

    fn kill(&mut self, victim: usize) {
        self.dead[victim] = true;
        let address = self.nodes[victim].me().address();
        for i in 0..self.nodes.len() {
            let cut: Vec<NodeId> = self.channels[i]
                .iter()
                .filter(|(_, a)| **a == address)
                .map(|(key, _)| *key)
                .collect();
            for id in cut {
                self.feed(i, Event::ChannelDown { id });
            }
        }
    }

    fn barrier(&mut self, i: usize, ticket: u64, customer_id: i32, group: i32) {
        self.feed(
            i,
            Event::EnterBarrier { ticket, customer_id, group, leaving: false, instance: false },
        );
        self.settle();
    }

    fn done(&self, i: usize, ticket: u64) -> Option<Result<(), JobFailure>> {
        self.events[i].iter().find_map(|action| match action {
            Action::BarrierDone { ticket: t, result } if *t == ticket => Some(result.clone()),
            _ => None,
        })
    }

    fn failure(&self, i: usize) -> Option<String> {
        self.nodes[i].failure().map(|failure| failure.text.clone())
    }
}

#[test]
fn ids_follow_host_descending_then_port_ascending() {
    let mut configs = vec![config(Role::Scheduler, "s", 1, 3, 1)];
    for (host, port) in [("127.0.0.10", 5), ("127.0.0.3", 7), ("127.0.0.3", 6)] {
        configs.push(config(Role::Worker, host, port, 3, 1));
    }
    configs.push(config(Role::Server, "x", 9, 3, 1));
    let mut job = Job::new(configs);
    job.start();
    let ids: Vec<NodeId> = job.nodes.iter().map(|node| node.me().id).collect();
    assert_eq!(ids, [1, 13, 11, 9, 8]);
    assert!(job.nodes.iter().all(Cluster::is_ready));
    assert_eq!(job.nodes[1].ids_of(7), Some(vec![9, 11, 13, 8, 1]));
    assert_eq!(job.nodes[1].ids_of(8), Some(vec![8]));
    assert_eq!(job.nodes[1].ids_of(10), None);
}

#[test]
fn a_job_needs_each_role_in_its_number() {
    // Three workers and one server are as many as two and two, which is all that stock looks at.
    let mut configs = vec![config(Role::Scheduler, "s", 1, 2, 2)];
    configs.extend((0..3).map(|i| config(Role::Worker, "a", 10 + i, 2, 2)));
    configs.push(config(Role::Server, "b", 20, 2, 2));
    let mut job = Job::new(configs);
    job.start();
    assert!(job.nodes.iter().all(|node| !node.is_ready()));
    assert!(job.failure(3).unwrap().contains("one too many"), "{:?}", job.failure(3));
    job.pass(11 * SECOND);
    let told = job.events[1].iter().any(|action| {
        matches!(action, Action::Note(event) if event.text.contains("missing: 1 server(s)"))
    });
    assert!(told, "{:?}", job.events[1]);
}

#[test]
fn a_start_that_takes_too_long_ends_with_what_is_missing() {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 1, 1), config(Role::Worker, "a", 2, 1, 1)];
    configs.iter_mut().for_each(|config| config.start_timeout = Some(5 * SECOND));
    let mut job = Job::new(configs);
    job.start();
    job.pass(6 * SECOND);
    assert!(job.failure(0).unwrap().contains("missing: 1 server(s)"));
    assert!(job.failure(1).is_some());
}

/// Every node hears it: a line with all of them would grow with the square of the job.
#[test]
fn what_is_missing_does_not_name_hundreds() {
    let mut configs = vec![config(Role::Scheduler, "s", 1, 1, 300)];
    configs.extend((0..300).map(|i| config(Role::Server, "a", 2 + i, 1, 300)));
    configs.iter_mut().for_each(|config| config.start_timeout = Some(5 * SECOND));
    let mut job = Job::new(configs);
    job.start();
    job.pass(6 * SECOND);
    let text = job.failure(0).unwrap();
    assert!(text.contains("300 of 300 servers are here: a:"), "{text}");
    assert!(text.contains(", 292 more; missing: 1 worker(s)") && text.len() < 300, "{text}");
}

#[test]
fn whoever_dies_is_named_to_all_others() {
    for victim in 0..5 {
        let mut job = Job::of(2, 2);
        job.start();
        for i in 0..5 {
            job.barrier(i, 100, 0, if victim == i { 8 } else { ALL_GROUP });
        }
        let address = job.nodes[victim].me().address();
        job.kill(victim);
        job.pass(10 * SECOND);
        for i in (0..5).filter(|i| *i != victim) {
            let text = job.failure(i).unwrap_or_else(|| panic!("{i} does not know of {victim}"));
            assert!(text.contains(&address), "{i} of {victim}: {text}");
            assert!(job.done(i, 100).unwrap().is_err(), "{i} still waits for {victim}");
        }
    }
}

/// Stopped, not dead: the connection stays. Also if no sign of life came since the start.
#[test]
fn silence_means_death_even_before_the_first_sign_of_life() {
    let mut job = Job::of(2, 2);
    job.start();
    let id = job.nodes[4].me().id;
    job.dead[4] = true;
    job.pass(59 * SECOND);
    assert!((0..4).all(|i| job.failure(i).is_none()));
    job.pass(3 * SECOND);
    for i in 0..4 {
        let text = job.failure(i).unwrap_or_else(|| panic!("node {i} does not know"));
        assert!(text.contains(&format!("id {id},")) && text.contains("no sign of life"), "{text}");
    }
}

#[test]
fn one_who_dies_before_the_job_is_complete_ends_it() {
    let mut job = Job::of(2, 1);
    for i in 0..3 {
        job.feed(i, Event::Register { customer_id: 0 });
    }
    job.settle();
    job.kill(2);
    job.pass(5 * SECOND);
    for i in [0, 1] {
        assert!(job.failure(i).unwrap().contains("a:200"), "{:?}", job.failure(i));
    }
}

/// Its host loses power: no connection is closed, and no sign of life ever came.
#[test]
fn one_who_vanishes_before_the_first_sign_of_life_is_missed() {
    for victim in 0..3 {
        let mut job = Job::of(1, 1);
        job.start();
        job.dead[victim] = true;
        job.pass(70 * SECOND);
        let address = job.nodes[victim].me().address();
        for i in (0..3).filter(|i| *i != victim) {
            let text = job.failure(i).unwrap_or_else(|| panic!("{i} does not miss {victim}"));
            assert!(text.contains(&address), "{i} of {victim}: {text}");
        }
    }
}

/// Who sends no signs of life is not missed for want of them.
#[test]
fn the_silence_of_those_who_send_no_signs_means_nothing() {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 1, 1), config(Role::Server, "b", 2, 1, 1)];
    configs.push(ClusterConfig { heartbeat_interval: None, ..config(Role::Worker, "a", 3, 1, 1) });
    let mut job = Job::new(configs);
    job.start();
    job.pass(200 * SECOND);
    assert_eq!((job.failure(0), job.failure(1), job.failure(2)), (None, None, None));
}

/// The scheduler hears of the restart first: requests to the former server must end elsewhere too.
#[test]
fn one_who_is_back_before_it_was_missed_was_still_lost() {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 1, 1), config(Role::Worker, "a", 2, 1, 1)];
    configs.push(config(Role::Server, "b", 3, 1, 1));
    configs.iter_mut().for_each(|config| config.heartbeat_timeout = Some(5 * SECOND));
    let mut job = Job::new(configs.clone());
    job.start();
    let again = Node { incarnation: 99, ..configs[2].node.clone() };
    job.nodes[2] = Cluster::new(ClusterConfig { node: again, ..configs[2].clone() }, job.now);
    job.names[2].insert(SCHEDULER, None);
    job.feed(2, Event::Register { customer_id: 0 });
    job.settle();
    let at = |wanted: fn(&Action) -> bool| job.events[1].iter().position(wanted).unwrap();
    let lost = at(|action| matches!(action, Action::NodeLost { id: 8, .. }));
    let replaced = at(|action| matches!(action, Action::NodeReplaced { node } if node.id == 8));
    let connected = job.events[1]
        .iter()
        .rposition(|action| matches!(action, Action::Connect { node, .. } if node.id == 8));
    assert!(Some(lost) < connected && connected < Some(replaced), "{:?}", job.events[1]);
    assert!(job.nodes[2].me().is_recovery);
}

#[test]
fn a_short_interruption_is_nothing() {
    let mut job = Job::of(1, 1);
    job.start();
    job.feed(2, Event::ChannelDown { id: 8 });
    job.pass(2 * SECOND);
    job.feed(2, Event::ChannelUp { id: 8 });
    job.pass(20 * SECOND);
    assert_eq!(job.failure(2), None);
}

#[test]
fn the_dead_are_replaced_as_often_as_needed() {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 2, 1), config(Role::Server, "b", 2, 2, 1)];
    configs.extend((0..5).map(|i| config(Role::Worker, "a", 10 + i, 2, 1)));
    configs.iter_mut().for_each(|config| config.heartbeat_timeout = Some(5 * SECOND));
    let mut job = Job::new(configs);
    for i in 0..4 {
        job.feed(i, Event::Register { customer_id: 0 });
    }
    job.settle();
    // Scheduler and servers wait in the exit barrier from the beginning.
    job.barrier(0, 1, 0, ALL_GROUP);
    job.barrier(1, 1, 0, ALL_GROUP);
    for (victim, newcomer) in [(3, 4), (4, 5), (2, 6)] {
        let id = job.nodes[victim].me().id;
        job.kill(victim);
        job.pass(newcomer as u32 % 2 * 5 * SECOND);
        job.feed(newcomer, Event::Register { customer_id: 0 });
        job.pass(6 * SECOND);
        let me = job.nodes[newcomer].me();
        assert_eq!((me.id, me.is_recovery), (id, true));
        assert!(job.events[1].iter().any(|action| {
            matches!(action, Action::NodeReplaced { node }
                    if node.port == 10 + newcomer as i32 - 2)
        }));
    }
    assert_eq!(job.failure(0), None);
    assert!(job.done(0, 1).is_none());
    job.barrier(5, 1, 0, ALL_GROUP);
    job.barrier(6, 1, 0, ALL_GROUP);
    for i in [0, 1, 5, 6] {
        assert!(job.done(i, 1).unwrap().is_ok());
    }
}

#[test]
fn nobody_in_the_place_of_the_dead_ends_the_job_after_a_while() {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 2, 1), config(Role::Server, "b", 2, 2, 1)];
    configs.extend((0..2).map(|i| config(Role::Worker, "a", 10 + i, 2, 1)));
    configs.iter_mut().for_each(|config| {
        config.heartbeat_timeout = Some(5 * SECOND);
        config.recovery_wait = 20 * SECOND;
    });
    let mut job = Job::new(configs);
    job.start();
    job.kill(3);
    job.pass(15 * SECOND);
    assert_eq!(job.failure(0), None);
    job.pass(15 * SECOND);
    assert!(job.failure(0).unwrap().contains("a:11"));
}

#[test]
fn one_who_took_leave_is_not_mourned() {
    let mut job = Job::of(2, 1);
    job.start();
    job.feed(3, Event::Leaving { customer_id: 0 });
    job.settle();
    let left = Action::CustomerLeft { id: job.nodes[3].me().id, customer_id: 0 };
    assert!(job.events[1].contains(&left));
    job.kill(3);
    job.pass(10 * SECOND);
    assert_eq!((job.failure(0), job.failure(1)), (None, None));
}

/// A stock scheduler frees all from the exit barrier and ends, and its word may end with it.
#[test]
fn the_last_word_of_a_stock_scheduler_may_be_lost() {
    for stock in [true, false] {
        let mut configs = vec![config(Role::Scheduler, "s", 1, 1, 1)];
        configs.push(config(Role::Server, "b", 100, 1, 1));
        configs.push(config(Role::Worker, "a", 200, 1, 1));
        let abilities = if stock { 0 } else { ability::PSLITE };
        configs[0].node.abilities = abilities;
        configs.iter_mut().for_each(|config| config.scheduler.abilities = abilities);
        let mut job = Job::new(configs);
        job.start();
        let exit = Event::EnterBarrier {
            ticket: 1,
            customer_id: 0,
            group: ALL_GROUP,
            leaving: true,
            instance: false,
        };
        job.feed(1, exit);
        // The worker is in the middle of something.
        job.barrier(2, 1, 0, WORKER_GROUP + SERVER_GROUP);
        job.kill(0);
        job.pass(10 * SECOND);
        assert_eq!(job.done(1, 1).map(|result| result.is_ok()), Some(stock));
        assert_eq!(job.failure(1).is_none(), stock);
        assert!(job.done(2, 1).unwrap().is_err() && job.failure(2).is_some());
    }
}

/// It left one barrier earlier than the other: nobody will ever join that one.
#[test]
fn a_barrier_does_not_wait_for_one_who_left() {
    let mut job = Job::of(2, 1);
    job.start();
    job.feed(3, Event::Leaving { customer_id: 0 });
    job.barrier(2, 1, 0, WORKER_GROUP);
    job.pass(10 * SECOND);
    assert_eq!(job.failure(2), None, "it may still come");
    job.barrier(3, 1, 0, WORKER_GROUP);
    assert!(job.done(2, 1).unwrap().is_ok());
    job.barrier(0, 1, 0, ALL_GROUP);
    job.barrier(3, 2, 0, ALL_GROUP);
    job.barrier(2, 2, 0, WORKER_GROUP);
    job.pass(3 * SECOND);
    let text = job.failure(2).unwrap();
    let left = job.nodes[0].describe(job.nodes[3].me().id);
    assert!(text.contains(&left) && text.contains("has left"), "{text}");
}

#[test]
fn the_same_job_gives_the_same_actions() {
    let run = || {
        let mut job = Job::of(3, 2);
        job.start();
        job.kill(4);
        job.pass(10 * SECOND);
        format!("{:?}", job.events)
    };
    assert_eq!(run(), run());
}

/// Two processes of each role with two nodes each: one of a process comes to a barrier, and each
/// node to those of start and end, even while others are still in another one.
#[test]
fn one_node_of_each_process_meets_and_every_node_ends() {
    let mut configs = vec![config(Role::Scheduler, "s", 1, 4, 4)];
    for rank in 0..4 {
        for (role, host) in [(Role::Worker, "a"), (Role::Server, "b")] {
            let mut config = config(role, host, 100 + rank, 4, 4);
            config.node.wished_rank = Some(3 - rank as u32);
            configs.push(config);
        }
    }
    for config in &mut configs {
        config.group_size = 2;
        config.instance_barriers = true;
    }
    let mut job = Job::new(configs);
    job.start();
    let ids: Vec<NodeId> = job.nodes.iter().map(|node| node.me().id).collect();
    assert_eq!(ids, [1, 15, 14, 13, 12, 11, 10, 9, 8], "the ranks that they wished");
    let enter = |job: &mut Job, i: usize, ticket, instance| {
        let group = ALL_GROUP;
        let event = Event::EnterBarrier { ticket, customer_id: 0, group, leaving: false, instance };
        job.feed(i, event);
        job.settle();
    };
    let (first, second): (Vec<usize>, Vec<usize>) =
        (1..9).partition(|i| id_to_rank(ids[*i]) % 2 == 0);
    for i in &second {
        enter(&mut job, *i, 1, true);
    }
    for i in first.iter().chain([&0]) {
        assert_eq!(job.done(first[0], 2), None);
        enter(&mut job, *i, 2, false);
    }
    assert!(first.iter().all(|i| job.done(*i, 2) == Some(Ok(()))));
    assert!(second.iter().all(|i| job.done(*i, 1).is_none()), "they are in another one");
    for i in first.iter().chain([&0]) {
        enter(&mut job, *i, 1, true);
    }
    assert!((0..9).all(|i| job.done(i, 1) == Some(Ok(()))));
}

#[test]
fn wishes_that_do_not_fit_end_the_job_everywhere() {
    let mut configs = vec![config(Role::Scheduler, "s", 1, 2, 0)];
    for port in [5, 6] {
        let mut config = config(Role::Worker, "a", port, 2, 0);
        config.node.wished_rank = Some(1);
        configs.push(config);
    }
    let mut job = Job::new(configs);
    job.start();
    for i in 0..3 {
        let failure = job.failure(i).unwrap();
        assert!(failure.contains("wishes rank 1 where 0 is next"), "{i}: {failure}");
    }
}
