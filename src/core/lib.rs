//! What pslite knows and decides: bytes, values, and the state machines of a job. Below it are the
//! crates `elements` (what tensors are made of) and `optimizers` (how a gradient updates them).
//!
//! Rooms, from the bottom up (an arrow between rooms points down only; `docs/design.md`):
//!
//! - `random` (numbers that a seed decides), `fifo` (a queue by priority), `invariant` (promises as
//!   code) and `awake` (a clock that stands still while its process does) know nothing of a job;
//! - `wire` knows bytes, `values` what keys and values are made of and how they are summed, `trees`
//!   which way sums and values take, `lives` whom the others wait for where workers come back,
//!   `chronicle` what happened in a job;
//! - `cluster`, `kv`, `delivery`, `store`, `placement` and `training` are state machines beside
//!   each other;
//! - `measuring` is what a node measures for the planners; `worker` and `server` join what a
//!   customer that asks and one that serves have of them; `scheduler` has the planners, and shows
//!   the membership and what it knows beside that.
//!
//! No clock, socket, file, thread or random source: time, chance and what arrived are arguments.
//! `clippy.toml` beside this file has the list of what must not be called.
#![forbid(unsafe_code)]

pub mod awake;
pub mod chronicle;
pub mod cluster;
pub mod delivery;
pub mod fifo;
pub mod invariant;
pub mod keys;
pub mod kv;
pub mod lives;
pub mod measuring;
pub mod placement;
pub mod random;
pub mod scheduler;
pub mod server;
pub mod store;
pub mod text;
pub mod training;
pub mod trees;
pub mod values;
pub mod wire;
pub mod worker;
