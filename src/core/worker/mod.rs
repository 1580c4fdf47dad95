//! What a worker joins of its rooms, in one place for `node` and the simulator: the requests of a
//! program (`side`), and the local model that answers them (`local`, docs/nbsync.md). May touch all
//! rooms of `core` below it. Pure: time and what arrived are arguments; what is to be done is
//! returned.

mod local;
#[cfg(test)]
mod local_tests;
mod side;

pub use local::{Begins, LocalStep, LocalTraining, Own, WaitsFor};
pub use side::{AnsweredBy, Follower, LocalSent, WorkerOutput, WorkerSide};
