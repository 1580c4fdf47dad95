//! Whole jobs on virtual time: the real membership, resender, requests, stores and bytes of a
//! scheduler, servers and workers, over one network that a seed decides. What `node` does with
//! threads and sockets is done here one thing after the other, so that a job with its losses,
//! deaths and restarts takes milliseconds, and runs again to the byte.
//!
//! May touch `core` and nothing else; no clock, no socket, no thread, and no chance but that of
//! [`Random`](pslite_core::random::Random). `network` carries bytes, `node` joins the state
//! machines as the van does, `jobs` has the applications, the oracle that knows which values are
//! right, and what runs it all. `planning` and `trees` are beside them: no job, only where keys
//! would be, and by which ways sums and values would go.
#![forbid(unsafe_code)]

mod app;
mod disk;
pub mod jobs;
pub mod network;
mod node;
mod pauses;
pub mod planning;
mod roll;
mod steps;
mod telling;
pub mod trace;
pub mod trees;

pub use network::{Network, NetworkConfig};
pub use node::End;
pub use steps::{DeathAt, Step};
pub use trace::Trace;
