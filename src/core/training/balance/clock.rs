//! How long a worker computes in each iteration, without the time in which it waits for others.
//! That is from the last answer of the iteration before until the last gradient is pushed.
//!
//! The application does not say where an iteration ends. But it pushes each key once in an
//! iteration. So when a key comes again, the next iteration has begun.
//!
//! Before worker 0 trains, it pushes the first values of each key. Then it meets the others in a
//! barrier (kvstore_dist.h, `InitImpl`). Such a push is no gradient.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::wire::Key;

/// The most keys of an iteration. A job with more is not measured.
const KEYS_MAX: usize = 1 << 20;
/// An iteration is over after that long without a push, and twice as long as the last one took.
const REST: Duration = Duration::from_secs(1);

/// What an application pushes: a key of one of its customers. Each kvstore is a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushedKey {
    /// The number of the customer.
    pub customer_id: i32,
    /// The first key of the push.
    pub key: Key,
}

/// An iteration was computed. Says how long that took, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed(pub Option<Duration>);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ComputeClock {
    /// The number of the iteration.
    number: u64,
    /// For each key the iteration in which it was pushed last.
    keys: BTreeMap<PushedKey, u64>,
    /// How many keys were pushed in this iteration.
    pushed: usize,
    /// How many keys were pushed in the iteration before.
    usual: usize,
    /// Pushes of this iteration that may be first values. If a barrier follows, they are.
    doubtful: Vec<PushedKey>,
    /// Keys whose first values were pushed. All later pushes of them are gradients.
    initialized: BTreeSet<PushedKey>,
    /// How long the last iteration took, waiting included.
    usual_time: Duration,
    /// When the first push of this iteration was.
    first_push: Duration,
    /// When the last answer before that push came.
    begin: Option<Duration>,
    /// When the last answer came.
    answered: Option<Duration>,
    /// When the last push was.
    last_push: Duration,
    /// The end of this iteration was told.
    is_told: bool,
    /// The application has said that this iteration is over: the next push begins the next one.
    is_over: bool,
}

impl ComputeClock {
    /// A push begins. `may_set`: it may set the key's first values. Says so if an iteration ends
    /// with it: this one, if it has as many keys as the one before, or the one before, if this push
    /// begins the next one.
    pub fn pushed(&mut self, now: Duration, key: PushedKey, may_set: bool) -> Option<Computed> {
        let last = self.keys.get(&key).copied();
        let mut computed = None;
        if last == Some(self.number) || std::mem::take(&mut self.is_over) {
            computed = self.tell(self.last_push);
            self.number += 1;
            self.usual = self.pushed;
            self.pushed = 0;
            self.is_told = false;
            self.is_over = false;
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

    /// Time has passed. If nothing was pushed for long, and all was answered, the iteration is
    /// over. Then it had fewer keys than the one before.
    pub fn rest(&mut self, now: Duration) -> Option<Computed> {
        let rest = REST.max(self.usual_time.saturating_mul(2));
        let rests = now >= self.last_push.saturating_add(rest);
        let answered = self.answered.is_some_and(|at| at > self.last_push);
        let some = self.pushed > 0 && self.doubtful.is_empty();
        if rests && answered && some { self.tell(self.last_push) } else { None }
    }

    /// The application says that nothing more is pushed of this iteration. If something was, it is
    /// over.
    pub fn settle(&mut self) -> Option<Computed> {
        if self.pushed == 0 || !self.doubtful.is_empty() {
            return None;
        }
        self.is_over = true;
        self.tell(self.last_push)
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
            self.pushed(now, PushedKey { customer_id: 0, key }, may_set)
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
    fn an_iteration_is_over_when_the_application_says_so() {
        let mut clock = ComputeClock::default();
        assert_eq!(clock.settle(), None, "nothing was pushed");
        clock.push(at(0), 1, false);
        clock.push(at(10), 2, false);
        clock.answered(at(20));
        assert_eq!((clock.settle(), clock.settle()), (Some(Computed(None)), None));
        // The next push begins the next iteration, though its key was not pushed in this one.
        assert_eq!(clock.push(at(50), 3, false), None);
        assert_eq!(clock.push(at(60), 1, false), took(40));
        assert_eq!(clock.settle(), None, "it was told");
        clock.answered(at(70));
        assert_eq!(clock.push(at(80), 1, false), None);
        assert_eq!(clock.push(at(90), 2, false), took(20));
        // First values are no iteration.
        let mut clock = ComputeClock::default();
        clock.push(at(0), 1, true);
        assert_eq!(clock.settle(), None);
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
                let push = PushedKey { customer_id, key: 7 };
                let computed = clock.pushed(at(now + 10 * customer_id as u64), push, false);
                let is_last = customer_id == 1;
                assert_eq!(computed.is_some(), now > 0 && (is_last || now == 100), "{now}");
            }
            clock.answered(at(now + 50));
        }
    }
}
