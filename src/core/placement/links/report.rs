//! What a node tells the scheduler of its links. Values that came over the wire may be no rates.

use std::time::Duration;

use super::carried::CardCarried;
use super::estimate::Estimate;
use crate::wire::NodeId;

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
