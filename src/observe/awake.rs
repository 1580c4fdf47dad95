//! The time of this process for limits on what others do: it stands still while the process stands
//! still ([`AwakeClock`]). All threads of all nodes of the process share it.
//!
//! A node's thread that keeps time reads it twenty times a second. In a process without a node,
//! whoever sleeps towards a limit does ([`left`]).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pslite_core::awake::AwakeClock;
pub use pslite_core::awake::LOOK_EVERY;

static CLOCK: AwakeClock = AwakeClock::new();
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// The time now. Such times are compared with each other only, never with an [`Instant`] from
/// elsewhere: they differ by all that the process has missed.
#[must_use]
pub fn now() -> Instant {
    let passed = passed();
    let (began, awake) = (began(), CLOCK.read(passed));
    began.checked_add(awake).unwrap_or(began)
}

/// How much of the time did not count so far.
#[must_use]
pub fn missed() -> Duration {
    CLOCK.missed()
}

/// How long ago that was.
#[must_use]
pub fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// For how long to sleep towards that time: no longer than the clock may go without being read. Who
/// wakes looks whether the time has come.
#[must_use]
pub fn left(until: Instant) -> Duration {
    until.saturating_duration_since(now()).min(LOOK_EVERY)
}

fn began() -> Instant {
    *BEGAN.get_or_init(Instant::now)
}

fn passed() -> Duration {
    // In this order: the first call sets what the second one is measured from.
    let began = began();
    Instant::now().saturating_duration_since(began)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_and_never_back() {
        let (first, limit) = (now(), now() + Duration::from_millis(3));
        let mut last = first;
        while last < limit {
            let next = now();
            assert!(next >= last);
            last = next;
        }
        assert_eq!(left(first), Duration::ZERO);
        assert!(left(now() + Duration::from_secs(9)) <= LOOK_EVERY);
    }
}
