//! What a node tells people: for now the log.
//!
//! The log is plain lines on standard error, in the shape that ps-lite's users know. It installs
//! nothing global: a preloaded library is a guest in somebody's process.

pub mod log;
