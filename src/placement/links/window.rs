//! What a node receives in short windows of time: from all peers together, and from each. Only such windows
//! count in which senders had more to send all the time: otherwise it was they who decided how much came.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::rates::{COVERED, Of, Rates};
use super::{MOST_PEERS, Sample, WINDOW, WINDOWS};
use crate::placement::cost::bytes;
use crate::wire::{NodeId, is_worker};

/// Windows that a sample may still add to: slow parts of messages are told of when they are complete.
const OPEN: usize = 8;
/// After a pause as long as this the sender cannot have been sending all the time (as in `link`).
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What came from one peer in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: f64,
    /// Seconds for which the peer had more to send.
    covered: f64,
}

impl Amount {
    fn is_full(&self) -> bool {
        self.covered >= COVERED * WINDOW.as_secs_f64()
    }
}

#[derive(Clone, Debug)]
struct Window {
    number: u64,
    peers: BTreeMap<NodeId, Amount>,
}

impl Window {
    /// Bytes that came.
    fn amount(&self) -> f64 {
        self.peers.values().map(|amount| amount.bytes).sum()
    }

    /// Bytes per second that came, if at least two of the peers that count had more to send all the time.
    fn rate(&self, counts: impl Fn(NodeId) -> bool) -> Option<f64> {
        let full = self.peers.iter().filter(|(peer, amount)| counts(**peer) && amount.is_full());
        let full = full.count();
        (full >= 2).then(|| self.amount() / WINDOW.as_secs_f64())
    }

    fn end(&self) -> Duration {
        start_of(self.number.saturating_add(1))
    }
}

/// The last windows, by this node's clock.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Of a worker: the fastest ones of some time count, not the last ones; and servers count as peers, not
    /// workers.
    worker: bool,
    /// In ascending order; the last one may not be over.
    open: VecDeque<Window>,
    /// Of those that counted.
    rates: Rates,
    /// Up to when each peer that has more to send has been counted.
    ends: BTreeMap<NodeId, Duration>,
}

impl Windows {
    /// Of a worker, which exchanges with servers of very different rates; or of a server, whose workers are all
    /// there at the same time. (What another server sends it is bounded by what that one can.)
    pub(super) const fn new(worker: bool) -> Self {
        let rates = Rates::new(if worker { Of::Memory } else { Of::Last(WINDOWS) });
        Self { worker, open: VecDeque::new(), rates, ends: BTreeMap::new() }
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.ends.remove(&peer);
    }

    /// Counts what came, spread over the time that it took.
    pub(super) fn add(&mut self, sample: &Sample) {
        if sample.last < sample.first {
            return;
        }
        let follows = |end: &Duration| {
            *end <= sample.last && sample.first <= end.saturating_add(LONGEST_PAUSE)
        };
        let before = self.ends.remove(&sample.peer).filter(follows);
        let first = before.unwrap_or(sample.first);
        if sample.backlogged && self.ends.len() < MOST_PEERS {
            self.ends.insert(sample.peer, sample.last);
        }
        // The pause before it, and the time that it took, belong to the link if the sender had more then.
        let covered = sample.backlogged || before.is_some();
        self.spread(sample, first, covered);
    }

    fn spread(&mut self, sample: &Sample, first: Duration, covered: bool) {
        let time = sample.last.saturating_sub(first).as_secs_f64();
        let (begin, end) = (number_of(first), number_of(sample.last));
        // Of what took longer than all open windows only the end counts.
        for number in begin.max(end.saturating_sub(OPEN as u64))..=end {
            let from = first.max(start_of(number));
            let to = sample.last.min(start_of(number.saturating_add(1)));
            let inside = to.saturating_sub(from).as_secs_f64();
            let part = if time > 0.0 { inside / time } else { 1.0 };
            let covered = if covered { inside } else { 0.0 };
            self.count(number, sample.peer, bytes(sample.bytes) * part, covered);
        }
    }

    fn count(&mut self, number: u64, peer: NodeId, amount: f64, covered: f64) {
        let newest = self.open.back().map_or(0, |window| window.number);
        if number.saturating_add(OPEN as u64) < newest {
            return;
        }
        let index = self.open.partition_point(|window| window.number < number);
        if self.open.get(index).is_none_or(|window| window.number != number) {
            self.open.insert(index, Window { number, peers: BTreeMap::new() });
        }
        if let Some(window) = self.open.get_mut(index)
            && (window.peers.len() < MOST_PEERS || window.peers.contains_key(&peer))
        {
            let counted = window.peers.entry(peer).or_default();
            counted.bytes += amount;
            counted.covered += covered;
        }
        while self.open.len() > OPEN + 1 {
            if let Some(window) = self.open.pop_front() {
                let rate = window.rate(|peer| self.counts(peer));
                self.rates.add(window.end(), window.amount(), rate);
            }
        }
    }

    /// Whether that peer shows what this node can receive.
    const fn counts(&self, peer: NodeId) -> bool {
        is_worker(peer) != self.worker
    }

    /// Those that are over.
    fn finished(&self, now: Duration) -> impl DoubleEndedIterator<Item = &Window> {
        self.open.iter().filter(move |window| window.end() <= now)
    }

    /// Bytes per second that came in the faster ones of those that count, how many these are, and when the
    /// last of them ended. One in four may be faster: what had lain in buffers.
    pub(super) fn fastest(&self, now: Duration) -> Option<(f64, u32, Duration)> {
        let open = self
            .finished(now)
            .filter_map(|window| Some((window.end(), window.rate(|peer| self.counts(peer))?)));
        self.rates.upper_quartile(open)
    }

    /// Bytes from each peer in the last second that is over, if it had more to send for half of that.
    pub(super) fn recent(&self, now: Duration) -> BTreeMap<NodeId, f64> {
        const SECOND: Duration = Duration::from_secs(1);
        let since = now.saturating_sub(SECOND);
        let mut sums = BTreeMap::<NodeId, (f64, Duration)>::new();
        for window in self.finished(now).filter(|window| window.end() > since) {
            for (peer, amount) in &window.peers {
                let (bytes, full) = sums.entry(*peer).or_default();
                *bytes += amount.bytes;
                *full += if amount.is_full() { WINDOW } else { Duration::ZERO };
            }
        }
        let half = |(bytes, full): (f64, Duration)| (full * 2 >= SECOND).then_some(bytes);
        sums.into_iter().filter_map(|(peer, sum)| Some((peer, half(sum)?))).collect()
    }
}

/// The window in which that time lies.
fn number_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX)
}

/// When a window begins.
fn start_of(number: u64) -> Duration {
    WINDOW.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX))
}
