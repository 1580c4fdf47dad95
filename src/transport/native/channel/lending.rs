//! What a channel lends: large frames in memory that the peer reads, and their return.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Channel, ChannelState};
use crate::native::lend::{LEND_MIN, Leases, adopt};
use crate::native::shared::Shared;
use pslite_core::wire::native::LENDABLE;

impl ChannelState {
    /// Takes back what peers gave back.
    pub(super) fn collect(&mut self) {
        for lane in &mut self.lanes {
            if let Some(leases) = lane.pipe.leases() {
                leases.collect();
            }
        }
        if !self.orphans.is_empty() {
            self.orphans.iter_mut().for_each(Leases::collect);
            self.orphans.retain(|leases| !leases.is_empty());
        }
    }

    /// Closes all connections; what was lent over them is kept for as long as it may be read.
    pub(super) fn retire_lanes(&mut self) {
        for lane in self.lanes.drain(..) {
            self.orphans.extend(lane.pipe.into_leases().filter(|leases| !leases.is_empty()));
        }
    }
}

impl Channel {
    /// Takes back what the peer gave back and what it confirmed.
    pub(in crate::native) fn reclaim(&self) {
        // Who holds the lock does it himself.
        if let Ok(mut state) = self.state.try_lock() {
            self.trim(&mut state);
            state.collect();
        }
    }

    /// The frames, the values in memory that can be lent if they are large, if the connection
    /// lends. The sender's own memory cannot be lent: it does not belong to us for long enough.
    pub(super) fn adopt(&self, shared: &Shared, data: &[Bytes]) -> Option<SmallVec<[Bytes; 3]>> {
        let lendable = |number: usize| u32::from(LENDABLE) >> number & 1 != 0;
        let large = |(number, frame): (usize, &Bytes)| lendable(number) && frame.len() >= LEND_MIN;
        if !data.iter().enumerate().any(large) || !self.lends.load(Ordering::Relaxed) {
            return None;
        }
        let arena = shared.arena()?;
        let frames = data.iter().enumerate().map(|(number, frame)| {
            if !lendable(number) {
                return frame.clone();
            }
            let adopted = adopt(arena, self.number, frame);
            if adopted.as_ptr() != frame.as_ptr() {
                self.counters.copies.fetch_add(1, Ordering::Relaxed);
                self.counters.copied_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
            }
            adopted
        });
        Some(frames.collect())
    }
}
