//! Getting messages across: where resending is on, each arrives exactly once ([`Resender`]).
//!
//! Pure state machines over `wire` types: no I/O, no clock, no threads. Time is an argument.

pub mod resend;
mod seen;

pub use resend::{Incoming, ResendConfig, Resender, Verdict};
