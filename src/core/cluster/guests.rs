//! Guests: nodes that the scheduler answers although they have no place in the job. They are
//! operators (`pslite status`, `pslite drain`), servers that were given up and come back, and nodes
//! for which the job has no place. Each gets a channel for a short while.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Action, Cluster};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::wire::word::{OperatorAnswer, Word};
use crate::wire::{Control, EMPTY, Node, NodeId, Notice, NoticeKind, Origin, Role, ability};

/// Operators at a time; more get no answer.
const OPERATORS_MAX: usize = 64;
/// Nodes without a place at a time; more are not told so. (All nodes of a job may be started once
/// more.)
const NODES_MAX: usize = 1024;
/// For how long a guest's channel is kept: what it is told has gone out by then.
const STAY: Duration = Duration::from_secs(5);
/// For how long it is kept when it broke: libzmq may make the connection anew.
const LEAVES: Duration = Duration::from_secs(1);

/// The longest name of a host, in bytes (RFC 1035).
const HOST_MAX: usize = 255;

/// What a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuestKind {
    Operator,
    Node,
}

impl GuestKind {
    const fn most(self) -> usize {
        match self {
            Self::Operator => OPERATORS_MAX,
            Self::Node => NODES_MAX,
        }
    }
}

/// A guest, and until when its channel is kept.
#[derive(Debug)]
struct Guest {
    kind: GuestKind,
    until: Duration,
}

/// The channels of guests.
#[derive(Debug, Default)]
pub(super) struct Guests {
    channels: BTreeMap<NodeId, Guest>,
    /// When nodes that were given up were told so.
    told: BTreeMap<NodeId, Duration>,
}

impl Guests {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.channels.values().map(|guest| guest.until).min()
    }
}

impl Cluster {
    /// Opens a channel to somebody without a place; none if there are so many.
    fn guest(
        &mut self,
        now: Duration,
        node: &Node,
        kind: GuestKind,
        out: &mut Vec<Action>,
    ) -> Option<NodeId> {
        let such = self.guests.channels.values().filter(|guest| guest.kind == kind);
        if such.count() >= kind.most() {
            return None;
        }
        let key = self.arrivals.next_pending;
        self.arrivals.next_pending -= 1;
        let until = now.saturating_add(STAY);
        self.guests.channels.insert(key, Guest { kind, until });
        out.push(Action::ConnectPending { key, node: node.clone() });
        Some(key)
    }

    /// A channel broke. True if it was a guest's, who has most likely got what it came for.
    pub(super) fn guest_left(&mut self, now: Duration, id: NodeId) -> bool {
        let Some(guest) = self.guests.channels.get_mut(&id) else { return false };
        guest.until = guest.until.min(now.saturating_add(LEAVES));
        true
    }

    pub(super) fn check_guests(&mut self, now: Duration, out: &mut Vec<Action>) {
        let over = |(_, guest): &(&NodeId, &Guest)| now >= guest.until;
        let gone: Vec<NodeId> =
            self.guests.channels.iter().filter(over).map(|(key, _)| *key).collect();
        for id in gone {
            self.guests.channels.remove(&id);
            self.signs.down.remove(&id);
            out.push(Action::Disconnect { id });
        }
        self.guests.told.retain(|_, at| now < at.saturating_add(STAY));
    }

    /// Tells a guest that it has no place in this job, and why. No level: that is no event.
    pub(super) fn turn_away(
        &mut self,
        now: Duration,
        node: &Node,
        level: Option<Level>,
        text: String,
        out: &mut Vec<Action>,
    ) {
        match level {
            Some(level) => {
                Self::say(out, NewEvent::new(level, JobEventKind::Node, &*text).of(node.id));
            }
            None => Self::log(out, &*text),
        }
        if node.is_ours()
            && let Some(key) = self.guest(now, node, GuestKind::Node, out)
        {
            let kind = NoticeKind::JobFailed;
            self.notice(
                key,
                Notice { kind, node: EMPTY, customer: EMPTY, incarnation: 0, text },
                out,
            );
        }
    }

    /// Something comes from a server, or a worker, that was given up: it is told so, and ends.
    pub(super) fn back_from_the_dead(&mut self, now: Duration, id: NodeId, out: &mut Vec<Action>) {
        let Some(node) = self.members.get(&id).cloned() else { return };
        if self.finalizing || self.guests.told.contains_key(&id) {
            return;
        }
        self.guests.told.insert(id, now);
        let Some((_, why)) = self.lost.get(&id) else {
            // It was let go, and may not have heard. A scheduler that came back has no connection
            // to it.
            if let Some(key) = self.guest(now, &node, GuestKind::Node, out) {
                self.let_go(key, out);
            }
            return;
        };
        let others = match node.role {
            Role::Worker => "the others go on without it",
            _ => "others serve in its place",
        };
        let who = node.describe();
        let text = format!("{who} is not in the job any more, and {others}: {why}");
        self.turn_away(now, &node, Some(Level::Warning), text, out);
    }

    /// A word of somebody who is not in the job: an operator, or a node that will not be.
    pub(super) fn take_word_of_stranger(
        &mut self,
        now: Duration,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        let Some(word) = control.word.as_deref().filter(|_| self.is_scheduler()) else { return };
        let way = match word {
            Word::GivesUp { text, incarnation } => {
                return self.gave_up(now, text, *incarnation, out);
            }
            Word::Status { way, .. } | Word::Drain { way, .. } => way,
            _ => return,
        };
        let listens = !way.own_connection;
        let at = &way.listens_at;
        let key = if listens { self.operators_channel(now, at, control.origin, out) } else { None };
        // Who can be told nothing must not think that nothing was done.
        if listens && key.is_none() {
            return;
        }
        match word {
            Word::Drain { server, .. } => {
                let told = self.drain(now, *server, out);
                self.answer_operator(key, told, out);
            }
            Word::Status { chronicle, .. } => {
                out.push(Action::StatusAsked { guest: key, chronicle: *chronicle });
            }
            _ => {}
        }
    }

    /// Answers an operator by that channel, or by the connection by which it asked.
    pub(super) fn answer_operator(
        &mut self,
        guest: Option<NodeId>,
        told: Result<String, String>,
        out: &mut Vec<Action>,
    ) {
        let answer = Word::Told(told.map(|text| OperatorAnswer { text, told: Bytes::new() }));
        match guest {
            Some(key) => self.word(key, answer, out),
            None => out.push(Action::Answer { message: self.word_message(answer) }),
        }
    }

    /// A channel to an operator of an earlier version, which listens where it says: only if it
    /// asked from there. Else a stranger's one message would make the scheduler connect to any
    /// place.
    fn operators_channel(
        &mut self,
        now: Duration,
        listens_at: &str,
        origin: Option<Origin>,
        out: &mut Vec<Action>,
    ) -> Option<NodeId> {
        let node = operator(listens_at)?;
        let told = node.hostname.parse().ok();
        if told.is_none() || told != origin.map(|origin| origin.address) {
            let from = origin.map_or("nowhere".to_owned(), |origin| origin.address.to_string());
            let text = format!(
                "an operator at {from} wants to be answered at {}: it is not answered; `pslite` \
                 of this version is answered where it asks",
                node.address()
            );
            Self::log(out, text);
            return None;
        }
        self.guest(now, &node, GuestKind::Operator, out)
    }
}

/// An operator of an earlier version says in the text of its word where it listens, as `host:port`.
/// (Not as a node: a stock scheduler would answer that node, and end because it does not know it.)
fn operator(text: &str) -> Option<Node> {
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let sound = !host.is_empty() && host.len() <= HOST_MAX && port > 0;
    sound.then(|| Node {
        role: Role::Worker,
        id: EMPTY,
        customer_id: 0,
        hostname: host.to_owned(),
        port: i32::from(port),
        is_recovery: false,
        abilities: ability::PSLITE,
        incarnation: 0,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    })
}
