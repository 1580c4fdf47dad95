//! How much the kernel takes of what a channel cannot send yet, where some messages overtake
//! others, or there are several connections. What the kernel has taken, nothing overtakes: behind
//! 128 KB on a connection that carries 20 Mbit/s, a pull request or a confirmation comes 50 ms
//! late, and the round with it. And it takes no other connection: by itself the kernel takes
//! megabytes, so the first connection would have all of a round, and a slow one (which loses
//! packets) its part of it for long after the others have sent theirs. So the kernel takes what a
//! connection sends in a few milliseconds. That must be enough until the I/O thread writes again.
//! Connections within a host have no limit: nothing waits there for long, and each time that the
//! limit stops a sender costs two thread switches.
//!
//! Part of the I/O thread. May set socket options and ask the kernel what was confirmed; must not
//! touch what is sent.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{BATCH_BYTES, Channel, Lane};
use crate::native::shared::Shared;
use crate::sync::lock;
#[cfg(test)]
use crate::sys::tcp::unsent_limit;
use crate::sys::tcp::{limit_unsent, tcp_info};
use pslite_core::wire::native::GRANULE;

/// What the kernel takes is sent within that time; a thread that is woken writes within 1 ms.
/// (docs/placement.md has what that gains over slow links.)
const SENT_WITHIN: Duration = Duration::from_millis(4);
/// At least some segments, so that the card is never idle.
const UNSENT_MIN: u32 = 16 << 10;
/// The most, and what a connection begins with.
pub(in crate::native) const UNSENT_MAX: u32 = 128 << 10;
/// Bytes that are added to one write of a slow connection, at most.
const SLOW_BATCH: usize = 2 * GRANULE;
/// The time between two looks at what connections carry.
pub(super) const UNSENT_LOOK_EVERY: Duration = Duration::from_millis(100);
/// A connection must have had something to send for so long before its rate counts.
const BUSY_MIN: Duration = Duration::from_millis(20);
/// A limit that would change by less than one part in so many stays.
const UNSENT_STAYS_WITHIN: u32 = 4;

/// When the I/O thread last looked.
#[derive(Debug)]
pub(in crate::native) struct UnsentLimits {
    looked: Instant,
}

/// What the kernel takes of one connection.
#[derive(Debug)]
pub(super) struct UnsentLimit {
    pub(super) bytes: u32,
    /// What was confirmed, and for how long the connection had been busy, when its rate was last
    /// worked out.
    since: Option<(u64, Duration)>,
}

impl UnsentLimits {
    pub(in crate::native) const fn new(now: Instant) -> Self {
        Self { looked: now }
    }

    /// Sets the limits anew, if it is time.
    pub(in crate::native) fn look(
        &mut self,
        now: Instant,
        shared: &Shared,
        channels: impl FnOnce() -> Vec<Arc<Channel>>,
    ) {
        let due = now.saturating_duration_since(self.looked) >= UNSENT_LOOK_EVERY;
        if due {
            self.looked = now;
            let mut channels = channels();
            channels.retain(|channel| channel.gives_little(shared));
            channels.iter().for_each(|channel| channel.limit_unsent(now));
            let slow = channels.iter().any(|channel| channel.is_slow());
            shared.has_slow.store(slow, Ordering::Relaxed);
        }
    }
}

/// Limits a new connection. One that cannot be limited sends all the same.
pub(super) fn begin(socket: BorrowedFd<'_>) {
    let _ = limit_unsent(socket, UNSENT_MAX);
}

impl Channel {
    /// True if the kernel is to take little of what it sends.
    pub(in crate::native) fn gives_little(&self, shared: &Shared) -> bool {
        shared.options.overtaking || self.has_several()
    }

    /// True if several connections share what it sends.
    pub(in crate::native) fn has_several(&self) -> bool {
        self.connections > 1 || self.is_by_tunnels()
    }

    fn limit_unsent(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.lanes.iter_mut().filter(|lane| lane.through_a_card).for_each(Lane::limit_unsent);
        state.look_at_link(now);
    }

    /// True if one of its connections is slow.
    fn is_slow(&self) -> bool {
        lock(&self.state).lanes.iter().any(Lane::is_slow)
    }

    /// What the kernel says of each connection; 0: it has no limit.
    #[cfg(test)]
    pub(in crate::native) fn unsent_limits(&self) -> Vec<u32> {
        let state = lock(&self.state);
        let limit = |lane: &Lane| unsent_limit(lane.pipe.socket.as_fd()).unwrap_or(u32::MAX);
        state.lanes.iter().map(limit).collect()
    }
}

impl Lane {
    /// True if the kernel has something of what was written that is not sent yet: what is written
    /// now follows it without a pause. The kernel is asked on slow connections alone, where what
    /// follows what shows what they carry. `idle`: no data are to be written.
    pub(super) fn still_sends(&self, idle: bool) -> bool {
        self.is_slow()
            && !idle
            && tcp_info(self.pipe.socket.as_fd()).is_some_and(|info| info.unsent > 0)
    }

    /// The same, of padding, and on fast connections too: of those nothing else is known. Only
    /// while padding waits in the network: before that it would show how TCP's window grows.
    pub(super) fn still_probes(&self) -> bool {
        let info = self.through_a_card.then(|| tcp_info(self.pipe.socket.as_fd())).flatten();
        info.is_some_and(|info| info.unsent > 0 && info.fills_the_link())
    }

    /// No more fragments are added to a write of that many bytes. What is added is not overtaken,
    /// and takes no other way. So a slow connection has one part that is being written and one that
    /// follows: rounds along trees take 7.0 s then, 7.2 s with twice as much, 7.5 s with four times
    /// as much, and 7.5 s with one part, since nobody sees then what links carry (docs/trees.md).
    /// Of several connections none has more than its kernel takes.
    pub(super) fn batch_bytes(&self, several: bool) -> usize {
        match self.is_slow() {
            true if several => self.unsent.bytes as usize,
            true => SLOW_BATCH,
            false => BATCH_BYTES,
        }
    }

    /// Bytes of a fragment that it takes, at most. A message is there when its last fragment is: so
    /// a slow one of several connections takes little at a time.
    pub(super) fn fragment_most(&self, several: bool) -> usize {
        if several && self.is_slow() { GRANULE } else { usize::MAX }
    }

    /// True if it is known to carry less than 192 Mbit/s through a card.
    fn is_slow(&self) -> bool {
        self.through_a_card && self.unsent.bytes < UNSENT_MAX
    }

    fn limit_unsent(&mut self) {
        let Some(info) = tcp_info(self.pipe.socket.as_fd()) else { return };
        let Some(limit) = self.unsent.news(info.confirmed, info.busy) else { return };
        if limit_unsent(self.pipe.socket.as_fd(), limit).is_ok() {
            self.unsent.bytes = limit;
        }
    }
}

impl UnsentLimit {
    pub(super) const fn new() -> Self {
        Self { bytes: UNSENT_MAX, since: None }
    }

    /// The new limit, if it is another one. `confirmed`, `busy`: bytes and time since the
    /// connection was made.
    fn news(&mut self, confirmed: u64, busy: Duration) -> Option<u32> {
        let (bytes, time) = *self.since.get_or_insert((confirmed, busy));
        let time = busy.saturating_sub(time);
        if time < BUSY_MIN {
            return None;
        }
        self.since = Some((confirmed, busy));
        let limit = limit(confirmed.saturating_sub(bytes), time);
        (limit.abs_diff(self.bytes) > self.bytes / UNSENT_STAYS_WITHIN).then_some(limit)
    }
}

/// What is sent within [`SENT_WITHIN`] by a connection that sent so many bytes in such a time.
fn limit(bytes: u64, time: Duration) -> u32 {
    let sent = u128::from(bytes) * SENT_WITHIN.as_micros() / time.as_micros().max(1);
    u32::try_from(sent).unwrap_or(UNSENT_MAX).clamp(UNSENT_MIN, UNSENT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_connections_have_less() {
        let second = Duration::from_secs(1);
        // 20, 80 and 2,000 Mbit/s.
        assert_eq!(limit(2_500_000, second), UNSENT_MIN);
        assert_eq!(limit(10_000_000, second), 40_000);
        assert_eq!(limit(250_000_000, second), UNSENT_MAX);
        assert_eq!(limit(0, Duration::ZERO), UNSENT_MIN);
    }

    #[test]
    fn only_the_time_counts_in_which_there_was_something_to_send() {
        let ms = Duration::from_millis;
        let mut unsent = UnsentLimit::new();
        assert_eq!(unsent.news(1_000_000, ms(500)), None, "nothing is known before");
        assert_eq!(unsent.news(1_050_000, ms(515)), None, "too short");
        // 100,000 bytes in 20 ms are 5 MB/s.
        assert_eq!(unsent.news(1_100_000, ms(520)), Some(20_000));
        unsent.bytes = 20_000;
        assert_eq!(unsent.news(1_220_000, ms(540)), None, "24,000 is about the same");
        assert_eq!(unsent.news(3_220_000, ms(560)), Some(UNSENT_MAX));
    }
}
