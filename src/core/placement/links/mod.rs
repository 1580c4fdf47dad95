//! How fast the links of a job are, from the traffic itself (docs/algorithms.md 2.2).
//!
//! On each node, [`Receiver`] measures what came in (the receiver's own clock is enough for that),
//! [`Sender`] what went out to all peers together, and [`CpuShare`] the processor time that this
//! took. On the scheduler, [`Network`] combines the reports of all nodes. Links that carry rounds
//! along trees are measured apart: [`Trains`] and [`Stalls`] on a worker, [`CarriedRates`] on the
//! scheduler. Time is an argument and may count from any start; no two hosts' clocks are compared.
//!
//! Pure; must not do I/O. Reports come over the wire: values that cannot be rates are left out.

mod backlog_spans;
mod carried;
mod carried_rates;
mod cpu_share;
mod link;
mod network;
mod rate_step;
mod rates;
mod receiver;
mod recent;
mod recent_best;
mod sender;
mod slots;
mod stalls;
mod trains;

#[cfg(test)]
mod far_tests;
#[cfg(test)]
mod narrow_tests;
#[cfg(test)]
mod tests;

pub use carried::CardCarried;
pub use carried_rates::CarriedRates;
pub use cpu_share::{CpuShare, Ran, Totals};
pub use network::{Card, Network};
pub use receiver::Receiver;
pub use sender::{Sender, Sent};
pub use stalls::Stalls;
pub use trains::{Arrival, LinkCarried, Trains};

use std::time::Duration;

pub use crate::placement::tuning::PROBE_AFTER;
use crate::placement::tuning::{HALF_LIFE, SPREAD_DISCOUNT, STALE_DISCOUNT};
use crate::wire::NodeId;

/// Peers that a node remembers, and nodes that the scheduler remembers, at most; more are ignored.
pub const MOST_PEERS: usize = 16_384;
/// Links that the scheduler remembers, at most.
pub const MOST_LINKS: usize = 1 << 18;
/// Links of which one report tells, at most: those that changed most.
pub const MOST_REPORTED: usize = 256;

/// A message, or a fragment of one, that came in. Each fragment of a large message should be
/// reported as it comes, not the whole message at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its sender.
    pub peer: NodeId,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that were there at `first`: they took no time on this clock.
    pub head: u64,
    /// When its first byte was read.
    pub first: Duration,
    /// When its last byte was read.
    pub last: Duration,
    /// The sender had more for this node when it sent this. Otherwise the link may have waited for
    /// the application, and nothing is learnt.
    pub backlogged: bool,
}

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
    fn new(rate: f64, spread: f64, samples: u32, idle: Duration) -> Self {
        let confidence = confidence(idle);
        let doubt = (spread / f64::from(samples.max(1)).sqrt()).clamp(0.0, SPREAD_DISCOUNT)
            + STALE_DISCOUNT * staleness(idle);
        Self { rate, lower: rate * (1.0 - doubt), confidence, samples }
    }

    /// The same, of a rate that many times as high.
    fn scaled(&self, factor: f64) -> Self {
        Self { rate: self.rate * factor, lower: self.lower * factor, ..*self }
    }

    /// The same estimate after more time without traffic.
    fn aged(&self, more: Duration) -> Self {
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
fn confidence(idle: Duration) -> f64 {
    (-idle.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}

/// What a node that is short of processor time can do, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// To receive.
    pub down: f64,
    /// To send.
    pub up: f64,
}

impl Pace {
    /// Whether these can be rates: they may have come over the wire.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        [self.down, self.up].iter().all(|rate| rate.is_finite() && *rate > 0.0)
    }
}

/// What a node tells the scheduler of one link that ends at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkReport {
    /// Who sends on it.
    pub peer: NodeId,
    /// What is known of it.
    pub estimate: Estimate,
    /// How long ago the oldest of the samples on which that rests was taken.
    pub oldest: Duration,
    /// Bytes that came over it in the last second, if the peer had more to send for half of it; 0:
    /// it had not. The sum over all receivers is what the peer was able to send.
    pub recent: f64,
}

/// What a node tells the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct RateReport {
    /// The node that measured.
    pub node: NodeId,
    /// What it can receive from all peers together, if at least two sent at once.
    pub down: Option<Estimate>,
    /// What it can send to all peers together, as it saw itself, if at least two had more to get at
    /// once.
    pub up: Option<Estimate>,
    /// What its processor lets it, if that is less.
    pub pace: Option<Pace>,
    /// What it carried in the last second, for whatever reason it was no more.
    pub carried: CardCarried,
    /// The links that end at it, in ascending order of peers.
    pub links: Vec<LinkReport>,
}
