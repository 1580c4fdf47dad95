//! What holds back what a channel sends, and for how long its own card does. The planner takes what
//! went out in that time for what the card carries, and what came from it at other times for what
//! the link to the receiver carries. On a short way the kernel's count is that time: something was
//! on its way, or waited. On a long one it is not: a message of a few bytes is on its way for a
//! whole round trip, and TCP's window needs many round trips until it is as wide as the link. What
//! goes out then says nothing about the link, and if something is limited by it, it limits itself
//! further and further. So there it counts what waits in the kernel all the time, and for what:
//!
//! - TCP's window: that shows nothing.
//! - This end's card, when both windows have room and something waits all the same. All that goes
//!   out then is what the card carries. But how the connections share it says nothing of the links
//!   behind it: each has as much as its window is wide, and over a long way windows stay unequal
//!   for many rounds. (Of three servers one got 14 of a worker's 96 Mbit/s, and was taken for that
//!   slow.)
//! - The link behind: a window is in use, and what is sent waits in the network.
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
/// Fraction. A window has room if no more of what it lets through was confirmed; as
/// [`TcpInfo::uses_window`].
const HAS_ROOM: f64 = 2.0 / 3.0;

/// What a connection that has something to send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionWait {
    /// TCP's window.
    Window,
    /// This end's card.
    Card,
    /// What is behind it.
    Link,
}

/// What a connection had got through at the last look, and its window: what holds it back. One
/// moment does not show it: just after a confirmation much of the window is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    last: Option<(Instant, u64, u64)>,
}

impl WindowUse {
    /// One more look: what this connection waits for, if it has something to send. It is TCP's
    /// window if nothing waits in the network, and the window is in use now, or it was so since the
    /// last look: what was confirmed is what it lets through, or nearly, as it grows. It is the
    /// card if the window has room now, and had so since the last look.
    pub(super) fn look(&mut self, now: Instant, info: &TcpInfo) -> ConnectionWait {
        let window = info.window_bytes();
        let last = self.last.replace((now, info.confirmed, window));
        let part = |way: Duration| {
            let (then, confirmed, before) = last?;
            let passed = now.checked_duration_since(then)?.as_secs_f64();
            let paced = info.pace.map_or(f64::INFINITY, |pace| pace as f64);
            let lets = (before.min(window) as f64 / way.as_secs_f64()).min(paced) * passed;
            Some(info.confirmed.checked_sub(confirmed)? as f64 / lets)
        };
        let late = info.is_late();
        let was_in_use = || part(info.shortest_round_trip?).map(|part| part >= WINDOW_USED);
        let had_room = || part(info.round_trip).is_some_and(|part| part < HAS_ROOM);
        if !late && (info.uses_window() || was_in_use().unwrap_or(true)) {
            ConnectionWait::Window
        } else if !info.uses_window() && had_room() {
            ConnectionWait::Card
        } else {
            ConnectionWait::Link
        }
    }
}

/// What is seen of a channel at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelSeen {
    /// For how long something was on its way, or waited for that, without a pace.
    busy: Duration,
    /// The shortest time to the peer and back, where that is a long one.
    long_way: Option<Duration>,
    /// What it waits for: TCP's window, if some of it does, or nothing waits, as what comes next
    /// will; else the card, if some of it does.
    waits_for: ConnectionWait,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    last: Option<(Instant, ChannelSeen)>,
    /// Since when each look saw something wait, and for the same.
    since: Option<Instant>,
    total: Duration,
}

impl ChannelSeen {
    /// Of these connections, with what each of them waits for. `paced`: for how long they were
    /// paced.
    pub(super) fn of(connections: &[(TcpInfo, ConnectionWait)], paced: Duration) -> Self {
        let infos = || connections.iter().map(|(info, _)| info);
        let shortest = infos().filter_map(|info| info.shortest_round_trip).min();
        let is_long = |way: &Duration| *way * WINDOW_GROWS_IN > UNSENT_LOOK_EVERY;
        let busy = infos().map(|info| info.busy).max().unwrap_or_default();
        let waiting = || connections.iter().filter(|(info, _)| info.unsent > 0);
        let waits = waiting().next().is_some();
        let some = |what| waiting().any(|(_, waits_for)| *waits_for == what);
        // A link that is filled holds back all of them.
        let waits_for = match () {
            () if !waits || some(ConnectionWait::Window) => ConnectionWait::Window,
            () if some(ConnectionWait::Card) => ConnectionWait::Card,
            () => ConnectionWait::Link,
        };
        Self { busy: busy.saturating_sub(paced), long_way: shortest.filter(is_long), waits_for }
    }
}

impl HeldBack {
    /// One more look.
    pub(super) fn look(&mut self, now: Instant, seen: ChannelSeen) {
        let last = self.last.replace((now, seen));
        if let Some((before, last)) = last
            && self.by_card(before, &seen)
        {
            // With new connections the kernel counts anew.
            self.total += seen.busy.saturating_sub(last.busy);
        }
        let same = last.is_some_and(|(_, last)| last.waits_for == seen.waits_for);
        self.since = self.since.filter(|_| same).or(Some(now));
    }

    /// Whether the card held back what was sent since the look before. What was confirmed in that
    /// time left a round trip earlier.
    fn by_card(&self, before: Instant, seen: &ChannelSeen) -> bool {
        let Some(round_trip) = seen.long_way else { return true };
        let all_along = self.since.is_some_and(|since| since + round_trip <= before);
        all_along && seen.waits_for == ConnectionWait::Card
    }

    /// True if what holds it back on a long way is at this end, so that what comes to the receiver
    /// says nothing of the link: unless looks have seen otherwise for a round trip.
    pub(super) fn at_this_end(&self) -> bool {
        let Some((now, seen)) = self.last else { return false };
        let Some(round_trip) = seen.long_way else { return false };
        let by_link = seen.waits_for == ConnectionWait::Link;
        !by_link || self.since.is_none_or(|since| since + round_trip > now)
    }

    /// For how long the card held it back so far; on a short way for how long anything was on its
    /// way.
    pub(super) const fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
