//! The planner's place in a running job: what nodes measure and tell (`measuring`), and what the
//! scheduler makes of it (`plans`). Rules of placement are in `placement`; here is only who says
//! what when.

mod measuring;
mod plans;
mod probes;

pub(super) use measuring::Measuring;
pub(super) use plans::{Planning, Steps};
pub(super) use probes::Probe;
