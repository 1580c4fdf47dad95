//! How long a worker computes without a result of the others, and how many rounds keep the network
//! busy. Pure arithmetic.

use std::collections::VecDeque;
use std::time::Duration;

/// Stretches that are remembered.
const REMEMBERED: usize = 9;
/// A worker waits after so many times its usual stretch without a result: then its deltas are of a
/// model that is long gone.
const TIMES: u64 = 4;
/// A worker takes that many steps in any case.
const AT_LEAST: u64 = 8;

/// The lengths of a worker's last stretches, in steps.
#[derive(Clone, Debug, Default)]
pub(super) struct StretchPace {
    last: VecDeque<u64>,
}

impl StretchPace {
    /// A stretch has ended.
    pub(super) fn ended(&mut self, steps: u64) {
        self.last.push_back(steps);
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    /// After that many steps without a result a worker waits.
    pub(super) fn limit(&self) -> u64 {
        let mut sorted: Vec<u64> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        median.saturating_mul(TIMES).max(AT_LEAST)
    }
}

/// So many rounds in flight keep the network busy while the slowest worker takes one step, since a
/// worker only looks after results between two steps: `1 + ceil(sections * step / exchange)`, at
/// least 1 and at most `sections`. `exchange` is how long an exchange of all sections takes.
#[must_use]
pub fn window_for(sections: u32, step_of_slowest: Duration, exchange: Duration) -> u32 {
    let sections = sections.max(1);
    if exchange.is_zero() {
        return sections;
    }
    let steps = f64::from(sections) * step_of_slowest.as_secs_f64() / exchange.as_secs_f64();
    // A number beyond the type's range becomes its largest.
    (steps.ceil() as u32).saturating_add(1).clamp(1, sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_usual_stretch() {
        let mut pace = StretchPace::default();
        assert_eq!(pace.limit(), 8);
        pace.ended(8);
        assert_eq!(pace.limit(), 32);
        (0..9).for_each(|_| pace.ended(1));
        assert_eq!(pace.limit(), 8, "at least so many");
        (0..5).for_each(|_| pace.ended(10));
        assert_eq!(pace.limit(), 40);
        (0..9).for_each(|_| pace.ended(u64::MAX));
        assert_eq!(pace.limit(), u64::MAX);
    }

    #[test]
    fn the_window_keeps_the_network_busy_for_one_step() {
        let window = |sections, step: u64, exchange: u64| {
            window_for(sections, Duration::from_millis(step), Duration::from_millis(exchange))
        };
        assert_eq!([1, 2, 4, 8].map(|g| window(8, 1000, g * 1000)), [8, 5, 3, 2]);
        assert_eq!(window(8, 0, 1000), 1);
        assert_eq!((window(8, 1000, 0), window(8, 60_000, 1), window(1, 1, 1)), (8, 8, 1));
        assert_eq!(window(0, 1, 1), 1);
    }
}
