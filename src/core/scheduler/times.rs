//! How long a round takes, as the scheduler's planner knows it. Values only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::status::{MovedStatus, TreesStatus};
use crate::chronicle::RoundPoint;
use crate::wire::NodeId;

/// What a worker does in an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerTime {
    /// None of its requests is under way.
    pub computes: Duration,
    /// Some are: it waits for the network, or for other workers.
    pub waits: Duration,
}

/// How long a round takes, as the scheduler's owner knows it: shown by `pslite status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundTimes {
    /// What the planner expects of the placement in force.
    pub predicted: Option<Duration>,
    /// What was seen lately.
    pub measured: Option<Duration>,
    /// The lower bound T*: no placement can be faster.
    pub bound: Option<Duration>,
    /// The newest round that some worker has finished.
    pub round: Option<u64>,
    /// What an iteration takes each worker that says it.
    pub workers: BTreeMap<NodeId, WorkerTime>,
    /// For people: what limits it.
    pub limit: String,
    /// For people: why nothing is moved.
    pub no_plan: String,
    /// For people: whether one server more, or one fewer, would pay.
    pub advice: String,
    /// The same as a number: servers more, or fewer.
    pub advised: i8,
    /// What was ordered to move, by reason.
    pub moved: Vec<MovedStatus>,
    /// The trees that rounds go along; none: they go straight to the servers, or nobody knows of
    /// links.
    pub trees: Option<Arc<TreesStatus>>,
}

impl RoundTimes {
    /// The lower bound by what was measured: 1 is the best that can be.
    #[must_use]
    pub fn eta(&self) -> Option<f64> {
        let measured = self.measured.filter(|time| !time.is_zero())?;
        Some(self.bound?.as_secs_f64() / measured.as_secs_f64())
    }

    /// The same as a point of a chronicle; none before a round was measured.
    #[must_use]
    pub fn point(&self) -> Option<RoundPoint> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let (round, measured) = (self.round?, Some(self.measured?.as_secs_f64()));
        let (predicted, bound) = (seconds(self.predicted), seconds(self.bound));
        Some(RoundPoint { at: 0.0, round, measured, predicted, bound })
    }

    /// How long an iteration is, median over workers.
    #[must_use]
    pub fn iteration(&self) -> Option<Duration> {
        let mut all: Vec<Duration> =
            self.workers.values().map(|time| time.computes + time.waits).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }
}
