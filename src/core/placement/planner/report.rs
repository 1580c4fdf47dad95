//! What nodes report to the planner. Must not know what it makes of it.

use crate::placement::links::RateReport;
use crate::placement::stragglers::WorkerReport;
use crate::wire::NodeId;

/// What nodes tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A node: its links.
    Links(RateReport),
    /// A worker: its last rounds.
    Rounds(WorkerReport),
    /// Some worker has finished that round; may come more often than `Rounds`.
    Progress {
        /// The round.
        round: u64,
    },
    /// A server: seconds of a round that it spends with requests, waiting for its processor
    /// included.
    Handler {
        /// The server.
        server: NodeId,
        /// Seconds of a round.
        seconds: f64,
    },
}

impl From<RateReport> for Report {
    fn from(report: RateReport) -> Self {
        Self::Links(report)
    }
}

impl From<WorkerReport> for Report {
    fn from(report: WorkerReport) -> Self {
        Self::Rounds(report)
    }
}
