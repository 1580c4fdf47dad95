//! Whether a switch was for the better: the rounds after it against what the old layout would take
//! now (docs/algorithms.md 4.5).

use std::collections::VecDeque;

use crate::placement::statistics::median;
use crate::placement::tuning::{TRIAL_RATIOS, TRIAL_REPORTS, TRIAL_ROUNDS, TRIAL_WORSE};

/// How measured rounds compare with the model: it knows the network, not what workers do meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    ratios: VecDeque<f64>,
}

/// How a switch turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Too early to say, or nothing to compare with.
    Open,
    /// Not worse than before.
    Good,
    /// Longer by that factor than with the old layout.
    Worse(f64),
}

/// Judges the comparisons of all reports since a switch, which cover so many rounds.
#[must_use]
pub fn verdict(factors: &[f64], rounds: u64) -> Verdict {
    if rounds < TRIAL_ROUNDS || factors.len() < TRIAL_REPORTS {
        return Verdict::Open;
    }
    match median(factors.iter().copied()) {
        Some(factor) if factor > 1.0 + TRIAL_WORSE => Verdict::Worse(factor),
        Some(_) => Verdict::Good,
        None => Verdict::Open,
    }
}

impl Trial {
    /// Rounds as measured, and as predicted for the layout and the network of that time.
    pub fn note(&mut self, measured: f64, predicted: f64) {
        let ratio = measured / predicted;
        if ratio.is_finite() && ratio > 0.0 {
            if self.ratios.len() == TRIAL_RATIOS {
                self.ratios.pop_front();
            }
            self.ratios.push_back(ratio);
        }
    }

    /// Measured over predicted, usually.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        median(self.ratios.iter().copied())
    }

    /// Rounds with the new layout against what the old one would have taken: above 1 they are
    /// longer. `old`: what the model says that the old layout takes with the network as it is now,
    /// so that a network that has changed meanwhile is not blamed on the plan.
    #[must_use]
    pub fn compare(&self, measured: f64, old: f64) -> Option<f64> {
        let factor = measured / (self.ratio()? * old);
        factor.is_finite().then_some(factor)
    }

    /// What was learnt holds no longer.
    pub fn forget(&mut self) {
        self.ratios.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_judged_against_the_network_of_today() {
        let mut trial = Trial::default();
        assert_eq!(trial.compare(1.0, 1.0), None);
        // Workers compute half of the time; one odd report.
        for measured in [2.0, 2.1, 9.0, 1.9, 2.0] {
            trial.note(measured, 1.0);
        }
        assert_eq!(trial.ratio(), Some(2.0));
        assert_eq!(trial.compare(3.0, 1.0), Some(1.5));
        // The network has become twice as slow meanwhile.
        assert_eq!(trial.compare(3.0, 2.0), Some(0.75));
        trial.note(f64::NAN, 0.0);
        assert_eq!((trial.ratio(), trial.compare(f64::NAN, 1.0)), (Some(2.0), None));
    }

    #[test]
    fn one_odd_report_decides_nothing() {
        assert_eq!(verdict(&[1.5, 1.5, 1.5], 4), Verdict::Open);
        assert_eq!(verdict(&[1.5, 1.5], 10), Verdict::Open);
        assert_eq!(verdict(&[1.5, 1.2, 0.5], 5), Verdict::Worse(1.2));
        assert_eq!(verdict(&[1.5, 1.04, 0.5], 5), Verdict::Good);
    }
}
