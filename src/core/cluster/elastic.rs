//! Elastic jobs (`docs/elastic.md`): who serves is said by the scheduler in policies, which every
//! node keeps. Here is what all nodes have in common: when a job is elastic, the policy, and the
//! words between the scheduler and the others. The scheduler's own part is in `collect`, `join` and
//! `drain`.
//!
//! A job is elastic if every member says that it follows pieces that move. In any other job nothing
//! of this happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::claimed::AllClaimed;
use super::claims::Pieces;
use super::collect::Collection;
use super::order_book::OrderBook;
use super::tenures::Tenures;
use super::types::Tell;
use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::elastic::CopyPlace;
use crate::wire::topic::Topic;
use crate::wire::trees::Overlay;
use crate::wire::word::{ClaimWord, Policy, RoutedPolicy, Word};
use crate::wire::{Command, Control, Message, Node, NodeId, Role, SCHEDULER, server_id};

/// What a node knows of an elastic job.
#[derive(Debug, Default)]
pub(super) struct Elastic {
    /// All members follow pieces that move.
    pub(super) on: bool,
    /// All members go on without workers that die.
    pub(super) workers: bool,
    /// The list of nodes is here. (The job is complete with the first policy.)
    pub(super) listed: bool,
    /// The policy in force.
    pub(super) policy: Policy,
    /// Scheduler: what it decides by.
    pub(super) books: Books,
    /// My customers that took leave.
    pub(super) my_leaves: BTreeSet<i32>,
    /// Since when nothing was heard of a scheduler that may be lost and come back, and whether that
    /// was said.
    pub(super) scheduler_gone: Option<(Duration, bool)>,
    /// The trees in force; number 0: there never were any.
    pub(super) overlay: Overlay,
    /// Scheduler: those before, along which something may be under way, the oldest first.
    pub(super) former_overlays: VecDeque<Overlay>,
    /// Not the scheduler: the numbers of those that came, and along which something may be under
    /// way.
    pub(super) overlays_heard: BTreeSet<u64>,
    /// The nodes of my role that I have connected to for the sake of a tree, and their processes.
    pub(super) relays: BTreeMap<NodeId, u64>,
    /// A scheduler that has yet to go on with the job of its journal.
    pub(super) resumes: bool,
}

/// What the scheduler of an elastic job knows of its servers.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// The newest epoch that anybody was told of.
    pub(super) epoch: u64,
    /// Servers that ever had an id.
    pub(super) ever: usize,
    /// Servers that joined and are in no policy yet.
    pub(super) joining: BTreeSet<NodeId>,
    /// Servers that have sent claims.
    pub(super) claimed: BTreeSet<NodeId>,
    /// Servers whose values do not move, and why.
    pub(super) fixed: BTreeMap<NodeId, String>,
    /// Servers where an application's own handler keeps the values, of which nobody has copies.
    pub(super) opaque: BTreeSet<NodeId>,
    /// Servers that are being emptied.
    pub(super) draining: BTreeSet<NodeId>,
    /// Servers that were emptied and have left.
    pub(super) released: BTreeSet<NodeId>,
    /// Since which policy each worker that came back has its id.
    pub(super) lives: BTreeMap<NodeId, u64>,
    /// Workers that came back and are in no policy yet.
    pub(super) returning: BTreeSet<NodeId>,
    /// Servers that were told to stop in the place of rank 0.
    pub(super) stopped: BTreeSet<NodeId>,
    /// The newest claims of each server.
    pub(super) claims: AllClaimed,
    /// The number of the last word of each server about its claims that was taken in.
    pub(super) told: BTreeMap<NodeId, u64>,
    /// Where all pieces are.
    pub(super) pieces: Pieces,
    /// Grows with every change of them.
    pub(super) pieces_number: u64,
    /// Since when pieces are whose.
    pub(super) tenures: Tenures,
    /// Orders that may still be carried out, or may have been begun.
    pub(super) orders: OrderBook,
    /// Where copies are to be kept by the next policy, if elsewhere.
    pub(super) copies: Option<Vec<CopyPlace>>,
    /// Claims are being collected for the next policy.
    pub(super) collection: Option<Collection>,
}

impl Cluster {
    // ---- what the owner of this machine may ask -------------------------------------------------

    /// True if keys of this job may move and its servers may come and go.
    #[must_use]
    pub const fn is_elastic(&self) -> bool {
        self.elastic.on
    }

    /// The policy in force; its epoch is 0 before there is one.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.elastic.policy
    }

    /// True if nothing is to be taken from that node any more: it is dead, or was released.
    #[must_use]
    pub fn is_gone(&self, id: NodeId) -> bool {
        let policy = &self.elastic.policy;
        // One that came late never heard of some that had died before.
        let lost = self.lost.contains_key(&id) || policy.lost.contains(&id);
        self.elastic.on && (lost || policy.released.contains(&id))
    }

    /// Servers that joined and are in no policy yet: they are sent the commands of workers.
    #[must_use]
    pub fn joining(&self) -> Vec<NodeId> {
        if !self.elastic.on {
            return Vec::new();
        }
        let known: BTreeSet<NodeId> = self.elastic.policy.servers.iter().copied().collect();
        let mut servers = self.live_servers();
        servers.retain(|id| !known.contains(id));
        servers
    }

    /// Scheduler: where every piece is, as far as servers have said.
    #[must_use]
    pub const fn pieces(&self) -> &Pieces {
        &self.elastic.books.pieces
    }

    /// Scheduler: another number than before, if [`Self::pieces`] are others than before.
    #[must_use]
    pub const fn pieces_number(&self) -> u64 {
        self.elastic.books.pieces_number
    }

    // ---- who is in the job ----------------------------------------------------------------------

    /// Decides whether the job is elastic: called once, when all members are known.
    pub(super) fn decide_elastic(&mut self, out: &mut Vec<Action>) {
        self.elastic.on = self.members.values().all(Node::is_elastic);
        if self.is_scheduler() && self.config.trees && self.me.is_elastic() && !self.elastic.on {
            let not = self.members.values().find(|node| !node.is_elastic());
            let who = not.map_or_else(|| "a node".to_owned(), Node::describe);
            let text = format!("no trees: {who} is stock, or does not let keys move");
            Self::say(out, NewEvent::warning(JobEventKind::Tree, text));
        }
        self.decide_elastic_workers(out);
    }

    /// Servers that are in the job now, those that join included.
    pub(super) fn live_servers(&self) -> Vec<NodeId> {
        let server = |node: &&Node| node.role == Role::Server;
        let all = self.members.values().filter(server).map(|node| node.id);
        all.filter(|id| !self.is_gone(*id)).collect()
    }

    /// The servers that workers send their commands to: those of the job's beginning that are left.
    /// If none is, the one with the lowest id, which passes them on to all others.
    pub(super) fn first_servers(&self) -> Vec<NodeId> {
        let first = 0..self.config.num_servers;
        if !self.elastic.on || self.members.is_empty() {
            return first.map(server_id).collect();
        }
        let first: Vec<NodeId> = first.map(server_id).filter(|id| !self.is_gone(*id)).collect();
        if !first.is_empty() {
            return first;
        }
        let serving = self.elastic.policy.servers.iter().copied().filter(|id| !self.is_gone(*id));
        serving.take(1).collect()
    }

    /// True if the death of that node is no end of anything: it is a server, and others serve in
    /// its place, or a worker of a job that goes on without those that die.
    pub(super) fn goes_on_without(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| match node.role {
            Role::Server => self.elastic.on,
            Role::Worker => self.elastic.workers,
            Role::Scheduler => false,
        })
    }

    // ---- words ----------------------------------------------------------------------------------

    /// Sends a word: it rides in a sign of life.
    pub(super) fn word(&mut self, to: NodeId, word: Word, out: &mut Vec<Action>) {
        let message = self.word_message(word);
        Self::send(out, to, message);
    }

    pub(super) fn word_message(&mut self, word: Word) -> Message {
        let nodes = vec![Node { customer_id: 0, ..self.me.clone() }];
        self.control(Control { nodes, ..Control::saying(word) })
    }

    /// A word of a member of this job, or of its scheduler.
    pub(super) fn take_word(
        &mut self,
        now: Duration,
        from: NodeId,
        word: &Word,
        out: &mut Vec<Action>,
    ) {
        if let Word::Topic { topic, bytes, .. } = word
            && self.is_heard(from)
        {
            out.push(Action::Told { from, topic: *topic, bytes: bytes.clone() });
        }
        if !self.elastic.on || self.failure.is_some() {
            return;
        }
        if self.is_scheduler() {
            match word {
                Word::Claims(word) => self.claims_came(now, from, word, out),
                Word::Report { epoch } | Word::Topic { topic: Topic::Measure, epoch, .. } => {
                    self.knows_policy(now, from, *epoch, out)
                }
                _ => {}
            }
        } else if from == SCHEDULER {
            match word {
                Word::Policy { policy, text } => self.policy_came(now, policy, text, out),
                Word::Collect { epoch, lost, text } => {
                    self.collect_came(now, *epoch, lost, text, out)
                }
                // Before the first policy nothing is here to give away. The orders are said again
                // with it.
                Word::Orders { moves, .. } if self.ready => {
                    out.push(Action::Orders { moves: moves.clone() })
                }
                Word::Routes { routes, .. } => out.push(Action::Routes { routes: routes.clone() }),
                Word::Overlay { overlay, .. } => self.overlay_came(overlay, out),
                Word::Leave { .. } => out.push(Action::Leave),
                Word::Stop { .. } => out.push(Action::Stop),
                _ => {}
            }
        }
    }

    /// Not the scheduler: says what this server holds.
    pub(super) fn claim(&mut self, word: ClaimWord, out: &mut Vec<Action>) {
        if self.elastic.on && self.ready && self.config.role == Role::Server {
            self.word(SCHEDULER, Word::Claims(word), out);
        }
    }

    /// Sends what is said of topics.
    pub(super) fn tell(&mut self, words: Vec<Tell>, out: &mut Vec<Action>) {
        for Tell { to, topic, bytes } in words {
            // Stock takes none of it, and has no place for it.
            if self.is_ours(to) && self.is_heard(to) {
                self.word(to, Word::of_topic(topic, bytes, self.elastic.policy.epoch), out);
            }
        }
    }

    /// True while that node and this one hear what they tell each other of topics.
    fn is_heard(&self, id: NodeId) -> bool {
        let here = self.members.contains_key(&id) && !self.is_gone(id);
        self.ready && self.failure.is_none() && here && (self.is_scheduler() || id == SCHEDULER)
    }

    /// A word that says which policy this node knows, so that the scheduler can repeat what got
    /// lost.
    pub(super) const fn known_epoch(&self) -> Word {
        Word::Report { epoch: self.elastic.policy.epoch }
    }

    /// Scheduler: a node says which policy it knows.
    fn knows_policy(&mut self, now: Duration, from: NodeId, epoch: u64, out: &mut Vec<Action>) {
        if self.is_gone(from) || !self.members.contains_key(&from) {
            return;
        }
        if epoch < self.elastic.policy.epoch {
            self.repeat(from, out);
        }
        self.ask_again(now, from, out);
    }

    // ---- policies -------------------------------------------------------------------------------

    /// The policy as a word.
    pub(super) fn policy_word(&self) -> Word {
        let policy = self.routed_policy();
        let text = self.why_lost(&policy.policy.lost);
        Word::Policy { policy, text }
    }

    /// The policy with the routes of all pieces.
    pub(super) fn routed_policy(&self) -> RoutedPolicy {
        let pieces = self.elastic.books.pieces.values().flat_map(|key| &key.pieces);
        let routes = pieces.map(super::claims::Piece::route).collect();
        RoutedPolicy { policy: self.elastic.policy.clone(), routes }
    }

    /// Why the last one of them is dead.
    pub(super) fn why_lost(&self, lost: &[NodeId]) -> String {
        let known = lost.last().and_then(|id| self.lost.get(id));
        known.map(|(_, text)| text.clone()).unwrap_or_default()
    }

    /// Scheduler: tells a node again what may not have reached it: who joined, the policy, what is
    /// asked of it.
    pub(super) fn repeat(&mut self, to: NodeId, out: &mut Vec<Action>) {
        if self.elastic.policy.epoch == 0 {
            return;
        }
        self.tell_who_joined(to, &self.who_joined(), out);
        let word = self.policy_word();
        self.word(to, word, out);
        self.tell_overlays(to, out);
        self.repeat_orders(to, out);
    }

    /// Scheduler: those who joined and are still here, for [`Self::tell_who_joined`].
    pub(super) fn who_joined(&self) -> Vec<Node> {
        let may_come = |role| role == Role::Server || self.elastic.workers;
        let joined =
            |node: &&Node| may_come(node.role) && node.is_recovery && !self.is_gone(node.id);
        self.members.values().filter(joined).cloned().collect()
    }

    /// Scheduler: says who joined. It goes before each question for claims and each policy, on the
    /// same connection: a server that is to serve may send something to every other one as soon as
    /// it has the policy, and what comes from one that nobody has spoken of is dropped. Who was
    /// told of a joiner before may have lost that with a connection, or with a scheduler.
    pub(super) fn tell_who_joined(&mut self, to: NodeId, joined: &[Node], out: &mut Vec<Action>) {
        let nodes: Vec<Node> = joined.iter().filter(|node| node.id != to).cloned().collect();
        if !nodes.is_empty() {
            let mut control = Control::new(Command::AddNode);
            control.nodes = nodes;
            let message = self.control(control);
            Self::send(out, to, message);
        }
    }

    /// Not the scheduler: its word that from now on these servers serve.
    fn policy_came(
        &mut self,
        now: Duration,
        routed: &RoutedPolicy,
        text: &str,
        out: &mut Vec<Action>,
    ) {
        let policy = &routed.policy;
        if policy.epoch <= self.elastic.policy.epoch || !self.elastic.listed {
            return;
        }
        if !self.names_me(policy, out) {
            return;
        }
        self.told_lost(now, &policy.lost, text, out);
        let me = self.me.id;
        for id in policy.released.iter().filter(|id| **id != me) {
            if !self.elastic.policy.released.contains(id) {
                self.signs.heard.remove(id);
                self.signs.down.remove(id);
                out.push(Action::Disconnect { id: *id });
            }
        }
        self.elastic.policy = policy.clone();
        let first = !std::mem::replace(&mut self.ready, true);
        if first {
            out.push(Action::Ready);
        }
        out.push(Action::Policy(routed.clone()));
        if first {
            // Who took leave may have said so to one that joins before there was anybody to hear
            // it.
            let left = self.left.iter();
            out.extend(left.map(|&(id, customer_id)| Action::CustomerLeft { id, customer_id }));
        }
    }

    /// A server: the scheduler asks what it holds. One that has no policy yet, since that was lost
    /// with a connection, has nothing; it is asked again once it says that it knows the policy.
    fn collect_came(
        &mut self,
        now: Duration,
        epoch: u64,
        lost: &[NodeId],
        text: &str,
        out: &mut Vec<Action>,
    ) {
        let is_news = self.ready && epoch > self.elastic.policy.epoch;
        if !is_news || self.config.role != Role::Server {
            return;
        }
        self.told_lost(now, lost, text, out);
        if self.failure.is_none() {
            out.push(Action::Collect { epoch });
        }
    }

    /// The scheduler says who is dead.
    fn told_lost(&mut self, now: Duration, lost: &[NodeId], text: &str, out: &mut Vec<Action>) {
        if lost.contains(&self.me.id) {
            let text = format!(
                "the scheduler took this server for dead, and others serve in its place: {text}"
            );
            return self.fail(JobFailure { kind: JobFailureKind::Remote, text }, out);
        }
        for id in lost {
            if self.lost.contains_key(id) || !self.members.contains_key(id) {
                continue;
            }
            let who = self.describe(*id);
            let reason = if text.contains(&who) {
                text.to_owned()
            } else {
                format!("lost {who}: the scheduler says so")
            };
            self.signs.heard.remove(id);
            self.signs.down.remove(id);
            self.lost.insert(*id, (now, reason.clone()));
            out.push(Action::NodeLost { id: *id, reason });
        }
    }

    /// Somebody joined: every node but the scheduler hears of it by the list (`registration`).
    pub(super) fn joined(&mut self, node: &Node, out: &mut Vec<Action>) {
        if self.members.insert(node.id, node.clone()).is_some() {
            return;
        }
        out.push(Action::Connect { node: node.clone(), identity: Some(self.me.id) });
        let text = format!("{} joins the job", node.describe());
        Self::say(out, NewEvent::info(JobEventKind::Node, text).of(node.id));
        // Workers who took leave before it was there have left for it too.
        let leaves =
            if self.me.role == Role::Worker { &self.elastic.my_leaves } else { &BTreeSet::new() };
        for customer in leaves.clone() {
            self.announce_leaving_to(node.id, customer, out);
        }
    }

    /// A connection stands again. What was under way when it broke may be lost, and behind it may
    /// be a scheduler that was started anew: so all is said again that must not be missed.
    pub(super) fn reconnected(&mut self, now: Duration, id: NodeId, out: &mut Vec<Action>) {
        if !self.elastic.on || !self.ready || self.failure.is_some() || self.finalizing {
            return;
        }
        if self.is_scheduler() {
            if self.members.contains_key(&id) && !self.is_gone(id) {
                if self.job_is_over() && self.has_joined(id) {
                    self.let_go(id, out);
                }
                self.repeat(id, out);
                self.let_out_again(id, out);
                self.ask_again(now, id, out);
                self.elastic.books.stopped.remove(&id);
                self.stop_servers(out);
            }
        } else if id == SCHEDULER {
            if self.scheduler_may_return() {
                self.scheduler_in_doubt(now);
            }
            let message = self.sign_of_life();
            Self::send(out, SCHEDULER, message);
            for customer in self.elastic.my_leaves.clone() {
                self.announce_leaving_to(SCHEDULER, customer, out);
            }
            self.enter_again(out);
            self.tell_again_of_lost(out);
        }
    }

    /// Servers that are dead for this node, and not yet for the scheduler.
    fn tell_again_of_lost(&mut self, out: &mut Vec<Action>) {
        let policy = &self.elastic.policy;
        let unknown = |id: &&NodeId| policy.servers.contains(id);
        let lost: Vec<(NodeId, String)> = {
            let ids = self.lost.keys().filter(unknown).copied();
            ids.filter_map(|id| Some((id, self.lost.get(&id)?.1.clone()))).collect()
        };
        for (id, text) in lost {
            self.tell_of_lost(id, text, out);
        }
    }
}
