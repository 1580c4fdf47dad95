//! Training while the network works (NBSync, docs/nbsync.md): *when* a worker sends what it has
//! changed, takes the new global model, and waits. It knows keys, counts, times and how many bytes
//! a tensor has. *What* is kept of a tensor is in `store/local`, which this may not name; whoever
//! owns both joins them.
//!
//! Words: a *stretch* is what a worker computes between two sends; a *delta* is what a stretch
//! changed of a tensor; a *swap* takes the new global model; a *section* is the tensors that are
//! exchanged together.
//!
//! - [`machine`] is one customer of a worker: it is told of each push and each answer, and says
//!   which tensors are swapped and sent.
//! - [`rest`] is the same machine while the program computes nothing: at its end, and where all
//!   workers align.
//! - [`spec`] reads what a job was asked for, and checks what a policy says.
//! - `sections` cuts the tensors; [`pace`] says how long a worker computes without a result, and
//!   how many rounds keep the network busy.

pub mod machine;
#[cfg(test)]
mod machine_tests;
pub mod pace;
pub mod rest;
#[cfg(test)]
mod rest_tests;
mod sections;
pub mod spec;
#[cfg(test)]
mod spec_tests;

pub use machine::{Act, Counts, Exchange, Hold, Push, Turn};
pub use rest::Rest;
