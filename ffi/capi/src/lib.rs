//! The C ABI of pslite: `include/pslite.h`, one exported function for each declaration.
//!
//! `entry` holds every exported symbol and nothing else; `types` mirrors the header's structs;
//! `status` maps errors to numbers; `lent` keeps memory of the caller alive; `sink` writes pulled
//! values to it; `values` keeps what a thread says of those that it sends next; `movable` calls
//! what an application does for keys that move; `exit` is the exit code of a failure that is found
//! late. Nothing here knows the protocol.

mod entry;
mod exit;
mod lent;
mod movable;
mod sink;
mod status;
mod types;
mod values;

pub use entry::*;
pub use types::*;
