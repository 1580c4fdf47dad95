//! What happens in a job, as values: events, and how long rounds took. The membership and the
//! scheduler's planners make events ([`NewEvent`]) where others would write a line; the line is the
//! event's text. The scheduler of a job keeps them in its [`Chronicle`].
//!
//! Pure: the time is an argument, and nothing here writes a line. May touch names of nodes (`wire`)
//! and `invariant`; knows nothing of what the events are about.

mod event;
mod kept;
mod part;
mod points;
mod reader;

pub use event::{JobEvent, JobEventKind, Level, MovedShare, NewEvent};
pub use kept::Chronicle;
pub use part::ChroniclePart;
pub use points::RoundPoint;
pub use reader::{ChronicleNews, ChronicleReader};
