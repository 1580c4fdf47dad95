//! Sockets and shared memory. Knows frames of bytes and node ids, not what they mean.
//!
//! `zmq` is the stock wire on libzmq; `native` the data plane between our own nodes; `address`
//! finds hosts, interfaces and ports; `host` knows what may be one; `port_holder` names who has a
//! busy port; `counters` is what each of them counts; `descriptors` makes room for files that are
//! open; `fork` knows a child of `fork`; `sys` is the only unsafe code besides `ffi`.
#![deny(unsafe_code)]

pub mod address;
pub mod counters;
pub mod descriptors;
pub mod fork;
pub mod host;
pub mod native;
pub mod port_holder;
pub(crate) mod sys;
pub mod zmq;

pub use sys::callers::{CallersMemory, Claim};
pub use sys::heap;
