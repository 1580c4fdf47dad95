//! A running node: settings from the environment, threads, and the glue between the state machines
//! (`cluster`, `kv`, `delivery`) and the sockets (`transport`). Rules of the protocol do not live
//! here but in the state machines.
//!
//! `postoffice` is the door, and puts a node together: a `van`, which sends, receives and keeps
//! time, and customers, who ask and serve. The two do not know each other. The van knows customers
//! by their `Mailbox`es (`recipient`), which it finds in `customers`; a customer knows the van as
//! the `RunningNode` (`running`) that it is in. A `customer` is a side that asks (`worker`) and one
//! that serves (`server`: the store, keys that move, the gate between rounds) on one `base`.
//!
//! `work_queue` holds what a customer is to handle (`delivery`); `landing` and `sink` put pulled
//! values straight into the caller's memory; `planning` is what a node measures and what the
//! scheduler moves; `training` is who computes which batch, `batch_session` a worker's part of it;
//! `journal` is the scheduler's file; `operator` asks the scheduler of a job from outside.
//! `tunnels` finds ways to hosts without a route, `threads` reads what the kernel says of this
//! process, `notices` says which settings do nothing, `idle` knows when a server rests,
//! `web_door` is where those come in who look over HTTP, `descriptors` makes room for a node's
//! files, `files` opens those that settings name, `farewell` tells the scheduler why a node does
//! not start. Which room may name which is in `tests/layers.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure how long they wait"))]

mod address;
mod base;
mod batch_session;
pub mod customer;
mod customers;
mod delivery;
mod descriptors;
pub mod error;
mod farewell;
pub mod files;
mod idle;
mod journal;
pub mod landing;
mod lines;
mod naming;
pub mod notices;
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
mod training;
mod tunnels;
mod van;
mod web_door;
mod work_queue;
mod worker;

pub use batch_session::{BatchReport, BatchSession};
pub use customer::{Customer, CustomerHandle, Handler, Request, Values};
pub use error::{NodeError, Result, refuse_forked};
pub use landing::{Destination, PullSink};
pub use operator::Operator;
pub use postoffice::{NodeInfo, Postoffice};
pub use pslite_core::training::balance::Batch;
pub use pslite_core::wire::balance::{BalanceOpen, BalanceRule};
pub use pslite_transport::CallersMemory;
pub use server::KeyState;

pub use settings::{Elastic, Lookup, ProgramSettings, Settings, StaticReasons, TunnelSettings};
