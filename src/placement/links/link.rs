//! One link, as its receiver sees it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Estimate, FULL_SAMPLE, MIN_SAMPLE, SAMPLE_TIME, SAMPLES, Sample, confidence};
use crate::placement::cost::bytes;
use crate::placement::statistics::weighted_median;

/// Between two messages of one sender with more to send there is no longer pause than this, unless
/// something else is wrong (a connection was made anew, a process was stopped).
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Shorter than this says nothing: the bytes lay in a buffer.
const SHORTEST: Duration = Duration::from_micros(20);

/// Bytes that followed each other without a pause of the sender.
#[derive(Clone, Copy, Debug)]
struct Train {
    first: Duration,
    last: Duration,
    bytes: u64,
}

/// The last samples of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    train: Option<Train>,
    samples: VecDeque<(f64, f64, Duration)>,
    last: Duration,
}

impl Link {
    /// When something last came over it.
    pub(super) const fn last(&self) -> Duration {
        self.last
    }

    /// A link that nothing came over yet, known since then.
    pub(super) fn new(now: Duration) -> Self {
        Self { last: now, ..Self::default() }
    }

    /// Counts what came.
    pub(super) fn add(&mut self, sample: &Sample) {
        self.last = self.last.max(sample.last);
        if !sample.backlogged {
            self.train = None;
            return;
        }
        let follows = |train: &Train| sample.first <= train.last.saturating_add(LONGEST_PAUSE);
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
        let full = train.bytes >= FULL_SAMPLE || time >= SAMPLE_TIME;
        if full {
            self.keep(train.bytes, time, train.last);
        }
        // The next sample goes on where this one ends.
        self.train =
            Some(if full { Train { first: train.last, bytes: 0, ..train } } else { train });
    }

    /// Takes what a probe timed: a sample by itself, since the sender had all of it ready.
    pub(super) fn probed(&mut self, sample: &Sample) {
        self.last = self.last.max(sample.last);
        self.train = None;
        let bytes = sample.bytes.saturating_sub(sample.head);
        self.keep(bytes, sample.last.saturating_sub(sample.first), sample.last);
    }

    /// Adds to the samples, if this is enough for one.
    fn keep(&mut self, amount: u64, time: Duration, at: Duration) {
        if amount < MIN_SAMPLE || time < SHORTEST {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        let amount = bytes(amount);
        self.samples.push_back((amount / time.as_secs_f64(), amount, at));
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
