//! A running node: settings from the environment, threads, and the glue between the state machines
//! (`cluster`, `kv`, `delivery`) and the sockets (`transport`).
//!
//! `postoffice` is the door; `van` sends, receives and keeps time; `customer` is who asks,
//! `service` what it does with what comes, `flights` where the parts of its requests are, `line` in
//! which order, `waiting` how the end of a request is waited for, `customers` where they are found;
//! `planning` what the scheduler moves; `landing` lets pulled values land in the caller's memory;
//! `shell` puts the `store` into a server, `movable` lets keys of an application's handler move,
//! `lending` the transport's memory into the `store`, `gating` keeps rounds apart; `journal` is the
//! scheduler's file, `operator` asks the scheduler of a job from outside. Rules of the protocol do
//! not live here but in the state machines. `threads` reads what the kernel says of this process,
//! `idle` knows when a server rests, `descriptors` makes room for a node's files.
#![forbid(unsafe_code)]

mod address;
mod base;
pub mod customer;
mod customers;
mod delivery;
mod descriptors;
pub mod error;
mod idle;
mod journal;
pub mod landing;
mod line;
mod naming;
mod operator;
mod planning;
pub mod postoffice;
mod recipient;
mod running;
mod server;
pub mod settings;
mod sink;
mod sync;
mod threads;
mod van;
mod worker;

pub use customer::{Customer, CustomerHandle, Handler, Request, Values};
pub use error::{NodeError, Result, refuse_forked};
pub use landing::{Destination, PullSink};
pub use operator::Operator;
pub use postoffice::{NodeInfo, Postoffice};
pub use pslite_transport::CallersMemory;
pub use server::KeyState;
pub use settings::{Asked, Lookup, Settings};
