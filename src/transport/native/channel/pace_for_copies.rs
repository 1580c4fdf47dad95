//! How a channel leaves room for others (`native/pace_for_copies`).

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Channel, ChannelState, Lane};
use crate::native::pace_for_copies::least_pace;
use crate::sync::lock;
use crate::sys::tcp::{limit_pace, tcp_info};
use pslite_observe::awake;

/// A pace that would change by less than one part in so many stays.
const PACE_STAYS_WITHIN: u32 = 8;

impl Channel {
    /// True if something waits for room on a TCP connection to another host.
    pub(in crate::native) fn is_behind(&self) -> bool {
        lock(&self.state).lanes.iter().any(Lane::is_behind)
    }

    #[cfg(test)]
    pub(in crate::native) fn paced(&self) -> Option<u32> {
        lock(&self.state).pace
    }

    /// Limits its TCP connections to another host to so many bytes per second together, or to what
    /// its way needs at least. `None`: no limit. Those that have something to send share it. Within
    /// a host nothing is paced, since no card is shared. Each fragment tells the peer not to judge
    /// the link by it.
    pub(in crate::native) fn pace(&self, rate: Option<u32>) {
        let mut state = lock(&self.state);
        let least = || state.lanes.iter().find_map(Lane::least_pace);
        let rate = rate.and_then(|rate| Some(rate.max(least()?)));
        let behind = state.lanes.iter().filter(|lane| lane.is_behind()).count();
        let each = rate.map(|rate| rate / u32::try_from(behind).unwrap_or(u32::MAX).max(1));
        if is_news(state.pace, rate) {
            state.note_pace(rate, awake::now());
        }
        for lane in state.lanes.iter_mut().filter(|lane| lane.through_a_card) {
            if is_news(lane.pace, each) {
                // Where the kernel cannot, the connection shares the way as before.
                let _ = limit_pace(lane.pipe.socket.as_fd(), each);
                lane.pace = each;
            }
        }
    }
}

/// True if a pace is another one.
fn is_news(old: Option<u32>, new: Option<u32>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.abs_diff(new) > old / PACE_STAYS_WITHIN,
        (old, new) => old != new,
    }
}

impl Lane {
    /// True if something waits for room, and the way is to another host.
    fn is_behind(&self) -> bool {
        self.blocked && !self.writing.is_empty() && self.through_a_card
    }

    /// Bytes per second that no pace may be below; `None` where there is none.
    fn least_pace(&self) -> Option<u32> {
        let info = self.through_a_card.then(|| tcp_info(self.pipe.socket.as_fd()));
        let least =
            info?.and_then(|info| Some(least_pace(info.shortest_round_trip?, info.segment)));
        Some(least.unwrap_or(0))
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
