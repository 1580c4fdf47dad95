//! Which open rounds wait, for how long and for whom, and when it is time to say so. Pure: the time
//! is an argument. May touch pieces.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::tensor::Piece;
use crate::invariant::{Valid, require};
use crate::keys::KeyName;
use crate::values::Space;
use crate::wire::{Key, NodeId};

/// Workers whose last request is remembered.
pub(in crate::store) const WORKERS_MAX: usize = 1 << 16;
/// Workers that one line names.
const WORKERS_NAMED_MAX: usize = 4;

/// The open rounds in the order of their beginning, and what each worker asked for last.
#[derive(Debug, Default)]
pub(in crate::store) struct OpenRounds {
    pub(in crate::store) now: Duration,
    next: u64,
    pub(in crate::store) open: BTreeMap<u64, WaitingRound>,
    pub(in crate::store) last: BTreeMap<NodeId, LastRequest>,
}

/// A round that waits for somebody.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct WaitingRound {
    pub(in crate::store) since: Duration,
    pub(in crate::store) key: Key,
    /// Where its piece begins.
    pub(in crate::store) from: u64,
}

/// The last request of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRequest {
    /// What it did: `pushed` or `pulled`.
    pub what: &'static str,
    /// The application's key.
    pub key: i64,
    /// Whose key that is.
    pub space: Space,
    /// How long ago.
    pub ago: Duration,
}

/// The oldest round that has waited for longer than was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The application's key.
    pub key: i64,
    /// Whose key that is.
    pub space: Space,
    /// Which round of the key, counted from 1; of a piece of it, where it has several.
    pub round: u64,
    /// Since its first push.
    pub waited: Duration,
    /// The workers that have pushed, in order.
    pub pushed: Vec<NodeId>,
    /// The workers that have not, in order, and what each asked for last.
    pub missing: Vec<(NodeId, Option<LastRequest>)>,
    /// How many other rounds have waited for longer too.
    pub others: usize,
}

impl OpenRounds {
    /// A round has begun, and waits. Its number.
    pub(in crate::store) fn begin(&mut self, key: Key, from: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, WaitingRound { since: self.now, key, from });
        number
    }

    /// It is over.
    pub(in crate::store) fn end(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.open.remove(&number);
        }
    }

    /// True if that round waits, of the piece of that key that begins there.
    pub(in crate::store) fn has(&self, number: u64, key: Key, from: u64) -> bool {
        let open = self.open.get(&number);
        number < self.next && open.is_some_and(|open| (open.key, open.from) == (key, from))
    }

    /// As many rounds wait as are open in these pieces. (That each one that is open waits is a
    /// promise of its piece.)
    pub(in crate::store) fn validate<'a>(&self, pieces: impl Iterator<Item = &'a Piece>) -> Valid {
        let (waiting, open) = (self.open.len(), pieces.filter(|p| p.round.is_open()).count());
        require(waiting == open, || format!("{waiting} rounds wait, and {open} are open"))
    }

    /// The oldest one.
    pub(in crate::store) fn first(&self) -> Option<(u64, WaitingRound)> {
        self.open.first_key_value().map(|(number, open)| (*number, *open))
    }
}

impl Stall {
    /// One line for people. `describe` names a node.
    pub fn text(&self, describe: impl Fn(NodeId) -> String) -> String {
        let Self { round, waited, missing, others, .. } = self;
        let key = KeyName::new(self.key, self.space);
        let all: Vec<String> = missing
            .iter()
            .take(WORKERS_NAMED_MAX)
            .map(|(id, last)| match last {
                Some(last) => format!("{}; it last {last}", describe(*id)),
                None => format!("{}; it has asked for nothing here", describe(*id)),
            })
            .collect();
        let mut text = format!("round {round} of key {key} has waited {} s for ", waited.as_secs());
        text += &if all.is_empty() { "another push".to_owned() } else { all.join(", and for ") };
        if missing.len() > WORKERS_NAMED_MAX {
            text += &format!(", and for {} more", missing.len() - WORKERS_NAMED_MAX);
        }
        match others {
            0 => text,
            1 => text + " (and 1 other round waits)",
            _ => format!("{text} (and {others} other rounds wait)"),
        }
    }
}

impl fmt::Display for LastRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = KeyName::new(self.key, self.space);
        write!(f, "{} key {key} {} s ago", self.what, self.ago.as_secs())
    }
}

/// When to say that something waits: at a limit, and then after once, twice, four times as long,
/// and so on.
#[derive(Clone, Copy, Debug)]
pub struct Reminder {
    limit: Duration,
    gap: Duration,
    /// None: nothing was said yet.
    due: Option<Duration>,
}

/// The longest time between two words, in limits.
const GAPS_MAX: u32 = 64;

impl Reminder {
    /// Nothing was said yet. `limit`: what waits for less is not said.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, gap: limit, due: None }
    }

    /// What waits for less is not said.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// True if it may be said now.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.due.is_none_or(|due| now >= due)
    }

    /// It is being said. After a long time in which there was nothing to say, gaps are short again.
    pub fn said(&mut self, now: Duration) {
        let rested =
            self.due.is_none_or(|due| now.saturating_sub(due) > self.gap.saturating_mul(2));
        let gap = if rested {
            self.limit
        } else {
            self.gap.saturating_mul(2).min(self.limit.saturating_mul(GAPS_MAX))
        };
        (self.gap, self.due) = (gap, Some(now.saturating_add(gap)));
    }
}

#[cfg(test)]
#[path = "stalls_tests.rs"]
mod tests;
