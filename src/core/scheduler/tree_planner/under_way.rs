//! How much of the round under way is done, by what rounds were predicted to take since it began.
//! Says whether it pays to start it again along other trees. Pure; the time is an argument, and
//! stands still while the job rests.

use std::collections::VecDeque;
use std::time::Duration;

/// Factor. The new trees have to be better by that: what is known shortly after a change is known
/// for some links only.
const PAYS: f64 = 1.25;
/// Fraction. So much of a model goes straight at most, in two rounds, if one starts again: where
/// the owner has counted some pushes of a part, the others come alone. That is no more than what is
/// done. Seen in the lab: where a round started again, it and the next one took 26 s more than the
/// new trees promised, and the star takes 80 s.
const STRAIGHT: f64 = 0.3;
/// A change of the network is known after that time. So the time since then counts by what is
/// predicted now.
const KNOWN_AFTER: Duration = Duration::from_secs(3);

/// A time during which one prediction held.
#[derive(Clone, Copy, Debug)]
struct PredictionSpan {
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
    spans: VecDeque<PredictionSpan>,
    /// Seconds of a whole round along the trees that it takes, if others are in force since.
    along: Option<f64>,
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

    /// Other trees are in force now. It goes on along the former ones, along which all of it would
    /// take `seconds`.
    pub(super) fn other_trees(&mut self, seconds: f64) {
        self.along = Some(self.along.map_or(seconds, |along| along.max(seconds)));
    }

    /// What was done of it is lost: it begins anew.
    pub(super) fn begins_again(&mut self, worked: Duration) {
        let Self { ended, started, .. } = *self;
        *self = Self { ended, started, at: worked, ..Self::default() };
    }

    /// It has gone on until now. All of a round would take so many seconds along the trees in
    /// force, as was predicted until now.
    pub(super) fn goes_on(&mut self, worked: Duration, predicted: f64) {
        let predicted = self.along.unwrap_or(predicted);
        // While the job rests nothing is added.
        if predicted > 0.0 && self.spans.back().is_none_or(|span| span.until < worked) {
            self.spans.push_back(PredictionSpan { until: worked, predicted });
        }
        while let Some(span) = self.spans.front()
            && span.until + KNOWN_AFTER <= worked
        {
            self.done += span.until.saturating_sub(self.at).as_secs_f64() / span.predicted;
            self.at = self.at.max(span.until);
            self.spans.pop_front();
        }
    }

    /// True if it is to start again along the new trees. If it does not, what is left of it goes
    /// along the old ones. The next round goes along the new ones in either case.
    pub(super) fn starts_again(&mut self, worked: Duration, round: RoundSeconds) -> bool {
        let RoundSeconds { in_force, promised, star } = round;
        let seconds = self.along.map_or(in_force, |along| along.max(in_force));
        let lately = worked.saturating_sub(self.at).as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
        let done = (self.done + lately).min(1.0);
        let again = PAYS * promised + done.min(STRAIGHT) * star;
        let pays = !self.started && (1.0 - done) * seconds > again;
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
        let star = 10.0;
        round.starts_again(seconds(now), RoundSeconds { in_force, promised, star })
    }

    #[test]
    fn what_is_left_is_compared_with_a_round_along_the_new_trees() {
        // A fifth is done: 4 of 20 seconds. So 16 s are left, and a fifth of the model goes
        // straight, which takes 2 s.
        assert!(!again(&mut round(5.0, 20.0), 5.0, 20.0, 14.1 / 1.25));
        assert!(again(&mut round(5.0, 20.0), 5.0, 20.0, 13.9 / 1.25));
        // Nothing of it is done, so nothing goes straight.
        assert!(again(&mut round(1.0, 20.0), 1.0, 20.0, 19.9 / 1.25));
        // Now it is slower, for 3 s: half of it was done before, and a tenth since. So 12 s are
        // left; 3 s go straight.
        assert!(!again(&mut round(9.0, 10.0), 9.0, 30.0, 9.1 / 1.25));
        assert!(again(&mut round(9.0, 10.0), 9.0, 30.0, 8.9 / 1.25));
    }

    /// What was predicted a moment ago does not count.
    #[test]
    fn a_short_round_that_has_become_slow_is_known_to_be() {
        assert!(again(&mut round(3.5, 1.0), 3.5, 15.0, 8.0));
        // It goes on for longer than predicted: all of it is done.
        assert!(!again(&mut round(31.0, 10.0), 31.0, 15.0, 5.0));
    }

    #[test]
    fn a_round_starts_again_once_at_most() {
        let mut round = round(9.0, 10.0);
        assert!(!again(&mut round, 9.0, 10.0, 4.0), "most of it is done");
        round.begins_again(seconds(9.0));
        assert!(again(&mut round, 9.0, 10.0, 4.0), "nothing of it is done");
        round.begins_again(seconds(9.0));
        assert!(!again(&mut round, 9.0, 10.0, 4.0), "it is the same round");
        round.ended(seconds(10.0), 6);
        assert!(again(&mut round, 10.0, 10.0, 4.0));
        round.goes_on(seconds(31.0), 0.0);
    }

    /// Trees came into force that promise 5 s. The round takes 30 s along the former ones.
    #[test]
    fn a_round_goes_on_along_its_trees_when_others_come() {
        let goes_on = || {
            let mut round = round(4.0, 30.0);
            round.other_trees(30.0);
            (9..20).for_each(|half| round.goes_on(seconds(f64::from(half) / 2.0), 5.0));
            round
        };
        assert!(again(&mut goes_on(), 10.0, 5.0, 4.5), "three tenths are done");
        let mut round = goes_on();
        round.ended(seconds(10.0), 6);
        assert!(!again(&mut round, 10.0, 5.0, 4.5), "the next one takes the new trees");
    }

    #[test]
    fn nothing_is_added_while_the_job_rests() {
        let mut round = round(4.0, 30.0);
        (0..1000).for_each(|_| round.goes_on(seconds(4.5), 5.0));
        assert!(round.spans.len() < 10, "{round:?}");
    }
}
