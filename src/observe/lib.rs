//! What a node tells people: the log, and the numbers of the event list.
//!
//! The log is plain lines on standard error, in the shape that ps-lite's users know. Everything
//! that is counted has a row in `events`; a `snapshot` of the numbers goes to the application or to
//! a file (`metrics_file`). `exposition` makes the OpenMetrics text of it, with what the kernel
//! says of the process (`process`) and what a scheduler shows of its job (`job`); `totals` is what
//! the others tell it for that. `awake` is the time of this process without its pauses, for all who
//! wait for others. Counting must not lock, allocate, or enter the system for each message. Nothing
//! global is installed: a preloaded library is a guest in somebody's process.
#![forbid(unsafe_code)]

pub mod awake;
pub mod events;
pub mod exposition;
pub mod histogram;
pub mod job;
pub mod log;
pub mod metrics_file;
pub mod process;
pub mod snapshot;
pub mod totals;
pub mod traffic;

pub use events::{Counted, EVENTS, EventKind, Label};
pub use exposition::Exposition;
pub use histogram::HistogramCounts;
pub use metrics_file::MetricsFile;
pub use process::ProcessNumbers;
pub use snapshot::{MetricsLine, Snapshot, Value};
pub use traffic::{MessageKind, Traffic};
