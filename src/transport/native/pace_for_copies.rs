//! Paces a server's answers to workers, so that its copies get through. All workers wait for
//! copies: a round counts once it is copied (docs/elastic.md, "Replicas"). Without pacing, the
//! connections to four workers take four fifths of the link for values of past rounds, and the
//! copies fall further and further behind. So while copies are short of room, the connections to
//! workers get only what the copies leave over. The kernel does the pacing.
//!
//! What is sent under a pace says nothing of the link, so the pace must not rest on it: the time
//! under a pace does not count in what the link is measured to carry (`channel/held`), and on a way
//! that is longer than the time between two looks no pace is so slow that less than what TCP sends
//! at once goes out in a round trip. What copies get is only seen a round trip later, so looks are
//! that far apart.
//!
//! The link's owner says what the link carries (`NativeTransport::set_outflow`). Part of the I/O
//! thread; may set socket options and ask the kernel what was confirmed; must not touch what is
//! sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::plane::Plane;
use crate::sys::tcp::INITIAL_WINDOW;
use pslite_core::wire::is_worker;

/// The time between two looks at what copies get, unless their way to a server and back is longer.
pub(super) const COPIES_LOOK_EVERY: Duration = Duration::from_millis(25);
/// Copies that found room at so many looks have caught up.
const CAUGHT_UP: u32 = 3;
/// Copies are left a part more than they have been getting, so that they can get more: they find
/// their share in a few looks. If something else than this link holds them back, only that part
/// stays unused.
const AHEAD: f64 = 1.3;
/// What workers get at least, as a part of the link: a copy may never get through.
const WORKERS_SHARE_MIN: f64 = 0.1;
/// How much the last look counts in what copies get.
const NEWEST: f64 = 0.3;

/// See the module.
#[derive(Debug)]
pub(super) struct PaceForCopies {
    looked: Instant,
    /// The time until the next look.
    every: Duration,
    /// What servers had confirmed at the last look, in bytes, by channel.
    confirmed: BTreeMap<u32, u64>,
    /// What copies get, in bytes per second.
    copies: f64,
    /// When copies last found no room.
    behind: Option<Instant>,
}

impl PaceForCopies {
    pub(super) const fn new(now: Instant) -> Self {
        let every = COPIES_LOOK_EVERY;
        Self { looked: now, every, confirmed: BTreeMap::new(), copies: 0.0, behind: None }
    }

    /// When `look` must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.behind.map(|_| self.looked + self.every)
    }

    /// Paces the connections to workers, or no longer, if it is time.
    pub(super) fn look(&mut self, now: Instant, plane: &Plane) {
        let passed = now.saturating_duration_since(self.looked);
        let rate = plane.shared().outflow.load(Relaxed);
        if passed < self.every || rate == 0 && self.behind.is_none() {
            return;
        }
        self.looked = now;
        let channels = plane.all_channels();
        let (workers, servers): (Vec<_>, Vec<_>) =
            channels.iter().partition(|channel| is_worker(channel.key.load(Relaxed)));
        self.note_copies(&servers, passed);
        if servers.iter().any(|channel| channel.is_behind()) {
            self.behind = Some(now);
        }
        let recently = |at: Instant| now.saturating_duration_since(at) < self.every * CAUGHT_UP;
        if self.behind.is_some_and(recently) && rate > 0 {
            let takers = workers.iter().filter(|channel| channel.is_behind()).count();
            let each = left_for_workers(rate as f64, self.copies) / takers.max(1) as f64;
            workers.iter().for_each(|channel| channel.pace(Some(each as u32)));
        } else if self.behind.take().is_some() {
            workers.iter().for_each(|channel| channel.pace(None));
        }
    }

    /// What went to other servers since the last look.
    fn note_copies(&mut self, servers: &[&Arc<Channel>], passed: Duration) {
        let sent: Vec<_> = servers
            .iter()
            .filter_map(|channel| Some((channel.number, channel.sent_over_tcp()?)))
            .collect();
        let farthest = sent.iter().filter_map(|(_, sent)| sent.round_trip).max();
        self.every = COPIES_LOOK_EVERY.max(farthest.unwrap_or_default());
        let confirmed: BTreeMap<u32, u64> =
            sent.iter().map(|(number, sent)| (*number, sent.bytes)).collect();
        let news = confirmed.iter().filter_map(|(channel, bytes)| {
            // Of one with new connections nothing is known yet.
            bytes.checked_sub(*self.confirmed.get(channel)?)
        });
        let newest = news.sum::<u64>() as f64 / passed.as_secs_f64();
        self.copies += NEWEST * (newest - self.copies);
        self.confirmed = confirmed;
    }
}

/// Bytes per second that a pace lets through at least, over a way that takes so long, in segments
/// of that many bytes: what TCP sends before anything is confirmed, in each round trip. 0 where a
/// look sees what a pace does.
pub(super) fn least_pace(round_trip: Duration, segment: u32) -> u32 {
    if round_trip <= COPIES_LOOK_EVERY {
        return 0;
    }
    let bytes = f64::from(segment.saturating_mul(INITIAL_WINDOW));
    (bytes / round_trip.as_secs_f64()) as u32
}

/// Bytes per second that answers to workers may take of a link of that rate.
fn left_for_workers(rate: f64, copies: f64) -> f64 {
    (rate - AHEAD * copies).max(WORKERS_SHARE_MIN * rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However little a link seems to carry, a round trip has what TCP sends at once. On a short
    /// way the pace is what it is.
    #[test]
    fn no_pace_holds_back_what_a_round_trip_takes() {
        let ms = Duration::from_millis;
        assert_eq!(least_pace(Duration::from_micros(50), 1448), 0);
        assert_eq!(least_pace(COPIES_LOOK_EVERY, 1448), 0);
        for round_trip in [40, 80, 300].map(ms) {
            let sent = f64::from(least_pace(round_trip, 1448)) * round_trip.as_secs_f64();
            assert!((14_000.0..14_481.0).contains(&sent), "{round_trip:?}: {sent}");
        }
        assert_eq!(least_pace(ms(80), u32::MAX), (f64::from(u32::MAX) / 0.08) as u32);
    }

    #[test]
    fn workers_get_what_copies_leave() {
        assert_eq!(left_for_workers(100.0, 0.0), 100.0);
        assert!((left_for_workers(100.0, 20.0) - 74.0).abs() < 1e-9);
        assert_eq!(left_for_workers(100.0, 90.0), 10.0);
        // A link of 100, and copies that take what they are left: they have caught up soon.
        let mut copies = 20.0;
        for _ in 0..20 {
            copies = 100.0 - left_for_workers(100.0, copies);
        }
        assert_eq!(copies, 90.0);
    }
}
