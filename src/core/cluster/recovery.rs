//! Replacing the dead (van.cc:100-155), as often as needed. Allowed where PS_HEARTBEAT_TIMEOUT is
//! set, as in stock.

use std::collections::BTreeSet;
use std::time::Duration;

use super::journal::{Change, Member, Record};
use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::wire::{Command, Control, Node, NodeId, Role};

/// The most newcomers that wait for somebody to be declared dead.
const NEWCOMERS_WAITING_MAX: usize = 1024;

impl Cluster {
    /// Scheduler: somebody registers although the job is complete.
    pub(super) fn newcomer(&mut self, now: Duration, node: &Node, out: &mut Vec<Action>) {
        if self.elastic.on && !node.is_elastic() {
            let text = format!(
                "{} cannot join the job: all nodes of it follow keys that move, and it does not",
                node.describe()
            );
            return self.turn_away(now, node, Some(Level::Warning), text, out);
        }
        if self.elastic.workers && node.role == Role::Worker {
            return self.worker_comes_back(now, node, out);
        }
        if self.config.heartbeat_timeout.is_none() {
            let text = format!(
                "{} registered, but the job is complete and PS_HEARTBEAT_TIMEOUT, which allows \
                 the dead to be replaced, is not set",
                node.describe()
            );
            return self.turn_away(now, node, Some(Level::Warning), text, out);
        }
        if let Some(id) = self.place_for(node) {
            return self.replace(now, id, node, out);
        }
        self.arrivals.waiting.retain(|waiting| waiting.address() != node.address());
        if self.arrivals.waiting.len() < NEWCOMERS_WAITING_MAX {
            self.arrivals.waiting.push(node.clone());
        } else {
            let text = "too many nodes wait for a place in the job";
            Self::say(out, NewEvent::warning(JobEventKind::Node, text));
        }
    }

    /// Whose place a newcomer takes: its own former one if it has the same address, else that of a
    /// dead node of its role.
    fn place_for(&self, node: &Node) -> Option<NodeId> {
        let same_role = || self.members.values().filter(|member| member.role == node.role);
        same_role()
            .find(|member| {
                member.address() == node.address()
                    && (member.incarnation != node.incarnation || node.incarnation == 0)
            })
            .or_else(|| same_role().find(|member| self.lost.contains_key(&member.id)))
            .map(|member| member.id)
    }

    /// True if a node that dies may be replaced: not one that took leave before.
    #[must_use]
    pub fn may_be_replaced(&self, id: NodeId) -> bool {
        self.config.heartbeat_timeout.is_some() && !self.left.iter().any(|(left, _)| *left == id)
    }

    fn replace(&mut self, now: Duration, id: NodeId, node: &Node, out: &mut Vec<Action>) {
        let node = Node { id, is_recovery: true, ..node.clone() };
        if !self.lost.contains_key(&id) {
            // It came back before anybody missed it: what waited for the former one must still end.
            let reason = format!("lost {}: it was started again", self.describe(id));
            self.lost.insert(id, (now, reason.clone()));
            out.push(Action::NodeLost { id, reason });
        }
        out.push(Action::Connect { node: node.clone(), identity: Some(self.me.id) });
        self.customers.insert(id, BTreeSet::from([node.customer_id]));
        self.replaced(now, &node, out);
        if self.elastic.on {
            let customers = vec![node.customer_id];
            let member = Member::new(&node, customers, Vec::new());
            out.push(Action::Record(Record::new(Change::Replaced(member))));
            self.meetings.passed.retain(|(entered, _, _), _| *entered != id);
        }
        if self.elastic.workers && node.role == Role::Worker {
            self.leave_barriers(id);
            self.elastic.books.returning.insert(id);
        }
        self.introduce(&node, out);
        for other in self.others().into_iter().filter(|other| *other != id) {
            let mut control = Control::new(Command::AddNode);
            control.nodes = vec![node.clone()];
            let message = self.control(control);
            Self::send(out, other, message);
        }
        if self.elastic.books.returning.contains(&id) {
            self.collect_soon(now, out);
        }
    }

    /// Every node: somebody new has that id now.
    pub(super) fn replaced(&mut self, now: Duration, node: &Node, out: &mut Vec<Action>) {
        let id = node.id;
        if !self.lost.contains_key(&id) && !self.is_scheduler() {
            // It came back before I missed it: what waited for the former one must still end.
            let reason = format!("lost {}: it was started again", self.describe(id));
            out.push(Action::NodeLost { id, reason });
        }
        self.lost.remove(&id);
        self.signs.down.remove(&id);
        self.signs.heard.remove(&id);
        self.left.retain(|(left, _)| *left != id);
        self.members.insert(id, node.clone());
        self.expect_signs_of_life(now);
        if !self.is_scheduler() && node.role != self.me.role {
            out.push(Action::Connect { node: node.clone(), identity: Some(self.me.id) });
        }
        out.push(Action::NodeReplaced { node: node.clone() });
    }

    /// Gives places to those who wait, and gives up on the dead that nobody replaces. A server that
    /// joins gets no dead one's place: it has nothing of what that one had.
    pub(super) fn check_recovery(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !self.ready || (self.elastic.on && self.elastic.policy.epoch == 0) {
            return;
        }
        let waiting = std::mem::take(&mut self.arrivals.waiting);
        for node in waiting {
            match self.place_for(&node).filter(|_| !self.is_joiner(&node)) {
                Some(id) => self.replace(now, id, &node, out),
                None => self.arrivals.waiting.push(node),
            }
        }
        let wait = self.config.recovery_wait;
        let given_up = self
            .lost
            .iter()
            .filter(|(id, _)| self.may_be_replaced(**id) && !self.goes_on_without(**id))
            .find(|(_, (at, _))| now >= at.saturating_add(wait))
            .map(|(id, (_, text))| (*id, text.clone()));
        if let Some((id, text)) = given_up {
            let text = format!("{text}; nobody took its place for {} s", wait.as_secs());
            self.fail_everywhere(id, JobFailure { kind: JobFailureKind::PeerLost, text }, out);
        }
    }
}
