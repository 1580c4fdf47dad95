//! Scheduler, before the job is complete: who was refused, or ended by itself, and why, so that
//! those who wait for it hear of it; and the end of a job that cannot begin. Its nodes come one
//! after the other, so the scheduler stays for a moment: those that come meanwhile are told the
//! reason, too, instead of finding nobody.

use std::time::Duration;

use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::text;
use crate::wire::word::Word;
use crate::wire::{Control, EMPTY, Node, NodeId, Role, SCHEDULER, ability};

/// For how long a scheduler whose job cannot begin waits for those that have yet to come: as long
/// as the nodes of a job need to start.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest reason that a stranger may give, in characters.
const REASON_MAX: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The first few.
    texts: Vec<String>,
    /// Registrations that were answered with the end of the job.
    told: usize,
    /// Until when the scheduler stays.
    stays: Option<(Duration, JobFailure)>,
}

impl Refusals {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.stays.as_ref().map(|(until, _)| *until)
    }

    /// Behind the text that says who is missing.
    pub(super) fn text(&self) -> String {
        match self.texts.as_slice() {
            [] => String::new(),
            texts => format!("; refused: {}", texts.join("; ")),
        }
    }
}

impl Cluster {
    /// Scheduler: a node was refused, or has ended: those who wait hear why, at once.
    pub(super) fn note_refusal(&mut self, text: &str, out: &mut Vec<Action>) {
        let texts = &mut self.arrivals.refusals.texts;
        if self.ready || texts.len() >= text::NAMED_MAX || texts.iter().any(|it| it == text) {
            return;
        }
        texts.push(text.to_owned());
        if self.config.report_interval < Duration::MAX {
            self.report(out);
        }
    }

    /// Scheduler: why a node must not take part, from what it says of itself; empty: it may.
    pub(super) fn misfit(&mut self, node: &Node, control: &Control) -> String {
        if !self.me.is_ours() || self.config.settings.is_empty() {
            return String::new();
        }
        let by = format!("the {} at {}", node.role.name(), node.address());
        let others = self.arrivals.registrants.values().map(|registrant| &registrant.node);
        let mut former = others.filter(|other| other.address() == node.address());
        if former.any(|other| other.incarnation != node.incarnation) {
            self.arrivals.alike.forget(&by);
        }
        let text = self.arrivals.alike.differences(node.role, &control.settings, &by);
        if text.is_empty() {
            self.arrivals.alike.take(node.role, self.config.trees, &control.settings, &by);
        }
        text
    }

    /// Scheduler: a node that cannot be in this job registers. If the job is complete without it,
    /// it alone is told; else the job cannot begin.
    pub(super) fn refuse(
        &mut self,
        now: Duration,
        node: &Node,
        text: String,
        out: &mut Vec<Action>,
    ) {
        if self.ready {
            return self.turn_away(now, node, Some(Level::Warning), text, out);
        }
        self.arrivals.refusals.told += 1;
        self.turn_away(now, node, None, text.clone(), out);
        self.fail_start(now, EMPTY, JobFailure { kind: JobFailureKind::Config, text }, out);
    }

    /// Scheduler: a node registers on another wire. It is sent the refusal in words of this one: it
    /// cannot read them, and its log asks for the wire.
    pub(super) fn other_wire(
        &mut self,
        now: Duration,
        node: &Node,
        its: &str,
        ours: &str,
        out: &mut Vec<Action>,
    ) {
        let sound = (1..=65_535).contains(&node.port) && !node.hostname.is_empty();
        if !self.is_scheduler() || !sound || node.role == Role::Scheduler {
            return;
        }
        let node = Node { abilities: ability::PSLITE, ..node.clone() };
        if self.failure.is_some() {
            return self.too_late(now, &node, out);
        }
        let (role, me) = (node.role.name(), self.me.address());
        let text = format!(
            "PSLITE_WIRE is {its} at the {role} at {} and {ours} at the scheduler ({me}); set it \
             alike on all nodes",
            node.address()
        );
        self.refuse(now, &node, text, out);
    }

    /// Scheduler: a node registers although the job is over.
    pub(super) fn too_late(&mut self, now: Duration, node: &Node, out: &mut Vec<Action>) {
        let text = self.failure.as_ref().map(|failure| failure.text.clone());
        self.arrivals.refusals.told += 1;
        self.turn_away(now, node, None, text.unwrap_or_default(), out);
        self.check_farewell(now, out);
    }

    /// Scheduler: the job cannot begin. All who are here are told so, then those who come.
    pub(super) fn fail_start(
        &mut self,
        now: Duration,
        about: NodeId,
        failure: JobFailure,
        out: &mut Vec<Action>,
    ) {
        if self.failure.is_some() {
            return;
        }
        self.tell_failure(about, &failure, out);
        self.end_journal(out);
        self.failure = Some(failure.clone());
        self.arrivals.refusals.stays = Some((now.saturating_add(FAREWELL), failure));
        self.check_farewell(now, out);
        if let Some((_, failure)) = &self.arrivals.refusals.stays {
            let text = format!("{} (the nodes that are still missing are told, too)", failure.text);
            Self::say(out, NewEvent::warning(JobEventKind::Phase, text));
        }
    }

    /// Ends the scheduler's stay when time is up, or everybody has been told.
    pub(super) fn check_farewell(&mut self, now: Duration, out: &mut Vec<Action>) {
        let here = self.registered(Role::Worker) + self.registered(Role::Server);
        let all = self.config.num_workers + self.config.num_servers;
        let over = |(until, _): &mut (Duration, JobFailure)| {
            now >= *until || here + self.arrivals.refusals.told >= all
        };
        if let Some((_, failure)) = self.arrivals.refusals.stays.take_if(over) {
            self.over(failure, out);
        }
    }

    // ---- a node that ends by itself -------------------------------------------------------------

    /// A node without a place: tells a scheduler of ours why it ends.
    pub(super) fn give_up(&mut self, why: &str, out: &mut Vec<Action>) {
        let text = format!("the {} at {} ended: {why}", self.me.role.name(), self.me.address());
        let message = giving_up(text, self.me.incarnation);
        Self::send(out, SCHEDULER, message);
    }

    /// Scheduler: such a node.
    pub(super) fn gave_up(
        &mut self,
        now: Duration,
        text: &str,
        incarnation: u64,
        out: &mut Vec<Action>,
    ) {
        let text: String = text.chars().take(REASON_MAX).collect();
        if self.ready || self.failure.is_some() {
            return Self::say(out, NewEvent::warning(JobEventKind::Node, text));
        }
        let is_it = |node: &Node| incarnation != 0 && node.incarnation == incarnation;
        let found =
            self.arrivals.registrants.iter().find(|(_, registrant)| is_it(&registrant.node));
        match found.map(|(key, _)| *key) {
            Some(key) => {
                let kind = JobFailureKind::PeerLost;
                self.fail_start(now, key, JobFailure { kind, text }, out);
            }
            None => self.note_refusal(&text, out),
        }
    }
}

/// The message of a node that ends before it has a place: `text` names it and says why.
/// `incarnation`: its own if it has registered, else 0. (It names no node, since a stock scheduler
/// would answer that, and end because it does not know it.)
#[must_use]
pub fn giving_up(text: String, incarnation: u64) -> crate::wire::Message {
    crate::wire::Message::control(Control::saying(Word::GivesUp { text, incarnation }))
}
