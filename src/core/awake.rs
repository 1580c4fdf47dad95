//! A clock that stands still while its process stands still. All limits on what others do are
//! measured by it, so that a process that was stopped as a whole (a signal, a container's pause, a
//! suspended machine) does not take its own pause for the silence of others.
//!
//! It is read with the time of a clock that never stops. Between two readings at most [`STEP`]
//! counts, whoever reads; so it must be read more often than that, which the threads that keep time
//! do. A process that merely gets little processor time reads late, too: its limits take longer,
//! but each reading counts, so they come. Touches nothing; any number of threads may read it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest time between two readings that counts.
pub const STEP: Duration = Duration::from_secs(1);
/// A thread that sleeps towards a limit wakes after that time at the latest, to read the clock.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Readings that are closer to each other are not noted.
const NOTED: u64 = 20_000_000;
/// In place of [`AwakeClock::counts_until`] while a pause is noted.
const CHANGES: u64 = u64::MAX;
/// How often a reader tries that finds a change under way, which takes another thread nanoseconds.
const TRIES: u32 = 10_000;

/// See the module. All numbers are nanoseconds.
///
/// The fields change together: `counts_until` is [`CHANGES`] meanwhile, and never decreases
/// otherwise. So what was read between two equal values of it belongs together.
#[derive(Debug)]
pub struct AwakeClock {
    /// Until then, by the other clock, all time counts.
    counts_until: AtomicU64,
    /// What did not count so far.
    missed: AtomicU64,
    /// What this clock showed at the end of the last pause. A thread that read the other clock
    /// before the pause, and comes here after it, must not see an earlier time.
    at_least: AtomicU64,
}

impl Default for AwakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl AwakeClock {
    /// Begins at zero, as the other clock does.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts_until: AtomicU64::new(STEP.as_nanos() as u64),
            missed: AtomicU64::new(0),
            at_least: AtomicU64::new(0),
        }
    }

    /// The time of this clock when the other one shows `passed`.
    pub fn read(&self, passed: Duration) -> Duration {
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(CHANGES - 1);
        for _ in 0..TRIES {
            if let Some(now) = self.try_read(passed) {
                return Duration::from_nanos(now);
            }
            std::hint::spin_loop();
        }
        // This process was forked in the middle of a change, and nobody is left who ends it.
        let missed = self.missed.load(Ordering::Acquire);
        let now = passed.saturating_sub(missed).max(self.at_least.load(Ordering::Acquire));
        Duration::from_nanos(now)
    }

    /// What did not count so far.
    pub fn missed(&self) -> Duration {
        Duration::from_nanos(self.missed.load(Ordering::Acquire))
    }

    /// None if another thread changes it.
    fn try_read(&self, passed: u64) -> Option<u64> {
        let until = self.counts_until.load(Ordering::Acquire);
        if until == CHANGES {
            return None;
        }
        let missed = self.missed.load(Ordering::Acquire);
        let at_least = self.at_least.load(Ordering::Acquire);
        if self.counts_until.load(Ordering::Acquire) != until {
            return None;
        }
        if passed > until {
            return self.note_pause(until, missed, passed);
        }
        let next = passed.saturating_add(STEP.as_nanos() as u64).min(CHANGES - 1);
        if next > until + NOTED {
            // If that fails somebody else has read it just now.
            let (set, seen) = (Ordering::Release, Ordering::Relaxed);
            let _ = self.counts_until.compare_exchange(until, next, set, seen);
        }
        Some(passed.saturating_sub(missed).max(at_least))
    }

    /// Nobody has read it for longer than a step.
    fn note_pause(&self, until: u64, missed: u64, passed: u64) -> Option<u64> {
        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.counts_until.compare_exchange(until, CHANGES, set, seen).ok()?;
        let now = until.saturating_sub(missed);
        self.missed.store(missed + (passed - until), Ordering::Release);
        self.at_least.store(now, Ordering::Release);
        let next = passed.saturating_add(STEP.as_nanos() as u64).min(CHANGES - 1);
        self.counts_until.store(next, Ordering::Release);
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_goes_with_the_other_clock_as_long_as_it_is_read() {
        let clock = AwakeClock::new();
        for at in (0..600_000).step_by(50) {
            assert_eq!(clock.read(ms(at)), ms(at));
        }
        assert_eq!(clock.missed(), Duration::ZERO);
    }

    #[test]
    fn of_a_pause_one_step_counts_however_long_it_is() {
        for pause in [1_001, 5_000, 75_000, 400_000_000] {
            let clock = AwakeClock::new();
            clock.read(ms(900));
            clock.read(ms(1_700));
            assert_eq!(clock.read(ms(1_700 + pause)), ms(2_700));
            assert_eq!(clock.missed(), ms(pause - 1_000));
            assert_eq!(clock.read(ms(1_700 + pause + 250)), ms(2_950));
            assert_eq!(clock.read(ms(1_700 + pause + 250 + pause)), ms(3_950), "and again");
        }
    }

    /// What a thread sees that was stopped between looking at the other clock and coming here.
    #[test]
    fn it_never_goes_back_after_a_pause() {
        let clock = AwakeClock::new();
        assert_eq!(clock.read(ms(990)), ms(990));
        assert_eq!(clock.read(ms(76_000)), ms(1_990));
        assert_eq!(clock.read(ms(995)), ms(1_990));
        assert_eq!(clock.read(ms(76_001)), ms(1_991));
    }

    /// A machine that is so busy that time is looked at every three seconds.
    #[test]
    fn readings_that_come_late_defer_a_limit_and_not_for_ever() {
        let clock = AwakeClock::new();
        let late = (1..).find(|look| clock.read(ms(3_000 * look)) >= ms(60_000)).unwrap();
        assert_eq!(late, 60);
    }

    #[test]
    fn whatever_the_pauses_it_is_steady_and_counts_what_it_should() {
        for seed in 0..200 {
            let (mut random, clock) = (Random::new(seed), AwakeClock::new());
            let (mut passed, mut expected) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..300 {
                let step = match random.below(10) {
                    0 => random.time(ms(100_000)),
                    _ => random.time(ms(900)),
                };
                passed += step;
                let (before, now) = (clock.read(passed.saturating_sub(step)), clock.read(passed));
                expected += step.min(STEP);
                // A reading that was not noted makes the next step longer by that much at most.
                let off = expected.abs_diff(now);
                assert!(before <= now, "seed {seed}: {before:?} {now:?}");
                assert!(off <= ms(20) * 300, "seed {seed}: {now:?} for {expected:?}");
                assert_eq!(now + clock.missed(), passed, "seed {seed}");
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is the clock that several threads read")]
    fn threads_that_read_it_together_agree() {
        let clock = AwakeClock::new();
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let readers: [_; 3] = std::array::from_fn(|_| {
                scope.spawn(|| {
                    let mut last = Duration::ZERO;
                    loop {
                        let at = passed.load(Ordering::Acquire);
                        let now = clock.read(Duration::from_nanos(at));
                        assert!(now >= last, "{now:?} after {last:?}");
                        last = now;
                        if at >= 10_000_000_000_000 {
                            return now;
                        }
                    }
                })
            });
            for tick in 1..=10_000_u64 {
                // A pause of 9 s every now and then.
                let step = if tick % 10 == 0 { 9_100_000_000 } else { 100_000_000 };
                let at = passed.fetch_add(step, Ordering::AcqRel) + step;
                clock.read(Duration::from_nanos(at));
            }
            let nows = readers.map(|reader| reader.join().unwrap());
            assert_eq!(nows[0], nows[1]);
            assert_eq!(nows[1], nows[2]);
            // Of each ten ticks, nine of 100 ms and a second.
            assert!(nows[0] <= ms(1_000 * 1_900), "{:?}", nows[0]);
        });
    }
}
