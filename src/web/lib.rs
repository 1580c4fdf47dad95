//! What a node shows over HTTP: whether it is well, its metrics, and, at the scheduler, the page of
//! the job and what the page reads. Knows nothing of jobs: whoever runs a node says what there is
//! to show ([`Shown`]).
//!
//! The protocol is a state machine without I/O, which is given bytes and the time: `hall` has all
//! connections, `caller` is one of them, `head` reads what it asks, `routes` says what is meant,
//! `desk` makes answers and keeps them for all who ask at the same time, `feed` is what follows a
//! page that stays. `place` reads where to listen. `page` are the files of the page. `server` alone
//! touches sockets: it is a loop on one thread, with no runtime.
//!
//! Nothing here may name a node, and nothing that comes from outside is trusted: each length has a
//! limit, each connection a time, and their number is bounded.
#![forbid(unsafe_code)]

mod answer;
mod caller;
mod desk;
mod feed;
mod hall;
mod head;
mod page;
mod place;
mod routes;
mod server;
mod shown;
#[cfg(test)]
mod tests;

pub use head::read_head;
pub use place::{WebPlace, WebPlaceError};
pub use server::WebServer;
pub use shown::{Shown, ShownEvent, ShownPoint};
