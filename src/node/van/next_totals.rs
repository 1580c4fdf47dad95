//! When the scheduler is told next what this node has counted. Values only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often.
const EVERY: Duration = Duration::from_secs(5);

/// When totals are told next.
#[derive(Debug, Default)]
pub(super) struct NextTotals {
    millis: AtomicU64,
}

impl NextTotals {
    /// True once every 5 s. Only the clock asks.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let due = millis(now) >= self.millis.load(Ordering::Relaxed);
        if due {
            self.millis.store(millis(now.saturating_add(EVERY)), Ordering::Relaxed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_due_every_five_seconds() {
        let next = NextTotals::default();
        let due = |seconds| next.is_due(Duration::from_secs_f64(seconds));
        assert_eq!(
            [0.5, 0.6, 5.4, 5.5, 5.6, 30.0, 30.1].map(due),
            [true, false, false, true, false, true, false]
        );
    }
}
