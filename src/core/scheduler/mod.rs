//! What a scheduler knows beside the membership, and shows: who waits for whom (`waits`, `circle`)
//! and how the job is (`status`, of which the planner and the coordinators bring their parts).
//! Reads the membership and changes nothing in it. Pure; time is an argument.

mod advice;
mod circle;
mod overview;
mod status;
mod times;
mod waits;

pub use overview::StatusParts;
pub use status::{LinkStatus, NodeStatus, Status, TreeStatus, TreesStatus};
pub use times::{RoundTimes, WorkerTime};
pub use waits::{LogLine, WaitWatch};
