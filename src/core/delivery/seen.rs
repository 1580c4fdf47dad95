//! Which messages of one peer have arrived: the memory behind "nothing is delivered twice".
//! Bounded, unlike stock's set (resender.h:54-72).

use std::collections::{BTreeMap, HashSet, VecDeque};

/// How many separate runs of sequence numbers are kept for one peer. A run ends at a number that
/// is missing, so an honest peer has at most one more than it has unacknowledged messages.
pub(super) const RUNS_KEPT: usize = 65_536;

/// How many messages of a stock peer are remembered. A repetition comes after seconds at most;
/// this is several seconds of a peer's fastest small messages.
pub(super) const STOCK_KEPT: usize = 65_536;

/// What a new number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenNumber {
    New,
    Again,
    /// No room: neither deliver nor acknowledge, so that it comes again.
    NoRoom,
}

/// Sequence numbers of a peer of ours, as runs `first..=last`. The lowest run is the watermark;
/// out of order numbers make further runs, which grow together.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenSequences {
    runs: BTreeMap<u64, u64>,
}

impl SeenSequences {
    pub(super) fn insert(&mut self, number: u64) -> SeenNumber {
        let before = self.runs.range(..=number).next_back().map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| number <= last) {
            return SeenNumber::Again;
        }
        let left = before.filter(|(_, last)| last.checked_add(1) == Some(number));
        let right = number.checked_add(1).and_then(|next| self.runs.get(&next).copied());
        if left.is_none() && right.is_none() && self.runs.len() >= RUNS_KEPT {
            return SeenNumber::NoRoom;
        }
        if right.is_some() {
            self.runs.remove(&(number + 1));
        }
        let first = left.map_or(number, |(first, _)| first);
        self.runs.insert(first, right.unwrap_or(number));
        SeenNumber::New
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }
}

/// What tells two messages of a stock peer apart. The signature alone does not: it has neither
/// the customer nor the kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StockName {
    pub(super) signature: u64,
    pub(super) customer_id: i32,
    /// Push, pull, SimpleApp and control command, packed.
    pub(super) kind: u32,
}

/// The last messages of a stock peer.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenNames {
    names: HashSet<StockName>,
    order: VecDeque<StockName>,
}

impl SeenNames {
    pub(super) fn insert(&mut self, name: StockName) -> SeenNumber {
        if !self.names.insert(name) {
            return SeenNumber::Again;
        }
        if self.order.len() >= STOCK_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.order.push_back(name);
        SeenNumber::New
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
#[path = "seen_tests.rs"]
mod tests;
