//! A plan on its way: one that seems worth it and has to stay so, and one that is carried out and
//! has to prove itself. `decide` takes it from one to the other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::placement::layout::{PieceLoad, ServerHolding};
use crate::placement::tuning::SETTLE_RESTARTS_MAX;
use crate::wire::NodeId;

/// A plan that seems worth it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Since when.
    pub(super) since: Duration,
    /// The same, by the time in which the job was busy.
    pub(super) busy: Duration,
    /// Seconds of the round it would give, when it came up.
    pub(super) predicted: f64,
    /// How often it had to wait anew because the network was still changing.
    pub(super) restarts: u32,
}

impl Candidate {
    /// One that has been worth it since then, whatever it predicts.
    pub(super) const fn settled(since: Duration, busy: Duration) -> Self {
        Self { since, busy, predicted: f64::INFINITY, restarts: SETTLE_RESTARTS_MAX }
    }
}

/// A switch that is being judged.
#[derive(Clone, Debug)]
pub(super) struct OnTrial {
    /// The layout before it.
    pub(super) layout: Vec<PieceLoad>,
    /// What servers held by it.
    pub(super) held: BTreeMap<NodeId, ServerHolding>,
    /// What to expect of it, for people.
    pub(super) predicted: f64,
    /// How the rounds of each report since compare with it.
    pub(super) factors: Vec<f64>,
}
