//! What a reader of a chronicle is told. Values only.

use serde::{Deserialize, Serialize};

use super::event::JobEvent;
use super::points::RoundPoint;
use crate::wire::chronicle::ChronicleQuestion;

/// What a reader is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChroniclePart {
    /// When the scheduler began, in seconds since 1970. Another one than before: it is another
    /// chronicle, whose numbers begin with 1.
    pub began: f64,
    /// Now, in seconds since then, as events and points count them.
    pub now: f64,
    /// The number of the oldest event that is kept; with none, that of the next one. If it is
    /// larger than the one that the reader would get next, those between are lost.
    pub first: u64,
    /// The number of the newest event; 0: there was none.
    pub last: u64,
    /// Events, in order.
    pub events: Vec<JobEvent>,
    /// Round points, in order.
    pub points: Vec<RoundPoint>,
    /// There are more events or points: they come with the next question.
    pub more: bool,
}

impl ChroniclePart {
    /// What is to be asked next, after the question that this answers.
    #[must_use]
    pub fn next(&self, asked: ChronicleQuestion) -> ChronicleQuestion {
        let event = self.events.last().map(|event| event.number);
        let point = self.points.last().map(RoundPoint::millis);
        ChronicleQuestion {
            // What was dropped is not asked for again.
            after_event: event.unwrap_or(asked.after_event).max(self.first.saturating_sub(1)),
            after_point: point.unwrap_or(asked.after_point),
        }
    }

    /// How many events a reader misses that asked so, because they are not kept any more.
    #[must_use]
    pub const fn lost(&self, asked: ChronicleQuestion) -> u64 {
        self.first.saturating_sub(asked.after_event.saturating_add(1))
    }
}
