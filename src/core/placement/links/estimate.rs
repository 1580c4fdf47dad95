//! What is known of one rate, and what is left of that knowledge after a time without traffic. Must
//! not know whose rate it is.

use std::time::Duration;

use crate::placement::tuning::{HALF_LIFE, PROBE_AFTER, SPREAD_DISCOUNT, STALE_DISCOUNT};

/// What is known of one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Bytes per second.
    pub rate: f64,
    /// Bytes per second that one may count on: the rate, less for samples that differ and for
    /// traffic that is long ago.
    pub lower: f64,
    /// From 1 (traffic right now) towards 0; halves each [`HALF_LIFE`] without traffic.
    pub confidence: f64,
    /// On how many samples it rests.
    pub samples: u32,
}

impl Estimate {
    /// Whether this can be an estimate: it may have come over the wire.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let rate = |rate: f64| rate.is_finite() && rate > 0.0;
        rate(self.rate)
            && rate(self.lower)
            && self.lower <= self.rate * (1.0 + 1e-9)
            && (0.0..=1.0).contains(&self.confidence)
    }

    /// An estimate whose samples differ from it by that fraction of it, after so long without
    /// traffic.
    pub(super) fn new(rate: f64, spread: f64, samples: u32, idle: Duration) -> Self {
        let confidence = confidence(idle);
        let doubt = (spread / f64::from(samples.max(1)).sqrt()).clamp(0.0, SPREAD_DISCOUNT)
            + STALE_DISCOUNT * staleness(idle);
        Self { rate, lower: rate * (1.0 - doubt), confidence, samples }
    }

    /// The same, of a rate that many times as high.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self { rate: self.rate * factor, lower: self.lower * factor, ..*self }
    }

    /// The same estimate after more time without traffic.
    pub(super) fn aged(&self, more: Duration) -> Self {
        let before = idle_time(self.confidence);
        let idle = before.saturating_add(more);
        let doubt = STALE_DISCOUNT * (staleness(idle) - staleness(before)).max(0.0);
        let confidence = self.confidence * confidence(more);
        Self { lower: self.lower - self.rate * doubt, confidence, ..*self }
    }
}

/// How far what was measured so long ago is out of date: from 0 to 1.
fn staleness(idle: Duration) -> f64 {
    1.0 - confidence(idle.saturating_sub(PROBE_AFTER))
}

/// The time without traffic that leaves that confidence.
fn idle_time(confidence: f64) -> Duration {
    let seconds = -confidence.log2() * HALF_LIFE.as_secs_f64();
    Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 {
        Duration::MAX
    } else {
        Duration::ZERO
    })
}

/// What is left of a confidence of 1 after that time without traffic.
pub(super) fn confidence(idle: Duration) -> f64 {
    (-idle.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}
