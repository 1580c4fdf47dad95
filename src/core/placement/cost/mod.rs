//! How long a round of push and pull takes, given which server holds how much, and how short it
//! could be: the model of network cards (docs/algorithms.md 1). The core of the network is taken
//! as wide enough; what limits are the cards, and single pairs of nodes where a cap is known.
//!
//! Pure arithmetic on rates in bytes per second, loads in bytes and times in seconds. Must not know
//! keys or pieces. No input makes it panic: rates that are no numbers count as very slow.

mod bound;
mod cards;
mod closed;
mod lanes;
mod level;
mod model;
mod program;
mod replicas;
mod rows;
mod shortest;
mod simplex;

#[cfg(test)]
mod tests;

pub use cards::{PairCap, Server, Worker};
pub(super) use lanes::ServerLane;
pub use model::Model;
pub(in crate::placement) use model::bytes;
pub use program::MOST_SERVERS;
pub use replicas::Replicas;
