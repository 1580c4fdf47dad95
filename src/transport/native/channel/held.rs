//! For how long the link held back what a channel sends. The planner takes what went out in that
//! time for what the link carries. On a short way the kernel's count is that time: something was on
//! its way, or waited. On a long one it is not: a message of a few bytes is on its way for a whole
//! round trip, and TCP's window needs many round trips until it is as wide as the link. What goes
//! out then says nothing about the link, and if something is limited by it, it limits itself
//! further and further. So on a long way that time counts only while something waits all the time,
//! and neither TCP's window nor a pace is what it waits for.
//!
//! Pure; the time is an argument. `look` is told what the kernel says of the connections.

use std::time::{Duration, Instant};

use super::unsent::UNSENT_LOOK_EVERY;
use crate::sys::tcp::TcpInfo;

/// TCP's window grows from where it begins to what a link needs in so many round trips: it doubles
/// with each, and 10 segments become 10,000. A way is long if that takes longer than the time
/// between two looks.
const WINDOW_GROWS_IN: u32 = 10;
/// Fraction. TCP's window is in use if so much of what it lets through was confirmed: what is
/// confirmed now was sent a round trip before, and the window may have doubled since.
const WINDOW_USED: f64 = 0.5;

/// What a connection had got through at the last look, and its window: whether the window is what
/// holds it back. One moment does not show it: just after a confirmation much of it is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    last: Option<(Instant, u64, u64)>,
}

impl WindowUse {
    /// One more look: true if TCP's window is what this connection waits for. Nothing waits in the
    /// network then, and the window is in use now, or it was so since the last look: what was
    /// confirmed is what it lets through, or nearly, as it grows.
    pub(super) fn holds_back(&mut self, now: Instant, info: &TcpInfo) -> bool {
        let window = info.window_bytes();
        let last = self.last.replace((now, info.confirmed, window));
        if info.is_late() {
            return false;
        }
        let was_in_use = || {
            let (then, confirmed, before) = last?;
            let passed = now.checked_duration_since(then)?.as_secs_f64();
            let lets = before.min(window) as f64 / info.shortest_round_trip?.as_secs_f64() * passed;
            Some(info.confirmed.checked_sub(confirmed)? as f64 >= WINDOW_USED * lets)
        };
        info.uses_window() || was_in_use().unwrap_or(true)
    }
}

/// What is seen of a channel at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// For how long something was on its way, or waited for that, without a pace.
    busy: Duration,
    /// The shortest time to the peer and back, where that is a long one.
    long_way: Option<Duration>,
    /// Something waits in the kernel to be sent.
    waits: bool,
    /// TCP's window is what some of it waits for; or nothing waits, and what comes next will.
    by_window: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldByLink {
    last: Option<(Instant, Seen)>,
    /// Since when each look saw something wait, and not for TCP's window.
    since: Option<Instant>,
    total: Duration,
}

impl Seen {
    /// Of these connections, with whether TCP's window holds each of them back. `paced`: for how
    /// long they were paced.
    pub(super) fn of(connections: &[(TcpInfo, bool)], paced: Duration) -> Self {
        let infos = || connections.iter().map(|(info, _)| info);
        let shortest = infos().filter_map(|info| info.shortest_round_trip).min();
        let is_long = |way: &Duration| *way * WINDOW_GROWS_IN > UNSENT_LOOK_EVERY;
        let busy = infos().map(|info| info.busy).max().unwrap_or_default();
        let waiting = || connections.iter().filter(|(info, _)| info.unsent > 0);
        let waits = waiting().next().is_some();
        Self {
            busy: busy.saturating_sub(paced),
            long_way: shortest.filter(is_long),
            waits,
            // A link that is filled holds back all of them.
            by_window: !waits || waiting().any(|(_, by_window)| *by_window),
        }
    }
}

impl HeldByLink {
    /// One more look.
    pub(super) fn look(&mut self, now: Instant, seen: Seen) {
        let last = self.last.replace((now, seen));
        if let Some((before, last)) = last
            && self.counts(before, &seen)
        {
            // With new connections the kernel counts anew.
            self.total += seen.busy.saturating_sub(last.busy);
        }
        let held = seen.waits && !seen.by_window;
        self.since = held.then(|| self.since.unwrap_or(now));
    }

    /// Whether the link held back what was sent since the look before. What was confirmed in that
    /// time left a round trip earlier.
    fn counts(&self, before: Instant, seen: &Seen) -> bool {
        let Some(round_trip) = seen.long_way else { return true };
        let all_along = self.since.is_some_and(|since| since + round_trip <= before);
        all_along && seen.waits && !seen.by_window
    }

    /// True if TCP's window is what holds it back on a long way: unless looks have seen otherwise
    /// for a round trip.
    pub(super) fn by_window(&self) -> bool {
        let Some((now, seen)) = self.last else { return false };
        let Some(round_trip) = seen.long_way else { return false };
        self.since.is_none_or(|since| since + round_trip > now)
    }

    /// For how long the link held it back so far.
    pub(super) const fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
