//! A histogram that threads add to without a lock: powers of two of a microsecond.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets: up to about half an hour; the last one has all that took longer.
pub const BUCKETS: usize = 32;

/// The bucket of a time: n for less than 2^n microseconds and not less than half of that.
#[must_use]
pub fn bucket_of(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    ((u64::BITS - micros.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// See the module.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, time: Duration) {
        self.buckets[bucket_of(time)].fetch_add(1, Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|n| self.buckets[n].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        let histogram = Histogram::default();
        for micros in [0, 1, 2, 3, 4, 1000, u64::MAX] {
            histogram.add(Duration::from_micros(micros));
        }
        let mut expected = [0; BUCKETS];
        for (bucket, count) in [(0, 1), (1, 1), (2, 2), (3, 1), (10, 1), (BUCKETS - 1, 1)] {
            expected[bucket] = count;
        }
        assert_eq!(histogram.read(), expected);
    }
}
