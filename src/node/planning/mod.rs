//! Planning in a running node: what nodes measure and report (`gauge`, `measuring`), and who drives
//! the scheduler's planners (`desk`, with `tree_thread`). What is planned is decided in `core`, in
//! `scheduler` and `placement`.

mod desk;
mod gauge;
mod measuring;
mod tree_thread;

pub(super) use desk::Desk;
pub(super) use gauge::Gauge;
use measuring::Measuring;
