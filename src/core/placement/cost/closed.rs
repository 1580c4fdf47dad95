//! The shortest round in closed form, for jobs in which no limit joins two servers (no copies, no
//! hosts with several nodes): bytes are poured over servers until the slowest time is the same.

/// A server as a tap: after `starts` seconds it takes `rate` bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::placement) struct Tap {
    /// Bytes per second, as far as all workers together are served.
    pub(in crate::placement) rate: f64,
    /// Seconds before the first byte.
    pub(in crate::placement) starts: f64,
}

impl Tap {
    /// The bytes taken within so many seconds.
    pub(in crate::placement) fn within(&self, seconds: f64) -> f64 {
        if seconds <= self.starts || self.rate <= 0.0 {
            return 0.0;
        }
        self.rate * (seconds - self.starts)
    }
}

/// The seconds after which all taps together have taken that amount: exact, between two of the
/// times at which a tap starts. A tap that starts later takes nothing: that server is not worth
/// using (docs/algorithms.md 4.4). None: no tap takes anything.
pub(in crate::placement) fn pour(taps: &[Tap], amount: f64) -> Option<f64> {
    if amount <= 0.0 {
        return Some(0.0);
    }
    let taps = || taps.iter().filter(|tap| tap.rate > 0.0 && tap.starts.is_finite());
    let mut events: Vec<f64> = taps().map(|tap| tap.starts).collect();
    events.sort_by(f64::total_cmp);
    // Sums are made anew at each event: kept up to date, a tap without limit would swallow all
    // others.
    let taken = |at: f64| -> f64 { taps().map(|tap| tap.within(at)).sum() };
    let before = events.partition_point(|at| taken(*at) < amount).checked_sub(1)?;
    let now = *events.get(before)?;
    let open = taps().filter(|tap| tap.starts <= now);
    let rate: f64 = open.map(|tap| tap.rate).sum();
    (rate > 0.0).then(|| now + (amount - taken(now)) / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_fill_in_turn() {
        let tap = |rate, starts| Tap { rate, starts };
        assert_eq!(pour(&[tap(2.0, 0.0), tap(1.0, 0.0)], 6.0), Some(2.0));
        // Fixed costs: the second one is worth using only for much (docs/algorithms.md 4.4).
        let two = [tap(1.0, 0.0), tap(1.0, 5.0)];
        assert_eq!((pour(&two, 4.0), pour(&two, 9.0)), (Some(4.0), Some(7.0)));
        assert_eq!((two[1].within(4.0), two[1].within(7.0)), (0.0, 2.0));
        assert_eq!((pour(&[], 1.0), pour(&[], 0.0)), (None, Some(0.0)));
    }
}
