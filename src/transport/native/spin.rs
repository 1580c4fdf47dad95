//! Polls for a short while before a thread sleeps. A wake-up costs several microseconds, more than
//! a message through shared memory; but polling in vain takes time from others. So it lasts only
//! for as long as it has paid lately.

#![allow(
    clippy::disallowed_methods,
    reason = "microseconds, compared within a call: no pause is a limit"
)]

use std::time::{Duration, Instant};

/// The longest look.
const SPIN_LONGEST: Duration = Duration::from_micros(40);
/// The shortest that is tried.
const SPIN_SHORTEST: Duration = Duration::from_micros(5);
/// After looks in vain have made it too short, one wait in so many still looks.
const TRY_EVERY: u32 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Spin {
    time: Duration,
    skipped: u32,
}

impl Default for Spin {
    fn default() -> Self {
        Self { time: SPIN_LONGEST, skipped: 0 }
    }
}

impl Spin {
    /// Looks until there is something, or the time is up; true if there is.
    pub(super) fn until(&mut self, there_is: impl Fn() -> bool) -> bool {
        let time = self.next();
        if time.is_zero() {
            return false;
        }
        let until = Instant::now() + time;
        loop {
            for _ in 0..16 {
                if there_is() {
                    self.learn(true);
                    return true;
                }
                std::hint::spin_loop();
            }
            if Instant::now() >= until {
                self.learn(false);
                return false;
            }
        }
    }

    /// For how long to look this time.
    fn next(&mut self) -> Duration {
        if self.time >= SPIN_SHORTEST {
            return self.time;
        }
        self.skipped += 1;
        if self.skipped < TRY_EVERY {
            return Duration::ZERO;
        }
        self.skipped = 0;
        SPIN_LONGEST
    }

    fn learn(&mut self, paid: bool) {
        self.time = if paid { SPIN_LONGEST } else { self.time * 3 / 4 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_in_vain_ends_soon_and_is_tried_again() {
        let mut spin = Spin::default();
        let mut vain = 0;
        while !spin.next().is_zero() {
            spin.learn(false);
            vain += 1;
        }
        assert!((5..20).contains(&vain), "{vain}");
        let tries = (0..320).filter(|_| !spin.next().is_zero()).count();
        assert_eq!(tries, 10);
        assert!(spin.until(|| true) || spin.next().is_zero());
        spin.learn(true);
        assert_eq!(spin.next(), SPIN_LONGEST);
    }
}
