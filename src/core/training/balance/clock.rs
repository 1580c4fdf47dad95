//! How long a worker computes in each iteration, without the time it waits for others: from the
//! last answer of the iteration before until its last gradient is pushed. The application does not
//! say so. It pushes each key once in an iteration, so a key that comes again begins the next one.
//!
//! Before it trains, worker 0 pushes the first values of each key, and meets the others in a
//! barrier (kvstore_dist.h, `InitImpl`): such a push is no gradient.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::wire::Key;

/// Keys of an iteration; a job with more is not measured.
const KEYS_MAX: usize = 1 << 20;
/// After that long without a push, or twice the time of an iteration, an iteration is over.
const REST: Duration = Duration::from_secs(1);

/// What an application pushes in each iteration: a key of one of its customers. Each kvstore is
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pushed {
    /// The number of the customer.
    pub customer_id: i32,
    /// The first key of the push.
    pub key: Key,
}

/// An iteration was computed; how long that took, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed(pub Option<Duration>);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ComputeClock {
    /// Which iteration it is.
    number: u64,
    /// By key: the iteration in which it was pushed last.
    keys: BTreeMap<Pushed, u64>,
    /// Keys that were pushed in this iteration, and in the one before.
    pushed: usize,
    usual: usize,
    /// Pushes of this iteration that a barrier shows to be first values.
    doubtful: Vec<Pushed>,
    /// Keys whose first values were seen: what is pushed of them from then on are gradients.
    initialized: BTreeSet<Pushed>,
    /// How long the last iteration took, waiting included.
    usual_time: Duration,
    /// When this iteration's first push was.
    first_push: Duration,
    /// The last answer before this iteration's first push.
    begin: Option<Duration>,
    answered: Option<Duration>,
    last_push: Duration,
    is_told: bool,
}

impl ComputeClock {
    /// A push begins. `may_set`: it may set the key's first values. Returns the iteration that is
    /// computed by that: this one if all keys were pushed that are usual, else the one before.
    pub fn pushed(&mut self, now: Duration, key: Pushed, may_set: bool) -> Option<Computed> {
        let last = self.keys.get(&key).copied();
        let mut computed = None;
        if last == Some(self.number) {
            computed = self.tell(self.last_push);
            self.number += 1;
            self.usual = self.pushed;
            self.pushed = 0;
            self.is_told = false;
            self.doubtful.clear();
        }
        if last.is_none() && self.keys.len() >= KEYS_MAX {
            return computed;
        }
        if last.is_none() && may_set && !self.initialized.contains(&key) {
            self.doubtful.push(key);
        }
        if self.pushed == 0 {
            if self.number > 0 {
                self.usual_time = now.saturating_sub(self.first_push);
            }
            self.first_push = now;
            self.begin = self.answered.filter(|_| self.number > 0);
        }
        self.keys.insert(key, self.number);
        self.pushed += 1;
        self.last_push = now;
        if self.pushed == self.usual { computed.or_else(|| self.tell(now)) } else { computed }
    }

    /// A request of this worker has ended.
    pub fn answered(&mut self, now: Duration) {
        self.answered = Some(now);
    }

    /// The worker meets others.
    pub fn barrier(&mut self) {
        for key in std::mem::take(&mut self.doubtful) {
            self.keys.remove(&key);
            self.initialized.insert(key);
            self.pushed -= 1;
        }
    }

    /// Time has passed. If nothing was pushed for long and all was answered, the iteration is over:
    /// it had fewer keys than the one before.
    pub fn rest(&mut self, now: Duration) -> Option<Computed> {
        let rest = REST.max(self.usual_time.saturating_mul(2));
        let rests = now >= self.last_push.saturating_add(rest);
        let answered = self.answered.is_some_and(|at| at > self.last_push);
        let some = self.pushed > 0 && self.doubtful.is_empty();
        if rests && answered && some { self.tell(self.last_push) } else { None }
    }

    fn tell(&mut self, end: Duration) -> Option<Computed> {
        if std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let time = self.begin.map(|begin| end.saturating_sub(begin));
        Some(Computed(time.filter(|time| !time.is_zero())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    impl ComputeClock {
        /// Of the first customer.
        fn push(&mut self, now: Duration, key: Key, may_set: bool) -> Option<Computed> {
            self.pushed(now, Pushed { customer_id: 0, key }, may_set)
        }
    }

    fn took(millis: u64) -> Option<Computed> {
        Some(Computed(Some(at(millis))))
    }

    #[test]
    fn an_iteration_is_computed_when_all_its_keys_are_pushed() {
        let mut clock = ComputeClock::default();
        for (now, key) in [(0, 1), (10, 2), (20, 3)] {
            assert_eq!(clock.push(at(now), key, false), None);
        }
        clock.answered(at(100));
        // The first one: it is over with the next one's first push, and nobody knows its begin.
        assert_eq!(clock.push(at(150), 3, false), Some(Computed(None)));
        assert_eq!(clock.push(at(160), 2, false), None);
        clock.answered(at(165)); // Of this iteration, while it goes on.
        assert_eq!(clock.push(at(180), 1, false), took(80));
        clock.answered(at(300));
        assert_eq!(clock.push(at(310), 1, false), None);
        // One key less from now on.
        assert_eq!(clock.push(at(320), 2, false), None);
        clock.answered(at(400));
        assert_eq!(clock.push(at(500), 1, false), took(20));
        assert_eq!(clock.push(at(510), 2, false), took(110));
    }

    #[test]
    fn an_iteration_with_fewer_keys_is_over_after_a_rest() {
        let mut clock = ComputeClock::default();
        for (now, key) in [(0, 1), (10, 2), (20, 1), (30, 2)] {
            clock.push(at(now), key, false);
            clock.answered(at(now + 1));
        }
        assert_eq!(clock.rest(at(9_000)), None, "it was told");
        assert_eq!(clock.push(at(9_050), 1, false), None);
        assert_eq!(clock.rest(at(99_000)), None, "nothing was answered");
        clock.answered(at(9_060));
        // The one before took 9.03 s.
        assert_eq!((clock.rest(at(27_109)), clock.rest(at(27_110))), (None, took(9_019)));
        assert_eq!(clock.rest(at(99_000)), None);
    }

    #[test]
    fn first_values_are_no_gradients() {
        let mut clock = ComputeClock::default();
        for key in 0..3 {
            assert_eq!(clock.push(at(key), key, true), None);
            clock.answered(at(key));
            clock.barrier();
        }
        // Worker 0 pushes gradients as it pushed the first values, and a barrier changes nothing.
        for (now, key) in [(10, 0), (11, 1), (12, 2)] {
            assert_eq!(clock.push(at(now), key, true), None);
        }
        clock.answered(at(20));
        clock.barrier();
        assert_eq!(clock.push(at(30), 0, true), Some(Computed(None)));
        assert_eq!(clock.push(at(31), 1, true), None);
        assert_eq!(clock.push(at(32), 2, true), took(12));
    }

    /// Two kvstores, as GANs have, use the same keys.
    #[test]
    fn keys_of_two_customers_are_two() {
        let mut clock = ComputeClock::default();
        for now in [0, 100, 200] {
            for customer_id in 0..2 {
                let push = Pushed { customer_id, key: 7 };
                let computed = clock.pushed(at(now + 10 * customer_id as u64), push, false);
                let is_last = customer_id == 1;
                assert_eq!(computed.is_some(), now > 0 && (is_last || now == 100), "{now}");
            }
            clock.answered(at(now + 50));
        }
    }
}
