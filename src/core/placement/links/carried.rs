//! What a card was seen to carry, whatever held it back: it is no slower than that. Its links may
//! seem so: connections that share a link for a moment may get anything, and over long ways they
//! do for many rounds. Pure; the caller has checked the numbers.

use std::collections::VecDeque;
use std::time::Duration;

use crate::placement::tuning::{KNOWN_TOGETHER, MEMORY};

/// Bytes per second that came to a node, and that it sent, in the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CardCarried {
    /// What came from all peers together.
    pub down: f64,
    /// What all peers together confirmed.
    pub up: f64,
}

impl CardCarried {
    /// Whether these can be rates: they may have come over the wire.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        [self.down, self.up].iter().all(|rate| rate.is_finite() && *rate >= 0.0)
    }
}

/// What one direction of a card carried in the seconds of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct CarriedRecently {
    /// Rates in descending order, each newer than the one before it.
    best: VecDeque<(Duration, f64)>,
}

impl CarriedRecently {
    /// One more report.
    pub(super) fn report(&mut self, now: Duration, rate: f64) {
        let old = |(at, _): &(Duration, f64)| at.saturating_add(MEMORY) < now;
        while self.best.front().is_some_and(old) {
            self.best.pop_front();
        }
        while self.best.back().is_some_and(|(_, known)| *known <= rate) {
            self.best.pop_back();
        }
        let close = |(at, _): &(Duration, f64)| now.saturating_sub(*at) < KNOWN_TOGETHER;
        if !self.best.back().is_some_and(close) {
            self.best.push_back((now, rate));
        }
    }

    /// The most in a second that was reported at that time or later.
    pub(super) fn since(&self, at: Duration) -> f64 {
        let newer = self.best.partition_point(|(time, _)| *time < at);
        self.best.get(newer).map_or(0.0, |(_, rate)| *rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_since_some_time_is_known() {
        let mut carried = CarriedRecently::default();
        let second = Duration::from_secs;
        assert_eq!(carried.since(Duration::ZERO), 0.0);
        for (at, rate) in [(1, 50.0), (2, 90.0), (3, 20.0), (4, 60.0), (5, 10.0)] {
            carried.report(second(at), rate);
        }
        let since = |carried: &CarriedRecently, at| carried.since(second(at));
        let known: Vec<f64> = (1..=6).map(|at| since(&carried, at)).collect();
        assert_eq!(known, [90.0, 90.0, 60.0, 60.0, 10.0, 0.0]);
        carried.report(second(63), 5.0);
        assert_eq!((since(&carried, 0), carried.best.len()), (60.0, 3), "a minute");
        (0..1000).for_each(|ms| {
            carried.report(second(70) + Duration::from_millis(ms), 1000.0 - ms as f64);
        });
        assert!(carried.best.len() <= 3, "few are kept");
    }

    #[test]
    fn numbers_that_are_none_are_told_apart() {
        assert!(CardCarried::default().is_sane() && CardCarried { down: 5.0, up: 0.0 }.is_sane());
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!CardCarried { down: bad, up: 1.0 }.is_sane());
            assert!(!CardCarried { down: 1.0, up: bad }.is_sane());
        }
    }
}
