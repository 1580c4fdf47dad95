//! One link, as its receiver sees it.

use std::collections::VecDeque;
use std::time::Duration;

use super::estimate::confidence;
use super::{Estimate, Sample};
use crate::placement::cost::bytes;
use crate::placement::statistics::weighted_median;
use crate::placement::tuning::{
    FIRST_PROBE_AFTER, FULL_SAMPLE, GROUP_ROUND_TRIPS, LONG_WAY, MEMORY, MIN_SAMPLE, PROBE_AFTER,
    SAMPLE_TIME, SAMPLE_TIME_MIN, SAMPLES, SENDING_PAUSE_MAX, SLOW_PROBES, SURPASSED,
};

/// Bytes that followed each other without a pause of the sender.
#[derive(Clone, Copy, Debug)]
struct Train {
    first: Duration,
    last: Duration,
    bytes: u64,
}

/// The last samples of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedLink {
    train: Option<Train>,
    /// The round trip, where it is a long one.
    long_way: Option<Duration>,
    samples: VecDeque<(f64, f64, Duration)>,
    last: Duration,
    /// When something last came that was no probe; and when one was last asked for since then.
    traffic: Duration,
    asked: Option<Duration>,
    /// Probes since then that were slower than what is known.
    slow: u32,
}

impl ReceivedLink {
    /// A link that nothing came over yet, known since then.
    pub(super) fn new(now: Duration) -> Self {
        Self { last: now, traffic: now, ..Self::default() }
    }

    /// A round trip to its sender takes so long. Over a long way connections share a link unequally
    /// for many rounds, and what gets lost keeps back what comes behind it. So samples are longer,
    /// and the fastest ones of a minute count: each shows only what the link can do at least.
    pub(super) fn way(&mut self, round_trip: Duration) {
        self.long_way = Some(round_trip).filter(|way| *way >= LONG_WAY);
    }

    /// Whether a probe is worth its bytes: [`FIRST_PROBE_AFTER`] without traffic, whenever it was
    /// idle for twice as long as at the last one, and after `most` anyway.
    pub(super) fn wants_probe(&self, now: Duration, most: Duration) -> bool {
        let idle = |at: Duration| at.saturating_sub(self.traffic);
        match self.asked {
            None => idle(now) > most.min(FIRST_PROBE_AFTER),
            Some(asked) => {
                now.saturating_sub(asked) > most || idle(now) > idle(asked).saturating_mul(2)
            }
        }
    }

    /// One was asked for.
    pub(super) const fn asked(&mut self, now: Duration) {
        self.asked = Some(now);
    }

    /// Counts what came.
    pub(super) fn add(&mut self, sample: &Sample) {
        self.last = self.last.max(sample.last);
        self.traffic = self.traffic.max(sample.last);
        (self.asked, self.slow) = (None, 0);
        if !sample.backlogged {
            self.train = None;
            return;
        }
        let follows = |train: &Train| sample.first <= train.last.saturating_add(SENDING_PAUSE_MAX);
        let train = match self.train.filter(follows) {
            // The pause before it belongs to the link: the sender had more all the time.
            Some(train) => Train {
                last: train.last.max(sample.last),
                bytes: train.bytes.saturating_add(sample.bytes),
                ..train
            },
            None => {
                let bytes = sample.bytes.saturating_sub(sample.head);
                Train { first: sample.first, last: sample.last, bytes }
            }
        };
        let time = train.last.saturating_sub(train.first);
        let full = match self.long_way {
            None => train.bytes >= FULL_SAMPLE || time >= SAMPLE_TIME,
            Some(way) => time >= SAMPLE_TIME.max(way.saturating_mul(GROUP_ROUND_TRIPS)),
        };
        if full {
            self.keep(train.bytes, time, train.last);
        }
        // The next sample goes on where this one ends.
        self.train =
            Some(if full { Train { first: train.last, bytes: 0, ..train } } else { train });
    }

    /// Takes what a probe timed: a sample by itself, since the sender had all of it ready. Its
    /// rate, if it has one. If it is far faster than all that is known, the link has become faster,
    /// and that is no longer true. That it is slower, only several say in a job that rests: else
    /// what goes to others has its way.
    pub(super) fn probed(&mut self, sample: &Sample) -> Option<f64> {
        self.last = self.last.max(sample.last);
        self.train = None;
        let amount = sample.bytes.saturating_sub(sample.head);
        let time = sample.last.saturating_sub(sample.first);
        let rate = rate(amount, time)?;
        let known = self.estimate(sample.last).map_or(0.0, |known| known.rate);
        if rate > SURPASSED * known {
            self.samples.clear();
        }
        if rate >= known {
            self.slow = 0;
        } else if sample.last.saturating_sub(self.traffic) >= PROBE_AFTER {
            self.slow = self.slow.saturating_add(1);
        }
        if rate >= known || self.slow >= SLOW_PROBES {
            self.keep(amount, time, sample.last);
        }
        Some(rate)
    }

    /// Something came that shows no rate, so there is none: but the link is still there.
    pub(super) fn heard(&mut self, at: Duration) -> Option<f64> {
        self.last = self.last.max(at);
        self.train = None;
        None
    }

    /// Adds to the samples, if this is enough for one.
    fn keep(&mut self, amount: u64, time: Duration, at: Duration) {
        let Some(rate) = rate(amount, time) else { return };
        self.samples.push_back((rate, bytes(amount), at));
        if self.long_way.is_some() {
            self.samples.retain(|(_, _, then)| then.saturating_add(MEMORY) >= at);
            self.forget_slowest();
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Of those of the last minute, no more are needed than are looked at. (The newest one stays:
    /// it tells when something was last seen.)
    fn forget_slowest(&mut self) {
        let older = self.samples.len().saturating_sub(1);
        if older >= SAMPLES {
            let older = self.samples.iter().take(older).enumerate();
            let slowest = older.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
            self.samples.remove(slowest.map_or(0, |(index, _)| index));
        }
    }

    /// How long ago the oldest of its samples was taken.
    pub(super) fn oldest(&self, now: Duration) -> Duration {
        let oldest = self.samples.front().map_or(now, |(_, _, at)| *at);
        now.saturating_sub(oldest)
    }

    /// What is known of it: the median of its samples, by bytes, where old ones weigh less.
    pub(super) fn estimate(&self, now: Duration) -> Option<Estimate> {
        let newest = self.samples.back().map(|(_, _, at)| *at)?;
        let weight = |bytes: f64, at: Duration| bytes * confidence(newest.saturating_sub(at));
        let weighted = |value: fn(f64, f64) -> f64, around: f64| {
            let samples = self.samples.iter();
            let pairs =
                samples.map(|(rate, bytes, at)| (value(*rate, around), weight(*bytes, *at)));
            weighted_median(pairs)
        };
        let rate = weighted(|rate, _| rate, 0.0)?;
        let spread = weighted(|rate, around| (rate - around).abs() / around, rate)?;
        let count = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        Some(Estimate::new(rate, spread, count, now.saturating_sub(self.last)))
    }
}

/// Bytes per second, if these are enough to say so.
fn rate(amount: u64, time: Duration) -> Option<f64> {
    (amount >= MIN_SAMPLE && time >= SAMPLE_TIME_MIN).then(|| bytes(amount) / time.as_secs_f64())
}
