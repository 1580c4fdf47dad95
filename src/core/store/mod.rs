//! The native server: tensors, how rounds of pushes are collected and applied, optimizers,
//! commands.
//!
//! `state` is what a store has, `config` what it is told when it is made, `outbound` what it gives
//! its owner to send. What it does with requests is in `mxnet`, and where pieces move in
//! `elastic`. So those two name the state, and the state names none that acts on it.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `values`; must not do I/O,
//! read a clock, draw random numbers or start threads (whoever owns the store may call it from
//! several).

pub mod agreement;
mod awaited;
mod changes;
pub mod command;
mod config;
mod contribution;
mod contributors;
pub mod elastic;
pub mod error;
mod exchange;
mod generations;
mod head;
mod limits;
pub mod local;
mod marks;
mod modes;
mod mxnet;
mod name;
pub mod opaque;
mod outbound;
mod parked;
#[cfg(test)]
pub(crate) mod pickled_tests;
pub mod profile;
mod round;
mod save;
pub mod saved;
#[cfg(test)]
mod spaces_tests;
mod sparse;
mod stalls;
mod state;
mod sums;
mod tensor;
mod view;

pub use changes::{Claimant, News};
pub use config::{PART_BYTES, StoreConfig, SumOrder};
pub use error::StoreError;
pub use outbound::{Answer, Outbound, Outgoing};
pub use stalls::{LastRequest, Reminder, Stall};
pub use state::Store;

use sums::{Addend, Sum};
