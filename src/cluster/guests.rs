//! Those to whom the scheduler speaks although they have no place in the job: operators (`pslite status`,
//! `pslite drain`), and servers that were given up and come back. Each gets a link for a short while.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Action, Cluster, Level};
use crate::wire::elastic::{Word, WordKind};
use crate::wire::{Control, EMPTY, Node, NodeId, Notice, NoticeKind, Role};

/// Guests at a time; more get no answer.
const GUESTS_MAX: usize = 64;
/// For how long a guest's link is kept: what it is told has gone out by then.
const STAY: Duration = Duration::from_secs(5);

/// The links of guests.
#[derive(Debug, Default)]
pub(super) struct Guests {
    /// Until when.
    links: BTreeMap<NodeId, Duration>,
    /// When nodes that were given up were told so.
    told: BTreeMap<NodeId, Duration>,
}

impl Guests {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.links.values().min().copied()
    }
}

impl Cluster {
    /// Opens a link to somebody without a place; none if there are too many.
    pub(super) fn guest(
        &mut self,
        now: Duration,
        node: &Node,
        out: &mut Vec<Action>,
    ) -> Option<NodeId> {
        if self.guests.links.len() >= GUESTS_MAX {
            return None;
        }
        let key = self.next_pending;
        self.next_pending -= 1;
        self.guests.links.insert(key, now.saturating_add(STAY));
        out.push(Action::ConnectPending { key, node: node.clone() });
        Some(key)
    }

    pub(super) fn check_guests(&mut self, now: Duration, out: &mut Vec<Action>) {
        let over = |(_, until): &(&NodeId, &Duration)| now >= **until;
        let gone: Vec<NodeId> =
            self.guests.links.iter().filter(over).map(|(key, _)| *key).collect();
        for id in gone {
            self.guests.links.remove(&id);
            self.down.remove(&id);
            out.push(Action::Disconnect { id });
        }
        self.guests.told.retain(|_, at| now < at.saturating_add(STAY));
    }

    /// Tells a guest that it has no place in this job, and why.
    pub(super) fn turn_away(
        &mut self,
        now: Duration,
        node: &Node,
        text: String,
        out: &mut Vec<Action>,
    ) {
        Self::log(out, Level::Warning, text.clone());
        if node.is_ours()
            && let Some(key) = self.guest(now, node, out)
        {
            let kind = NoticeKind::JobFailed;
            self.notice(key, Notice { kind, node: EMPTY, customer: EMPTY, text }, out);
        }
    }

    /// Something comes from a server that was given up: it is told so, and ends.
    pub(super) fn back_from_the_dead(&mut self, now: Duration, id: NodeId, out: &mut Vec<Action>) {
        let Some(node) = self.members.get(&id).cloned() else { return };
        if self.finalizing || self.guests.told.contains_key(&id) {
            return;
        }
        self.guests.told.insert(id, now);
        let why = self.lost.get(&id).map_or("it was released", |(_, text)| text.as_str());
        let text = format!(
            "{} is not in the job any more, and others serve in its place: {why}",
            node.describe()
        );
        self.turn_away(now, &node, text, out);
    }

    /// A word of somebody who is not in the job: an operator.
    pub(super) fn asked_by_operator(
        &mut self,
        now: Duration,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        let (Some(word), [node]) = (&control.word, control.nodes.as_slice()) else { return };
        let sound = (1..=65_535).contains(&node.port)
            && !node.hostname.is_empty()
            && node.role != Role::Scheduler
            && node.is_ours();
        if !self.is_scheduler() || !sound {
            return;
        }
        let text = match WordKind::try_from(word.kind) {
            Ok(WordKind::Status) => self.status().json(),
            Ok(WordKind::Drain) => self.drain(now, word.node, out).unwrap_or_else(|why| why),
            _ => return,
        };
        let Some(key) = self.guest(now, node, out) else { return };
        let kind = WordKind::Told as i32;
        self.word(key, Word { kind, text, ..Word::default() }, out);
    }
}
