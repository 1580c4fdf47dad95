//! When nothing is moved though the model says that it pays: for some rounds after a plan that was
//! rolled back, and where rounds themselves show that the model is wrong.

use std::time::Duration;

use super::look::{Basis, PlannerLook};
use super::state::Planner;
use crate::placement::tuning::{HARDLY_HOLDS, HOLD_OTHER_NETWORK, HOLD_ROUNDS, HOLD_ROUNDS_MAX};
use crate::wire::NodeId;

/// How long rounds take in the network as it is now. Two networks in which they take as long are
/// one to the planner.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkTimes {
    /// Seconds of a round with that layout, by the model.
    pub(super) round: f64,
    /// Seconds of the shortest possible one.
    pub(super) best: f64,
}

impl NetworkTimes {
    pub(super) fn of(look: &PlannerLook, loads: &[f64]) -> Self {
        let best = look.model.bound(look.total());
        Self { round: look.model.round_seconds(loads), best }
    }

    /// Whether neither differs from what it was then by more than that fraction.
    pub(super) fn is_near(self, then: Self, fraction: f64) -> bool {
        let near = |now: f64, then: f64| (now - then).abs() <= fraction * then;
        near(self.round, then.round) && near(self.best, then.best)
    }
}

/// The time after a plan that was rolled back.
#[derive(Clone, Debug)]
pub(super) struct RollbackHold {
    until: u64,
    length: u64,
    /// In the network in which the plan failed.
    times: Option<NetworkTimes>,
}

impl Default for RollbackHold {
    fn default() -> Self {
        Self { until: 0, length: HOLD_ROUNDS, times: None }
    }
}

impl RollbackHold {
    /// A plan was for the better.
    pub(super) const fn shorten(&mut self) {
        self.length = HOLD_ROUNDS;
    }

    /// A plan is rolled back in that round, to a layout with which rounds take so long.
    pub(super) fn begin(&mut self, round: u64, times: NetworkTimes) {
        self.until = round.saturating_add(self.length);
        self.length = self.length.saturating_mul(2).min(HOLD_ROUNDS_MAX);
        self.times = Some(times);
    }

    /// The round from which on something may be moved again.
    pub(super) const fn until(&self) -> u64 {
        self.until
    }

    /// Whether nothing is to be moved in that round. What was learnt of one network says nothing
    /// about another.
    fn applies(&self, round: u64, now: NetworkTimes) -> bool {
        round < self.until && self.times.is_none_or(|then| now.is_near(then, HOLD_OTHER_NETWORK))
    }
}

impl Planner {
    pub(super) fn is_held(&self, look: &PlannerLook) -> bool {
        self.hold.applies(self.newest_round(), NetworkTimes::of(look, &look.loads))
    }

    /// The slowest server, if rounds show that it is not true that it holds them up: it has hardly
    /// anything, and they are over sooner than it could be done. As long as the round of now is not
    /// later than the last ones, that is.
    pub(super) fn refuted(&self, now: Duration, look: &PlannerLook) -> Option<NodeId> {
        let seconds = look.model.server_seconds(&look.loads);
        let slowest = seconds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (slowest, needed) = slowest?;
        #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
        let mean = look.total() / seconds.len() as f64;
        let measured = self.times.round_seconds(self.switch_round);
        let (measured, at) = (measured?, self.progress_at?);
        let refuted = look.basis == Basis::Links
            && look.loads.get(slowest).is_some_and(|load| *load < HARDLY_HOLDS * mean)
            && *needed > measured
            && now.saturating_sub(at).as_secs_f64() <= measured;
        look.model.servers().get(slowest).map(|server| server.id).filter(|_| refuted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: NetworkTimes = NetworkTimes { round: 8.0, best: 6.0 };

    #[test]
    fn each_hold_is_longer_until_a_plan_is_for_the_better() {
        let mut hold = RollbackHold::default();
        assert!(!hold.applies(0, THEN));
        hold.begin(100, THEN);
        assert!(hold.applies(119, THEN) && !hold.applies(120, THEN));
        hold.begin(200, THEN);
        assert!(hold.applies(239, THEN) && !hold.applies(240, THEN));
        hold.shorten();
        hold.begin(300, THEN);
        assert!(!hold.applies(320, THEN));
        for _ in 0..10 {
            hold.begin(1000, THEN);
        }
        assert!(hold.applies(1319, THEN) && !hold.applies(1320, THEN));
    }

    #[test]
    fn another_network_is_not_held() {
        let mut hold = RollbackHold::default();
        hold.begin(0, THEN);
        assert!(hold.applies(1, NetworkTimes { round: 9.0, best: 5.0 }));
        assert!(!hold.applies(1, NetworkTimes { round: 80.0, best: 6.0 }));
        assert!(!hold.applies(1, NetworkTimes { round: 8.0, best: 4.0 }));
    }
}
