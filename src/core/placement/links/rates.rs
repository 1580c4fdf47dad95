//! What a node's card carried in windows of time in which at least two peers kept it busy, and what
//! can be concluded. One window says little: something may have lain in buffers, or all peers may
//! have been slow.

use std::time::Duration;

use crate::placement::cost::bytes;
use crate::placement::tuning::{CARD_CHANGED, JOB_REST, MEMORY, WINDOW_TRAFFIC, WINDOWS};

/// One window that counts.
#[derive(Clone, Copy, Debug)]
struct CountedWindow {
    /// When it ended; and the same, without rests.
    end: Duration,
    awake: Duration,
    rate: f64,
    /// What the other direction of the card could carry then.
    other: Option<f64>,
}

impl CountedWindow {
    /// What has become of it if the other direction can carry that much now. Both directions of a
    /// card usually become slower, or faster, together (a machine's limit, a neighbour, another
    /// path), and the one that is in use shows it at once; the other one only when it is used: so
    /// long a server that had become slow was given the copies of a fast one to send on. But it
    /// does not become faster than the other one.
    fn by_now(&self, other: Option<f64>) -> f64 {
        match (self.other, other) {
            (Some(then), Some(now)) if now < CARD_CHANGED * then => self.rate * now / then,
            (Some(then), Some(now)) if then < CARD_CHANGED * now => {
                (self.rate * now / then).min(self.rate.max(now))
            }
            _ => self.rate,
        }
    }
}

/// Of which windows the fastest count. What peers let a card do is often less than it can, so the
/// last ones alone say little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// So many of the last ones.
    Last(usize),
    /// Those of the last [`MEMORY`]: of a worker, which may wait for a slow server for most of
    /// that.
    Memory,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LinkRates {
    of: Of,
    /// When the last window with traffic ended, and the time until then without rests.
    last: Duration,
    awake: Duration,
    /// The same of the last window that counted.
    newest: Duration,
    counted: Vec<CountedWindow>,
}

impl LinkRates {
    /// None yet.
    pub(super) const fn new(of: Of) -> Self {
        let [last, awake, newest] = [Duration::ZERO; 3];
        Self { of, last, awake, newest, counted: Vec::new() }
    }

    /// A window is over, in which so many bytes came or went; with its rate, if it counts.
    pub(super) fn add(&mut self, end: Duration, amount: f64, rate: Option<f64>) {
        self.add_beside(end, amount, rate, None);
    }

    /// The same, where that is what the other direction can carry now.
    pub(super) fn add_beside(
        &mut self,
        end: Duration,
        amount: f64,
        rate: Option<f64>,
        other: Option<f64>,
    ) {
        if rate.is_none() && amount < bytes(WINDOW_TRAFFIC) {
            return;
        }
        self.awake += end.saturating_sub(self.last).min(JOB_REST);
        self.last = self.last.max(end);
        let awake = self.awake;
        if rate.is_some() {
            self.newest = awake;
        }
        self.counted.extend(rate.map(|rate| CountedWindow { end, awake, rate, other }));
        match self.of {
            Of::Last(most) => {
                self.counted.drain(..self.counted.len().saturating_sub(most));
            }
            Of::Memory => {
                self.counted.retain(|counted| counted.awake.saturating_add(MEMORY) >= awake);
                self.forget_slowest();
            }
        }
    }

    /// What was found otherwise is far more than all that counted: that is no longer true.
    pub(super) fn surpassed(&mut self, end: Duration, rate: f64) {
        self.counted.clear();
        self.counted.push(CountedWindow { end, awake: self.awake, rate, other: None });
    }

    /// For how long there was traffic since the last window that counted.
    pub(super) fn since_counted(&self) -> Duration {
        self.awake.saturating_sub(self.newest)
    }

    /// Of those of which all count for as long, no more are needed than are looked at.
    fn forget_slowest(&mut self) {
        if self.counted.len() > WINDOWS {
            let counted = self.counted.iter().enumerate();
            let slowest = counted.min_by(|(_, a), (_, b)| a.rate.total_cmp(&b.rate));
            self.counted.remove(slowest.map_or(0, |(index, _)| index));
        }
    }

    /// Bytes per second in the faster ones, together with these newer ones; how many windows these
    /// are, and when the last of them ended. One in four may be faster: what had lain in buffers.
    pub(super) fn upper_quartile(
        &self,
        newer: impl Iterator<Item = (Duration, f64)>,
    ) -> Option<(f64, u32, Duration)> {
        self.quartile(self.counted.iter().map(|counted| (counted.end, counted.rate)), newer)
    }

    /// The same, where the other direction can carry that much now.
    pub(super) fn by_now(&self, other: Option<f64>) -> Option<(f64, u32, Duration)> {
        let counted = self.counted.iter().map(|counted| (counted.end, counted.by_now(other)));
        self.quartile(counted, std::iter::empty())
    }

    fn quartile(
        &self,
        counted: impl Iterator<Item = (Duration, f64)>,
        newer: impl Iterator<Item = (Duration, f64)>,
    ) -> Option<(f64, u32, Duration)> {
        let mut all: Vec<(Duration, f64)> = counted.chain(newer).collect();
        if let Of::Last(most) = self.of {
            all.drain(..all.len().saturating_sub(most));
        }
        let last = all.iter().map(|(end, _)| *end).max()?;
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(WINDOWS);
        let rate = all.get(all.len() / 4)?.1;
        Some((rate, u32::try_from(all.len()).unwrap_or(u32::MAX), last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tuning::WINDOW;

    /// What is known after one fast window, and then so many windows with those bytes, and one more
    /// a day later.
    fn after(windows: u32, amount: f64) -> Option<f64> {
        let mut rates = LinkRates::new(Of::Memory);
        rates.add(WINDOW, 1e6, Some(4e6));
        (2..=windows + 1).for_each(|number| rates.add(WINDOW * number, amount, None));
        rates.add(Duration::from_secs(86_400), 1e6, None);
        rates.upper_quartile(std::iter::empty()).map(|(rate, ..)| rate)
    }

    #[test]
    fn a_rest_forgets_nothing_but_a_minute_of_traffic_does() {
        assert_eq!(after(10_000, 100.0), Some(4e6));
        assert_eq!(after(219, 1e6), Some(4e6));
        assert_eq!(after(221, 1e6), None);
    }

    /// A card that becomes slower while it is in use is known as slow when enough of the fast
    /// windows are gone.
    #[test]
    fn of_the_last_ones_the_fastest_count() {
        let mut rates = LinkRates::new(Of::Last(32));
        let mut known = Vec::new();
        for number in 1..=64_u32 {
            // One window in three shows what the card can do.
            let card = if number <= 32 { 300.0 } else { 200.0 };
            rates.add(WINDOW * number, 1e6, Some(if number % 3 == 0 { card } else { 100.0 }));
            known.push(rates.upper_quartile(std::iter::empty()).map_or(0.0, |(rate, ..)| rate));
        }
        assert_eq!((known[31], known[47], known[63]), (300.0, 300.0, 200.0), "{known:?}");
        let slower = known.iter().position(|rate| *rate == 200.0);
        assert!(slower.is_some_and(|at| (40..56).contains(&at)), "{known:?}");
    }

    #[test]
    fn the_fastest_ones_are_kept() {
        let mut rates = LinkRates::new(Of::Memory);
        for number in 1..=20_u32 {
            let rate = if number <= 8 { 50.0 } else { f64::from(number) };
            rates.add(WINDOW * number, 0.0, Some(rate));
        }
        assert_eq!(rates.counted.len(), WINDOWS);
        assert_eq!(rates.upper_quartile(std::iter::empty()).map(|(rate, ..)| rate), Some(50.0));
    }
}
