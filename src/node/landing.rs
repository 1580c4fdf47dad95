//! Receives pulled values straight into the caller's memory: as soon as the head of an answer is
//! there, tells the transport where its values belong. May touch `kv` types and the memory that
//! callers give; `sink` asks the customers.
//!
//! An answer lands only if a request waits for it and it has as many values as expected: numbers in
//! the head are compared, never used. The memory is withdrawn before its request ends, however that
//! ends; an answer whose memory was withdrawn is dropped. Two answers never land in the same bytes.
//! The second one is received elsewhere, like every answer that does not fit, and copied when the
//! request ends (`PullSink::take`).

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::sync::lock;
use pslite_core::kv::Assembled;
use pslite_core::values::{KvPairs, iter_lens};
use pslite_core::wire::elastic::PartReply;
use pslite_core::wire::{Meta, NodeId, server_id};
use pslite_transport::{CallersMemory, MemoryClaim};

/// Smaller destinations gain nothing: their answers are copied from the buffer that they are read
/// to, several at a time.
pub const LANDS_MIN: usize = 64 << 10;
/// Which data frame has the values.
pub(super) const VALS: usize = 1;

/// Takes what a pull brought.
pub trait PullSink: Send {
    /// True if lens are wanted too.
    fn wants_lens(&self) -> bool;
    /// Where the values are to go, if that is known before they come and they have [`LANDS_MIN`]
    /// bytes or more. Then they may be received there. Called once, before the request is sent.
    fn destination(&self) -> Option<Destination> {
        None
    }
    /// Copies the values to where the caller wants them, except those that were received there.
    /// Returns how many bytes were copied.
    ///
    /// # Errors
    /// The destination does not fit; the text becomes the request's error.
    fn take(&mut self, assembled: &Assembled) -> Result<usize, String>;
}

/// Where the values of a pull are to go.
#[derive(Debug)]
pub struct Destination {
    /// All of it, to be filled exactly.
    pub memory: CallersMemory,
    /// How many values of each key (`i32`) the caller expects; empty: equally many.
    pub lens: Bytes,
}

/// The pulls of a customer whose answers may land.
#[derive(Debug, Default)]
pub(crate) struct Landings(Mutex<BTreeMap<i32, LandingTarget>>);

#[derive(Debug)]
struct LandingTarget {
    destination: Destination,
    spans: SmallVec<[Span; 4]>,
}

/// Where the values of one server's slice belong, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    rank: usize,
    at: usize,
    len: usize,
    /// Bytes of an element, where slices are cut into pieces; 0: this one is not.
    element: u64,
}

impl Landings {
    /// A pull was made. Nothing lands before [`Self::cut`].
    pub(super) fn open(&self, timestamp: i32, destination: Destination) {
        let target = LandingTarget { destination, spans: SmallVec::new() };
        lock(&self.0).insert(timestamp, target);
    }

    /// How it was cut: for each rank that is asked the request to it, and the bytes of an element
    /// if that may be cut further. `again`: its values may have to be sent again.
    pub(super) fn cut<'a>(
        &self,
        timestamp: i32,
        value_size: usize,
        slices: impl Iterator<Item = (usize, &'a KvPairs, u64)>,
        again: bool,
    ) {
        let mut open = lock(&self.0);
        let Some(LandingTarget { destination, spans }) = open.get_mut(&timestamp) else { return };
        let slices: SmallVec<[_; 4]> = slices.collect();
        *spans = layout(&slices, destination, value_size).unwrap_or_default();
        // What a server gets is complete before it answers; but what others get must not be
        // overwritten.
        let memory = &destination.memory;
        let apart = |(span, (_, kv, _)): (&Span, &(usize, &KvPairs, u64))| {
            let same = memory.is_at(span.at, &kv.vals) && kv.vals.len() == span.len;
            !memory.overlaps(&kv.vals) || same && !again
        };
        if !spans.iter().zip(&slices).all(apart) {
            spans.clear();
        }
    }

    /// The memory for so many bytes of values in an answer.
    pub(super) fn place(&self, from: NodeId, meta: &Meta, len: u64) -> Option<MemoryClaim> {
        let open = lock(&self.0);
        let LandingTarget { destination, spans } = open.get(&meta.timestamp)?;
        let answers = |span: &&Span| match meta.reply() {
            Some(reply) => span.rank == reply.slice as usize,
            None => server_id(span.rank) == from,
        };
        let span = spans.iter().find(answers)?;
        let (at, expected) = span.part(meta.reply())?;
        let fits = u64::try_from(expected) == Ok(len);
        fits.then(|| destination.memory.claim(at..at.checked_add(expected)?)).flatten()
    }

    /// True if that answer's values are where an open pull wants them.
    pub(super) fn has(&self, timestamp: i32, vals: Option<&Bytes>) -> bool {
        let open = lock(&self.0);
        let target = open.get(&timestamp);
        target.zip(vals).is_some_and(|(target, vals)| target.destination.memory.has(vals))
    }

    /// The request is about to end: from now on nothing is received into its memory.
    pub(super) fn close(&self, timestamp: i32) {
        let target = lock(&self.0).remove(&timestamp);
        if let Some(target) = target {
            target.destination.memory.withdraw();
        }
    }

    /// As [`Self::close`], for all of them.
    pub(super) fn close_all(&self) {
        let targets = std::mem::take(&mut *lock(&self.0));
        targets.values().for_each(|target| target.destination.memory.withdraw());
    }
}

impl Span {
    /// Where a part of it is, and how long; all of it if nothing else is said.
    fn part(&self, reply: Option<&PartReply>) -> Option<(usize, usize)> {
        let Some(reply) = reply.filter(|reply| reply.to != 0) else {
            return Some((self.at, self.len));
        };
        let bytes = |elements: u64| {
            let bytes = elements.checked_mul(self.element)?;
            usize::try_from(bytes).ok().filter(|bytes| *bytes <= self.len)
        };
        let (from, to) = (bytes(reply.from)?, bytes(reply.to)?);
        Some((self.at.checked_add(from)?, to.checked_sub(from)?))
    }
}

/// Where the values of each slice belong; `None` if that is not known.
fn layout(
    slices: &[(usize, &KvPairs, u64)],
    destination: &Destination,
    value_size: usize,
) -> Option<SmallVec<[Span; 4]>> {
    let total = destination.memory.size();
    let keys: usize = slices.iter().map(|(_, kv, _)| kv.key_count()).sum();
    let mut lens = iter_lens(&destination.lens);
    let given = !destination.lens.is_empty();
    let each = total.checked_div(keys)?;
    let mut at = 0_usize;
    let mut spans = SmallVec::new();
    for (rank, kv, element) in slices {
        let mut len = 0_usize;
        for _ in 0..kv.key_count() {
            let bytes = if given {
                usize::try_from(lens.next()?).ok()?.checked_mul(value_size)?
            } else {
                each
            };
            len = len.checked_add(bytes)?;
        }
        spans.push(Span { rank: *rank, at, len, element: *element });
        at = at.checked_add(len)?;
    }
    (at == total && lens.next().is_none()).then_some(spans)
}

#[cfg(test)]
#[path = "landing_tests.rs"]
mod tests;
