//! Sockets and shared memory. Knows frames of bytes and node ids, not what they mean.
//!
//! `zmq` is the stock wire on libzmq; `native` is the data plane between our own nodes; `carrier`
//! is what both share; `address` finds hosts, interfaces and ports; `host` checks the text of a
//! host; `port_holder` finds who holds a busy port; `tunnel` passes connections on between hosts
//! without a route, `dial` begins them; `stuck` whether a connection is cut off; `counters` is what
//! each transport counts; `descriptors` raises the limit of open files; `threads` asks for room for
//! threads; `sync` locks; `fork` detects a forked child, for which `owner` knows which process has
//! nodes; `sys` is the only unsafe code besides `ffi`.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure how long they wait"))]

pub mod address;
pub mod carrier;
pub mod counters;
pub mod descriptors;
mod dial;
mod entrance;
pub mod fork;
pub mod host;
pub mod native;
mod owner;
pub mod port_holder;
mod stuck;
pub mod sync;
pub(crate) mod sys;
mod threads;
pub mod tunnel;
pub mod zmq;

pub use sys::callers::{CallersMemory, MemoryClaim};
pub use sys::heap;
