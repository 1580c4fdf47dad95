//! What a node receives in whole seconds: from all peers together, and from each.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{MOST_PEERS, Sample, WINDOWS};
use crate::placement::cost::bytes;
use crate::wire::NodeId;

/// Less than this of a second in use says nothing.
const SHORTEST: Duration = Duration::from_millis(250);

/// One second of this node's clock.
#[derive(Clone, Debug)]
struct Window {
    second: u64,
    first: Duration,
    last: Duration,
    peers: BTreeMap<NodeId, f64>,
}

impl Window {
    /// The seconds from its first byte to its last one.
    const fn used(&self) -> Duration {
        self.last.saturating_sub(self.first)
    }
}

/// The last seconds in which something came from senders that had more.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// In ascending order; the last one may not be over.
    windows: VecDeque<Window>,
}

impl Windows {
    /// Counts what came, spread over the time that it took.
    pub(super) fn add(&mut self, sample: &Sample) {
        if !sample.backlogged || sample.last < sample.first {
            return;
        }
        let amount = bytes(sample.bytes);
        let time = (sample.last - sample.first).as_secs_f64();
        // Of what took longer than all windows only the end counts.
        let oldest = sample.last.as_secs().saturating_sub(WINDOWS as u64);
        for second in sample.first.as_secs().max(oldest)..=sample.last.as_secs() {
            let from = sample.first.max(Duration::from_secs(second));
            let to = sample.last.min(Duration::from_secs(second.saturating_add(1)));
            let part = if time > 0.0 { to.saturating_sub(from).as_secs_f64() / time } else { 1.0 };
            self.count(second, sample.peer, (from, to), amount * part);
        }
    }

    fn count(
        &mut self,
        second: u64,
        peer: NodeId,
        (first, last): (Duration, Duration),
        amount: f64,
    ) {
        let newest = self.windows.back().map_or(0, |window| window.second);
        if second.saturating_add(WINDOWS as u64) < newest {
            return;
        }
        let index = self.windows.partition_point(|window| window.second < second);
        if self.windows.get(index).is_none_or(|window| window.second != second) {
            self.windows.insert(index, Window { second, first, last, peers: BTreeMap::new() });
        }
        if let Some(window) = self.windows.get_mut(index) {
            window.first = window.first.min(first);
            window.last = window.last.max(last);
            if window.peers.len() < MOST_PEERS || window.peers.contains_key(&peer) {
                *window.peers.entry(peer).or_default() += amount;
            }
        }
        // One more than counts, for the one that is not over.
        while self.windows.len() > WINDOWS + 1 {
            self.windows.pop_front();
        }
    }

    /// Those that are over and long enough.
    fn finished(&self, now: Duration) -> impl DoubleEndedIterator<Item = &Window> {
        let over =
            move |window: &&Window| window.second < now.as_secs() && window.used() >= SHORTEST;
        self.windows.iter().filter(over)
    }

    /// The most bytes per second that came in one of them from at least two peers, in how many that was so,
    /// and when the last of them ended.
    pub(super) fn fastest(&self, now: Duration) -> Option<(f64, u32, Duration)> {
        let shared = self.finished(now).filter(|window| window.peers.len() >= 2);
        shared.fold(None, |best, window| {
            let rate = window.peers.values().sum::<f64>() / window.used().as_secs_f64();
            let (fastest, count, _) = best.unwrap_or((0.0, 0, Duration::ZERO));
            Some((rate.max(fastest), count + 1, window.last))
        })
    }

    /// Bytes per second from each peer in the last second that is over, if that was just now.
    pub(super) fn recent(&self, now: Duration) -> BTreeMap<NodeId, f64> {
        let last = self
            .finished(now)
            .next_back()
            .filter(|window| window.second.saturating_add(2) >= now.as_secs());
        let rates = last.map(|window| {
            let used = window.used().as_secs_f64();
            window.peers.iter().map(|(peer, amount)| (*peer, amount / used)).collect()
        });
        rates.unwrap_or_default()
    }
}
