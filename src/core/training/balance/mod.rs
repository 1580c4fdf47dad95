//! LB-BSP: batch sizes that follow what each worker can do (docs/algorithms.md 3). The iterations
//! of a session are the same for all workers; only who computes how many of an iteration's samples
//! changes, and only between iterations.
//!
//! - [`Coordinator`] is at the scheduler: it has the sessions of the job. A `session` is the
//!   workers that take part, and either `leases` (sizes and which iterations may begin) or the
//!   `dealer`, which gives the next batch to whoever asks.
//! - The rules that set sizes: `speed` predicts how fast each worker is, `split` shares an
//!   iteration in proportion to it, `pairwise` moves samples step by step where time is not in
//!   proportion to the size. `sizing` chooses among them.
//! - [`Participant`] is a worker's side: which batches it may
//!   begin, and which messages it sends again.
//! - [`clock`] measures a worker's time of computing from what it pushes.
//! - [`permutation`] says which sample is at which place of an epoch.

pub mod clock;
mod coordinator;
#[cfg(test)]
mod coordinator_tests;
mod dealer;
mod leases;
mod pairwise;
#[cfg(test)]
mod pairwise_tests;
mod participant;
#[cfg(test)]
mod participant_tests;
pub mod permutation;
mod places;
mod replaced;
#[cfg(test)]
mod return_tests;
mod session;
mod sizing;
pub mod spec;
mod speed;
mod split;
mod status;
#[cfg(test)]
mod world_tests;

pub use coordinator::Coordinator;
pub use pairwise::Pairwise;
pub use participant::{Batch, Participant, Turn};
pub use sizing::{Look, Sizing};
pub use speed::{Predictor, Speeds};
pub use split::{Bounds, split};

use crate::wire::NodeId;
use crate::wire::balance::BalanceMessage;

/// Words to be sent, in order.
pub type Outbox = Vec<(NodeId, BalanceMessage)>;

/// A worker's process, as the membership knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its id.
    pub node: NodeId,
    /// In which life of its id it is ([`crate::lives`]). 0 where no round waits for anybody.
    pub life: u64,
}

/// What the job does without a worker that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It ends, or the worker had taken leave of it.
    HasLeft,
    /// It goes on, and the worker may come back (`PSLITE_ELASTIC_WORKERS=1`).
    IsMissed,
    /// It waits for another process in its place (`PS_HEARTBEAT_TIMEOUT`).
    IsReplaced,
}
