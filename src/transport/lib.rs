//! Sockets and shared memory. Knows frames of bytes and node ids, not what they mean.
//!
//! `zmq` is the stock wire on libzmq; `native` is the data plane between our own nodes; `address`
//! finds hosts, interfaces and ports; `host` checks the text of a host; `port_holder` finds who
//! holds a busy port; `tunnel` passes connections on between hosts without a route, `dial` begins
//! them; `stuck` whether a connection is cut off; `counters` is what each
//! transport counts; `descriptors` raises the limit of open files; `threads` asks for room for
//! threads; `fork` detects a forked child; `sys` is the only unsafe code besides `ffi`.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure how long they wait"))]

pub mod address;
pub mod counters;
pub mod descriptors;
mod dial;
mod entrance;
pub mod fork;
pub mod host;
pub mod native;
pub mod port_holder;
mod stuck;
pub(crate) mod sys;
mod threads;
pub mod tunnel;
pub mod zmq;

pub use sys::callers::{CallersMemory, Claim};
pub use sys::heap;
