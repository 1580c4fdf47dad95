//! Keys and values between workers and servers, as pure state machines: how a request is cut into
//! one message per server, which requests are in flight, how the answers of a pull are put
//! together, which requests a server still owes an answer, and which pushes it holds back (`gate`).
//!
//! May touch `wire` and `values`; must not do I/O, read a clock, start threads or know sockets.

pub mod answerer;
pub mod assembly;
pub mod commands;
mod error;
pub mod flights;
pub mod gate;
pub mod messages;
pub mod rounds;
pub mod routes;
pub mod slicer;
pub mod tracker;
pub mod unanswered;
pub mod worker;

pub use answerer::Answerer;
pub use assembly::{Assembled, PullAssembly};
pub use error::KvError;
pub use slicer::{Slices, slice};
pub use tracker::{Failure, FailureKind, Received, State, Tracker};
pub use unanswered::{Stuck, Unanswered};
pub use worker::{Finished, Pending, RequestError, WorkerRequests};
