//! What a worker measures of itself while deltas travel: how long a step takes it, how long an
//! exchange, and how much of the time it computes, is held, and has rounds in flight. Times are
//! arguments.

use std::collections::VecDeque;
use std::time::Duration;

use crate::wire::exchange::word::ExchangeReport;

/// Steps that are remembered.
const REMEMBERED: usize = 33;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    /// The first push.
    began: Option<Duration>,
    /// How long the last steps took.
    steps: VecDeque<Duration>,
    computed: Duration,
    /// Since when rounds are in flight.
    flying: Option<Duration>,
    busy: Duration,
    /// Rounds that are over, and the time in flight in which they were, both since the last look.
    over: u64,
    over_in: Duration,
    /// Rounds whose values were here at the last look.
    rounds: u64,
    /// A round's share of the time in flight, smoothed.
    round: Option<Duration>,
}

impl Gauge {
    /// The program pushes.
    pub fn pushed(&mut self, now: Duration) {
        self.began.get_or_insert(now);
    }

    /// A step was computed; it took so long.
    pub fn computed(&mut self, time: Duration) {
        self.computed += time;
        self.steps.push_back(time);
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    /// So many rounds are in flight now, and the values of so many others have come.
    pub fn flights(&mut self, now: Duration, in_flight: usize, over: u64) {
        if let Some(since) = self.flying.take() {
            let time = now.saturating_sub(since);
            self.busy += time;
            self.over_in += time;
        }
        self.flying = (in_flight > 0).then_some(now);
        let more = over.saturating_sub(std::mem::replace(&mut self.rounds, over));
        self.over += more;
        if more > 0 && self.over >= 4 {
            let each = self.over_in / u32::try_from(self.over).unwrap_or(u32::MAX);
            self.round = Some(self.round.map_or(each, |before| (before * 3 + each) / 4));
            (self.over, self.over_in) = (0, Duration::ZERO);
        }
    }

    /// The median of the last steps.
    #[must_use]
    pub fn step(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.steps.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Adds what was measured. `sections`: how many rounds an exchange of everything has.
    #[must_use]
    pub fn report(&self, now: Duration, sections: u64, report: ExchangeReport) -> ExchangeReport {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let flying = self.flying.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let round = self.round.map_or(0, micros);
        ExchangeReport {
            step: self.step().map_or(0, micros),
            exchange: round.saturating_mul(sections),
            computed: micros(self.computed),
            busy: micros(self.busy + flying),
            since: self.began.map_or(0, |began| micros(now.saturating_sub(began))),
            ..report
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn report(gauge: &Gauge, now: u64) -> ExchangeReport {
        gauge.report(at(now), 8, ExchangeReport::default())
    }

    #[test]
    fn nothing_is_known_at_first() {
        let gauge = Gauge::default();
        assert_eq!((gauge.step(), report(&gauge, 9)), (None, ExchangeReport::default()));
    }

    /// One section takes the network 10 ms. Two in flight take turns, so each takes 20.
    #[test]
    fn rounds_in_flight_share_the_network() {
        let mut gauge = Gauge::default();
        gauge.pushed(at(1000));
        for n in 0..40 {
            gauge.flights(at(1000 + 10 * n), 2, n);
        }
        let said = report(&gauge, 1395);
        assert_eq!((said.exchange, said.busy, said.since), (80_000, 395_000, 395_000));
    }

    #[test]
    fn time_without_a_round_is_no_time_of_one() {
        let mut gauge = Gauge::default();
        gauge.pushed(at(0));
        for n in 0..40 {
            gauge.flights(at(100 * n), 1, n);
            gauge.flights(at(100 * n + 25), 0, n + 1);
        }
        let said = report(&gauge, 4000);
        assert_eq!((said.exchange, said.busy, said.since), (200_000, 1_000_000, 4_000_000));
    }

    #[test]
    fn a_step_is_the_median_of_the_last_ones() {
        let mut gauge = Gauge::default();
        (0..50).for_each(|_| gauge.computed(at(900)));
        (0..33).for_each(|n| gauge.computed(at(if n % 8 == 0 { 5000 } else { 20 })));
        assert_eq!(gauge.step(), Some(at(20)));
        assert_eq!(report(&gauge, 0).computed, 50 * 900_000 + 5 * 5_000_000 + 28 * 20_000);
    }
}
