//! Limits how many bytes may be on their way to this node from each peer, when several send much to
//! it at the same time. Without a limit, TCP connections that share the last link overflow the
//! queue before it, some more often than others, and a slow worker holds up all: a round ends when
//! the slowest has pushed. So each gets a share of what fills the link for a short time (as in
//! ICTCP, CoNEXT 2010, where the receiver sets the windows too). Workers get equal shares. Servers
//! get enough not to be held back: they send copies, for which all workers wait. A node does this
//! only where everybody sends at the same time, on servers: what a worker gets from servers of
//! different rates needs no equal shares. Between processes of one host there is no link to share.
//!
//! The rate that the windows come from is measured while they hold. So they must let more through
//! than was measured, or each look would make them smaller (docs/placement.md, "What may be under
//! way"). They do: what fills the link for two round trips is twice what it carries in one. But
//! only if all of it can be used: a peer's share goes to those of its connections that bring
//! something, and the others count for nothing.
//!
//! The link's owner says what the link carries (`NativeTransport::set_inflow`). May set socket
//! options and ask the kernel for round-trip times; must not read what came.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Entry, InConnection, Receiver};
use crate::native::shared::Shared;
use crate::sys::tcp::limit_window;
use pslite_core::wire::is_worker;

/// The time between two looks at which peers send.
const SENDERS_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Who sent that much between two looks sends much; and counts for so many looks at which anybody
/// did. A rest of the job changes nothing: if all began without windows after it, their first burst
/// would overflow the queue.
const BUSY_SENDER_BYTES: u64 = 256 << 10;
const REMEMBERED: u64 = 50;
/// A connection that brought that much between two looks is in use, and for so many looks at which
/// anybody sent much.
const LANE_BYTES: u64 = 8 << 10;
const LANE_REMEMBERED: u64 = 10;
/// What may be under way in all fills the link for so long, beyond two round trips.
const UNDER_WAY: Duration = Duration::from_millis(20);
/// The same for each server, shared by its connections, on top of what workers share. Its copies
/// are fewer than what workers push, but they must not fall behind, and their way is longer: they
/// leave through a queue that the answers to pulls fill, and are confirmed through another one.
/// (Measured in the lab: 47 ms for copies where pushes took 24. A window of a part of `UNDER_WAY`
/// let them through at half of the rate at which they were made, and each round waited for them.)
const UNDER_WAY_OF_SERVERS: Duration = Duration::from_millis(60);
/// No connection may have less under way, or a few lost packets would stop it.
const WINDOW_MIN: u32 = 32 << 10;
const WINDOW_MAX: u64 = 1 << 30;
/// A window that would change by less than one part in so many stays.
const WINDOW_STAYS_WITHIN: u32 = 8;

/// What came lately: of a sender over all its connections over TCP, since of four that share a slow
/// link none brings much; and of one of these.
#[derive(Debug, Default)]
pub(super) struct Inflow {
    /// Bytes of data since the last look.
    pub(super) bytes: u64,
    /// The look at which they last had brought much; and whether that was the last time that
    /// anybody looked.
    much: Option<u64>,
    brings: bool,
}

impl Inflow {
    /// Counts what came since the look before that one. True if it was that much.
    fn look(&mut self, look: u64, much: u64) -> bool {
        self.brings = std::mem::take(&mut self.bytes) >= much;
        if self.brings {
            self.much = Some(look);
        }
        self.brings
    }

    fn sends_much(&self, look: u64) -> bool {
        self.brought_within(look, REMEMBERED)
    }

    fn brought_within(&self, look: u64, looks: u64) -> bool {
        self.much.is_some_and(|at| look - at < looks)
    }
}

/// The peers that share the link now.
#[derive(Clone, Copy)]
struct Sharing {
    /// Bytes per second; 0 where nobody knows.
    rate: u64,
    look: u64,
    senders: usize,
    workers: u64,
}

impl Sharing {
    /// What each of a sender's connections may have under way; `Some(None)` if the kernel decides,
    /// `None` if nothing is to change.
    fn window(self, entry: &Entry) -> Option<Option<u32>> {
        if self.rate == 0 || self.senders < 2 || !entry.inflow.sends_much(self.look) {
            return Some(None);
        }
        // Of one whose way is not known the kernel decides, or keeps what was decided.
        let round_trip = entry.reverse.as_ref()?.shortest_round_trip()?;
        Some(Some(self.window_of(entry.is_a_worker(), round_trip, entry.lanes_in_use)))
    }

    /// What each connection of such a sender may have under way.
    fn window_of(self, is_a_worker: bool, round_trip: Duration, lanes_in_use: u64) -> u32 {
        let (time, sharers) = match is_a_worker {
            true => (UNDER_WAY, self.workers),
            false => (UNDER_WAY_OF_SERVERS, 1),
        };
        window(self.rate, time + 2 * round_trip, sharers * lanes_in_use.max(1))
    }
}

impl Receiver {
    /// Sets the windows anew, if it is time.
    pub(super) fn set_windows(&mut self, now: Instant, shared: &Shared) {
        if now.saturating_duration_since(self.windows_looked) < SENDERS_LOOK_EVERY {
            return;
        }
        self.windows_looked = now;
        let sharing = self.sharing(shared.inflow.load(Relaxed));
        self.count_lanes(sharing.look);
        let Self { connections, sessions, .. } = self;
        for connection in connections.values_mut().filter(through_a_card) {
            let Some(entry) = sessions.get(&connection.session) else { continue };
            let Some(window) = sharing.window(entry) else { continue };
            if is_news(connection.window, window) && connection.limit(window) {
                connection.window = window;
                entry.receipt.limits(window);
            } else if connection.window.is_some() && entry.inflow.brings {
                // When the sizes of packets change, newer kernels take a limit back by themselves
                // (tcp_measure_rcv_mss in net/ipv4/tcp_input.c; seen with 6.18): for one worker out
                // of four, and each round waits for the others.
                connection.limit(connection.window);
            }
        }
    }

    /// Counts which connections bring what their peers send.
    fn count_lanes(&mut self, look: u64) {
        let Self { connections, sessions, .. } = self;
        sessions.values_mut().for_each(|entry| entry.lanes_in_use = 0);
        for connection in connections.values_mut() {
            connection.inflow.look(look, LANE_BYTES);
            if connection.inflow.brought_within(look, LANE_REMEMBERED)
                && let Some(entry) = sessions.get_mut(&connection.session)
            {
                entry.lanes_in_use += 1;
            }
        }
    }

    /// Finds the peers that sent much, on a link of that rate.
    fn sharing(&mut self, rate: u64) -> Sharing {
        let next = self.windows_look + 1;
        let mut news = false;
        for entry in self.sessions.values_mut() {
            news |= entry.inflow.look(next, BUSY_SENDER_BYTES);
        }
        self.windows_look += u64::from(news);
        let look = self.windows_look;
        let much = || self.sessions.values().filter(|entry| entry.inflow.sends_much(look));
        let workers = much().filter(|entry| entry.is_a_worker()).count() as u64;
        Sharing { rate, look, senders: much().count(), workers }
    }
}

impl Entry {
    fn is_a_worker(&self) -> bool {
        self.session.node.is_some_and(is_worker)
    }
}

impl InConnection {
    fn limit(&self, window: Option<u32>) -> bool {
        limit_window(self.pipe.socket.as_fd(), window).is_ok()
    }
}

/// True if its data come through a network card, in front of which a queue can overflow.
fn through_a_card(connection: &&mut InConnection) -> bool {
    connection.through_a_card
}

/// What fills a link of that rate for so long, for one of those who share it.
fn window(rate: u64, time: Duration, sharers: u64) -> u32 {
    let fills = u128::from(rate) * time.as_micros() / 1_000_000;
    let each = fills / u128::from(sharers.max(1));
    let each = u64::try_from(each).unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
    u32::try_from(each).unwrap_or(u32::MAX).max(WINDOW_MIN)
}

fn is_news(old: Option<u32>, new: Option<u32>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.abs_diff(new) > old / WINDOW_STAYS_WITHIN,
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_what_fills_the_link() {
        let near = UNDER_WAY + Duration::from_micros(200);
        assert_eq!(window(62_500_000, near, 5), 252_500);
        assert_eq!(window(62_500_000, UNDER_WAY_OF_SERVERS, 1), 3_750_000);
        assert_eq!(window(6_250_000, near, 5), WINDOW_MIN);
        // A long way needs more.
        assert_eq!(window(62_500_000, UNDER_WAY + Duration::from_millis(80), 5), 1_250_000);
        assert_eq!(window(u64::MAX, Duration::from_secs(2000), 1), 1 << 30);
        assert_eq!(window(0, UNDER_WAY, 0), WINDOW_MIN);
    }

    /// Plays what the windows let through and what is measured then, in turn; all is bytes and
    /// seconds. `workers` send over so many connections each, of which so many are in use, and
    /// `counted` of them are taken to be. What is measured after some looks, as a part of what the
    /// link carries.
    fn played(workers: u64, round_trip: Duration, in_use: u64, counted: u64) -> f64 {
        const LINK: f64 = 25e6;
        let mut rate = LINK;
        for look in 0..100 {
            let sharing = Sharing { rate: rate as u64, look, senders: 2, workers };
            let window = f64::from(sharing.window_of(true, round_trip, counted));
            let under_way = window * (workers * in_use) as f64;
            rate = LINK.min(under_way / round_trip.as_secs_f64());
        }
        rate / LINK
    }

    /// What holds senders back must not hold itself back: however long the way, and however many
    /// connections there are, what is measured through the windows stays what the link carries.
    #[test]
    fn windows_do_not_feed_on_themselves() {
        for (workers, ms) in [2, 5, 16].into_iter().flat_map(|n| [1, 10, 80, 300].map(|ms| (n, ms)))
        {
            for in_use in 1..=16 {
                let left = played(workers, Duration::from_millis(ms), in_use, in_use);
                assert!(left > 0.999, "{workers} workers, {ms} ms, {in_use}: {left}");
            }
        }
        // What was once so: a share for each of eight connections where one or two were in use. No
        // way within a room shows it.
        let few = |ms, in_use| played(2, Duration::from_millis(ms), in_use, 8);
        assert!(few(1, 1) > 0.999 && few(80, 1) < 0.04 && few(80, 2) < 0.07, "{}", few(80, 2));
    }

    /// A connection is in use for some looks after it brought something; a rest of all is none.
    #[test]
    fn a_connection_in_use_is_remembered_for_a_while() {
        let mut inflow = Inflow::default();
        let mut brings = |bytes, look| {
            inflow.bytes = bytes;
            inflow.look(look, LANE_BYTES);
            inflow.brought_within(look, LANE_REMEMBERED)
        };
        assert!(!brings(LANE_BYTES - 1, 5), "next to nothing");
        assert!(brings(LANE_BYTES, 5) && (0..9).all(|_| brings(0, 5)), "the job rests");
        assert!((6..15).all(|look| brings(0, look)) && !brings(0, 15));
    }

    #[test]
    fn small_changes_are_none() {
        assert!(is_news(None, Some(1)) && is_news(Some(1), None) && !is_news(None, None));
        assert!(!is_news(Some(800), Some(900)) && !is_news(Some(800), Some(700)));
        assert!(is_news(Some(800), Some(901)) && is_news(Some(800), Some(699)));
    }
}
