//! `pslite status --events`: what happens in a job, a line for each event, as its scheduler tells
//! it. Asks again each second, until the scheduler answers no more.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use pslite::chronicle::{
    ChronicleNews, ChroniclePart, ChronicleReader, JobEvent, JobEventKind, NewEvent,
};
use pslite::node::{NodeError, Operator};
use pslite::wire::chronicle::ChronicleQuestion;

use crate::print::say;

/// Between two questions.
const AGAIN: Duration = Duration::from_secs(1);
/// All events, and no round points.
const ALL_EVENTS: ChronicleQuestion = ChronicleQuestion { after_event: 0, after_point: u64::MAX };

/// Prints the events that are kept, and then each that comes.
///
/// # Errors
/// No scheduler answers, or it is of an earlier version, which keeps no events.
pub(super) fn follow(operator: &Operator, json: bool) -> Result<ExitCode> {
    let place = format!("{}:{}", operator.host, operator.port);
    let mut reader = ChronicleReader::new(ALL_EVENTS);
    loop {
        let status = match operator.chronicle(reader.asks()) {
            Ok(status) => status,
            Err(NodeError::Timeout(_)) if reader.has_heard() => {
                let text = format!("the scheduler at {place} answers no more");
                print(&said(NewEvent::info(JobEventKind::End, text)), json);
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => return Err(error).context(format!("no events of {place}")),
        };
        let part = status.chronicle.ok_or_else(|| {
            anyhow!("the scheduler at {place} is of an earlier version: it keeps no events")
        })?;
        let more = part.more;
        let events = told(&mut reader, part);
        events.iter().for_each(|event| print(event, json));
        if !more {
            thread::sleep(AGAIN);
        }
    }
}

/// What is to be printed of an answer.
fn told(reader: &mut ChronicleReader, part: ChroniclePart) -> Vec<JobEvent> {
    let lost = match reader.hear(&part) {
        ChronicleNews::GoesOn { lost } => lost,
        ChronicleNews::BeginsAnew => {
            let text = "the scheduler was started again: its events are numbered anew";
            return vec![said(NewEvent::warning(JobEventKind::Lost, text))];
        }
    };
    let gap = (lost > 0).then(|| {
        let text = format!("{lost} events before the next one are not kept any more");
        said(NewEvent::warning(JobEventKind::Lost, text).with("events", lost as f64))
    });
    gap.into_iter().chain(part.events).collect()
}

/// What this program says itself, now. It has no number.
fn said(what: NewEvent) -> JobEvent {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    JobEvent { number: 0, at: 0.0, time: now.as_secs_f64(), what }
}

fn print(event: &JobEvent, json: bool) {
    match json {
        true => say!("{}", event.json()),
        false => say!("{}", line(event)),
    }
}

/// The time as in the log, the kind, and the text.
pub(super) fn line(JobEvent { time, what, .. }: &JobEvent) -> String {
    let seconds = (*time as u64) % 86_400;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02} {:8} {}", what.kind.name(), what.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> JobEvent {
        let what = NewEvent::info(JobEventKind::Policy, format!("policy {number}"));
        JobEvent { number, at: number as f64, time: 90_061.9, what }
    }

    fn part(began: f64, first: u64, numbers: std::ops::RangeInclusive<u64>) -> ChroniclePart {
        let last = *numbers.end();
        let events = numbers.map(event).collect();
        ChroniclePart { began, first, last, events, ..ChroniclePart::default() }
    }

    #[test]
    fn a_line_has_time_kind_and_text() {
        assert_eq!(line(&event(3)), "01:01:01 policy   policy 3");
    }

    #[test]
    fn lost_events_are_said() {
        let mut reader = ChronicleReader::new(ALL_EVENTS);
        let numbers = |events: &[JobEvent]| events.iter().map(|e| e.number).collect::<Vec<_>>();
        assert_eq!(numbers(&told(&mut reader, part(1.0, 1, 1..=3))), [1, 2, 3]);
        assert_eq!(reader.asks().after_event, 3);
        assert_eq!(numbers(&told(&mut reader, part(1.0, 2, 4..=4))), [4]);
        let gap = told(&mut reader, part(1.0, 9, 9..=9));
        assert_eq!(numbers(&gap), [0, 9]);
        assert!(gap[0].what.text.starts_with("4 events"), "{gap:?}");
        assert_eq!(gap[0].what.numbers["events"], 4.0);
        assert_eq!(told(&mut reader, part(1.0, 9, 9..=9)).len(), 1, "it asks after 9, and trusts");
        let again = told(&mut reader, part(2.0, 1, 10..=11));
        assert_eq!((again.len(), again[0].number), (1, 0), "{again:?}");
        assert_eq!(reader.asks(), ALL_EVENTS);
        assert_eq!(numbers(&told(&mut reader, part(2.0, 1, 1..=2))), [1, 2]);
    }
}
