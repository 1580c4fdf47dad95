//! The native server: tensors, how rounds of pushes are collected and applied, optimizers,
//! commands.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `values`; must not do I/O,
//! read a clock, draw random numbers or start threads (whoever owns the store may call it from
//! several).

pub mod agreement;
mod awaited;
mod changes;
pub mod command;
mod contribution;
mod contributors;
pub mod elastic;
pub mod error;
mod exchange;
mod generations;
mod head;
pub mod local;
mod modes;
pub mod mxnet;
mod name;
pub mod opaque;
pub mod optimizer;
mod parked;
pub mod pickle;
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
mod sums;
mod tensor;
mod view;

pub use changes::News;
pub use elastic::{Outbound, Outgoing};
pub use error::StoreError;
pub use mxnet::{Answer, PART_BYTES, Store, StoreConfig, SumOrder};
pub use stalls::{Asked, Reminder, Stall};

use sums::{Addend, Sum};
