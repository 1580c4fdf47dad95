//! Workers that die and come back, in an elastic job whose nodes all say that they go on without
//! them (`docs/elastic.md`, "Workers"). In any other job the death of a worker ends the job
//! (`liveness`), or waits for a replacement (`recovery`).
//!
//! Who lives is said by policies, as for servers: each that follows a death or a return names the
//! workers that live, and since which policy each process has its id. Barriers look here for whom
//! they wait.

use std::time::Duration;

use super::barrier::{Entered, FIRST_DOMAIN};
use super::journal::{About, Change, Record};
use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::lives::Awaited;
use crate::wire::elastic::LiveWorker;
use crate::wire::word::{Policy, Word};
use crate::wire::{ALL_GROUP, Node, NodeId, Role, worker_id};

/// Why a server with an application's own handler waits for all workers.
const OWN_HANDLER: &str = "an application's own handler keeps its values";
/// Workers that wait for a place; more are turned away.
const WORKERS_WAITING_MAX: usize = 1024;

impl Cluster {
    /// True if the job goes on without workers that die, and takes them back.
    #[must_use]
    pub const fn has_elastic_workers(&self) -> bool {
        self.elastic.workers
    }

    /// Decides it: called when all members are known.
    pub(super) fn decide_elastic_workers(&mut self, out: &mut Vec<Action>) {
        let all = self.members.values().all(Node::has_elastic_workers);
        self.elastic.workers = self.elastic.on && all;
        // One that joins says it in any case (`pslite server --join`).
        let asks = self.me.has_elastic_workers() && !self.me.is_recovery;
        if asks && !self.elastic.workers {
            let not = self.members.values().find(|node| !node.has_elastic_workers());
            let who = not.map_or_else(|| "a node".to_owned(), Node::describe);
            let text = format!(
                "PSLITE_ELASTIC_WORKERS=1 has no effect, the death of a worker ends the job: \
                 {who} does not say it"
            );
            Self::say(out, NewEvent::warning(JobEventKind::Note, text));
        }
    }

    pub(super) fn is_worker(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.role == Role::Worker)
    }

    /// Scheduler: the workers that the next policy names. With an exchange they do not push equally
    /// often, so rounds must know who has left; the death of one still ends the job unless it is
    /// elastic.
    pub(super) fn live_workers(&self) -> Vec<LiveWorker> {
        if !self.elastic.workers && self.elastic.policy.exchange.is_none() {
            return Vec::new();
        }
        let lives = |node: &&Node| node.role == Role::Worker && !self.lost.contains_key(&node.id);
        let worker = |node: &Node| LiveWorker {
            node: node.id,
            since: self.life_of(node.id),
            customers: self.customers.get(&node.id).into_iter().flatten().copied().collect(),
            incarnation: node.incarnation,
        };
        self.members.values().filter(lives).map(worker).collect()
    }

    /// Scheduler: the workers that rounds wait for ([`crate::lives`]). One that has come back, and
    /// whose life no policy has named yet, is none of them.
    #[must_use]
    pub fn awaited_workers(&self) -> Vec<NodeId> {
        let stays = |node: &&Node| {
            node.role == Role::Worker
                && !self.lost.contains_key(&node.id)
                && !self.elastic.books.returning.contains(&node.id)
                && !self.has_left(node.id)
        };
        let all = || self.members.values().filter(stays);
        let whom = Awaited::of(all().map(|node| (self.life_of(node.id), node.id)));
        let ids = all().map(|node| node.id);
        ids.filter(|id| whom.has(self.life_of(*id), *id)).collect()
    }

    // ---- death ----------------------------------------------------------------------------------

    /// Scheduler: a worker is dead. The job goes on without it, if anybody is left and no server
    /// waits for it for ever.
    pub(super) fn worker_lost(
        &mut self,
        now: Duration,
        id: NodeId,
        text: &str,
        out: &mut Vec<Action>,
    ) {
        let about = About { id, text: text.to_owned() };
        out.push(Action::Record(Record::new(Change::Lost(about))));
        self.elastic.books.returning.remove(&id);
        self.leave_barriers(id);
        let left = self.left.iter().any(|(left, _)| *left == id);
        if self.live_workers().is_empty() && left {
            // They were done, all of them.
            self.settle_barriers(out);
            return self.stop_servers(out);
        }
        if self.live_workers().is_empty() {
            let failure = JobFailure {
                kind: JobFailureKind::PeerLost,
                text: format!("{text}; no worker is left"),
            };
            return self.fail_everywhere(id, failure, out);
        }
        let text = format!("the job goes on without {}", self.describe(id));
        Self::say(out, NewEvent::warning(JobEventKind::Node, text).of(id));
        self.settle_barriers(out);
        self.stop_servers(out);
        self.collect(now, out);
    }

    /// Scheduler: a server whose values an application keeps waits for all workers for ever:
    /// MXNet's own counts pushes. True if the job cannot go on for that reason.
    pub(super) fn a_server_misses_workers(&mut self, out: &mut Vec<Action>) -> bool {
        let gone = |node: &&Node| {
            let left = self.left.iter().any(|(left, _)| *left == node.id);
            node.role == Role::Worker && self.lost.contains_key(&node.id) && !left
        };
        let gone = self.members.values().find(gone).map(|node| node.id);
        let books = &self.elastic.books;
        let fixed = books.fixed.iter().map(|(id, why)| (*id, why.as_str()));
        let opaque = books.opaque.iter().map(|id| (*id, OWN_HANDLER));
        let waiting = fixed.chain(opaque).find(|(id, _)| !self.is_gone(*id));
        let (Some(id), Some((server, why))) = (gone.filter(|_| self.elastic.workers), waiting)
        else {
            return false;
        };
        let lost = self.lost.get(&id).map(|(_, text)| text.clone()).unwrap_or_default();
        let text = format!("{lost}; {} would wait for it: {why}", self.describe(server));
        self.fail_everywhere(id, JobFailure { kind: JobFailureKind::PeerLost, text }, out);
        true
    }

    // ---- coming back ----------------------------------------------------------------------------

    /// Scheduler: a worker registers although the job is complete.
    pub(super) fn worker_comes_back(&mut self, now: Duration, node: &Node, out: &mut Vec<Action>) {
        let why = if !node.has_elastic_workers() {
            Some("it does not follow keys that move, or has not PSLITE_ELASTIC_WORKERS=1")
        } else if self.exchange().is_some() && !node.can_exchange() {
            Some(super::exchange::CANNOT)
        } else if self.job_is_over() {
            Some("the job is over")
        } else if self.arrivals.waiting.len() >= WORKERS_WAITING_MAX {
            Some("too many nodes wait for a place")
        } else {
            None
        };
        if let Some(why) = why {
            let text = format!("{} cannot join the job: {why}", node.describe());
            return self.turn_away(now, node, Some(Level::Warning), text, out);
        }
        if self.asks_again_or_fails(now, node, out) {
            return;
        }
        self.arrivals.waiting.retain(|waiting| waiting.address() != node.address());
        self.arrivals.waiting.push(node.clone());
        self.check_recovery(now, out);
    }

    /// Scheduler: workers that are in the policy of that epoch for the first time.
    pub(super) fn let_back(&mut self, epoch: u64) -> Vec<NodeId> {
        let books = &mut self.elastic.books;
        let back: Vec<NodeId> = std::mem::take(&mut books.returning).into_iter().collect();
        books.lives.extend(back.iter().map(|id| (*id, epoch)));
        back
    }

    // ---- the others -----------------------------------------------------------------------------

    /// Not the scheduler: true if a policy is one that this node serves or pushes by. A worker that
    /// comes back waits for the first one that names it; one that is named no more was given up.
    pub(super) fn names_me(&mut self, policy: &Policy, out: &mut Vec<Action>) -> bool {
        let me = (self.me.id, self.me.incarnation);
        let named = policy.live.iter().any(|worker| (worker.node, worker.incarnation) == me);
        if named || !self.elastic.workers || self.config.role != Role::Worker {
            return true;
        }
        if self.ready {
            let text = "the scheduler took this worker for dead, and the others go on without it";
            self.fail(JobFailure { kind: JobFailureKind::Remote, text: text.to_owned() }, out);
        }
        false
    }

    /// In which life of its id this worker is: see [`LiveWorker::since`].
    #[must_use]
    pub fn my_life(&self) -> u64 {
        let live = &self.elastic.policy.live;
        live.iter().find(|worker| worker.node == self.me.id).map_or(0, |worker| worker.since)
    }

    /// Scheduler: in which life of its id a worker is.
    #[must_use]
    pub fn life_of(&self, id: NodeId) -> u64 {
        self.elastic.books.lives.get(&id).copied().unwrap_or(0)
    }

    // ---- barriers -------------------------------------------------------------------------------

    /// Nobody with that id is in a barrier any more.
    pub(super) fn leave_barriers(&mut self, id: NodeId) {
        for entered in self.meetings.entered.values_mut() {
            entered.members.retain(|(member, _), _| *member != id);
        }
        self.meetings.entered.retain(|_, entered| !entered.members.is_empty());
    }

    /// Workers that a barrier of the customers of the beginning waits for: those that live and are
    /// not in it.
    pub(super) fn workers_missing(
        &self,
        group: i32,
        entered: &Entered,
    ) -> impl Iterator<Item = NodeId> {
        let lives =
            move |node: &&Node| node.role == Role::Worker && !self.lost.contains_key(&node.id);
        let is_in = move |node: &Node| {
            let customers = self.customers.get(&node.id);
            let mut customers = customers.into_iter().flatten();
            customers.all(|customer| entered.members.contains_key(&(node.id, *customer)))
        };
        let missing = self.members.values().filter(lives).filter(move |node| !is_in(node));
        missing.map(|node| node.id).filter(move |id| self.is_awaited(*id, group, entered))
    }

    /// Scheduler: MXNet's servers wait in their exit barrier, where all others are, only after rank
    /// 0 has told them to stop (kvstore_dist.h, `~KVStoreDist`). If that is dead, the scheduler
    /// does it in its place.
    pub(super) fn stop_servers(&mut self, out: &mut Vec<Action>) {
        let first = worker_id(0);
        if !self.elastic.workers || !self.lost.contains_key(&first) || self.failure.is_some() {
            return;
        }
        let nobody = Entered::default();
        let entered = self.meetings.entered.get(&(ALL_GROUP, FIRST_DOMAIN)).unwrap_or(&nobody);
        let workers: Vec<_> =
            entered.members.keys().filter(|(id, _)| self.is_worker(*id)).collect();
        let all_leave = workers.iter().all(|member| self.left.contains(member));
        if !all_leave || self.workers_missing(ALL_GROUP, entered).next().is_some() {
            return;
        }
        let told = &self.elastic.books.stopped;
        let mut servers = self.servers_expected();
        servers.retain(|id| !entered.has(*id) && !told.contains(id));
        for id in servers {
            self.elastic.books.stopped.insert(id);
            self.word(id, Word::Stop { epoch: self.elastic.policy.epoch }, out);
        }
    }

    /// Who took leave comes only to the exit barrier. Who came back may be anywhere in its script:
    /// MXNet's skips the barriers at its start, and in the middle nobody knows which one it would
    /// come to. So it is not waited for before it has come to one, but for that in which all the
    /// others are about to leave.
    fn is_awaited(&self, id: NodeId, group: i32, entered: &Entered) -> bool {
        if group != ALL_GROUP && self.has_left(id) {
            return false;
        }
        let books = &self.elastic.books;
        let came_back = books.returning.contains(&id) || books.lives.contains_key(&id);
        let was_in_one = || {
            let mut entered =
                self.meetings.entered.values().flat_map(|entered| entered.members.keys());
            self.meetings.passed.keys().any(|(node, ..)| *node == id)
                || entered.any(|(node, _)| *node == id)
        };
        let all_leave = || {
            let mut workers = entered.members.keys().filter(|(member, _)| self.is_worker(*member));
            workers.all(|member| self.left.contains(member))
        };
        !came_back || was_in_one() || all_leave()
    }
}
