//! Whole jobs on virtual time: the real membership, resender, requests and bytes of a scheduler,
//! servers and workers, over one network that a seed decides. What `node` does with threads and
//! sockets is done here one thing after the other, so that a job with its losses, deaths and
//! restarts takes milliseconds, and runs again to the byte.
//!
//! May touch `core` and nothing else; no clock, no socket, no thread, and no chance but that of
//! [`Random`](pslite_core::random::Random). `network` carries bytes, `node` joins the state
//! machines as the van does, `worker` and `server` are the applications, `ledger` is the oracle
//! that knows which sums are right, `job` runs it all. `planning` and `trees` are beside them: no
//! job, only where keys would be, and by which ways sums and values would go.
#![forbid(unsafe_code)]

mod app;
mod batches;
mod disk;
pub mod elastic;
pub mod job;
pub mod ledger;
pub mod network;
mod node;
mod pauses;
pub mod planning;
mod roles;
mod roll;
mod server;
mod steps;
mod telling;
pub mod trace;
pub mod trees;
mod worker;

pub use app::Program;
pub use batches::Shares;
pub use job::{Fault, JobConfig, Outcome, Plant, Report, run};
pub use ledger::Ledger;
pub use network::{Network, NetworkConfig};
pub use node::End;
pub use steps::{DeathAt, Step};
pub use trace::Trace;

#[cfg(test)]
mod death_tests;
#[cfg(test)]
mod pause_tests;
#[cfg(test)]
mod tests;
