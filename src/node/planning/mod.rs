//! Planning in a running node: what drives a node's measuring (`gauge`), and what drives the
//! scheduler's planners (`driver`, with `tree_thread`). What the numbers mean and what is planned
//! is decided in `core`, in `measuring`, `scheduler` and `placement`.

mod driver;
mod gauge;
mod tree_thread;

pub(super) use driver::PlanningDriver;
pub(super) use gauge::NodeGauge;
