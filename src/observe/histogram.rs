//! A histogram that threads add to without a lock: powers of two of a microsecond.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets: up to about half an hour; the last one has all that took longer.
pub const BUCKETS: usize = 32;

/// The bucket of a time: n for less than 2^n microseconds and not less than half of that.
#[must_use]
pub fn bucket_of(time: Duration) -> usize {
    ((u64::BITS - micros(time).leading_zeros()) as usize).min(BUCKETS - 1)
}

/// Whole microseconds of a time.
#[must_use]
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What a histogram has counted at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    /// How many fell into each bucket ([`bucket_of`]).
    pub buckets: [u64; BUCKETS],
    /// All times together, in microseconds.
    pub sum: u64,
}

impl HistogramCounts {
    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Those of another one count here, too.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *count = count.wrapping_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, time: Duration) {
        self.buckets[bucket_of(time)].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros(time), Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> HistogramCounts {
        HistogramCounts {
            buckets: std::array::from_fn(|n| self.buckets[n].load(Relaxed)),
            sum: self.sum.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        let histogram = Histogram::default();
        for micros in [0, 1, 2, 3, 4, 1000, 1 << 40] {
            histogram.add(Duration::from_micros(micros));
        }
        let mut expected = [0; BUCKETS];
        for (bucket, count) in [(0, 1), (1, 1), (2, 2), (3, 1), (10, 1), (BUCKETS - 1, 1)] {
            expected[bucket] = count;
        }
        let mut counts = histogram.read();
        assert_eq!(counts, HistogramCounts { buckets: expected, sum: 1010 + (1 << 40) });
        assert_eq!(counts.count(), 7);
        counts.merge(&counts.clone());
        assert_eq!((counts.count(), counts.sum), (14, 2020 + (1 << 41)));
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }
}
