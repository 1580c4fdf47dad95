//! A clock that stands still while the job rests: nothing is measured then, so what was measured
//! last is no better proven.

use crate::placement::tuning::BUSY_SILENCE;
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    /// For how long the job was busy until the last report.
    sum: Duration,
    /// When that was.
    last: Duration,
}

impl Busy {
    /// Some node reports what it received.
    pub(super) fn report(&mut self, now: Duration) {
        *self = Self { sum: self.at(now), last: self.last.max(now) };
    }

    /// For how long the job was busy until then.
    pub(super) fn at(&self, now: Duration) -> Duration {
        self.sum.saturating_add(now.saturating_sub(self.last).min(BUSY_SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_does_not_count() {
        let seconds = Duration::from_secs_f64;
        let mut busy = Busy::default();
        for second in 0..=10 {
            busy.report(seconds(f64::from(second)));
        }
        assert_eq!(busy.at(seconds(10.4)), seconds(10.4));
        assert_eq!([busy.at(seconds(12.0)), busy.at(seconds(500.0))], [seconds(11.5); 2]);
        busy.report(seconds(500.0));
        assert_eq!(busy.at(seconds(501.0)), seconds(12.5));
        // Reports may overtake each other.
        busy.report(seconds(499.0));
        assert_eq!(busy.at(seconds(500.0)), seconds(11.5));
    }
}
