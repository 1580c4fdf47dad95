//! An event: something that happened in a job, with a text for people and values for programs.
//! Values only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::{EMPTY, NodeId};

/// Pairs of servers that an event names, at most: those between which most moves.
const SHARES_MAX: usize = 16;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something is lost.
    Error,
    /// Something is odd.
    Warning,
    /// Worth knowing once.
    Info,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobEventKind {
    /// A node comes, is emptied, dies, or is refused.
    Node,
    /// The job begins, goes on after a restart of its scheduler, or ends.
    Phase,
    /// A policy is in force.
    Policy,
    /// Pieces, or copies of them, go to other servers.
    Move,
    /// Rounds take other trees, or none.
    Tree,
    /// Links carry something else than before.
    Link,
    /// Somebody waits.
    Wait,
    /// Something would make rounds shorter.
    Advice,
    /// Something else that people should know.
    Note,
    /// What an operator asked for.
    Operator,
    /// How workers share batches.
    Batch,
    /// A reader says that events are not kept any more that it has not heard of.
    Lost,
    /// A reader says that the scheduler answers no more.
    End,
    /// Something of which this version knows nothing.
    #[serde(other)]
    Other,
}

impl JobEventKind {
    /// Its name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Phase => "phase",
            Self::Policy => "policy",
            Self::Move => "move",
            Self::Tree => "tree",
            Self::Link => "link",
            Self::Wait => "wait",
            Self::Advice => "advice",
            Self::Note => "note",
            Self::Operator => "operator",
            Self::Batch => "batch",
            Self::Lost => "lost",
            Self::End => "end",
            Self::Other => "other",
        }
    }
}

/// What moves from one server to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedShare {
    /// Whose it was.
    pub from: NodeId,
    /// Whose it becomes.
    pub to: NodeId,
    /// Bytes of values, and of what belongs to them.
    pub bytes: u64,
}

/// Something that has just happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewEvent {
    /// How much it matters.
    pub level: Level,
    /// What it is about.
    pub kind: JobEventKind,
    /// The node that it is about; none: about no node, or about several.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// For people: the line of the log.
    pub text: String,
    /// What of it are numbers, by name: times in seconds, sizes in bytes. `docs/operations.md` has
    /// the names.
    #[serde(default)]
    pub numbers: BTreeMap<Cow<'static, str>, f64>,
    /// Of a move: why. Else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Of a move: between which servers, the largest shares first, 16 at most. Else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MovedShare>,
}

impl NewEvent {
    /// An event about no single node, without numbers.
    #[must_use]
    pub fn new(level: Level, kind: JobEventKind, text: impl Into<String>) -> Self {
        let (node, numbers, reason, moves) = Default::default();
        Self { level, kind, node, text: text.into(), numbers, reason, moves }
    }

    /// Something is lost.
    #[must_use]
    pub fn error(kind: JobEventKind, text: impl Into<String>) -> Self {
        Self::new(Level::Error, kind, text)
    }

    /// Something is odd.
    #[must_use]
    pub fn warning(kind: JobEventKind, text: impl Into<String>) -> Self {
        Self::new(Level::Warning, kind, text)
    }

    /// Something is worth knowing.
    #[must_use]
    pub fn info(kind: JobEventKind, text: impl Into<String>) -> Self {
        Self::new(Level::Info, kind, text)
    }

    /// It is about that node; about none if that is no id yet, but a key of a channel.
    #[must_use]
    pub fn of(self, node: NodeId) -> Self {
        Self { node: Some(node).filter(|node| (1..EMPTY).contains(node)), ..self }
    }

    /// Adds a number. One that JSON cannot say, such as an infinite time, is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, number: f64) -> Self {
        if number.is_finite() {
            self.numbers.insert(Cow::Borrowed(name), number);
        }
        self
    }

    /// Adds a time in seconds.
    #[must_use]
    pub fn lasting(self, name: &'static str, time: Duration) -> Self {
        self.with(name, time.as_secs_f64())
    }

    /// Adds what moves, and why. Of many shares the largest are kept.
    #[must_use]
    pub fn moving(self, reason: String, mut moves: Vec<MovedShare>) -> Self {
        moves.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.from, share.to));
        moves.truncate(SHARES_MAX);
        Self { reason, moves, ..self }
    }
}

/// An event that a [`Chronicle`](super::Chronicle) keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// Its number, from 1 on, one more with each event. 0: no chronicle has it, a reader says it.
    pub number: u64,
    /// When it happened, in seconds since the scheduler began. Pauses of the scheduler are left
    /// out.
    pub at: f64,
    /// When it happened by the scheduler's clock on the wall, in seconds since 1970.
    pub time: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: NewEvent,
}

impl JobEvent {
    /// One JSON object on one line.
    #[must_use]
    pub fn json(&self) -> String {
        // Texts and numbers only: there is nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Self::json`] wrote; none if the text is something else.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let shares = [(8, 10, 5), (8, 12, 7)];
        let moves = shares.map(|(from, to, bytes)| MovedShare { from, to, bytes });
        let what = NewEvent::info(JobEventKind::Move, "moving")
            .of(8)
            .with("bytes", 12.0)
            .with("bound", f64::INFINITY)
            .lasting("before", Duration::from_millis(1500))
            .moving("a server is slow".to_owned(), moves.to_vec());
        let event = JobEvent { number: 3, at: 1.5, time: 1e9, what };
        let json = event.json();
        assert_eq!(
            json,
            "{\"number\":3,\"at\":1.5,\"time\":1000000000.0,\"level\":\"info\",\"kind\":\"move\",\
             \"node\":8,\"text\":\"moving\",\"numbers\":{\"before\":1.5,\"bytes\":12.0},\
             \"reason\":\"a server is slow\",\"moves\":[{\"from\":8,\"to\":12,\"bytes\":7},\
             {\"from\":8,\"to\":10,\"bytes\":5}]}"
        );
        assert_eq!(JobEvent::from_json(&json), Some(event));
    }

    #[test]
    fn kinds_of_later_versions_are_others() {
        let json = "{\"number\":1,\"at\":0,\"time\":0,\"level\":\"warning\",\"kind\":\"weather\",\
                    \"text\":\"rain\",\"sort\":1}";
        let event = JobEvent::from_json(json).unwrap();
        assert_eq!(event.what, NewEvent::warning(JobEventKind::Other, "rain"));
    }

    #[test]
    fn names_are_those_of_json() {
        use JobEventKind as K;
        for kind in [
            K::Node,
            K::Phase,
            K::Policy,
            K::Move,
            K::Tree,
            K::Link,
            K::Wait,
            K::Advice,
            K::Note,
            K::Operator,
            K::Batch,
            K::Lost,
            K::End,
            K::Other,
        ] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
    }

    #[test]
    fn of_many_shares_the_largest_are_kept() {
        let share = |i: u64| MovedShare { from: 8, to: 10 + 2 * i as NodeId, bytes: i };
        let event = NewEvent::info(JobEventKind::Move, "")
            .moving(String::new(), (0..40).map(share).collect());
        assert_eq!(event.moves.len(), SHARES_MAX);
        assert_eq!(event.moves.last().map(|share| share.bytes), Some(24));
    }
}
