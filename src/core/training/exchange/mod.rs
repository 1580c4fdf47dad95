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
//! - [`aligning`] is what such a worker says to the scheduler, and [`coordinator`] the scheduler's
//!   end of it. It also says how many rounds are in flight, and how many steps a stretch has.
//!   `scheduled` is what a scheduler has of it before a worker has said anything, too.
//! - `overview` is what people are told of it.
//! - [`spec`] reads what a job was asked for, and checks what a policy says.
//! - `sections` cuts the tensors; [`pace`] says how long a worker computes without a result, and
//!   how many rounds keep the network busy.

pub mod aligning;
pub mod coordinator;
#[cfg(test)]
mod coordinator_tests;
pub mod gauge;
pub mod machine;
#[cfg(test)]
mod machine_tests;
mod overview;
pub mod pace;
pub mod rest;
#[cfg(test)]
mod rest_tests;
mod scheduled;
mod sections;
pub mod spec;
#[cfg(test)]
mod spec_tests;

pub use aligning::Aligning;
pub use coordinator::ExchangeCoordinator;
pub use gauge::Gauge;
pub use machine::{Act, Counts, Exchange, Hold, Push, PushTurn};
pub use rest::Rest;
pub use scheduled::SchedulerExchange;
