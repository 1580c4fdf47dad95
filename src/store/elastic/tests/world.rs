//! Stores, workers and a scheduler, and the messages between them. One seed decides in what order messages
//! arrive (in order between two nodes, in any order otherwise), what is ordered, who dies, comes and goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::keys::KeySpec;
use super::scheduler::Scheduler;
use super::worker::{Sent, Worker};
use crate::sim::random::Random;
use crate::store::elastic::{Due, Outbound};
use crate::store::mxnet::{Answer, Store, StoreConfig};
use crate::store::tensor::Copied;
use crate::wire::elastic::{Order, Transfer, Word, WordKind};
use crate::wire::{Meta, NodeId, SCHEDULER, server_id, worker_id};

/// Steps after which a run hangs.
const STEPS_MAX: usize = 400_000;

enum Message {
    Request(Meta, Vec<Bytes>),
    Answer(Answer),
    Transfer(Transfer, Vec<Bytes>),
    Word(Word),
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
    plan: Plan,
    pub(super) random: Random,
    pub(super) stores: BTreeMap<NodeId, Store>,
    pub(super) workers: Vec<Worker>,
    scheduler: Scheduler,
    links: BTreeMap<(NodeId, NodeId), VecDeque<Message>>,
    /// Dead, and the scheduler does not know.
    dying: Option<NodeId>,
    next_server: usize,
    happened: BTreeMap<&'static str, u64>,
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

    fn make_store(&self, id: NodeId) -> Store {
        Store::new(StoreConfig {
            workers: self.plan.workers,
            servers: self.plan.servers,
            id,
            deterministic: self.plan.deterministic,
            elastic: true,
            replicas: self.plan.replicas,
        })
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
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

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
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
    pub(super) fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            self.workers_go_on();
            let done = |worker: &Worker| worker.actions.is_empty() && !worker.is_waiting();
            if self.workers.iter().all(done) {
                return;
            }
            let happened = self.maybe_happens();
            if !self.deliver_one() && !happened && !self.detect() {
                self.fail("nothing moves any more");
            }
        }
        self.fail("it does not end");
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
            Message::Word(word) => format!("{from} -> {to} {word:?}"),
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
            Message::Word(word) if to == SCHEDULER => {
                if let Some(policy) = self.scheduler.claims(from, &word) {
                    self.announce(&policy);
                }
            }
            Message::Word(word) if to % 2 == 1 => {
                let sent = self.workers[(to as usize - 9) / 2].policy(&word);
                self.send_all(to, sent);
            }
            Message::Word(word) => self.word(to, &word),
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

    fn word(&mut self, to: NodeId, word: &Word) {
        let mut out = Outbound::default();
        let Some(store) = self.stores.get_mut(&to) else { return };
        match word.kind() {
            WordKind::Collect => {
                let claims = store.collect(word);
                let kind = WordKind::Claims.into();
                let word = Word { kind, epoch: word.epoch, claims, ..Word::default() };
                self.send(to, SCHEDULER, Message::Word(word));
            }
            WordKind::Policy => store.policy(word, &mut out),
            WordKind::Orders => store.orders(&word.moves, &mut out),
            WordKind::Leave => {
                assert!(store.is_drained(), "{to} still holds something");
                self.stores.remove(&to);
                return;
            }
            _ => self.fail("an unexpected word"),
        }
        self.send_out(to, out);
    }

    fn announce(&mut self, policy: &Word) {
        let servers: BTreeSet<NodeId> =
            self.stores.keys().copied().chain(policy.servers.iter().copied()).collect();
        for to in servers {
            if policy.servers.contains(&to) {
                self.send(SCHEDULER, to, Message::Word(policy.clone()));
            } else if Some(to) != self.dying {
                let kind = WordKind::Leave.into();
                self.send(SCHEDULER, to, Message::Word(Word { kind, ..Word::default() }));
            }
        }
        for worker in 0..self.workers.len() {
            self.send(SCHEDULER, worker_id(worker), Message::Word(policy.clone()));
        }
    }

    fn collect(&mut self, word: &Word) {
        for to in self.scheduler.servers.clone() {
            self.send(SCHEDULER, to, Message::Word(word.clone()));
        }
    }

    // ---- what may happen -------------------------------------------------------------------------

    fn maybe_happens(&mut self) -> bool {
        let Chances { order, kill, join, drain } = self.plan.chances;
        let drawn = self.random.below(1000);
        let mut bound = 0;
        let mut falls = |chance: u64| {
            let falls = (bound..bound + chance).contains(&drawn);
            bound += chance;
            falls
        };
        if falls(order) {
            return self.order();
        }
        if falls(kill) {
            return self.kill();
        }
        if falls(join) {
            return self.join();
        }
        if falls(drain) {
            return self.drain();
        }
        // A death is noticed after a while; what is empty leaves.
        if drawn > 990 {
            return self.detect() || self.release();
        }
        false
    }

    fn counts(&mut self, what: &'static str) -> bool {
        let count = self.happened.entry(what).or_default();
        *count += 1;
        *count <= self.plan.most
    }

    /// Nothing is decided: no death is open, and all know the newest policy.
    fn is_quiet(&self) -> bool {
        let epoch = self.scheduler.epoch;
        let known = |server: &NodeId| self.stores.get(server).is_some_and(|s| s.epoch() == epoch);
        self.dying.is_none()
            && !self.scheduler.collecting
            && self.scheduler.servers.iter().all(known)
    }

    fn live(&self) -> Vec<NodeId> {
        self.scheduler.servers.iter().copied().collect()
    }

    /// Orders to move a part of something somewhere.
    fn order(&mut self) -> bool {
        let live = self.live();
        let from = live[self.random.below(live.len() as u64) as usize];
        let stays: Vec<NodeId> =
            live.iter().copied().filter(|s| !self.scheduler.draining.contains(s)).collect();
        let spec = self.plan.keys[self.random.below(self.plan.keys.len() as u64) as usize];
        let owner = stays[self.random.below(stays.len() as u64) as usize];
        let length = spec.length as u64;
        let (a, b) = (self.random.below(length + 1), self.random.below(length + 1));
        let whole = !spec.is_divisible() || self.random.percent(30);
        let (begin, end) = if whole { (0, length) } else { (a.min(b), a.max(b)) };
        let moves = vec![Order { key: spec.wire, from: begin, to: end, owner }];
        self.send_orders(from, moves);
        true
    }

    fn send_orders(&mut self, to: NodeId, moves: Vec<Order>) {
        let kind = WordKind::Orders.into();
        self.send(SCHEDULER, to, Message::Word(Word { kind, moves, ..Word::default() }));
    }

    /// Kills a server, if nothing that was answered is lost with it.
    fn kill(&mut self) -> bool {
        let safe = self.stores.iter().all(|(_, store)| is_covered(store));
        let live = self.live();
        // Without replicas also what is on its way to a server is lost with it.
        let bound = |store: &Store, id: NodeId| {
            let elastic = store.elastic.as_ref().expect("elastic");
            elastic.leaving.values().flatten().any(|leaving| leaving.to == id)
        };
        let bare = |id: &NodeId| {
            self.stores[id].is_drained() && !self.stores.values().any(|store| bound(store, *id))
        };
        let may: Vec<NodeId> = live
            .iter()
            .copied()
            .filter(|id| self.stores.contains_key(id) && (self.plan.replicas > 0 || bare(id)))
            .filter(|id| live.iter().any(|other| other != id && self.is_original(*other)))
            .filter(|id| {
                live.iter().any(|other| other != id && !self.scheduler.draining.contains(other))
            })
            .collect();
        if !self.is_quiet() || !safe || may.is_empty() || !self.counts("kill") {
            return false;
        }
        let victim = may[self.random.below(may.len() as u64) as usize];
        self.note(|| format!("---- {victim} dies"));
        self.stores.remove(&victim);
        self.dying = Some(victim);
        // Of what it sent a part is lost.
        for ((from, _), queue) in &mut self.links {
            if *from == victim {
                let keep = self.random.below(queue.len() as u64 + 1) as usize;
                queue.truncate(keep);
            }
        }
        self.links.retain(|_, queue| !queue.is_empty());
        true
    }

    fn is_original(&self, server: NodeId) -> bool {
        server < server_id(self.plan.servers)
    }

    fn detect(&mut self) -> bool {
        let Some(victim) = self.dying.take() else { return false };
        let word = self.scheduler.died(victim);
        self.collect(&word);
        true
    }

    fn join(&mut self) -> bool {
        if !self.is_quiet() || self.live().len() > 5 || !self.counts("join") {
            return false;
        }
        let id = server_id(self.next_server);
        self.next_server += 1;
        self.note(|| format!("---- {id} joins"));
        let store = self.make_store(id);
        self.stores.insert(id, store);
        self.scheduler.servers.insert(id);
        let word = self.scheduler.collect();
        self.collect(&word);
        true
    }

    fn drain(&mut self) -> bool {
        let live = self.live();
        let may: Vec<NodeId> = live
            .iter()
            .copied()
            .filter(|id| !self.scheduler.draining.contains(id))
            .filter(|id| live.iter().any(|other| other != id && self.is_original(*other)))
            .filter(|id| {
                live.iter().any(|other| other != id && !self.scheduler.draining.contains(other))
            })
            .collect();
        if !self.is_quiet() || may.is_empty() || live.len() < 3 || !self.counts("drain") {
            return false;
        }
        let drained = may[self.random.below(may.len() as u64) as usize];
        self.note(|| format!("---- {drained} is drained"));
        self.scheduler.draining.insert(drained);
        let word = self.scheduler.collect();
        self.collect(&word);
        true
    }

    /// Orders away what draining servers have, and lets go of them when they are empty.
    fn release(&mut self) -> bool {
        if !self.is_quiet() {
            return false;
        }
        for drained in self.scheduler.draining.clone() {
            let Some(store) = self.stores.get(&drained) else { continue };
            if store.is_drained() && is_covered_all(&self.stores) {
                self.scheduler.releasing = true;
                let word = self.scheduler.collect();
                self.collect(&word);
                return true;
            }
            let stays: Vec<NodeId> =
                self.live().into_iter().filter(|s| !self.scheduler.draining.contains(s)).collect();
            let owner = stays[self.random.below(stays.len() as u64) as usize];
            let moves = self.plan.keys.iter().map(|spec| Order {
                key: spec.wire,
                from: 0,
                to: spec.length as u64,
                owner,
            });
            let moves = moves.collect();
            self.send_orders(drained, moves);
        }
        true
    }
}

fn is_covered_all(stores: &BTreeMap<NodeId, Store>) -> bool {
    stores.values().all(is_covered)
}

/// True if nothing that this server answered is lost if any one server dies.
fn is_covered(store: &Store) -> bool {
    let elastic = store.elastic.as_ref().expect("elastic");
    if elastic.replicas == 0 {
        return true;
    }
    let pieces = store.tensors.values().flat_map(|tensor| &tensor.pieces);
    let unanswered = |version| version == 0 && !elastic.waiting.is_empty();
    let mut pieces = pieces.map(|piece| {
        piece.is_safe()
            || piece.source.is_some()
            || (unanswered(piece.version) && piece.copied != Copied::Not)
    });
    pieces.all(|safe| safe)
        && elastic.leaving.values().flatten().all(|leaving| leaving.copied)
        && elastic.seeds.is_idle()
}
