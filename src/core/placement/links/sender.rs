//! What a node can send to all peers together, as its own end sees it: receivers see what comes to
//! them, but not that the rest went to somebody else.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::estimate::confidence;
use super::rates::{LinkRates, Of};
use super::{Estimate, MOST_PEERS};
use crate::placement::cost::bytes;
use crate::placement::tuning::{SERVER_WINDOWS, WINDOW, WINDOW_COVERED, WINDOW_MAX};
use crate::wire::{NodeId, is_worker};

const SECOND: Duration = Duration::from_secs(1);

/// What went to one peer over all connections that there are to it, since these were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes that the peer has confirmed.
    pub bytes: u64,
    /// Bytes of probes that were sent; they may not be confirmed yet.
    pub padding: u64,
    /// For how long something was on its way, or waited for that.
    pub busy: Duration,
    /// For how long the link held back what waited. Over a long way that is less: a few bytes are
    /// on their way for a whole round trip.
    pub held: Duration,
    /// The shortest time to the peer and back, if it is known.
    pub round_trip: Option<Duration>,
    /// After so long without a confirmation it is no chance any more that there is none: what gets
    /// lost on a long way is confirmed late.
    pub patience: Duration,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Of a worker: its peers are servers.
    worker: bool,
    before: BTreeMap<NodeId, Sent>,
    looked: Duration,
    rates: LinkRates,
    total: u64,
    exchanged: u64,
    /// The last looks: the time since the one before, and what went out.
    looks: VecDeque<(Duration, u64)>,
    /// The most of what went out in a second, in bytes per second, since somebody asked.
    carried: f64,
}

impl Sender {
    /// Has sent nothing yet.
    #[must_use]
    pub const fn new(node: NodeId, now: Duration) -> Self {
        let worker = is_worker(node);
        let of = if worker { Of::Memory } else { Of::Last(SERVER_WINDOWS) };
        Self {
            worker,
            before: BTreeMap::new(),
            looked: now,
            rates: LinkRates::new(of),
            total: 0,
            exchanged: 0,
            looks: VecDeque::new(),
            carried: 0.0,
        }
    }

    /// Whether it is time to look again.
    #[must_use]
    pub fn wants_look(&self, now: Duration) -> bool {
        now.saturating_sub(self.looked) >= WINDOW
    }

    /// What went to each peer so far. Counts if the link held back what at least two were to be
    /// sent all the time since the last look: of a server two workers, since another server that is
    /// sent copies may be a slow one. `down`: what it can receive, by now.
    ///
    /// Gives whether that counts.
    pub fn sent(&mut self, now: Duration, sent: BTreeMap<NodeId, Sent>, down: Option<f64>) -> bool {
        let passed = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        let (mut sum, mut full) = (0, 0);
        for (peer, now) in sent.iter().take(MOST_PEERS) {
            // Of one with new connections nothing is known yet.
            let Some(before) = self.before.get(peer) else { continue };
            let more = now.bytes.checked_sub(before.bytes);
            let Some((more, held)) = more.zip(now.held.checked_sub(before.held)) else { continue };
            sum += more;
            let counts = is_worker(*peer) != self.worker;
            let padding = before.padding.abs_diff(now.padding);
            let data = if counts { more.saturating_sub(padding) } else { 0 };
            self.exchanged = self.exchanged.saturating_add(data);
            full += usize::from(counts && held >= passed.mul_f64(WINDOW_COVERED));
        }
        self.before = sent;
        self.total = self.total.saturating_add(sum);
        self.note_carried(passed, sum);
        let counts = full >= 2 && sum > 0 && (WINDOW..WINDOW_MAX).contains(&passed);
        let rate = counts.then(|| bytes(sum) / passed.as_secs_f64());
        // A worker waits for servers: what it receives may become less for many reasons.
        self.rates.add_beside(now, bytes(sum), rate, down.filter(|_| !self.worker));
        counts
    }

    /// Notes what went out in the last second, as far as there are looks.
    fn note_carried(&mut self, passed: Duration, amount: u64) {
        self.looks.push_back((passed, amount));
        let long = |looks: &VecDeque<(Duration, u64)>, skipped| {
            looks.iter().skip(skipped).map(|(passed, _)| *passed).sum::<Duration>() >= SECOND
        };
        while long(&self.looks, 1) {
            self.looks.pop_front();
        }
        if long(&self.looks, 0) {
            let time = self.looks.iter().map(|(passed, _)| *passed).sum::<Duration>();
            let sent = self.looks.iter().map(|(_, amount)| *amount).fold(0, u64::saturating_add);
            self.carried = self.carried.max(bytes(sent) / time.as_secs_f64());
        }
    }

    /// The most that went out in a second since the last call, in bytes per second, whatever held
    /// it back.
    pub const fn take_carried(&mut self) -> f64 {
        std::mem::replace(&mut self.carried, 0.0)
    }

    /// Bytes that went out by the last look.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Those of them that went from a worker to a server, or back, without probes.
    #[must_use]
    pub const fn exchanged(&self) -> u64 {
        self.exchanged
    }

    /// What this node can send to all peers together. None: two of them did not keep it busy at
    /// once, as long as anything is remembered. Until then what it was able to do may be counted on
    /// as before, however long ago that was; but the longer it sends without being kept busy, the
    /// less is this all that it can. Of a server it falls and rises with `down`, what it can
    /// receive now: it sends only when it is asked.
    #[must_use]
    pub fn up(&self, down: Option<f64>) -> Option<Estimate> {
        let (rate, samples, _) = self.rates.by_now(down)?;
        let confidence = confidence(self.rates.since_counted());
        Some(Estimate { rate, lower: rate, confidence, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::links::{Receiver, Sample};

    const BUSY: f64 = 0.25;

    /// A server that is probed in a rest exchanges nothing, and what it gets of its processor then
    /// says nothing.
    #[test]
    fn probes_are_not_exchanged() {
        let mut sender = Sender::new(8, Duration::ZERO);
        let mut sent = |quarter, bytes, padding| {
            let to = Sent { bytes, padding, ..Sent::default() };
            sender.sent(WINDOW * quarter, [(9, to), (10, to)].into(), None);
            (sender.total(), sender.exchanged())
        };
        assert_eq!(sent(0, 0, 0), (0, 0));
        assert_eq!(sent(1, 700, 0), (1400, 700));
        // Padding that is on its way.
        assert_eq!(sent(2, 750, 100), (1500, 700));
        assert_eq!(sent(3, 1250, 500), (2500, 800));
        // Another connection: its counts begin anew.
        assert_eq!(sent(4, 50, 50), (2500, 800));
        assert_eq!(sent(5, 80, 50), (2560, 830));
    }

    /// While a server answers pulls nothing comes to it, and what it tells of itself must not age.
    #[test]
    fn whoever_only_sends_tells_of_it() {
        let second = Duration::from_secs(1);
        let mut receiver = Receiver::new(8);
        for quarter in 0..4_u32 {
            let (first, last) = (second / 4 * quarter, second / 4 * (quarter + 1));
            let (peer, bytes, head, backlogged) = (9, 1 << 20, 0, true);
            receiver.received(&Sample { peer, bytes, head, first, last, backlogged });
        }
        assert!(receiver.report(second).is_some());
        assert_eq!(receiver.report(5 * second), None);
        receiver.sends();
        assert!(receiver.report(6 * second).is_some());
        assert_eq!(receiver.report(8 * second), None);
    }

    /// Plays windows of 250 ms; for each peer, in each, what it got and for how long it was busy.
    fn played(windows: &[&[(NodeId, u64, f64)]]) -> Option<f64> {
        let mut sender = Sender::new(8, Duration::ZERO);
        let mut totals = BTreeMap::<NodeId, Sent>::new();
        let mut now = Duration::ZERO;
        sender.sent(now, [9, 11, 13].map(|peer| (peer, Sent::default())).into(), None);
        for window in windows {
            now += WINDOW;
            for (peer, bytes, busy) in *window {
                let total = totals.entry(*peer).or_default();
                total.bytes += bytes;
                total.held += Duration::from_secs_f64(*busy);
            }
            assert!(sender.wants_look(now));
            sender.sent(now, totals.clone(), None);
            assert!(!sender.wants_look(now));
        }
        sender.up(None).map(|up| up.rate)
    }

    #[test]
    fn all_that_goes_out_counts_while_two_peers_have_more_to_get() {
        assert_eq!(played(&[&[(9, 100, BUSY), (11, 50, BUSY), (13, 10, 0.01)]]), Some(640.0));
        assert_eq!(played(&[&[(9, 100, BUSY), (11, 50, 0.1)]]), None);
        assert_eq!(played(&[&[(9, 100, BUSY)]]), None);
        assert_eq!(played(&[&[(9, 100, BUSY), (10, 50, BUSY)]]), None);
        assert_eq!(played(&[&[(9, 0, BUSY), (11, 0, BUSY)]]), None);
    }

    #[test]
    fn slow_windows_are_outdone() {
        let (slow, fast): (&[_], &[_]) =
            (&[(9, 10, BUSY), (11, 10, BUSY)], &[(9, 100, BUSY), (11, 100, BUSY)]);
        assert_eq!(played(&[fast, fast, fast, slow, fast, fast, slow, slow]), Some(800.0));
    }

    #[test]
    fn a_server_that_nobody_waits_for_may_be_faster_than_it_was() {
        let mut sender = Sender::new(8, Duration::ZERO);
        let (mut bytes, mut held) = (0, Duration::ZERO);
        let mut confidence_after = |windows: std::ops::Range<u32>, fraction: f64| {
            for window in windows {
                bytes += 100_000;
                held += WINDOW.mul_f64(fraction);
                sender.sent(
                    WINDOW * window,
                    [9, 11].map(|peer| (peer, Sent { bytes, held, ..Sent::default() })).into(),
                    None,
                );
            }
            sender.up(None).map(|up| (up.rate, up.lower, up.confidence))
        };
        assert_eq!(confidence_after(1..10, 1.0), Some((800_000.0, 800_000.0, 1.0)));
        assert_eq!(confidence_after(10..50, 0.5), Some((800_000.0, 800_000.0, 0.5)), "10 s");
        assert_eq!(confidence_after(50..51, 1.0), Some((800_000.0, 800_000.0, 1.0)));
    }

    #[test]
    fn new_connections_and_gaps_say_nothing() {
        let mut sender = Sender::new(8, Duration::ZERO);
        let sent = |bytes| {
            let one = Sent { bytes, held: Duration::from_micros(bytes), ..Sent::default() };
            BTreeMap::from([(9, one), (11, one)])
        };
        sender.sent(WINDOW, sent(1_000_000), None);
        assert!(sender.up(None).is_none(), "the first look");
        sender.sent(2 * WINDOW, sent(300_000), None);
        assert!(sender.up(None).is_none(), "connections are new");
        sender.sent(20 * WINDOW, sent(30_000_000), None);
        assert!(sender.up(None).is_none(), "nobody looked for seconds");
        sender.sent(21 * WINDOW, sent(30_250_000), None);
        assert_eq!(sender.up(None).map(|up| up.rate), Some(2_000_000.0));
    }

    /// What a server can send is seen only when it answers.
    #[test]
    fn what_a_server_sends_changes_with_what_it_receives() {
        for (node, peers, fallen, risen, most) in
            [(8, [9, 11], 0.25e6, 1.5e6, 3_333_333.0), (9, [8, 10], 1e6, 1e6, 1e6)]
        {
            let mut sender = Sender::new(node, Duration::ZERO);
            let (mut bytes, mut held, mut window) = (0, Duration::ZERO, 0);
            let mut sends = |rate: f64, down, windows: u32| {
                for _ in 0..windows {
                    window += 1;
                    bytes += (rate / 2.0 * WINDOW.as_secs_f64()) as u64;
                    held += WINDOW;
                    let sent = peers.map(|peer| (peer, Sent { bytes, held, ..Sent::default() }));
                    sender.sent(WINDOW * window, sent.into(), Some(down));
                }
            };
            sends(1e6, 1.2e6, 9);
            // Two windows at the new rate, before that was seen in what comes in.
            sends(2.5e5, 1.2e6, 2);
            let up = |down| sender.up(Some(down)).map(|up| up.rate);
            assert_eq!(up(1.0e6), Some(1e6), "a little less is none");
            assert_eq!(up(0.3e6), Some(fallen));
            assert_eq!(up(1.4e6), Some(1e6), "a little more");
            assert_eq!(up(1.8e6), Some(risen));
            assert_eq!(up(4.0e6).map(f64::round), Some(most));
        }
    }
}
