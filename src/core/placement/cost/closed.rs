//! The shortest round in closed form, for jobs in which no limit joins two servers (no copies, no
//! hosts with several nodes): bytes are poured over servers until the slowest time is the same.

/// A server as a tap: after `starts` seconds it takes `rate` bytes per second, up to `room` bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::placement) struct Tap {
    /// Bytes per second, as far as all workers together are served.
    pub(in crate::placement) rate: f64,
    /// Seconds before the first byte.
    pub(in crate::placement) starts: f64,
    /// Bytes; may be infinite.
    pub(in crate::placement) room: f64,
}

impl Tap {
    /// The bytes taken within so many seconds.
    pub(in crate::placement) fn within(&self, seconds: f64) -> f64 {
        if seconds <= self.starts || self.rate <= 0.0 {
            return 0.0;
        }
        (self.rate * (seconds - self.starts)).min(self.room)
    }

    /// The seconds after which it is full; may be infinite.
    fn full(&self) -> f64 {
        self.starts + self.room.max(0.0) / self.rate
    }
}

/// The seconds after which all taps together have taken that amount: exact, between two of the
/// times at which a tap starts or is full. A tap that starts later takes nothing: that server is
/// not worth using (docs/algorithms.md 4.4). None: there is no room for it.
pub(in crate::placement) fn pour(taps: &[Tap], amount: f64) -> Option<f64> {
    if amount <= 0.0 {
        return Some(0.0);
    }
    let taps = || taps.iter().filter(|tap| tap.rate > 0.0 && tap.starts.is_finite());
    let mut events: Vec<f64> = taps().flat_map(|tap| [tap.starts, tap.full()]).collect();
    events.retain(|at| at.is_finite());
    events.sort_by(f64::total_cmp);
    // Sums are made anew at each event: kept up to date, a tap without limit would swallow all
    // others.
    let taken = |at: f64| -> f64 { taps().map(|tap| tap.within(at)).sum() };
    let before = events.partition_point(|at| taken(*at) < amount).checked_sub(1)?;
    let now = *events.get(before)?;
    let open = taps().filter(|tap| tap.starts <= now && now < tap.full());
    let rate: f64 = open.map(|tap| tap.rate).sum();
    (rate > 0.0).then(|| now + (amount - taken(now)) / rate)
}

/// A server whose push and pull come one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TwoTaps {
    /// Bytes per second of push time.
    pub(super) push: f64,
    /// Bytes per second of pull time.
    pub(super) pull: f64,
    /// Bytes; may be infinite.
    pub(super) room: f64,
}

/// The shortest push time plus pull time in which all servers together take that amount, where
/// neither may be below its floor: the pair of both. The set of possible pairs is convex with
/// straight edges, so one of its corners is the best: the rays on which push and pull of a server
/// weigh the same, the times at which a server is full, and the floors. None: there is no room for
/// it.
pub(super) fn sequential(servers: &[TwoTaps], floors: [f64; 2], amount: f64) -> Option<[f64; 2]> {
    let full = |rate: f64, room: f64| room / rate;
    let mut best: Option<[f64; 2]> = None;
    let mut consider = |pair: Option<[f64; 2]>| {
        let Some(pair) = pair.map(|[push, pull]| [push.max(floors[0]), pull.max(floors[1])]) else {
            return;
        };
        if best.is_none_or(|best| pair[0] + pair[1] < best[0] + best[1]) {
            best = Some(pair);
        }
    };
    let pushes = servers.iter().map(|s| full(s.push, s.room)).chain([floors[0]]);
    for push in pushes.filter(|push| push.is_finite()) {
        consider(given_push(servers, push, amount).map(|pull| [push, pull]));
    }
    let pulls = servers.iter().map(|s| full(s.pull, s.room)).chain([floors[1]]);
    for pull in pulls.filter(|pull| pull.is_finite()) {
        let turned: Vec<TwoTaps> =
            servers.iter().map(|s| TwoTaps { push: s.pull, pull: s.push, room: s.room }).collect();
        consider(given_push(&turned, pull, amount).map(|push| [push, pull]));
    }
    for slope in servers.iter().map(|s| s.push / s.pull).filter(|slope| slope.is_finite()) {
        let taps: Vec<Tap> = servers
            .iter()
            .map(|s| Tap { rate: s.push.min(s.pull * slope), starts: 0.0, room: s.room })
            .collect();
        consider(pour(&taps, amount).map(|push| [push, push * slope]));
    }
    best
}

/// The pull time that is needed if the push may take that long.
fn given_push(servers: &[TwoTaps], push: f64, amount: f64) -> Option<f64> {
    let tap = |s: &TwoTaps| Tap { rate: s.pull, starts: 0.0, room: s.room.min(s.push * push) };
    let taps: Vec<Tap> = servers.iter().map(tap).collect();
    // At the very edge rounding must not decide.
    pour(&taps, amount * (1.0 - 1e-12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_fill_in_turn() {
        let tap = |rate, starts, room| Tap { rate, starts, room };
        let open = f64::INFINITY;
        assert_eq!(pour(&[tap(2.0, 0.0, open), tap(1.0, 0.0, open)], 6.0), Some(2.0));
        assert_eq!(pour(&[tap(2.0, 0.0, 2.0), tap(1.0, 0.0, open)], 6.0), Some(4.0));
        assert_eq!(pour(&[tap(2.0, 0.0, 2.0), tap(1.0, 0.0, 3.0)], 6.0), None);
        // Fixed costs: the second one is worth using only for much (docs/algorithms.md 4.4).
        let two = [tap(1.0, 0.0, open), tap(1.0, 5.0, open)];
        assert_eq!((pour(&two, 4.0), pour(&two, 9.0)), (Some(4.0), Some(7.0)));
        assert_eq!((two[1].within(4.0), two[1].within(7.0)), (0.0, 2.0));
        assert_eq!((pour(&[], 1.0), pour(&[], 0.0)), (None, Some(0.0)));
        // One without limit but with little room (a server beside all workers) leaves the others as
        // they are.
        let three = [tap(1.0, 0.0, open), tap(1.0, 0.0, open), tap(f64::MAX.sqrt(), 0.0, 4.0)];
        assert_eq!(pour(&three, 10.0), Some(3.0));
    }
}
