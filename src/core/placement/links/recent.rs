//! What each peer sent in the last second, if it had more to send for half of that.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::MOST_PEERS;
use super::backlog_spans::BacklogSpan;
use crate::placement::tuning::{RECENT_WINDOWS, WINDOW, WINDOW_COVERED};
use crate::wire::NodeId;

const SECOND: Duration = Duration::from_secs(1);

/// What came from one peer in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: f64,
    /// Seconds for which the peer had more to send.
    backlogged: f64,
}

/// See the module. By windows, in ascending order of their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    windows: VecDeque<(u64, BTreeMap<NodeId, Amount>)>,
}

impl Recent {
    /// Something came.
    pub(super) fn add(&mut self, span: &BacklogSpan) {
        let (begin, end) = (number_of(span.first), number_of(span.last));
        for number in begin.max(end.saturating_sub(RECENT_WINDOWS))..=end {
            let (inside, bytes) = span.inside(start_of(number), start_of(number.saturating_add(1)));
            let Some(peers) = self.window(number) else { continue };
            if peers.len() < MOST_PEERS || peers.contains_key(&span.peer) {
                let amount = peers.entry(span.peer).or_default();
                amount.bytes += bytes;
                amount.backlogged += if span.backlogged { inside } else { 0.0 };
            }
        }
    }

    /// None: it is too old.
    fn window(&mut self, number: u64) -> Option<&mut BTreeMap<NodeId, Amount>> {
        let newest = self.windows.back().map_or(number, |(newest, _)| *newest).max(number);
        let is_old = |number: u64| number.saturating_add(RECENT_WINDOWS) < newest;
        while self.windows.front().is_some_and(|(front, _)| is_old(*front)) {
            self.windows.pop_front();
        }
        if is_old(number) {
            return None;
        }
        let index = self.windows.partition_point(|(other, _)| *other < number);
        if self.windows.get(index).is_none_or(|(other, _)| *other != number) {
            self.windows.insert(index, (number, BTreeMap::new()));
        }
        self.windows.get_mut(index).map(|(_, peers)| peers)
    }

    /// Bytes from all peers together in the last second that is over.
    pub(super) fn all_of_second(&self, now: Duration) -> f64 {
        let of_window = |peers: &BTreeMap<NodeId, Amount>| -> f64 {
            peers.values().map(|amount| amount.bytes).sum()
        };
        self.of_last_second(now).map(of_window).sum()
    }

    /// The windows of the last second that are over.
    fn of_last_second(&self, now: Duration) -> impl Iterator<Item = &BTreeMap<NodeId, Amount>> {
        let since = now.saturating_sub(SECOND);
        let over = move |number: u64| {
            let end = start_of(number.saturating_add(1));
            since < end && end <= now
        };
        self.windows.iter().filter(move |(number, _)| over(*number)).map(|(_, peers)| peers)
    }

    /// Bytes from each peer in the last second that is over, if it had more to send for half of
    /// that.
    pub(super) fn of_second(&self, now: Duration) -> BTreeMap<NodeId, f64> {
        let mut sums = BTreeMap::<NodeId, (f64, Duration)>::new();
        for peers in self.of_last_second(now) {
            for (peer, amount) in peers {
                let (bytes, full) = sums.entry(*peer).or_default();
                *bytes += amount.bytes;
                let is_full = amount.backlogged >= WINDOW_COVERED * WINDOW.as_secs_f64();
                *full += if is_full { WINDOW } else { Duration::ZERO };
            }
        }
        let half = |(bytes, full): (f64, Duration)| (full * 2 >= SECOND).then_some(bytes);
        sums.into_iter().filter_map(|(peer, sum)| Some((peer, half(sum)?))).collect()
    }
}

/// The window in which that time lies.
fn number_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// When a window begins.
fn start_of(number: u64) -> Duration {
    WINDOW.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX))
}
