//! Where keys belong: how fast the links of a job are, how long a round takes with which keys at
//! which server, how short it could be, and what to move. `docs/placement.md` tells it as a whole.
//!
//! | module | what it is |
//! |---|---|
//! | [`layout`] | who holds which piece of which key; moves and plans |
//! | [`links`] | rates of links, measured by those who receive |
//! | [`cost`] | the time of a round, and the bound T* |
//! | [`shares`] | planner A: shares that follow the network |
//! | [`stragglers`] | planner C (PSLD): what workers see of servers |
//! | [`graph`] | trees through a network that is no switch; a model, which no planner asks yet |
//! | [`planner`] | both together, as one state machine |
//! | `tuning` | the numbers of all rules, with what they rest on |
//! | [`measured`] | what nodes tell the planner, as bytes |
//!
//! Pure: time and chance are arguments, nothing here does I/O, starts a thread or reads a clock.
//! May touch names of nodes and keys (`wire`) and nothing else of the crate: it does not know
//! values, messages, or how pieces travel.

pub mod cost;
pub mod graph;
pub mod layout;
pub mod links;
pub mod measured;
pub mod planner;
pub mod shares;
mod statistics;
pub mod stragglers;
#[cfg(test)]
mod tests;
mod tuning;
