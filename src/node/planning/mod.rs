//! Planning in a running node: who drives what a node measures (`gauge`), and who drives the
//! scheduler's planners (`desk`, with `tree_thread`). What the numbers mean and what is planned is
//! decided in `core`, in `measuring`, `scheduler` and `placement`.

mod desk;
mod gauge;
mod tree_thread;

pub(super) use desk::Desk;
pub(super) use gauge::NodeGauge;
