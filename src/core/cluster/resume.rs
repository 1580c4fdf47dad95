//! A scheduler that is lost, and comes back (`docs/elastic.md`, "The scheduler's journal"): how it
//! goes on with the job of its journal, and how the others wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::claims::KeyPieces;
use super::journal::{Change, Member, Record, State};
use super::order_book::OrderBook;
use super::{Action, Cluster, ClusterConfig};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::trees::Overlay;
use crate::wire::word::Policy;
use crate::wire::{Node, NodeId, Role, SCHEDULER, ability, id_to_rank};

impl Cluster {
    // ---- the scheduler --------------------------------------------------------------------------

    /// All that the journal is to hold of the job as it begins.
    pub(super) fn state_for_journal(&self) -> State {
        let member = |id: NodeId| {
            let node = self.members.get(&id)?;
            let customers = self.customers.get(&id).into_iter().flatten().copied().collect();
            let mine = |(_, first): &(&NodeId, &NodeId)| **first == id;
            let aliases = self.aliases.iter().filter(mine).map(|(alias, _)| *alias).collect();
            Some((id, Member::new(node, customers, aliases)))
        };
        let others = self.members.keys().copied().filter(|id| *id != SCHEDULER);
        let policy = &self.elastic.policy;
        State {
            incarnation: self.me.incarnation,
            address: self.me.address(),
            workers: self.config.num_workers as u32,
            servers: self.config.num_servers as u32,
            replicas: policy.replicas,
            epoch: self.elastic.books.epoch,
            homes: policy.homes.clone(),
            serving: policy.servers.iter().map(|id| (*id, true)).collect(),
            members: others.filter_map(member).collect(),
            releases_of_all: self.meetings.releases_of_all,
            elastic_workers: Some(self.elastic.workers),
            exchange: policy.exchange,
            ..State::default()
        }
    }

    /// A scheduler that goes on with the job of a journal, from [`super::Event::Start`] on.
    ///
    /// # Errors
    /// The journal is of another job; the text says which.
    pub fn resume(config: ClusterConfig, state: &State, now: Duration) -> Result<Self, String> {
        let told = (config.node.address(), config.num_workers, config.num_servers);
        let kept = (state.address.clone(), state.workers as usize, state.servers as usize);
        if told != kept {
            return Err(format!(
                "it is of the job at {} with {} workers and {} servers, which has not ended; \
                 remove it if that job is over",
                kept.0, kept.1, kept.2
            ));
        }
        let mut cluster = Self::new(config, now);
        cluster.me.incarnation = state.incarnation;
        cluster.me.is_recovery = state.releases_of_all > 0;
        cluster.members.insert(SCHEDULER, cluster.me.clone());
        for member in state.members.values() {
            let node = member.node().ok_or("it names a node that makes no sense")?;
            cluster.customers.insert(node.id, member.customers.iter().copied().collect());
            cluster.aliases.extend(member.aliases.iter().map(|alias| (*alias, node.id)));
            cluster.members.insert(node.id, node);
        }
        cluster.customers.insert(SCHEDULER, [0].into());
        cluster.lost = state.lost.iter().map(|(id, text)| (*id, (now, text.clone()))).collect();
        cluster.meetings.releases_of_all = state.releases_of_all;
        let passed = state.passed.iter();
        cluster.meetings.passed =
            passed.map(|e| ((e.node, e.customer, e.group), e.timestamp)).collect();
        cluster.ready = true;
        cluster.elastic.on = true;
        cluster.keep_workers_as_they_were(state);
        cluster.elastic.listed = true;
        cluster.elastic.policy = Policy {
            // None yet that may be repeated: where pieces are is not known.
            epoch: 0,
            servers: state.serving.keys().copied().collect(),
            homes: state.homes.clone(),
            released: state.released.keys().copied().collect(),
            replicas: state.replicas,
            workers: state.workers,
            copies: state.copies.clone(),
            exchange: state.exchange,
            ..Policy::default()
        };
        cluster.fill_books(state);
        if state.overlay > 0 {
            // Which trees had that number is known no more, and who has heard of them.
            let number = state.overlay + 1;
            cluster.elastic.overlay = Overlay { number, floor: number, trees: Vec::new() };
        }
        // Who does not answer is dead: nobody would say so otherwise.
        let live = cluster.others();
        cluster.signs.down = live.into_iter().map(|id| (id, now)).collect();
        cluster.expect_signs_of_life(now);
        cluster.elastic.resumes = true;
        Ok(cluster)
    }

    /// Whether the job goes on without workers that die was settled when it began, and the others
    /// follow that. So the journal counts, not what this process was told; and those that come
    /// later are told the same.
    fn keep_workers_as_they_were(&mut self, state: &State) {
        let all_say_so = || self.members.values().all(Node::has_elastic_workers);
        self.elastic.workers = state.elastic_workers.unwrap_or_else(all_say_so);
        if self.elastic.workers {
            self.me.abilities |= ability::ELASTIC_WORKERS;
        } else {
            self.me.abilities &= !ability::ELASTIC_WORKERS;
        }
        self.members.insert(SCHEDULER, self.me.clone());
    }

    /// Says so if this scheduler was told otherwise than the job began.
    fn say_what_is_kept(&self, out: &mut Vec<Action>) {
        self.say_exchange(out);
        if let Some(text) = self.exchange_that_is_kept() {
            Self::say(out, NewEvent::warning(JobEventKind::Note, text));
        }
        let text = match (self.config.node.has_elastic_workers(), self.elastic.workers) {
            (false, true) => {
                "PSLITE_ELASTIC_WORKERS=1 is not set at this scheduler, but the job of the \
                 journal began with it, and \
                 still goes on without workers that die"
            }
            (true, false) => {
                "PSLITE_ELASTIC_WORKERS=1 has no effect, the death of a worker ends the job: that \
                 of the journal began \
                 without it"
            }
            _ => return,
        };
        Self::say(out, NewEvent::warning(JobEventKind::Note, text));
    }

    fn fill_books(&mut self, state: &State) {
        let servers = self.members.values().filter(|node| node.role == Role::Server);
        let last = servers.map(|node| id_to_rank(node.id) as usize + 1).max().unwrap_or(0);
        let ids = |map: &BTreeMap<NodeId, bool>| map.keys().copied().collect();
        let books = &mut self.elastic.books;
        books.epoch = state.epoch;
        books.ever = last.max(self.config.num_servers);
        books.joining = ids(&state.joining);
        books.claimed = ids(&state.claimed);
        books.fixed = state.fixed.clone();
        books.draining = ids(&state.draining);
        books.released = ids(&state.released);
        if self.elastic.workers {
            books.lives = state.lives.clone();
            books.returning = ids(&state.returning);
        }
        let key = |length: u64| KeyPieces { length, pieces: Vec::new() };
        books.pieces = state.keys.iter().map(|(id, length)| (*id, key(*length))).collect();
        books.tenures = state.tenures.clone();
        books.orders = OrderBook::of_journal(&state.orders);
    }

    /// The scheduler is here again: it connects to all, and asks for claims.
    pub(super) fn go_on_with_job(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !std::mem::take(&mut self.elastic.resumes) {
            return;
        }
        let others = self.others();
        let text = format!("goes on with the job of the journal: {} nodes", others.len());
        let event = NewEvent::info(JobEventKind::Phase, text);
        Self::say(out, event.with("nodes", others.len() as f64));
        self.say_what_is_kept(out);
        for id in others {
            if let Some(node) = self.members.get(&id).cloned() {
                out.push(Action::Connect { node, identity: Some(SCHEDULER) });
            }
        }
        out.push(Action::Ready);
        self.collect(now, out);
    }

    /// Scheduler: nothing is left to go on with.
    pub(super) fn end_journal(&self, out: &mut Vec<Action>) {
        if self.elastic.on && self.is_scheduler() {
            out.push(Action::Record(Record::new(Change::Ended(true))));
        }
    }

    /// Scheduler: true if that node is the one that the job knows under this id.
    pub(super) fn is_known(&self, id: NodeId, node: Option<&Node>) -> bool {
        let known = self.members.get(&id).map(|member| member.incarnation);
        !self.elastic.on || node.is_none_or(|node| known == Some(node.incarnation))
    }

    // ---- the others -----------------------------------------------------------------------------

    /// True if a scheduler that is lost may come back.
    pub(super) fn scheduler_may_return(&self) -> bool {
        let keeps_journal = |node: &Node| node.abilities & ability::JOURNAL != 0;
        self.elastic.on
            && self.ready
            && !self.is_scheduler()
            && self.members.get(&SCHEDULER).is_some_and(keeps_journal)
    }

    /// The connection to the scheduler broke, or stands anew: until it is heard, nobody knows who
    /// is there.
    pub(super) fn scheduler_in_doubt(&mut self, now: Duration) {
        self.elastic.scheduler_gone.get_or_insert((now, false));
    }

    /// Something came from the scheduler.
    pub(super) fn scheduler_heard(&mut self, now: Duration, out: &mut Vec<Action>) {
        if let Some((since, true)) = self.elastic.scheduler_gone.take() {
            let away = now.saturating_sub(since).as_secs_f64();
            let text = format!("the scheduler is back after {away:.1} s");
            Self::say(out, NewEvent::warning(JobEventKind::Node, text).of(SCHEDULER));
        }
    }

    /// Says that this node waits for the scheduler, and does not wait for ever.
    pub(super) fn check_scheduler(&mut self, now: Duration, out: &mut Vec<Action>) {
        let Some((since, told)) = self.elastic.scheduler_gone else { return };
        let wait = self.config.scheduler_wait;
        if now >= since.saturating_add(wait) {
            self.elastic.scheduler_gone = None;
            let reason = format!("it did not come back for {} s", wait.as_secs());
            return self.node_lost(now, SCHEDULER, &reason, out);
        }
        if !told && now >= since.saturating_add(self.config.channel_down_limit) {
            self.elastic.scheduler_gone = Some((since, true));
            let text = format!(
                "the {} is gone; data go on, and it may be started again within {} s",
                self.describe(SCHEDULER),
                wait.as_secs()
            );
            Self::say(out, NewEvent::warning(JobEventKind::Node, text).of(SCHEDULER));
        }
    }
}
