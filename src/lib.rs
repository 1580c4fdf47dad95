//! pslite: a parameter-server library that speaks the API and the wire of ps-lite.
//!
//! All crates of it under one name, for the program, the tests and the examples. An arrow between
//! crates points down only, and cargo keeps it so (`docs/design.md`): `elements` has what tensors
//! are made of, `optimizers` the update rules, `core` bytes, values and the state machines,
//! `observe` the log and the counters, `web` what is shown over HTTP, `transport` the sockets.
//! `node` joins them to a running node; `sim` runs the state machines on virtual time.
#![forbid(unsafe_code)]

pub use pslite_core::{
    chronicle, cluster, delivery, fifo, kv, measuring, placement, random, scheduler, store,
    training, values, wire,
};
pub use pslite_elements as elements;
pub use pslite_node as node;
pub use pslite_observe as observe;
pub use pslite_optimizers as optimizers;
pub use pslite_sim as sim;
pub use pslite_transport as transport;
pub use pslite_web as web;
