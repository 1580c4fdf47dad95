//! How a channel leaves room for others (`native/pace_for_copies`).

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Channel, ChannelState};
use crate::native::lock;
use crate::sys::tcp::limit_pace;
use pslite_observe::awake;

/// A pace that would change by less than one part in so many stays.
const PACE_STAYS_WITHIN: u32 = 8;

impl Channel {
    /// True if something waits for room on a TCP connection to another host.
    pub(in crate::native) fn is_behind(&self) -> bool {
        let state = lock(&self.state);
        let mut lanes = state.lanes.iter();
        lanes.any(|lane| lane.blocked && !lane.writing.is_empty() && lane.through_a_card)
    }

    #[cfg(test)]
    pub(in crate::native) fn paced(&self) -> Option<u32> {
        lock(&self.state).pace
    }

    /// Limits its TCP connections to another host to so many bytes per second together. `None`: no
    /// limit. Within a host nothing is paced, since no card is shared. Each fragment tells the peer
    /// not to judge the link by it.
    pub(in crate::native) fn pace(&self, rate: Option<u32>) {
        let mut state = lock(&self.state);
        let rate = rate.filter(|_| state.lanes.iter().any(|lane| lane.through_a_card));
        let is_news = match (state.pace, rate) {
            (Some(old), Some(new)) => old.abs_diff(new) > old / PACE_STAYS_WITHIN,
            (old, new) => old != new,
        };
        if !is_news {
            return;
        }
        state.note_pace(rate, awake::now());
        let lanes = u32::try_from(state.lanes.len()).unwrap_or(1).max(1);
        for lane in state.lanes.iter().filter(|lane| lane.through_a_card) {
            // Where the kernel cannot, the connection shares the way as before.
            let _ = limit_pace(lane.pipe.socket.as_fd(), rate.map(|rate| rate / lanes));
        }
    }
}

impl ChannelState {
    pub(super) fn note_pace(&mut self, rate: Option<u32>, now: Instant) {
        let (paced, since) = (self.time_paced(now), rate.map(|_| now));
        (self.pace, self.paced) = (rate, (paced, since));
        self.outbox.set_paced(rate.is_some());
    }

    /// For how long the channel has been paced.
    pub(super) fn time_paced(&self, now: Instant) -> Duration {
        let (before, since) = self.paced;
        before + since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}
