//! What answers to slices bring. Pure.

use bytes::Bytes;
use smallvec::SmallVec;

use super::part::{Part, PartState};
use crate::values::KvPairs;
use crate::values::form::one_len;
use crate::wire::elastic::PartReply;
use crate::wire::{Key, NodeId};

/// An answer to a part of a slice.
#[derive(Clone, Debug)]
pub struct PartAnswer<'a> {
    /// The request.
    pub timestamp: i32,
    /// Who gives it.
    pub from: NodeId,
    /// Which part it is about, and what it teaches; none, if a server without pieces gives it.
    pub reply: Option<&'a PartReply>,
    /// Keys, values and lens.
    pub pairs: KvPairs,
    /// The server refused the request.
    pub refused: bool,
}

/// What an answer brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Nobody waits for it.
    Unknown,
    /// Other parts of the slice are open.
    Open,
    /// The slice is answered.
    Whole {
        /// The rank that it is about.
        rank: u32,
        /// Its values, if it is a pull.
        brought: Brought,
    },
    /// The server refused it.
    Refused {
        /// The rank that it is about.
        rank: u32,
    },
}

/// The values of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Keys, the first part's values, and lens.
    pub pairs: KvPairs,
    /// The values of the other parts.
    pub more: Vec<Bytes>,
}

/// The values of one slice of a pull, which came ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AheadSlice {
    /// The rank that would have been asked.
    pub rank: u32,
    /// The wire key.
    pub key: Key,
    /// The values.
    pub brought: Brought,
}

/// What is left of a slice that is over.
#[derive(Debug)]
pub(super) struct EndedSlice {
    pub(super) rank: u32,
    /// Of a push that does not pull: its key.
    pub(super) pushed: Option<Key>,
    pub(super) parts: SmallVec<[Part; 1]>,
    pub(super) answer: KvPairs,
}

impl Brought {
    /// The values of all parts, which are answered. `answer`: keys and lens of one answer.
    pub(super) fn gather(parts: SmallVec<[Part; 1]>, answer: KvPairs) -> Self {
        let mut vals = parts.into_iter().map(|part| match part.state {
            PartState::Done(vals) => vals,
            PartState::Sent(_) | PartState::Waiting(_) => Bytes::new(),
        });
        let vals_of_first = vals.next().unwrap_or_default();
        let pairs = KvPairs { keys: answer.keys, vals: vals_of_first, lens: answer.lens };
        let mut brought = Self { pairs, more: vals.collect() };
        if !brought.more.is_empty() {
            brought.pairs.lens = one_len(brought.bytes());
        }
        brought
    }

    /// Bytes of values.
    pub(super) fn bytes(&self) -> usize {
        self.pairs.vals.len() + self.more.iter().map(Bytes::len).sum::<usize>()
    }

    /// True if every part brought values.
    pub(super) fn is_whole(&self) -> bool {
        let missing = self.pairs.vals.is_empty() || self.more.iter().any(Bytes::is_empty);
        !self.pairs.keys.is_empty() && !missing
    }
}
