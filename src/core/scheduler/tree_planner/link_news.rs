//! When the scheduler looks at the links, whether what it sees is news, and whether other trees
//! have been better for long enough. Pure; the time is an argument.

use std::collections::BTreeSet;
use std::time::Duration;

use super::site_links::Carrying;

/// Between two looks at what links carry.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Fraction. Rates that differ by less are the same.
const SAME_RATE: f64 = 0.03;
/// Factor. Other trees are better when a round along those in force takes that many times as long
/// ...
const BETTER: f64 = 1.07;
/// ... and are taken when that has been so for that time: a change of the network is not seen on
/// all links at once.
const SETTLE: Duration = Duration::from_secs(2);

/// Whether other trees are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    /// They are not.
    No,
    /// They are, for the first time.
    Begins,
    /// They are, but not for long enough.
    Waits,
    /// They have been for [`SETTLE`].
    Settled,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LinkNews {
    at: Duration,
    rates: Vec<f64>,
    cut: BTreeSet<(usize, usize)>,
    /// Since when other trees have been better.
    better: Option<Duration>,
}

impl LinkNews {
    /// True if it is time for the next one.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) >= LOOK_EVERY
    }

    /// One is made.
    pub(super) const fn look(&mut self, now: Duration) {
        self.at = now;
    }

    /// True if rates or cuts are not those of the last news, or better trees wait for [`SETTLE`].
    pub(super) fn is_news(&mut self, carrying: &Carrying) -> bool {
        let Carrying { rates, cut, .. } = carrying;
        let same = |(one, other): (&f64, &f64)| (one - other).abs() <= SAME_RATE * other;
        let same_rates = self.rates.len() == rates.len() && self.rates.iter().zip(rates).all(same);
        let is_news = !same_rates || self.better.is_some() || self.cut != *cut;
        if is_news {
            self.rates.clone_from(rates);
            self.cut.clone_from(cut);
        }
        is_news
    }

    /// The links over which nothing got through.
    pub(super) const fn cut(&self) -> &BTreeSet<(usize, usize)> {
        &self.cut
    }

    /// These are.
    pub(super) fn set_cut(&mut self, cut: &BTreeSet<(usize, usize)>) {
        self.cut.clone_from(cut);
    }

    /// Seconds of a round along the trees in force, and along others.
    pub(super) fn compare(&mut self, now: Duration, seconds: f64, others: f64) -> Better {
        if others * BETTER >= seconds {
            self.better = None;
            return Better::No;
        }
        let Some(since) = self.better else {
            self.better = Some(now);
            return Better::Begins;
        };
        if now.saturating_sub(since) < SETTLE { Better::Waits } else { Better::Settled }
    }

    /// Other trees are in force, or none are better.
    pub(super) const fn forget_better(&mut self) {
        self.better = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn small_differences_are_no_news() {
        let mut news = LinkNews::default();
        let carrying = |rates: &[f64], cut: &[(usize, usize)]| Carrying {
            rates: rates.to_vec(),
            cut: cut.iter().copied().collect(),
            measured: BTreeSet::new(),
        };
        assert!(news.is_news(&carrying(&[100.0, 200.0], &[])));
        // Small steps add up: each is compared with the last news.
        assert!(!news.is_news(&carrying(&[102.0, 195.0], &[])));
        assert!(!news.is_news(&carrying(&[103.0, 194.5], &[])));
        assert!(news.is_news(&carrying(&[105.0, 194.5], &[])));
        assert!(news.is_news(&carrying(&[105.0, 194.5], &[(0, 1)])));
        assert!(!news.is_news(&carrying(&[105.0, 194.5], &[(0, 1)])));
        assert_eq!(news.compare(seconds(1.0), 2.0, 1.0), Better::Begins);
        assert!(news.is_news(&carrying(&[105.0, 194.5], &[(0, 1)])), "better trees wait");
    }

    #[test]
    fn trees_have_to_be_better_for_a_while() {
        let mut news = LinkNews::default();
        assert!(news.is_due(seconds(0.5)));
        news.look(seconds(0.5));
        assert!(!news.is_due(seconds(0.9)));
        assert_eq!(news.compare(seconds(1.0), 1.06, 1.0), Better::No);
        assert_eq!(news.compare(seconds(1.0), 1.08, 1.0), Better::Begins);
        assert_eq!(news.compare(seconds(2.9), 1.08, 1.0), Better::Waits);
        assert_eq!(news.compare(seconds(3.0), 1.08, 1.0), Better::Settled);
        assert_eq!(news.compare(seconds(3.1), 1.0, 1.0), Better::No);
        assert_eq!(news.compare(seconds(3.2), 1.08, 1.0), Better::Begins, "anew");
        news.forget_better();
        assert_eq!(news.compare(seconds(9.0), 1.08, 1.0), Better::Begins);
    }
}
