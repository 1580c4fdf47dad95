//! Polls a socket for the next small message at the time when it should arrive. Two peers that
//! exchange small messages one after the other wait some tens of microseconds for each, and
//! sleeping and waking takes as long again. So the thread stays awake for as long as the last
//! messages took, and then looks: normally once, so that this costs no more system calls than
//! sleeping. Where messages do not arrive at such intervals it does not pay, and is tried less and
//! less often.
//!
//! Decides from what it is told; knows no socket and no clock.

use std::time::Duration;

/// The longest time before the first look. Nobody stays awake for sleeps that are longer.
const AFTER_MAX: Duration = Duration::from_micros(100);
/// The shortest one.
const AFTER_MIN: Duration = Duration::from_micros(1);
/// Looks before going to sleep, each after half as long again: five times as long in all, but no
/// longer than `LOOKS_LONGEST`. A sleep costs about that.
const LOOKS: usize = 5;
const LOOKS_LONGEST: Duration = Duration::from_micros(250);
/// So many short sleeps in a row make it stay awake.
const SLEEPS: u32 = 8;
/// The most that it may take. Each time that it did not pay doubles the number.
const SLEEPS_MAX: u32 = 4096;
/// Credit at the beginning, and at most. Each message that came in time adds 1; each that did not
/// takes `PRICE`, and at nothing it ends.
const CREDIT: u32 = 16;
const CREDIT_MAX: u32 = 64;
const PRICE: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct AdaptivePoll {
    /// For how long to stay awake; zero: not at all.
    after: Duration,
    credit: u32,
    /// Short sleeps in a row, and how many of them it takes.
    short: u32,
    enough: u32,
}

impl Default for AdaptivePoll {
    fn default() -> Self {
        Self { after: Duration::ZERO, credit: 0, short: 0, enough: SLEEPS }
    }
}

impl AdaptivePoll {
    /// When to look, from the beginning of the wait; never: sleep at once.
    pub(super) fn looks(&self) -> impl Iterator<Item = Duration> + use<> {
        let first = (!self.after.is_zero()).then_some(self.after);
        let looks = std::iter::successors(first, |look| Some(*look + *look / 2));
        looks.take(LOOKS).take_while(|look| *look <= LOOKS_LONGEST)
    }

    /// That look found a message.
    pub(super) fn came(&mut self, look: usize) {
        // It may have been there for a while, and the next look is a bit earlier; or it was late
        // for the first look. So about one message in five is seen by a later one.
        let after = if look == 0 { self.after * 31 / 32 } else { self.after * 9 / 8 };
        self.after = after.clamp(AFTER_MIN, AFTER_MAX);
        self.credit = (self.credit + 1).min(CREDIT_MAX);
        if self.credit == CREDIT_MAX {
            self.enough = SLEEPS;
        }
    }

    /// No look found one, or others ran for so long meanwhile that sleeping would have been
    /// shorter.
    pub(super) fn in_vain(&mut self) {
        self.after = (self.after * 9 / 8).clamp(AFTER_MIN, AFTER_MAX);
        self.credit = self.credit.saturating_sub(PRICE);
        if self.credit == 0 {
            self.after = Duration::ZERO;
            self.enough = (self.enough * 2).min(SLEEPS_MAX);
            self.short = 0;
        }
    }

    /// A small message ended a sleep of that time.
    pub(super) fn slept(&mut self, time: Duration) {
        if !self.after.is_zero() {
            return;
        }
        self.short = if time <= AFTER_MAX { self.short + 1 } else { 0 };
        if self.short >= self.enough {
            (self.after, self.credit, self.short) = (time.max(AFTER_MIN), CREDIT, 0);
        }
    }

    /// A sleep ended otherwise.
    pub(super) const fn disturbed(&mut self) {
        self.short = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Plays waits for messages that come after that time; `woken` is what being woken adds. How
    /// many were seen awake, how many looks were in vain, and how long it stayed awake in all.
    fn play(
        poll: &mut AdaptivePoll,
        waits: u32,
        comes: impl Fn(u32) -> Duration,
        woken: Duration,
    ) -> (u32, u32, Duration) {
        let (mut seen, mut vain, mut awake) = (0, 0, Duration::ZERO);
        for wait in 0..waits {
            let comes = comes(wait);
            let looks: Vec<Duration> = poll.looks().collect();
            let found = looks.iter().position(|look| *look >= comes);
            vain += found.unwrap_or(looks.len()) as u32;
            awake +=
                found.or(looks.len().checked_sub(1)).map_or(Duration::ZERO, |look| looks[look]);
            match found {
                Some(look) => {
                    seen += 1;
                    poll.came(look);
                }
                None => {
                    if !looks.is_empty() {
                        poll.in_vain();
                    }
                    poll.slept(comes + woken);
                }
            }
        }
        (seen, vain, awake)
    }

    #[test]
    fn who_is_answered_soon_stays_awake_for_little_more_than_it_takes() {
        let mut poll = AdaptivePoll::default();
        play(&mut poll, 200, |_| micros(20), micros(40));
        let (seen, vain, awake) = play(&mut poll, 1000, |_| micros(20), micros(40));
        assert_eq!(seen, 1000);
        assert!(vain < 300, "{vain}");
        assert!(awake < 1000 * micros(24), "{awake:?}");
    }

    /// Times that scatter by a third, and one in fifty that takes long.
    #[test]
    fn late_ones_are_borne() {
        let mut poll = AdaptivePoll::default();
        let comes = |wait: u32| {
            if wait % 50 == 49 { micros(900) } else { micros(15 + u64::from(wait * 7 % 10)) }
        };
        play(&mut poll, 200, comes, micros(40));
        let (seen, vain, _) = play(&mut poll, 1000, comes, micros(40));
        assert!(seen >= 950, "{seen}");
        assert!(vain < 500, "{vain}");
    }

    #[test]
    fn where_nothing_comes_soon_everybody_sleeps() {
        let mut poll = AdaptivePoll::default();
        assert_eq!(play(&mut poll, 10_000, |_| micros(300), micros(40)).0, 0);
        assert_eq!(poll.looks().count(), 0);
        // After a time in which it paid, it ends at once.
        play(&mut poll, 1000, |_| micros(20), micros(40));
        assert!(poll.looks().count() > 1);
        let (_, vain, awake) = play(&mut poll, 10_000, |_| micros(300), micros(40));
        let times = CREDIT_MAX / PRICE;
        assert!(vain <= times * LOOKS as u32 && awake <= times * LOOKS_LONGEST, "{vain} {awake:?}");
    }

    /// What he waits for comes only when he sleeps.
    #[test]
    fn what_does_not_pay_is_tried_ever_less() {
        const WAITS: u32 = 100_000;
        let mut poll = AdaptivePoll::default();
        let mut awake = Duration::ZERO;
        for _ in 0..WAITS {
            if let Some(last) = poll.looks().last() {
                awake += last;
                poll.in_vain();
            }
            poll.slept(micros(15));
        }
        assert!(awake < WAITS * micros(15) / 100, "{awake:?}");
        // One that is woken by something else was not answered soon.
        let mut poll = AdaptivePoll::default();
        for _ in 0..1000 {
            poll.slept(micros(15));
            poll.disturbed();
        }
        assert_eq!(poll.looks().count(), 0);
    }
}
