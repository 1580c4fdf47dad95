//! Stores, workers and a scheduler, and the messages between them. One seed decides in what order
//! messages arrive (in order between two nodes, in any order otherwise), what is ordered, who dies,
//! comes and goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::keys::KeySpec;
use super::scheduler::Scheduler;
use super::worker::{Sent, Worker};
use crate::random::Random;
use crate::store::Outbound;
use crate::store::elastic::Due;
use crate::store::{Answer, Store, StoreConfig, SumOrder};
use crate::wire::elastic::{SchedulerMessage, SchedulerMessageKind, Transfer};
use crate::wire::{Meta, NodeId, SCHEDULER, server_id, worker_id};

/// Moves cut pieces as if long ones were very long.
const SHORT_PARTS: usize = 128;
/// Steps after which a run hangs.
const STEPS_MAX: usize = 400_000;
/// Steps between two looks at all that stores promise. (At the key of each message a debug build
/// looks.)
const LOOK_EVERY: usize = 16;

pub(super) enum Message {
    Request(Meta, Vec<Bytes>),
    Answer(Answer),
    Transfer(Transfer, Vec<Bytes>),
    SchedulerMessage(SchedulerMessage),
}

/// What may happen, in chances of 1000 for each step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    pub(super) order: u64,
    pub(super) kill: u64,
    pub(super) join: u64,
    pub(super) drain: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) servers: usize,
    pub(super) workers: usize,
    pub(super) replicas: u32,
    pub(super) deterministic: bool,
    pub(super) keys: Vec<KeySpec>,
    pub(super) chances: Chances,
    /// How often each may happen.
    pub(super) most: u64,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) stores: BTreeMap<NodeId, Store>,
    pub(super) workers: Vec<Worker>,
    pub(super) scheduler: Scheduler,
    pub(super) links: BTreeMap<(NodeId, NodeId), VecDeque<Message>>,
    /// Dead, and the scheduler does not know.
    pub(super) dying: Option<NodeId>,
    pub(super) next_server: usize,
    pub(super) happened: BTreeMap<&'static str, u64>,
    pub(super) moves: u64,
    log: VecDeque<String>,
}

impl World {
    pub(super) fn new(plan: Plan, exact: bool) -> Self {
        let ids: Vec<NodeId> = (0..plan.servers).map(server_id).collect();
        let mut world = Self {
            random: Random::new(plan.seed),
            stores: BTreeMap::new(),
            workers: (0..plan.workers)
                .map(|rank| Worker::new(worker_id(rank), &plan.keys, ids.clone(), exact))
                .collect(),
            scheduler: Scheduler::new(&ids, plan.replicas),
            links: BTreeMap::new(),
            dying: None,
            next_server: plan.servers,
            happened: BTreeMap::new(),
            moves: 0,
            log: VecDeque::new(),
            plan,
        };
        for id in ids {
            let store = world.make_store(id);
            world.stores.insert(id, store);
        }
        world
    }

    pub(super) fn make_store(&self, id: NodeId) -> Store {
        Store::new(StoreConfig {
            workers: self.plan.workers,
            servers: self.plan.servers,
            id,
            order: SumOrder::by_ranks(self.plan.deterministic),
            elastic: true,
            replicas: self.plan.replicas,
            part_bytes: SHORT_PARTS,
        })
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if std::env::var_os("PSLITE_TEST_TRACE").is_some() {
            self.log.push_back(text());
        }
    }

    fn fail(&self, what: &str) -> ! {
        for line in &self.log {
            println!("{line}");
        }
        let workers: Vec<String> = self.workers.iter().map(Worker::describe).collect();
        let links: Vec<_> = self.links.iter().map(|(link, queue)| (link, queue.len())).collect();
        panic!(
            "{what}\nseed {}\n{}\nlinks {links:?}\nscheduler: epoch {} servers {:?} lost {:?} \
             collecting {} dying {:?} happened {:?}",
            self.plan.seed,
            workers.join("\n"),
            self.scheduler.epoch,
            self.scheduler.servers,
            self.scheduler.lost,
            self.scheduler.collecting,
            self.dying,
            self.happened,
        )
    }

    pub(super) fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.links.entry((from, to)).or_default().push_back(message);
    }

    fn send_all(&mut self, from: NodeId, sent: Vec<Sent>) {
        for Sent { to, meta, frames } in sent {
            self.send(from, to, Message::Request(meta, frames));
        }
    }

    fn send_out(&mut self, from: NodeId, out: Outbound) {
        for answer in out.answers {
            self.send(from, answer.request.sender, Message::Answer(answer));
        }
        for outgoing in out.transfers {
            let message = Message::Transfer(outgoing.transfer, outgoing.frames);
            self.send(from, outgoing.to, message);
        }
    }

    /// Runs until all workers are done.
    /// Stores keep what they promise.
    fn look(&self) {
        for (id, store) in &self.stores {
            if let Err(broken) = store.validate() {
                self.fail(&format!("{id} breaks a promise: {broken}"));
            }
        }
    }

    pub(super) fn run(&mut self) {
        for step in 0..STEPS_MAX {
            if step % LOOK_EVERY == 0 {
                self.look();
            }
            self.workers_go_on();
            let done = |worker: &Worker| worker.actions.is_empty() && !worker.is_waiting();
            if self.workers.iter().all(done) {
                return;
            }
            let happened = self.maybe_happens();
            if !self.deliver_one() && !happened && !self.detect() && !self.retry() {
                self.fail("nothing moves any more");
            }
        }
        self.fail("it does not end");
    }

    /// Time passes. False if nobody has anything to do.
    pub(super) fn retry(&mut self) -> bool {
        let mut any = false;
        for worker in 0..self.workers.len() {
            let sent = self.workers[worker].retry();
            any |= !sent.is_empty();
            self.send_all(worker_id(worker), sent);
        }
        any
    }

    fn workers_go_on(&mut self) {
        let servers: Vec<NodeId> = (0..self.plan.servers).map(server_id).collect();
        loop {
            let reached = |worker: &Worker| {
                let at_barrier =
                    matches!(worker.actions.front(), Some(super::worker::Action::Barrier));
                worker.barriers + usize::from(at_barrier && !worker.is_waiting())
            };
            let passed = self.workers.iter().map(reached).min().unwrap_or(0);
            let mut any = false;
            for index in 0..self.workers.len() {
                let before = self.workers[index].actions.len();
                let sent = self.workers[index].go_on(&servers, passed);
                any |= self.workers[index].actions.len() < before;
                self.send_all(worker_id(index), sent);
            }
            if !any {
                return;
            }
        }
    }

    /// Delivers a message of a link that the seed decides. False if there is none.
    fn deliver_one(&mut self) -> bool {
        let full: Vec<_> = self.links.keys().copied().collect();
        if full.is_empty() {
            return false;
        }
        let (from, to) = full[self.random.below(full.len() as u64) as usize];
        let Some(queue) = self.links.get_mut(&(from, to)) else { return false };
        let message = queue.pop_front();
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        if let Some(message) = message {
            self.deliver(from, to, message);
        }
        true
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, message: Message) {
        let alive = to == SCHEDULER || to % 2 == 1 || self.stores.contains_key(&to);
        self.note(|| match &message {
            Message::Request(meta, _) => {
                format!("{from} -> {to} ts {} push {} {:?}", meta.timestamp, meta.push, meta.placed)
            }
            Message::Answer(answer) => {
                let meta = &answer.request;
                format!("{from} -> {to} answer ts {} {:?}", meta.timestamp, meta.placed)
            }
            Message::Transfer(transfer, _) => format!("{from} -> {to} {transfer:?}"),
            Message::SchedulerMessage(word) => format!("{from} -> {to} {word:?}"),
        });
        if !alive {
            return;
        }
        match message {
            Message::Answer(answer) => {
                let worker = &mut self.workers[(to as usize - 9) / 2];
                let sent = worker.answer(from, &answer);
                self.send_all(to, sent);
            }
            Message::SchedulerMessage(word) if to == SCHEDULER => {
                if let Some(policy) = self.scheduler.claims(from, &word) {
                    self.announce(&policy);
                }
            }
            Message::SchedulerMessage(word) if to % 2 == 1 => {
                let sent = self.workers[(to as usize - 9) / 2].policy(&word);
                self.send_all(to, sent);
            }
            Message::SchedulerMessage(word) => self.word(to, &word),
            Message::Request(meta, frames) => self.request(to, meta, &frames),
            Message::Transfer(transfer, frames) => {
                let mut out = Outbound::default();
                let Some(store) = self.stores.get_mut(&to) else { return };
                if let Err(error) = store.transfer(from, &transfer, &frames, &mut out) {
                    self.fail(&format!("{from} -> {to}: {error}: {transfer:?}"));
                }
                self.moves +=
                    u64::from(transfer.kind() == crate::wire::elastic::TransferKind::Moved);
                self.send_out(to, out);
            }
        }
    }

    fn request(&mut self, to: NodeId, meta: Meta, frames: &[Bytes]) {
        let mut out = Outbound::default();
        let Some(store) = self.stores.get_mut(&to) else { return };
        if meta.simple_app {
            match store.obey(&meta, &mut out) {
                Ok(Due::Now) => {
                    out.answers.push(Answer { request: meta, kv: Default::default() });
                }
                Ok(Due::Later) => {}
                Err(error) => self.fail(&error.to_string()),
            }
        } else {
            store.serve(meta, frames, &mut out);
        }
        self.send_out(to, out);
    }

    fn word(&mut self, to: NodeId, word: &SchedulerMessage) {
        let mut out = Outbound::default();
        let Some(store) = self.stores.get_mut(&to) else { return };
        match word.kind() {
            SchedulerMessageKind::Collect => {
                let claims = store.collect(word);
                let kind = SchedulerMessageKind::Claims.into();
                let word = SchedulerMessage {
                    kind,
                    epoch: word.epoch,
                    claims,
                    ..SchedulerMessage::default()
                };
                self.send(to, SCHEDULER, Message::SchedulerMessage(word));
            }
            SchedulerMessageKind::Policy => store.policy(word, &mut out),
            SchedulerMessageKind::Orders => store.orders(&word.moves, &mut out),
            SchedulerMessageKind::Leave => {
                if !store.is_drained() {
                    self.fail(&format!("{to} still holds something"));
                }
                self.stores.remove(&to);
                return;
            }
            _ => self.fail("an unexpected word"),
        }
        self.send_out(to, out);
    }

    fn announce(&mut self, policy: &SchedulerMessage) {
        let servers: BTreeSet<NodeId> =
            self.stores.keys().copied().chain(policy.servers.iter().copied()).collect();
        for to in servers {
            if policy.servers.contains(&to) {
                self.send(SCHEDULER, to, Message::SchedulerMessage(policy.clone()));
            } else if Some(to) != self.dying {
                let kind = SchedulerMessageKind::Leave.into();
                self.send(
                    SCHEDULER,
                    to,
                    Message::SchedulerMessage(SchedulerMessage {
                        kind,
                        ..SchedulerMessage::default()
                    }),
                );
            }
        }
        for worker in 0..self.workers.len() {
            self.send(SCHEDULER, worker_id(worker), Message::SchedulerMessage(policy.clone()));
        }
    }

    pub(super) fn collect(&mut self, word: &SchedulerMessage) {
        for to in self.scheduler.servers.clone() {
            self.send(SCHEDULER, to, Message::SchedulerMessage(word.clone()));
        }
    }
}
