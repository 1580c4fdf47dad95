//! Membership as a pure state machine: registration and ranks, barriers, signs of life, death and
//! replacement (postoffice.cc, van.cc).
//!
//! Takes `(now, event)` and returns actions; touches no clock, socket, thread or random source.
//! Time is the duration since an arbitrary start. `registration` forms the job, `barrier` holds the
//! barriers, `liveness` notices death, `recovery` replaces the dead. If all nodes are ours, servers
//! come and go (`elastic`, `docs/elastic.md`): the scheduler makes policies (`policy`) from what
//! servers claim (`collect`, `claims`), gives `orders`, lets servers in (`join`) and out (`drain`),
//! goes on without `workers` where it may, and keeps a `journal`. `validate` is what it promises.
//!
//! What nodes and the scheduler tell each other of topics (`wire::topic`) it only passes on. What
//! happens it says as events (`chronicle`), which others write to the log, and keep.
//! `overview` says how the job is, as values; what else a status has is not known here.

pub mod alike;
mod barrier;
pub mod claimed;
pub mod claims;
#[cfg(test)]
mod claims_tests;
mod collect;
mod drain;
mod elastic;
#[cfg(test)]
mod elastic_tests;
mod exchange;
mod guests;
mod join;
pub mod journal;
mod liveness;
mod membership;
mod order_book;
mod orders;
mod overlay;
mod overview;
mod policy;
mod ranking;
pub mod reach;
mod recovery;
mod refusals;
mod registrant;
mod registration;
mod resume;
mod signs;
pub mod tenures;
#[cfg(test)]
pub(crate) mod tests;
mod types;
mod validate;
mod workers;

pub use barrier::{BarrierPlace, OpenBarrier};
pub use membership::Cluster;
pub use overview::{MemberOverview, MemberState, Overview, Owned, Phase};
pub use ranking::RankOrder;
pub use refusals::giving_up;
pub use types::{Action, ClusterConfig, Event, JobFailure, JobFailureKind, Tell};
