//! The sizes of a session's next iterations: asks its rule, and keeps what is as it is unless a
//! change pays. A change may cost something: MXNet's Module binds its executors again for each new
//! size.

use super::pairwise::Pairwise;
use super::speed::{IterationSample, Predictor, Speeds};
use super::split::{Bounds, split};
use crate::wire::balance::{BalanceReport, BalanceRule};

/// Sizes change if the slowest worker is expected to be faster by that part, and by a larger one
/// where a change costs something: who wants multiples says so.
const GAIN_MIN: f64 = 0.01;
const GAIN_MIN_OF_MULTIPLES: f64 = 0.03;
/// After that many decisions they change for any gain: small ones add up.
const PATIENCE: u32 = 20;
/// Iterations that a prediction reaches ahead.
const AHEAD_MAX: u64 = 20;

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Samples of an iteration.
    pub total: u32,
    /// Sizes are multiples of it.
    pub quantum: u32,
    /// The newest sizes.
    pub sizes: &'a [u32],
    /// What each worker may take; nothing: it is gone.
    pub bounds: &'a [Bounds],
    /// The iteration from which on the decision counts.
    pub from: u64,
    /// How many iterations each worker has computed.
    pub computed: &'a [u64],
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// They stay.
    Same,
    /// They change.
    New(Vec<u32>),
    /// The workers that are left cannot take all samples.
    Impossible,
}

/// A session's rule.
#[derive(Clone, Debug)]
pub struct Sizing {
    rule: SizingRule,
    /// A worker came or went: the sizes must change.
    forced: bool,
    /// Decisions since the last change.
    kept: u32,
    /// The last seconds of each worker, for people.
    seconds: Vec<f64>,
}

#[derive(Clone, Debug)]
enum SizingRule {
    Equal,
    Speeds(Speeds),
    Pairwise(Pairwise),
}

impl Sizing {
    /// For so many workers that share `total` samples.
    #[must_use]
    pub fn new(rule: BalanceRule, total: u32, members: usize) -> Self {
        let speeds = |predictor| SizingRule::Speeds(Speeds::new(predictor, members));
        let rule = match rule {
            BalanceRule::Fixed | BalanceRule::Dealt => SizingRule::Equal,
            BalanceRule::Cpu => speeds(Predictor::Regression),
            BalanceRule::CpuLast => speeds(Predictor::Last),
            BalanceRule::CpuMean => speeds(Predictor::Mean),
            BalanceRule::Gpu => SizingRule::Pairwise(Pairwise::new(total, members)),
        };
        Self { rule, forced: false, kept: 0, seconds: vec![0.0; members] }
    }

    /// A worker has computed a batch of that size. `newest`: with the newest sizes.
    pub fn observe(&mut self, member: usize, size: u32, report: &BalanceReport, newest: bool) {
        let BalanceReport { seconds, cpu, memory } = *report;
        if !(seconds.is_finite() && seconds > 0.0) || size == 0 {
            return;
        }
        self.seconds[member] = seconds;
        let share = |value: f64| if value.is_finite() { value.clamp(0.0, 1e3) } else { 0.0 };
        match &mut self.rule {
            SizingRule::Equal => {}
            SizingRule::Speeds(speeds) => {
                let speed = f64::from(size) / seconds;
                let (cpu, memory) = (share(cpu), share(memory));
                speeds.observe(member, IterationSample { speed, cpu, memory });
            }
            SizingRule::Pairwise(rule) if newest => rule.observe(member, seconds),
            SizingRule::Pairwise(_) => {}
        }
    }

    /// A worker came or went. Of one that came nothing is known.
    pub fn changed(&mut self, member: usize) {
        self.forced = true;
        self.seconds[member] = 0.0;
        match &mut self.rule {
            SizingRule::Equal => {}
            SizingRule::Speeds(speeds) => speeds.forget(member),
            SizingRule::Pairwise(rule) => rule.forget(),
        }
    }

    /// Others take part in the next iterations than in the ones before.
    pub fn force(&mut self) {
        self.forced = true;
        if let SizingRule::Pairwise(rule) = &mut self.rule {
            rule.forget();
        }
    }

    /// Sizes for workers of which nothing is known.
    #[must_use]
    pub fn first(total: u32, bounds: &[Bounds], quantum: u32) -> Option<Vec<u32>> {
        split(total, &vec![1.0; bounds.len()], bounds, quantum)
    }

    /// The sizes from `look.from` on.
    pub fn decide(&mut self, look: &Look<'_>) -> Sizes {
        let Look { total, quantum, sizes, bounds, .. } = *look;
        let speeds = match &mut self.rule {
            SizingRule::Equal => None,
            SizingRule::Speeds(speeds) => {
                let ahead = |member: usize| {
                    let computed = look.computed[member];
                    (look.from.saturating_sub(computed) + 1).min(AHEAD_MAX) as usize
                };
                speeds.all(ahead)
            }
            SizingRule::Pairwise(rule) if !self.forced => {
                let next = rule.step(sizes, bounds, quantum);
                return next.map_or(Sizes::Same, Sizes::New);
            }
            SizingRule::Pairwise(_) => None,
        };
        if self.forced {
            // Of the others it is known what they could do: their sizes say so.
            let speeds = speeds.unwrap_or_else(|| self.kept_shares(sizes));
            let Some(next) = split(total, &speeds, bounds, quantum) else {
                return Sizes::Impossible;
            };
            (self.forced, self.kept) = (false, 0);
            return Sizes::New(next);
        }
        speeds.map_or(Sizes::Same, |speeds| self.weigh(look, &speeds))
    }

    /// As fast as the present sizes say; who has none is as fast as the mean.
    fn kept_shares(&self, sizes: &[u32]) -> Vec<f64> {
        if matches!(self.rule, SizingRule::Equal) {
            return vec![1.0; sizes.len()];
        }
        let with = sizes.iter().filter(|size| **size > 0).count().max(1);
        let mean = f64::from(sizes.iter().sum::<u32>()).max(1.0) / with as f64;
        sizes.iter().map(|size| if *size > 0 { f64::from(*size) } else { mean }).collect()
    }

    /// New sizes, if they pay.
    fn weigh(&mut self, look: &Look<'_>, speeds: &[f64]) -> Sizes {
        let Some(next) = split(look.total, speeds, look.bounds, look.quantum) else {
            return Sizes::Impossible;
        };
        let slowest = |sizes: &[u32]| {
            let time = |(size, speed): (&u32, &f64)| f64::from(*size) / speed;
            sizes.iter().zip(speeds).map(time).fold(0.0, f64::max)
        };
        self.kept += 1;
        let gain = if look.quantum > 1 { GAIN_MIN_OF_MULTIPLES } else { GAIN_MIN };
        let pays = slowest(look.sizes) > slowest(&next) * (1.0 + gain);
        let due = self.kept >= PATIENCE;
        if next == look.sizes || !(pays || due) {
            return Sizes::Same;
        }
        self.kept = 0;
        Sizes::New(next)
    }

    /// The last seconds of each worker; 0: not known.
    #[must_use]
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Bounds = Bounds { min: 1, max: u32::MAX };

    fn report(seconds: f64) -> BalanceReport {
        BalanceReport { seconds, cpu: 1.0, memory: 0.5 }
    }

    fn look<'a>(sizes: &'a [u32], bounds: &'a [Bounds]) -> Look<'a> {
        Look { total: 64, quantum: 1, sizes, bounds, from: 1, computed: &[1, 1] }
    }

    #[test]
    fn sizes_change_where_it_pays() {
        let mut sizing = Sizing::new(BalanceRule::CpuLast, 64, 2);
        let bounds = [FREE; 2];
        assert_eq!(sizing.decide(&look(&[32, 32], &bounds)), Sizes::Same);
        for (member, seconds) in [(0, 1.0), (1, 3.0)] {
            sizing.observe(member, 32, &report(seconds), true);
        }
        assert_eq!(sizing.decide(&look(&[32, 32], &bounds)), Sizes::New(vec![48, 16]));
        assert_eq!(sizing.seconds(), [1.0, 3.0]);
        // A gain of half a percent is taken with the 20th look.
        for (member, size, seconds) in [(0, 48, 1.55), (1, 16, 1.45)] {
            sizing.observe(member, size, &report(seconds), true);
        }
        let looks = |sizing: &mut Sizing| sizing.decide(&look(&[48, 16], &bounds));
        assert!((1..20).all(|_| looks(&mut sizing) == Sizes::Same));
        assert_eq!(looks(&mut sizing), Sizes::New(vec![47, 17]));
    }

    #[test]
    fn who_is_gone_gets_nothing() {
        for rule in [BalanceRule::Fixed, BalanceRule::Cpu, BalanceRule::Gpu] {
            let mut sizing = Sizing::new(rule, 64, 2);
            sizing.observe(0, 32, &report(1.0), true);
            sizing.changed(1);
            let gone = [FREE, Bounds::NOTHING];
            assert_eq!(sizing.decide(&look(&[32, 32], &gone)), Sizes::New(vec![64, 0]), "{rule:?}");
            // It came back.
            sizing.changed(1);
            let both = [FREE; 2];
            assert_eq!(sizing.decide(&look(&[64, 0], &both)), Sizes::New(vec![32, 32]), "{rule:?}");
            sizing.changed(1);
            let small = [Bounds { min: 1, max: 60 }, Bounds::NOTHING];
            assert_eq!(sizing.decide(&look(&[32, 32], &small)), Sizes::Impossible);
        }
    }

    #[test]
    fn no_report_breaks_anything() {
        let mut sizing = Sizing::new(BalanceRule::Cpu, 64, 2);
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            sizing.observe(0, 32, &report(seconds), true);
        }
        sizing.observe(0, 0, &report(1.0), true);
        assert_eq!(sizing.seconds(), [0.0, 0.0]);
        let odd = BalanceReport { seconds: 1.0, cpu: f64::NAN, memory: -1e300 };
        (0..100).for_each(|_| sizing.observe(0, 32, &odd, true));
        assert_eq!(sizing.decide(&look(&[32, 32], &[FREE; 2])), Sizes::Same);
    }
}
