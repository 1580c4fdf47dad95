//! The time for which a job's rounds went on. It stands still while the job rests, so that a link
//! that said nothing for as long as nobody used any does not count as silent. Pure; the time of day
//! is an argument.

use std::time::Duration;

/// Without traffic for so long a job rests.
const REST: Duration = Duration::from_secs(2);
/// So much of a time without traffic counts. While rounds go on, workers tell of some five times a
/// second.
const COUNTS: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkClock {
    /// Until traffic was last seen.
    worked: Duration,
    /// When that was.
    seen: Option<Duration>,
}

impl WorkClock {
    /// There is traffic.
    pub(super) fn traffic(&mut self, now: Duration) {
        self.worked = self.at(now);
        self.seen = Some(now);
    }

    /// True if there was no traffic lately.
    pub(super) fn rests(&self, now: Duration) -> bool {
        self.seen.is_none_or(|seen| now.saturating_sub(seen) > REST)
    }

    /// What it shows.
    pub(super) fn at(&self, now: Duration) -> Duration {
        let since = self.seen.map_or(Duration::ZERO, |seen| now.saturating_sub(seen));
        self.worked + since.min(COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_does_not_count() {
        let seconds = Duration::from_secs_f64;
        let mut clock = WorkClock::default();
        assert!(clock.rests(seconds(5.0)));
        assert_eq!(clock.at(seconds(5.0)), Duration::ZERO);
        clock.traffic(seconds(10.0));
        assert!(!clock.rests(seconds(12.0)));
        assert_eq!(clock.at(seconds(10.3)), seconds(0.3));
        clock.traffic(seconds(10.3));
        clock.traffic(seconds(10.7));
        assert_eq!(clock.at(seconds(11.0)), seconds(1.0));
        assert!(clock.rests(seconds(13.0)));
        for rest in [13.0, 100.0] {
            assert_eq!(clock.at(seconds(rest)), seconds(1.2));
        }
        clock.traffic(seconds(100.0));
        assert_eq!(clock.at(seconds(100.2)), seconds(1.4));
    }
}
