//! What a node's card carried in windows of time in which at least two peers kept it busy, and what can be concluded.
//! One window says little: something may have lain in buffers, or all peers may have been slow.

use std::time::Duration;

use super::{MEMORY, WINDOWS};

/// A peer counts in a window if it had more to send, or to be sent, for that part of it.
pub(super) const COVERED: f64 = 0.8;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// The fastest of some time are kept, not the last ones: what peers let the card do is often less than it can.
    fastest: bool,
    /// When each window ended, and its rate.
    rates: Vec<(Duration, f64)>,
}

impl Rates {
    /// None yet.
    pub(super) const fn new(fastest: bool) -> Self {
        Self { fastest, rates: Vec::new() }
    }

    /// A window is over; with its rate, if it counts.
    pub(super) fn add(&mut self, end: Duration, rate: Option<f64>) {
        self.rates.extend(rate.map(|rate| (end, rate)));
        if self.fastest {
            self.rates.retain(|(before, _)| before.saturating_add(MEMORY) >= end);
        }
        if self.rates.len() > WINDOWS {
            let least = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
            let rates = self.rates.iter().enumerate().map(|(index, (_, rate))| (index, *rate));
            let slowest = rates.min_by(least).map(|(index, _)| index);
            self.rates.remove(if self.fastest { slowest.unwrap_or(0) } else { 0 });
        }
    }

    /// Bytes per second in the faster ones, together with these newer ones; how many windows these are, and when the last
    /// of them ended. One in four may be faster: what had lain in buffers.
    pub(super) fn upper_quartile(
        &self,
        newer: impl Iterator<Item = (Duration, f64)>,
    ) -> Option<(f64, u32, Duration)> {
        let mut all: Vec<(Duration, f64)> = self.rates.iter().copied().chain(newer).collect();
        if !self.fastest {
            all.drain(..all.len().saturating_sub(WINDOWS));
        }
        let last = all.iter().map(|(end, _)| *end).max()?;
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(WINDOWS);
        let rate = all.get(all.len() / 4)?.1;
        Some((rate, u32::try_from(all.len()).unwrap_or(u32::MAX), last))
    }
}
