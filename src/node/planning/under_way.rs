//! How much of the round under way is left, by what rounds were predicted to take since it began.
//! Says whether it pays to start it again along other trees. Pure; the time is an argument, and
//! stands still while the job rests.

use std::collections::VecDeque;
use std::time::Duration;

/// Fraction. So much of a model goes straight when a round starts again: where the owner has
/// counted some pushes of a part, the others come alone. Seen in the lab: rounds that started again
/// took 10 to 20 s longer than the new trees promised, where the star takes 70 s.
const STRAIGHT: f64 = 0.2;
/// A round that takes longer than predicted still has that fraction left.
const LEFT_LEAST: f64 = 0.05;
/// A change of the network is known after that time. So the time since then counts by what is
/// predicted now.
const KNOWN_AFTER: Duration = Duration::from_secs(3);

/// A time during which one prediction held.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Its end.
    until: Duration,
    /// Seconds of a round.
    predicted: f64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    /// The newest round that a worker has ended.
    ended: u64,
    /// Which fraction of the one after it was done ...
    done: f64,
    /// ... at that time.
    at: Duration,
    /// What came after that, the newest last.
    spans: VecDeque<Span>,
    /// It started again for better trees. It does so once at most: else no round would end while
    /// links change all the time.
    started: bool,
}

/// Seconds of a whole round.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundSeconds {
    /// Along the trees in force.
    pub(super) in_force: f64,
    /// Along new ones.
    pub(super) promised: f64,
    /// Straight to the servers.
    pub(super) star: f64,
}

impl UnderWay {
    /// A worker has ended that round.
    pub(super) fn ended(&mut self, worked: Duration, round: u64) {
        if round > self.ended {
            *self = Self { ended: round, at: worked, ..Self::default() };
        }
    }

    /// What was done of it is lost: it begins anew.
    pub(super) fn begins_again(&mut self, worked: Duration) {
        let Self { ended, started, .. } = *self;
        *self = Self { ended, started, at: worked, ..Self::default() };
    }

    /// It has gone on until now. All of it would take so many seconds, as was predicted until now.
    pub(super) fn goes_on(&mut self, worked: Duration, predicted: f64) {
        if predicted > 0.0 {
            self.spans.push_back(Span { until: worked, predicted });
        }
        while let Some(span) = self.spans.front()
            && span.until + KNOWN_AFTER <= worked
        {
            self.done += span.until.saturating_sub(self.at).as_secs_f64() / span.predicted;
            self.at = self.at.max(span.until);
            self.spans.pop_front();
        }
    }

    /// True if it is to start again along the new trees.
    pub(super) fn starts_again(&mut self, worked: Duration, round: RoundSeconds) -> bool {
        let RoundSeconds { in_force, promised, star } = round;
        let lately = worked.saturating_sub(self.at).as_secs_f64();
        let left = (in_force - self.done * in_force - lately).max(LEFT_LEAST * in_force);
        let pays = !self.started && left > promised + STRAIGHT * star;
        if pays {
            self.started = true;
            self.begins_again(worked);
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// It began at 1 s, and until that time it was predicted to take so long.
    fn round(until: f64, predicted: f64) -> UnderWay {
        let mut round = UnderWay::default();
        round.ended(seconds(1.0), 5);
        for half in 3..=(until * 2.0) as u32 {
            round.goes_on(seconds(f64::from(half) / 2.0), predicted);
        }
        round.ended(seconds(until), 4);
        round
    }

    fn again(round: &mut UnderWay, now: f64, in_force: f64, promised: f64) -> bool {
        let star = 5.0;
        round.starts_again(seconds(now), RoundSeconds { in_force, promised, star })
    }

    #[test]
    fn what_is_left_is_compared_with_all_of_a_new_round() {
        // 3 of its 20 seconds have passed. To start again costs a second.
        assert!(!again(&mut round(4.0, 20.0), 4.0, 20.0, 16.5));
        assert!(again(&mut round(4.0, 20.0), 4.0, 20.0, 15.5));
        // Now it is slower, for 3 s: half of it was done before, and a tenth since.
        assert!(!again(&mut round(9.0, 10.0), 9.0, 30.0, 11.5));
        assert!(again(&mut round(9.0, 10.0), 9.0, 30.0, 10.5));
    }

    /// What was predicted a moment ago does not count.
    #[test]
    fn a_short_round_that_has_become_slow_is_known_to_be() {
        assert!(again(&mut round(3.5, 1.0), 3.5, 15.0, 2.0));
        // It goes on for longer than predicted. So little is left.
        assert!(!again(&mut round(31.0, 10.0), 31.0, 20.0, 1.0));
        assert!(again(&mut round(31.0, 10.0), 31.0, 200.0, 5.0), "even that takes long");
    }

    #[test]
    fn a_round_starts_again_once_at_most() {
        let mut round = round(9.0, 10.0);
        assert!(!again(&mut round, 9.0, 10.0, 2.0), "most of it is done");
        round.begins_again(seconds(9.0));
        assert!(again(&mut round, 9.0, 10.0, 2.0), "nothing of it is done");
        round.begins_again(seconds(9.0));
        assert!(!again(&mut round, 9.0, 10.0, 2.0), "it is the same round");
        round.ended(seconds(10.0), 6);
        assert!(again(&mut round, 10.0, 10.0, 2.0));
        round.goes_on(seconds(31.0), 0.0);
    }
}
