//! Bytes to typed messages and back. No I/O, no clock, no policy; depends on nothing else in this
//! crate. `message` has the types.

pub mod message;

pub use message::*;
