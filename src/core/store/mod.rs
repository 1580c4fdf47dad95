//! The native server: tensors, how rounds of pushes are collected and applied, optimizers,
//! commands.
//!
//! Its sub-rooms, from the bottom up (`tests/circles/store.rs` has what each may name):
//!
//! - `pieces`: a piece, its round, and which pushes have counted; knows nobody above it.
//! - `command`: what workers command, as books.
//! - `holdings`: all that this server holds, with what commands have set; knows no other server.
//! - `moving`: where pieces are, go and have copies. What acts there borrows what is held, what is
//!   known of others, and what is to be sent; it cannot name a store.
//! - `opaque`: keys that an application's own handler serves, and that move.
//! - `state`: a store: what it holds, and what it knows.
//! - `mxnet`: requests. Each asks `moving` once where its piece is, and says once that a round is
//!   over: what its answers wait for is decided there. `exchange` is for workers that exchange
//!   deltas, `agreement` for what they say alike.
//! - `events`: what comes beside requests: commands, transfers, words of the scheduler.
//! - `local`: what a worker keeps of its tensors while deltas travel; it needs no store.
//!
//! `config` is what a store is told when it is made, `outbound` what it gives its owner to send.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `values`; must not do I/O,
//! read a clock, draw random numbers or start threads (whoever owns the store may call it from
//! several).

pub mod agreement;
pub mod command;
mod config;
pub mod error;
mod events;
mod exchange;
mod holdings;
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
mod validate;
mod view;

pub use config::{PART_BYTES, StoreConfig, SumOrder};
pub use error::StoreError;
pub use moving::changes::{Claimant, News};
pub use outbound::{Answer, Outbound, Outgoing};
pub use pieces::stalls::{LastRequest, Reminder, Stall};
pub use state::Store;
