//! How the time of one server follows from the expected one: `seconds = fixed + slope * expected`,
//! by least squares that forget. One operating point cannot tell the two apart
//! (docs/algorithms.md 4.5), so until there are several, all is put on the slope.

use crate::placement::tuning::{FIT_APART, FIT_POINTS, FIT_RIDGE};

/// What is known of one server. All numbers inside are fractions of the first time and
/// expectation.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    seconds: f64,
    expected: f64,
    fixed: f64,
    slope: f64,
    sums: WeightedSums,
    /// Operating points that were seen, up to [`FIT_POINTS`].
    points: Vec<f64>,
}

/// Weighted sums over observations `(x, y)`; old ones weigh less and less.
#[derive(Clone, Copy, Debug, Default)]
struct WeightedSums {
    one: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl WeightedSums {
    fn add(&mut self, x: f64, y: f64, forgetting: f64) {
        let step = |sum: &mut f64, term: f64| *sum = forgetting * *sum + term;
        step(&mut self.one, 1.0);
        step(&mut self.x, x);
        step(&mut self.y, y);
        step(&mut self.xx, x * x);
        step(&mut self.xy, x * y);
    }

    /// The fixed time and the slope with the least squares.
    fn solve(&self) -> Option<(f64, f64)> {
        let one = self.one * (1.0 + FIT_RIDGE);
        let determinant = one * self.xx - self.x * self.x;
        let fixed = (self.y * self.xx - self.x * self.xy) / determinant;
        let slope = (one * self.xy - self.x * self.y) / determinant;
        let sane = fixed.is_finite() && slope.is_finite() && fixed >= 0.0 && slope > 0.0;
        sane.then_some((fixed, slope))
    }

    /// The slope if the fixed time is 0.
    fn steepness(&self) -> f64 {
        self.xy / self.xx
    }
}

impl Fit {
    /// From one time; both numbers are above 0.
    pub(super) fn new(expected: f64, seconds: f64) -> Self {
        let mut sums = WeightedSums::default();
        sums.add(1.0, 1.0, 1.0);
        Self { seconds, expected, fixed: 0.0, slope: 1.0, sums, points: vec![expected] }
    }

    /// One more time.
    pub(super) fn observe(&mut self, expected: f64, seconds: f64, forgetting: f64) {
        if self.points.len() < FIT_POINTS
            && self.points.iter().all(|point| (expected - point).abs() > FIT_APART * point)
        {
            self.points.push(expected);
        }
        let (x, y) = (expected / self.expected, seconds / self.seconds);
        self.sums.add(x, y, forgetting.clamp(0.1, 1.0));
        let apart = self.sums.solve().filter(|_| self.points.len() >= FIT_POINTS);
        (self.fixed, self.slope) = apart.unwrap_or((0.0, self.sums.steepness()));
    }

    /// The seconds that it should take.
    pub(super) fn predict(&self, expected: f64) -> f64 {
        self.fixed() + self.slope() * expected
    }

    /// Seconds for each expected one.
    pub(super) fn slope(&self) -> f64 {
        (self.slope * self.seconds / self.expected).max(f64::MIN_POSITIVE)
    }

    /// Seconds whatever is expected; 0 until that can be told.
    pub(super) const fn fixed(&self) -> f64 {
        self.fixed * self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::jobs::normal;
    use crate::random::Random;

    #[test]
    fn one_point_is_all_slope() {
        let mut fit = Fit::new(2.0, 3.0);
        for _ in 0..20 {
            fit.observe(2.0, 3.0, 0.8);
        }
        assert!((fit.slope() - 1.5).abs() < 1e-9 && fit.fixed() == 0.0, "{fit:?}");
        assert!((fit.predict(2.0) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn several_points_tell_the_constants_apart() {
        let mut chance = Random::new(11);
        let time = |x: f64| 0.4 + 1.5 * x;
        let mut fit = Fit::new(1.0, time(1.0));
        for _ in 0..10 {
            for x in [1.0, 0.6, 0.3, 0.8] {
                fit.observe(x, time(x) * (1.0 + 0.02 * normal(&mut chance)), 0.8);
            }
        }
        assert!((fit.fixed() - 0.4).abs() < 0.1 && (fit.slope() - 1.5).abs() < 0.15, "{fit:?}");
    }

    /// A server that becomes slower bit by bit is followed, however long it was the same before.
    #[test]
    fn old_times_are_forgotten() {
        let mut fit = Fit::new(1.0, 1.0);
        for _ in 0..200 {
            fit.observe(1.0, 1.0, 0.8);
        }
        for _ in 0..12 {
            fit.observe(1.0, 1.4, 0.8);
        }
        assert!((fit.slope() - 1.4).abs() < 0.03, "{fit:?}");
    }
}
