//! How fast the links of a job are, from the traffic itself (docs/algorithms.md 2.2).
//!
//! On each node, [`Receiver`] measures what came in (the receiver's own clock is enough for that),
//! [`Sender`] what went out to all peers together, and [`CpuShare`] the processor time that this
//! took. On the scheduler, [`Network`] combines the reports of all nodes. Links that carry rounds
//! along trees are measured apart: [`Trains`] and [`Stalls`] on a worker, [`CarriedRates`] on the
//! scheduler. Time is an argument and may count from any start; no two hosts' clocks are compared.
//!
//! Pure; must not do I/O. Reports come over the wire: values that cannot be rates are left out.

mod backlog_spans;
mod carried;
mod carried_rates;
mod cpu_share;
mod estimate;
mod limits;
mod link;
mod network;
mod rate_step;
mod rates;
mod receiver;
mod recent;
mod recent_best;
mod report;
mod sample;
mod sender;
mod slots;
mod stalls;
mod trains;

#[cfg(test)]
mod far_tests;
#[cfg(test)]
mod narrow_tests;
#[cfg(test)]
mod slow_sender_tests;
#[cfg(test)]
mod tests;

pub use crate::placement::tuning::PROBE_AFTER;
pub use carried::CardCarried;
pub use carried_rates::CarriedRates;
pub use cpu_share::{CpuShare, Ran, Totals};
pub use estimate::Estimate;
pub use limits::{MOST_LINKS, MOST_PEERS, MOST_REPORTED};
pub use network::{Card, Network, NetworkNow};
pub use receiver::Receiver;
pub use report::{LinkReport, Pace, RateReport};
pub use sample::Sample;
pub use sender::{Sender, Sent};
pub use stalls::Stalls;
pub use trains::{Arrival, LinkCarried, Trains};
