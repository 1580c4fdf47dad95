//! A rate: the newest report and the best recent one (within a fraction of a round:
//! `planner/decide`). A card or link can still do what it did a moment ago. Reports drop at the end
//! of a round: servers send at full rate, TCP's confirmations wait behind that, and so less comes
//! in than could. Pure; the caller has checked the numbers.

use std::collections::VecDeque;
use std::time::Duration;

use super::Estimate;
use crate::placement::tuning::KNOWN_TOGETHER;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct RecentBest {
    newest: Estimate,
    at: Duration,
    /// Rates in descending order, each newer than the one before it; the last one is the newest.
    best: VecDeque<(Duration, f64)>,
}

impl RecentBest {
    /// The first report.
    pub(super) fn new(now: Duration, newest: Estimate) -> Self {
        Self { newest, at: now, best: [(now, newest.rate)].into() }
    }

    /// One more report; what is older than `span` no longer counts.
    pub(super) fn report(&mut self, now: Duration, newest: Estimate, span: Duration) {
        (self.newest, self.at) = (newest, now);
        while self.best.back().is_some_and(|(_, rate)| *rate <= newest.rate) {
            self.best.pop_back();
        }
        let old = |(at, _): &(Duration, f64)| at.saturating_add(span) < now;
        while self.best.front().is_some_and(old) {
            self.best.pop_front();
        }
        let close = |(at, _): &(Duration, f64)| now.saturating_sub(*at) < KNOWN_TOGETHER.min(span);
        // The higher one is told for as long as both would be, or a little less.
        if !self.best.back().is_some_and(close) {
            self.best.push_back((now, newest.rate));
        }
    }

    /// When it was last reported.
    pub(super) const fn at(&self) -> Duration {
        self.at
    }

    /// The rate that one may count on, if the newest report of anybody was then. Trusted as the
    /// newest one, it ages by the time since it.
    pub(super) fn estimate(&self, newest: Duration) -> Estimate {
        self.newest.aged(newest.saturating_sub(self.at)).scaled(self.factor())
    }

    /// The same without what one may count on: that alone depends on the time.
    pub(super) fn rate(&self) -> f64 {
        self.newest.rate * self.factor()
    }

    fn factor(&self) -> f64 {
        let best = self.best.front().map_or(self.newest.rate, |(_, rate)| *rate);
        best.max(self.newest.rate) / self.newest.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(rate: f64) -> Estimate {
        Estimate { rate, lower: rate * 0.9, confidence: 1.0, samples: 8 }
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// What counts after each of these reports, one each second.
    fn played(rates: &[f64], span: f64) -> Vec<f64> {
        let mut recent = RecentBest::new(Duration::ZERO, estimate(rates[0]));
        let mut found = vec![recent.estimate(Duration::ZERO).rate];
        for (second, rate) in rates.iter().enumerate().skip(1) {
            let now = Duration::from_secs(second as u64);
            recent.report(now, estimate(*rate), at(span));
            found.push(recent.estimate(now).rate);
        }
        found
    }

    #[test]
    fn the_best_of_some_time_counts() {
        let rates = [48.0, 40.0, 26.0, 30.0, 50.0, 20.0, 20.0, 20.0, 20.0];
        assert_eq!(played(&rates, 3.0), [48.0, 48.0, 48.0, 48.0, 50.0, 50.0, 50.0, 50.0, 20.0]);
    }

    #[test]
    fn without_a_span_the_newest_counts() {
        assert_eq!(played(&[48.0, 40.0, 50.0, 20.0], 0.0), [48.0, 40.0, 50.0, 20.0]);
    }

    #[test]
    fn it_is_trusted_as_the_newest_one_and_few_are_kept() {
        let mut recent = RecentBest::new(Duration::ZERO, estimate(1e6));
        for step in 1..1000_u32 {
            recent.report(at(f64::from(step) * 0.1), estimate(1e6 - f64::from(step)), at(10.0));
        }
        assert!(recent.best.len() <= 22, "{}", recent.best.len());
        let now = recent.estimate(recent.at());
        assert!((now.lower / now.rate - 0.9).abs() < 1e-9 && now.confidence == 1.0);
        assert!(now.rate > 1e6 - 1000.0, "that of ten seconds ago: {}", now.rate);
        assert!(recent.estimate(recent.at() + at(60.0)).lower < now.lower);
    }
}
