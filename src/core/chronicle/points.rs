//! How long rounds took, as a row of points: a second apart at first. When there are too many,
//! every second one is dropped, and from then on points are twice as far apart. So the row always
//! spans the whole job, and a day of it has as many points as an hour.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::invariant::{Valid, require};

/// Points that are kept, at most: an hour of them, a second apart. Even, so that thinning keeps the
/// newest one.
pub(super) const POINTS_MAX: usize = 3600;
/// The least time between two points of a young job, in milliseconds.
const GAP: u64 = 1000;

/// How long rounds took lately. Times are in seconds; none: nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundPoint {
    /// When it was so, in seconds since the scheduler began, to the millisecond.
    pub at: f64,
    /// The newest round that some worker had finished.
    pub round: u64,
    /// How long a round took.
    pub measured: Option<f64>,
    /// How long it was expected to take with the placement, or the trees, in force.
    pub predicted: Option<f64>,
    /// The lower bound T*.
    pub bound: Option<f64>,
}

impl RoundPoint {
    /// One JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        // Numbers only, of which times are finite: there is nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// When it was so, in milliseconds. A negative time counts as 0.
    #[must_use]
    pub fn millis(&self) -> u64 {
        (self.at * 1e3).round() as u64
    }
}

/// A time, in seconds to the millisecond.
pub(super) fn seconds_of(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// See the module.
#[derive(Debug)]
pub(super) struct Points {
    kept: Vec<RoundPoint>,
    /// The least time between two of them, in milliseconds: doubles with each thinning.
    gap: u64,
}

impl Default for Points {
    fn default() -> Self {
        Self { kept: Vec::new(), gap: GAP }
    }
}

impl Points {
    /// True if a point of that time would be kept.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.kept.last().is_none_or(|last| now >= last.millis().saturating_add(self.gap))
    }

    /// Adds a point, unless it comes too soon after the last one, or no round has ended since.
    pub(super) fn add(&mut self, now: Duration, point: RoundPoint) {
        let is_news = self.kept.last().is_none_or(|last| last.round != point.round);
        if !is_news || !self.is_due(now) {
            return;
        }
        let at = seconds_of(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        self.kept.push(RoundPoint { at, ..point });
        if self.kept.len() > POINTS_MAX {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.gap = self.gap.saturating_mul(2);
        }
    }

    /// Those after that time, in order.
    pub(super) fn since(&self, millis: u64) -> &[RoundPoint] {
        let known = self.kept.partition_point(|point| point.millis() <= millis);
        &self.kept[known..]
    }

    /// There are not too many, in order, and none too close to the one before.
    pub(super) fn validate(&self) -> Valid {
        let Self { kept, gap } = self;
        require(kept.len() <= POINTS_MAX, || format!("{} points are kept", kept.len()))?;
        for pair in kept.windows(2) {
            let [one, next] = [pair[0].millis(), pair[1].millis()];
            require(next >= one.saturating_add(*gap), || {
                format!("a point at {next} ms, {gap} ms after that at {one} ms at the soonest")
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(round: u64) -> RoundPoint {
        RoundPoint { round, measured: Some(0.5), ..RoundPoint::default() }
    }

    /// One a second, for that many seconds.
    fn after(seconds: u64) -> Points {
        let mut points = Points::default();
        for second in 0..seconds {
            points.add(Duration::from_secs(second), point(second));
        }
        points.validate().unwrap();
        points
    }

    #[test]
    fn a_day_has_as_many_points_as_an_hour() {
        assert_eq!(after(3600).kept.len(), POINTS_MAX);
        let thinned = after(3601);
        assert_eq!((thinned.kept.len(), thinned.gap), (1801, 2000));
        let rounds: Vec<u64> = thinned.kept.iter().map(|point| point.round).collect();
        assert_eq!((rounds[0], rounds[1], rounds[1800]), (0, 2, 3600), "first and last are kept");
        let day = after(24 * 3600);
        assert_eq!(day.gap, 32_000);
        assert_eq!(day.kept[0].at, 0.0);
        assert!(day.kept.len() > POINTS_MAX / 2 && day.kept.len() <= POINTS_MAX);
        assert!(day.kept.last().unwrap().at >= (24 * 3600 - 32) as f64);
    }

    #[test]
    fn a_job_that_rests_has_no_points() {
        let mut points = Points::default();
        for second in 0..100 {
            points.add(Duration::from_secs(second), point(second / 50));
        }
        let at: Vec<f64> = points.kept.iter().map(|point| point.at).collect();
        assert_eq!(at, [0.0, 50.0]);
    }

    #[test]
    fn whoever_asks_for_later_points_gets_each_once() {
        let points = after(100);
        assert_eq!(points.since(0).len(), 99, "all but the one at 0");
        assert_eq!(points.since(98_999).len(), 1);
        assert_eq!(points.since(99_000).len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn points_are_bounded_in_order_and_apart(
            steps in prop::collection::vec((0_u64..3000, 0_u64..2), 1..20_000)
        ) {
            let (mut points, mut now, mut round) = (Points::default(), 0, 0);
            let mut first = None;
            for (step, rounds) in steps {
                now += step;
                round += rounds;
                let (gap, last) = (points.gap, points.kept.last().copied());
                points.add(Duration::from_millis(now), point(round));
                first = first.or(points.kept.first().copied());
                let newest = points.kept.last().copied().unwrap();
                let due = last.is_none_or(|last| {
                    last.round != round && now >= last.millis() + gap
                });
                prop_assert_eq!(newest.millis() == now && newest.round == round, due || last
                    .is_some_and(|last| last.millis() == now && last.round == round));
                prop_assert_eq!(points.kept.first().copied(), first);
            }
            prop_assert_eq!(points.validate(), Ok(()));
        }
    }
}
