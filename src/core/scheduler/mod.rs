//! What a scheduler knows beside the membership, decides and shows: where keys are and along which
//! What a scheduler knows beside the membership, decides and shows: where keys are and along which
//! trees rounds go (`planners`), who waits for whom (`waits`, `open_wait`, `circle`), what nodes
//! have counted (`counted`) and how the job is (`status`, of which planners and the coordinators
//! bring their parts). Reads the membership; what it is to change there goes to it as events. Pure:
//! time is an argument.

mod advice;
mod circle;
mod counted;
mod key_planner;
mod lines;
mod open_wait;
mod overview;
mod planners;
mod probes;
mod settings;
mod status;
mod times;
mod tree_planner;
mod waits;

pub use counted::CounterBook;
pub use lines::{LogLine, LogLines};
pub use overview::StatusParts;
pub use planners::Planners;
pub use settings::PlannerSettings;
pub use status::{
    CircleStatus, LinkStatus, MovedStatus, NodeStatus, OldestWait, Status, TreeStatus, TreesStatus,
    WaitStatus,
};
pub use times::{RoundTimes, WorkerTime};
pub use tree_planner::{TreeAnswer, TreeJob};
pub use waits::{WaitOverview, WaitWatch};
