//! The native server: tensors, how rounds of pushes are collected and applied, optimizers,
//! commands.
//!
//! Its sub-rooms, from the bottom up (`tests/circles/store.rs` has what each may name):
//!
//! - `pieces`: a piece, its round, and which pushes have counted; knows nobody above it.
//! - `command`: what workers command, as books.
//! - `moving`: where pieces are, go and have copies, in jobs whose pieces move.
//! - `state`: what a store has. `config` is what it is told when it is made, `outbound` what it
//!   gives its owner to send.
//! - `mxnet`: what a store does with requests and commands; `exchange` where workers exchange
//!   deltas, `agreement` with what they say alike.
//! - `opaque`: keys that an application's own handler serves, and that move.
//! - `local`: what a worker keeps of its tensors while deltas travel; it needs no store.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `values`; must not do I/O,
//! read a clock, draw random numbers or start threads (whoever owns the store may call it from
//! several).

pub mod agreement;
pub mod command;
mod config;
pub mod error;
mod exchange;
pub mod local;
pub mod moving;
mod mxnet;
pub mod opaque;
mod outbound;
#[cfg(test)]
pub(crate) mod pickled_tests;
mod pieces;
pub mod profile;
mod save;
pub mod saved;
#[cfg(test)]
mod spaces_tests;
mod state;
mod view;

pub use config::{PART_BYTES, StoreConfig, SumOrder};
pub use error::StoreError;
pub use moving::changes::{Claimant, News};
pub use outbound::{Answer, Outbound, Outgoing};
pub use pieces::stalls::{LastRequest, Reminder, Stall};
pub use state::Store;
