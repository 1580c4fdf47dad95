//! How much may be under way to this node from each of those that send much to it at the same time. Left to
//! themselves, TCP connections that share the last link overflow the queue before it, some more often than others, and a
//! worker that lags behind holds up all: a round is over when the slowest has pushed. So each gets a part
//! of what fills the link for a short time (as in ICTCP, CoNEXT 2010, where the receiver sets the windows too): workers
//! the same, and servers more, since what they send are copies, for which all workers wait. The node does so where
//! everybody sends at the same time, on servers: what a worker gets from servers of different rates needs no equal parts.
//!
//! What the link carries is told by its owner (`NativeTransport::set_inflow`). May set options of sockets and ask the kernel
//! how long their round trips are; must not read what came.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Entry, Receiver};
use crate::transport::native::shared::Shared;
use crate::transport::sys::memory::limit_window;
use crate::wire::is_worker;

/// How often it is looked who sends.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Who sent that much between two looks sends much; and counts for that long.
const MUCH: u64 = 256 << 10;
const REMEMBERED: Duration = Duration::from_secs(5);
/// What may be under way in all fills the link for so long, beyond two round trips.
const UNDER_WAY: Duration = Duration::from_millis(20);
/// The part of a server, by that of a worker, of what all may have. Its copies are fewer than what a worker pushes, so it uses it
/// for short times only, but then it must not fall behind: the queue at its own end makes its way longer than theirs. A
/// slow one cannot use it at all: so workers share what fills the link among themselves, and it comes on top. (Else the
/// link would not be filled, and be taken for a slower one, and all get less.)
const SERVERS: u64 = 4;
/// No connection may have less under way, or a few lost packets would stop it.
const LEAST: u32 = 32 << 10;
const MOST: u64 = 1 << 30;
/// A window that would change by less than one part in so many stays.
const STEP: u32 = 8;

/// What a connection brought lately, and its window.
#[derive(Debug, Default)]
pub(super) struct Inflow {
    /// Bytes of data since the last look.
    pub(super) bytes: u64,
    /// When it last brought much.
    much: Option<Instant>,
    /// What it may have under way.
    window: Option<u32>,
}

impl Inflow {
    fn sends_much(&self, now: Instant) -> bool {
        self.much.is_some_and(|at| now.saturating_duration_since(at) < REMEMBERED)
    }
}

impl Receiver {
    /// Sets the windows anew, if it is time.
    pub(super) fn set_windows(&mut self, now: Instant, shared: &Shared) {
        if now.saturating_duration_since(self.windows_looked) < LOOK_EVERY {
            return;
        }
        self.windows_looked = now;
        let rate = shared.inflow.load(Relaxed);
        let (mut senders, mut parts, mut of_workers) = (0, 0, 0);
        for connection in self.connections.values_mut() {
            let inflow = &mut connection.inflow;
            if std::mem::take(&mut inflow.bytes) >= MUCH {
                inflow.much = Some(now);
            }
            if connection.pipe.ring().is_none() && inflow.sends_much(now) {
                senders += 1;
                let is_worker = is_a_worker(connection.session, &self.sessions);
                of_workers += u64::from(is_worker);
                parts += if is_worker { 1 } else { SERVERS };
            }
        }
        let Self { connections, sessions, .. } = self;
        for connection in connections.values_mut().filter(|c| c.pipe.ring().is_none()) {
            let shares = rate > 0 && senders > 1 && connection.inflow.sends_much(now);
            let round_trip = || {
                let link = sessions.get(&connection.session)?.reverse.as_ref()?;
                link.shortest_round_trip()
            };
            let window = if shares {
                // Of one whose way is not known the kernel decides, or keeps what was decided.
                let Some(round_trip) = round_trip() else { continue };
                let is_worker = is_a_worker(connection.session, sessions);
                let part = if is_worker { (1, of_workers) } else { (SERVERS, parts) };
                Some(window(rate, part, round_trip))
            } else {
                None
            };
            if is_news(connection.inflow.window, window)
                && limit_window(connection.pipe.socket.as_fd(), window).is_ok()
            {
                connection.inflow.window = window;
                if let Some(entry) = sessions.get(&connection.session) {
                    entry.receipt.limits(window);
                }
            }
        }
    }
}

fn is_a_worker(session: (u64, u32), sessions: &BTreeMap<(u64, u32), Entry>) -> bool {
    let node = sessions.get(&session).and_then(|entry| entry.session.node);
    node.is_some_and(is_worker)
}

/// So many parts of all of what fills a link of that rate.
fn window(rate: u64, (own, all): (u64, u64), round_trip: Duration) -> u32 {
    let time = UNDER_WAY + 2 * round_trip;
    let fills = u128::from(rate) * time.as_micros() / 1_000_000;
    let each = fills * u128::from(own) / u128::from(all.max(1));
    let each = u64::try_from(each).unwrap_or(MOST).min(MOST);
    u32::try_from(each).unwrap_or(u32::MAX).max(LEAST)
}

fn is_news(old: Option<u32>, new: Option<u32>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.abs_diff(new) > old / STEP,
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_what_fills_the_link() {
        let near = Duration::from_micros(100);
        assert_eq!(window(62_500_000, (1, 5), near), 252_500);
        assert_eq!(window(62_500_000, (4, 8), near), 631_250);
        assert_eq!(window(6_250_000, (1, 5), near), LEAST);
        // A long way needs more.
        assert_eq!(window(62_500_000, (1, 5), Duration::from_millis(40)), 1_250_000);
        assert_eq!(window(u64::MAX, (1, 1), Duration::from_secs(1000)), 1 << 30);
        assert_eq!(window(0, (0, 0), near), LEAST);
    }

    #[test]
    fn small_changes_are_none() {
        assert!(is_news(None, Some(1)) && is_news(Some(1), None) && !is_news(None, None));
        assert!(!is_news(Some(800), Some(900)) && !is_news(Some(800), Some(700)));
        assert!(is_news(Some(800), Some(901)) && is_news(Some(800), Some(699)));
    }
}
