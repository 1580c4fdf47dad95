//! When a card last became faster. Rates of its links from before that say nothing of what they can
//! carry now: the links shared the slow card. Pure; the caller has checked the numbers.

use crate::placement::tuning::SURPASSED;
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateStep {
    /// The lowest rate reported since then: a card may become faster in several steps.
    least: f64,
    at: Duration,
}

impl RateStep {
    /// The first report. With nothing to compare it with, it is no step.
    pub(super) const fn new(rate: f64) -> Self {
        Self { least: rate, at: Duration::ZERO }
    }

    /// One more report.
    pub(super) fn report(&mut self, now: Duration, rate: f64) {
        if rate > SURPASSED * self.least {
            *self = Self { least: rate, at: now };
        }
        self.least = self.least.min(rate);
    }

    /// When the rate last rose; zero: never.
    pub(super) const fn at(&self) -> Duration {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second at which it last rose, after each of these reports, one each second.
    fn played(rates: &[f64]) -> Vec<u64> {
        let mut step = RateStep::new(rates[0]);
        let reports = rates.iter().zip(0..).map(|(rate, second)| {
            step.report(Duration::from_secs(second), *rate);
            step.at().as_secs()
        });
        reports.collect()
    }

    #[test]
    fn a_rise_may_come_in_steps() {
        assert_eq!(played(&[80.0, 83.0, 110.0, 150.0, 190.0, 300.0, 290.0]), [0, 0, 0, 3, 3, 5, 5]);
    }

    #[test]
    fn what_is_about_the_same_or_less_is_no_rise() {
        assert_eq!(played(&[200.0, 150.0, 210.0, 170.0]), [0; 4]);
        assert_eq!(played(&[200.0, 60.0, 55.0, 60.0]), [0; 4]);
    }

    #[test]
    fn what_fell_can_rise_again() {
        assert_eq!(played(&[200.0, 60.0, 200.0]), [0, 0, 2]);
    }
}
