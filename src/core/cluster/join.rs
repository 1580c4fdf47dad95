//! Servers that come while the job runs (`docs/elastic.md`, "Joining and leaving"), and those that
//! come back although they were given up: these are told so, and serve no more.

use std::time::Duration;

use super::journal::{Change, Member, Record};
use super::{Action, Cluster};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::wire::{Command, Control, Node, Role, ability, server_id};

/// Nodes that wait for the job to be complete so that they can join it.
const EARLY_MAX: usize = 1024;

impl Cluster {
    /// Scheduler: true if that registration is one of a server that is to get a place of its own.
    pub(super) fn is_joiner(&self, node: &Node) -> bool {
        let asks = node.abilities & ability::JOINS != 0;
        let replaces = self.elastic.on && self.config.heartbeat_timeout.is_some();
        node.role == Role::Server && (asks || (replaces && node.is_elastic()))
    }

    /// Scheduler: somebody registers at the address of a member with its role. It is that one, and
    /// asks again; or it was started in its place, so that one is dead. True if nothing is left to
    /// do: it asked, or the job is over with that death.
    pub(super) fn asks_again_or_fails(
        &mut self,
        now: Duration,
        node: &Node,
        out: &mut Vec<Action>,
    ) -> bool {
        let same_place = |known: &&Node| {
            known.role == node.role && known.address() == node.address() && !self.is_gone(known.id)
        };
        let Some(known) = self.members.values().find(same_place).cloned() else { return false };
        if known.incarnation == node.incarnation {
            self.introduce(&known, out);
            return true;
        }
        self.node_lost(now, known.id, "it was started again", out);
        self.failure.is_some()
    }

    /// Scheduler: a server wants to join.
    pub(super) fn join(&mut self, now: Duration, node: &Node, out: &mut Vec<Action>) {
        if !self.ready || (self.elastic.on && self.elastic.policy.epoch == 0) {
            self.arrivals.waiting.retain(|waiting| waiting.address() != node.address());
            if self.arrivals.waiting.len() < EARLY_MAX {
                self.arrivals.waiting.push(node.clone());
            }
            return;
        }
        if let Some(why) = self.why_not_join(node) {
            let text = format!("{} cannot join the job: {why}", node.describe());
            return self.turn_away(now, node, Some(Level::Warning), text, out);
        }
        if self.asks_again_or_fails(now, node, out) {
            return;
        }
        let id = server_id(self.elastic.books.ever);
        self.elastic.books.ever += 1;
        self.elastic.books.joining.insert(id);
        let node = Node { id, is_recovery: true, ..node.clone() };
        let customers = vec![node.customer_id];
        let member = Member::new(&node, customers.clone(), Vec::new());
        out.push(Action::Record(Record::new(Change::Joined(member))));
        self.customers.insert(id, customers.into_iter().collect());
        self.members.insert(id, node.clone());
        out.push(Action::Connect { node: node.clone(), identity: Some(self.me.id) });
        self.expect_signs_of_life(now);
        let text = format!("{} joins the job", node.describe());
        Self::say(out, NewEvent::info(JobEventKind::Node, text).of(id));
        self.introduce(&node, out);
        for other in self.others().into_iter().filter(|other| *other != id) {
            let mut control = Control::new(Command::AddNode);
            control.nodes = vec![node.clone()];
            let message = self.control(control);
            Self::send(out, other, message);
        }
    }

    /// The list of nodes and the policy, to one that came late. Whether keys move, and whether the
    /// job goes on without workers that die, was settled when it began. Where it does not, perhaps
    /// because of a node that is dead by now, the list says so of the scheduler: who got it would
    /// wait for a policy otherwise, or for one that names it.
    pub(super) fn introduce(&mut self, node: &Node, out: &mut Vec<Action>) {
        // Stock names the dead too: they may come back.
        let others = |member: &&Node| {
            let stays_away = member.role == Role::Server || self.elastic.workers;
            member.id != self.me.id && !(stays_away && self.is_gone(member.id))
        };
        let mut control = Control::new(Command::AddNode);
        control.nodes = self.members.values().filter(others).cloned().collect();
        let mut me = self.me.clone();
        if !self.elastic.on {
            me.abilities &= !ability::ELASTIC;
        }
        if !self.elastic.workers {
            me.abilities &= !ability::ELASTIC_WORKERS;
        }
        control.nodes.push(me);
        let message = self.control(control);
        Self::send(out, node.id, message);
        if self.elastic.on {
            let word = self.policy_word();
            self.word(node.id, word, out);
        }
    }

    fn why_not_join(&self, node: &Node) -> Option<String> {
        if !self.elastic.on {
            return Some(self.why_not_elastic());
        }
        if !node.is_elastic() {
            return Some(
                "it does not follow keys that move (PSLITE_ELASTIC=0, or PS_RESEND?)".to_owned(),
            );
        }
        if self.elastic.workers && !node.has_elastic_workers() {
            return Some("it has not PSLITE_ELASTIC_WORKERS=1, as all others have".to_owned());
        }
        if self.exchange().is_some() && !node.can_exchange() {
            return Some(super::exchange::CANNOT.to_owned());
        }
        self.job_is_over().then(|| "the job is over".to_owned())
    }

    /// Those that came before the job was complete.
    pub(super) fn early_joiners(&mut self, now: Duration, out: &mut Vec<Action>) {
        let (joiners, others) = std::mem::take(&mut self.arrivals.waiting)
            .into_iter()
            .partition(|node| self.is_joiner(node));
        self.arrivals.waiting = others;
        let joiners: Vec<Node> = joiners;
        for node in joiners {
            self.join(now, &node, out);
        }
    }
}
