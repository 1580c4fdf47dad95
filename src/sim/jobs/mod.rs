//! Whole jobs on virtual time, whose pieces move (docs/elastic.md) or whose keys stay where they
//! are: the real membership, store and requests of a scheduler, servers and workers, joined as
//! `node` joins them. One seed decides what the job does and what happens to it: moves, servers
//! that join, are emptied, die or seem to, a scheduler that dies, lines that stall or break.
//!
//! `scenario` makes a job of a seed, `config` says what a job is, `job` plays it. `workload`,
//! `optimizer` and `script` are what workers do, `worker`, `server` and `scheduler` the
//! applications. `ledger` is the oracle; `looks` looks whether the machines keep what they promise.
//! `guard` says when a server may be lost, `sabotage` has the mistakes that the oracle must find.
//!
//! Like all of `sim`: no clock, no socket, no thread.

mod config;
mod exchange;
mod guard;
#[cfg(test)]
mod halves_tests;
mod job;
mod ledger;
mod network_model;
mod nodes;
mod optimizer;
mod paces;
mod promises;
mod requests;
mod sabotage;
mod scenario;
mod scheduler;
mod script;
mod server;
#[cfg(test)]
mod sites_tests;
#[cfg(test)]
mod stays_tests;
#[cfg(test)]
mod tests;
mod trees;
mod worker;
mod workload;

pub use config::{
    Exchanges, Fault, JobConfig, LinkedSites, Placement, Reports, Sessions, Stays, Trees,
};
pub use job::{JobReport, Outcome, run};
pub use ledger::{Fault as Found, Invariant, Ledger};
pub use optimizer::ServerRule;
pub use sabotage::Plant;
pub use scenario::{Fixed, Scenario, job};
pub use script::{Program, SecondCustomer};
pub use workload::Tensors;
