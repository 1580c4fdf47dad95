//! What a receiver knows about one channel of one sender: which messages arrived, which are partly
//! received, and in which order to deliver them. It outlives the channel's connections, so each
//! message is delivered once. No I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::landing::Landing;
use super::lend::Lender;
use super::pool::Pool;
use super::types::{NativeIncoming, Place};
use pslite_core::wire::native::{FrameError, Head, WINDOW_MAX};

/// Large messages of one channel that may be on the way at a time.
pub(super) const ASSEMBLIES_MAX: usize = 64;

/// Why a connection is closed.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum SessionError {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("message {0} is too far ahead")]
    TooFar(u64),
    #[error("a fragment of message {0} came twice, or belongs to another")]
    Fragment(u64),
    #[error("more than {ASSEMBLIES_MAX} messages are under way in fragments")]
    TooMany,
    #[error("message {0} is too large for this machine")]
    TooLarge(u64),
    #[error("two messages follow message {0}")]
    Order(u64),
    #[error("message {0} lends what is not there")]
    Lent(u64),
    #[error("the memory where message {0} lands has changed its size")]
    Place(u64),
}

struct Assembly {
    sequence: u64,
    after: u64,
    landing: Landing,
}

/// See the module.
pub(super) struct Session {
    pub(super) incarnation: u64,
    pub(super) node: Option<i32>,
    pub(super) address: Arc<str>,
    /// The peer's memory, of which it lends; and the largest frame of it, in bytes.
    pub(super) lender: Option<(Arc<Lender>, u64)>,
    received: u64,
    beyond: BTreeSet<u64>,
    /// Complete messages whose predecessor is not delivered, by that predecessor.
    held: BTreeMap<u64, (u64, NativeIncoming)>,
    held_numbers: BTreeSet<u64>,
    assemblies: Vec<Assembly>,
}

impl Session {
    pub(super) fn new(incarnation: u64, node: Option<i32>, address: Arc<str>) -> Self {
        Self {
            incarnation,
            node,
            address,
            lender: None,
            received: 0,
            beyond: BTreeSet::new(),
            held: BTreeMap::new(),
            held_numbers: BTreeSet::new(),
            assemblies: Vec::new(),
        }
    }

    /// All messages up to this one arrived.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Those that arrived beyond it.
    pub(super) fn beyond(&self) -> Vec<u64> {
        self.beyond.iter().copied().collect()
    }

    /// The connections broke: what is incomplete comes again from its beginning.
    pub(super) fn forget_fragments(&mut self) {
        self.assemblies.clear();
    }

    fn has(&self, sequence: u64) -> bool {
        sequence <= self.received || self.beyond.contains(&sequence)
    }

    /// False if the message came before.
    ///
    /// # Errors
    /// Its number is beyond the window.
    pub(super) fn wants(&self, sequence: u64) -> Result<bool, SessionError> {
        if sequence > self.received.saturating_add(WINDOW_MAX) {
            return Err(SessionError::TooFar(sequence));
        }
        Ok(!self.has(sequence))
    }

    /// True if a fragment of the message came before.
    pub(super) fn is_begun(&self, sequence: u64) -> bool {
        self.assemblies.iter().any(|assembly| assembly.sequence == sequence)
    }

    /// Gets ready for a fragment of a message. `place` is used if it is the first one.
    pub(super) fn begin_fragment(
        &mut self,
        pool: &Arc<Pool>,
        head: &Head,
        meta: &[u8],
        place: Option<Place>,
    ) -> Result<(), SessionError> {
        let header = &head.header;
        let sequence = header.sequence;
        let found = self.assemblies.iter().position(|assembly| assembly.sequence == sequence);
        let index = match found {
            Some(index) => index,
            None if self.assemblies.len() >= ASSEMBLIES_MAX => return Err(SessionError::TooMany),
            None => {
                let landing = Landing::new(pool, head, meta, place)
                    .ok_or(SessionError::TooLarge(sequence))?;
                self.assemblies.push(Assembly { sequence, after: header.after, landing });
                self.assemblies.len() - 1
            }
        };
        let assembly = &mut self.assemblies[index];
        let fits = assembly.after == header.after && assembly.landing.fits(head);
        if fits && assembly.landing.begin_fragment(header.offset, u64::from(header.fragment_len)) {
            Ok(())
        } else {
            Err(SessionError::Fragment(sequence))
        }
    }

    /// Where the data of a message go that is on the way.
    pub(super) fn landing(&mut self, sequence: u64) -> Option<&mut Landing> {
        let mut all = self.assemblies.iter_mut();
        all.find(|assembly| assembly.sequence == sequence).map(|assembly| &mut assembly.landing)
    }

    /// A fragment of a message has arrived whole: delivers the message if that completes it.
    pub(super) fn landed(
        &mut self,
        sequence: u64,
        bytes: u64,
        out: &mut VecDeque<NativeIncoming>,
    ) -> Result<(), SessionError> {
        let mut all = self.assemblies.iter_mut();
        let Some(index) = all.position(|assembly| assembly.sequence == sequence) else {
            return Ok(());
        };
        if !self.assemblies[index].landing.arrived(bytes) {
            return Ok(());
        }
        let Assembly { after, landing, .. } = self.assemblies.swap_remove(index);
        self.complete(sequence, after, landing, out)
    }

    /// A message is complete: delivers it, and those that waited for it, as soon as its predecessor
    /// is delivered.
    pub(super) fn complete(
        &mut self,
        sequence: u64,
        after: u64,
        landing: Landing,
        out: &mut VecDeque<NativeIncoming>,
    ) -> Result<(), SessionError> {
        let (lent, landed) = (landing.lent(), landing.is_placed());
        let mut frames = landing.into_frames();
        self.borrow(&mut frames, lent).ok_or(SessionError::Lent(sequence))?;
        let incoming = NativeIncoming {
            from: self.node,
            incarnation: self.incarnation,
            frames,
            landed,
            address: Arc::clone(&self.address),
        };
        self.note(sequence);
        if !self.has(after) || self.held_numbers.contains(&after) {
            self.held_numbers.insert(sequence);
            return match self.held.insert(after, (sequence, incoming)) {
                Some(_) => Err(SessionError::Order(after)),
                None => Ok(()),
            };
        }
        out.push_back(incoming);
        let mut last = sequence;
        while let Some((next, incoming)) = self.held.remove(&last) {
            self.held_numbers.remove(&next);
            out.push_back(incoming);
            last = next;
        }
        Ok(())
    }

    /// Puts the peer's memory in the place of what says where it is.
    fn borrow(&self, frames: &mut SmallVec<[Bytes; 4]>, lent: u16) -> Option<()> {
        if lent == 0 {
            return Some(());
        }
        let (lender, length_max) = self.lender.as_ref()?;
        for (number, frame) in frames.iter_mut().skip(1).enumerate() {
            if u32::from(lent) >> number & 1 != 0 {
                *frame = lender.borrow(frame, *length_max)?;
            }
        }
        Some(())
    }

    fn note(&mut self, sequence: u64) {
        if sequence != self.received + 1 {
            self.beyond.insert(sequence);
            return;
        }
        self.received = sequence;
        while self.beyond.first() == Some(&(self.received + 1)) {
            self.beyond.pop_first();
            self.received += 1;
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
