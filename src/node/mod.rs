//! A running node: settings from the environment, threads, and the glue between the state machines
//! (`cluster`, `kv`, `delivery`) and the sockets (`transport`).
//!
//! `postoffice` is the door; `van` sends, receives and keeps time; `customer` is who asks and gets
//! answers. Rules of the protocol do not live here but in the state machines.

mod address;
pub mod customer;
pub mod error;
pub mod postoffice;
pub mod settings;
mod van;

pub use customer::{Customer, CustomerHandle, Handler, PullSink, Request};
pub use error::{NodeError, Result};
pub use postoffice::{NodeInfo, Postoffice};
pub use settings::{Lookup, Settings};
