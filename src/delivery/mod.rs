//! Getting messages across: the order in which they go ([`PriorityFifo`]) and, where resending is
//! on, that each arrives exactly once ([`Resender`]).
//!
//! Pure state machines over `wire` types: no I/O, no clock, no threads. Time is an argument.

pub mod queue;
pub mod resend;
mod seen;

pub use queue::PriorityFifo;
pub use resend::{Incoming, ResendConfig, Resender, Verdict};
