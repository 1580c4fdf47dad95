//! What follows a page that stays (`text/event-stream`): how the job is, whenever that differs, and
//! each event with its number. Pure. A reader that has not taken the last part gets no further one,
//! so what waits for it is bounded: it misses states in between, and no event that is still kept.

use std::time::Duration;

use crate::answer::SharedBytes;
use crate::desk::{Desk, GAP};

/// Events in one part, at most. More follow with the next one.
const EVENTS_IN_PART: usize = 512;
/// If nothing else is to be said for so long, that is said: a reader knows that it is still heard.
const SIGN_AFTER: Duration = Duration::from_secs(2);
/// A comment.
const SIGN: &[u8] = b":\n\n";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feed {
    /// The last event that was told.
    event: u64,
    /// The last status that was told.
    version: u64,
    /// When something was told last.
    told: Duration,
}

impl Feed {
    /// Begins for one who knows what happened up to that event. Also returns the first part: whose
    /// events are counted here.
    pub(crate) fn begin(event: u64, desk: &Desk<'_>, now: Duration) -> (Self, SharedBytes) {
        let life = format!("{{\"life\":\"{}\"}}", desk.life());
        (Self { event, version: 0, told: now }, frame("life", None, &life))
    }

    /// The next part, of which all pieces are to be sent; empty if there is nothing to say.
    pub(crate) fn part(&mut self, desk: &mut Desk<'_>, now: Duration) -> Vec<SharedBytes> {
        let mut part = Vec::new();
        for event in desk.events(self.event, EVENTS_IN_PART, now) {
            self.event = event.number;
            part.push(event.frame);
        }
        let status = desk.status(now);
        if status.version != self.version {
            self.version = status.version;
            part.push(status.frame);
        }
        if part.is_empty() && now.saturating_sub(self.told) >= SIGN_AFTER {
            part.push(SIGN.into());
        }
        if !part.is_empty() {
            self.told = now;
        }
        part
    }
}

/// The last part: the node ends.
pub(crate) fn farewell() -> SharedBytes {
    frame("end", None, "{}")
}

/// When the part after this one is due.
pub(crate) fn next(now: Duration) -> Duration {
    now + GAP
}

/// One message of a stream. A line end in the data would begin another field: the data are several
/// lines then.
pub(crate) fn frame(event: &str, id: Option<u64>, data: &str) -> SharedBytes {
    let mut text = String::with_capacity(data.len() + 64);
    if let Some(id) = id {
        text += &format!("id: {id}\n");
    }
    text += &format!("event: {event}\n");
    for line in data.split(['\n', '\r']) {
        text += "data: ";
        text += line;
        text.push('\n');
    }
    text.push('\n');
    text.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_in_data_begins_no_field() {
        let text = frame("event", Some(7), "{\"a\":\"b\nid: 9\r\n\n\"}");
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.starts_with("id: 7\nevent: event\ndata: {"), "{text}");
        assert!(text.ends_with("\n\n") && text.matches("\n\n").count() == 1, "{text}");
        assert!(text.lines().skip(2).all(|line| line.is_empty() || line.starts_with("data: ")));
    }
}
