//! pslite: a parameter-server library that speaks the API and the wire of ps-lite.
//!
//! Rooms, from the bottom up (an arrow between modules points down only; `docs/design.md`):
//! `random` (numbers that a seed decides) and `fifo` (a queue by priority) know nothing; `wire` knows bytes; `cluster`, `kv`, `delivery`, `store` and `placement` are state machines without I/O;
//! `transport` does the I/O; `node` joins them to a running node; `sim` runs the state machines on virtual
//! time.
#![deny(unsafe_code)]

pub mod cluster;
pub mod delivery;
pub mod fifo;
pub mod kv;
pub mod node;
pub mod observe;
pub mod placement;
pub mod random;
pub mod sim;
pub mod store;
pub mod transport;
pub mod values;
pub mod wire;
