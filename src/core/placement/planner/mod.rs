//! The planner of a job: what nodes report goes in, plans come out (docs/algorithms.md 4.9: A
//! gives the prior, C corrects it, one planner with one set of shares).
//!
//! Runs on the scheduler. Pure: time and chance are arguments, nothing is sent. Whoever runs it
//! carries the plans out, and says when pieces have moved. Must not know how pieces travel.

mod advice;
mod busy;
mod candidate;
mod copies;
mod decide;
mod gates;
mod hold;
mod look;
mod members;
mod portions;
mod reason;
mod report;
mod settings;
mod state;
mod status;

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;

pub use advice::{Advice, ServerStep};
pub use copies::CopyPairs;
pub use members::{Duty, Members, ServerMember, WorkerMember};
pub use reason::Reason;
pub use report::Report;
pub use settings::PlacementSettings;
pub use state::{MOST_PIECES, Planner};
pub use status::{ServerStatus, Status};
