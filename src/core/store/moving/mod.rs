//! Pieces that move: the server's side of docs/elastic.md. In a job whose nodes do not all follow
//! pieces (`StoreConfig::elastic`) only requests come here, and find each key where it was made.
//!
//! Pure. May touch what is held, and `trees`; must not know who serves requests and commands. What
//! is due is an `Outbound`: answers to workers, transfers to other servers. The owner of a store
//! promises:
//!
//! - messages of one server to another arrive once and in order; between different pairs any order
//!   will do;
//! - after `Store::collect` it gives nothing of a lost server any more (the store ignores it all
//!   the same);
//! - answers and transfers of one call leave in the order in which they stand there.
//!
//! What its owner calls:
//!
//! | call | when |
//! |---|---|
//! | `Store::serve` | a push or pull came, about a part of a key |
//! | `Store::obey` | a command came; tells if the answer is due now or comes in an `Outbound` |
//! | `Store::transfer` | another server sent a transfer; an error ends the job |
//! | `Store::orders` | the scheduler orders moves |
//! | `Store::collect` | the scheduler's word `Collect`; what it returns goes back as `Claims` |
//! | `Store::policy` | the scheduler's word `Policy` |
//! | `Store::news` | to report to the scheduler, when there are `Store::changes` |
//! | `Store::forget_node` | a worker is gone, or another process has its id |
//! | `Store::customer_left` | a worker's customer sends no more |
//! | `Store::overlay` | the scheduler's word `Overlay` |
//!
//! (These are in `store/events` and `store/mxnet`.)
//!
//! What a server knows is in `state`, in parts that answer for themselves: `servers` who there is
//! (of opaque keys, too), `orders` what waits to be moved, `kept` what waits for other servers,
//! `seeds` where copies are and what a new replica lacks, `settings` what commands said, `parts`
//! how long pieces are, `changes` what is to be claimed, `parked` what waits.
//!
//! `mover` borrows that, and what is held here, for one event: `Whereabouts` to look, a `Mover` to
//! change. The other files are what these do: `requests` where a request is served, `rounds` what
//! was done to a piece and what its answers wait for; `moves` moves; `replicas` what an owner's
//! replica gets, `seeding` what a new one gets, `copies` the replica's side; `promotion` deaths and
//! policies, `claims` what is said of what is here; `commands` what joiners are told; `travel` a
//! piece as a transfer; `tickets` by which trees rounds go, `choice` which of them a round takes,
//! `questions` what workers are told who ask; `validate` is what all of this promises.

pub(super) mod changes;
mod choice;
mod claims;
mod commands;
mod copies;
mod kept;
mod limits;
mod mover;
mod moves;
mod orders;
pub(super) mod parked;
mod parts;
mod promotion;
mod questions;
mod replicas;
mod requests;
mod rounds;
mod seeding;
mod seeds;
pub(super) mod servers;
mod settings;
mod state;
mod tickets;
mod travel;
mod validate;

pub use self::commands::Due;
pub(super) use self::mover::{Mover, Whereabouts};
pub(super) use self::requests::ToServe;
pub(super) use self::rounds::{RoundOver, Shipped};
pub(super) use self::state::Elsewhere;

#[cfg(test)]
mod tests;
