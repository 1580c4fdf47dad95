//! What a node tells the scheduler of what it has counted: totals over all peers. Pure.

use super::events::{Counted, Label};
use super::process::ProcessNumbers;
use super::snapshot::{EventSample, Snapshot, Value};
use pslite_core::wire::counters::NodeTotals;

/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// The totals of a node that has counted this, in a process with these numbers.
#[must_use]
pub fn totals_of(snapshot: &Snapshot, process: &ProcessNumbers) -> NodeTotals {
    let mut totals = NodeTotals {
        cpu_micros: process.cpu_seconds.map_or(0, |seconds| (seconds * MICROS) as u64),
        resident_bytes: process.resident_bytes.unwrap_or(0),
        open_fds: process.open_fds.unwrap_or(0),
        ..NodeTotals::default()
    };
    snapshot.samples().iter().for_each(|sample| add(&mut totals, sample));
    totals
}

fn add(totals: &mut NodeTotals, sample: &EventSample) {
    let (count, sum) = match &sample.value {
        Value::Number(number) => (*number, 0),
        Value::Times(times) => (times.count(), times.sum),
    };
    let sent =
        sample.labels.iter().any(|(label, text)| *label == Label::Direction && text == "sent");
    let mut no_times = 0;
    let (place, times) = match (sample.event, sent) {
        (Counted::Messages, true) => (&mut totals.messages_sent, &mut no_times),
        (Counted::Messages, false) => (&mut totals.messages_received, &mut no_times),
        (Counted::Bytes, true) => (&mut totals.bytes_sent, &mut no_times),
        (Counted::Bytes, false) => (&mut totals.bytes_received, &mut no_times),
        (Counted::RequestTime, _) => (&mut totals.requests, &mut totals.request_micros),
        (Counted::StoreTime, _) => (&mut totals.stored, &mut totals.store_micros),
        (Counted::Garbage, _) => (&mut totals.dropped, &mut no_times),
        (Counted::Duplicates, _) => (&mut totals.duplicates, &mut no_times),
        (Counted::Connections, _) => (&mut totals.connections, &mut no_times),
        (Counted::Queued, _) => (&mut totals.queued, &mut no_times),
        (Counted::Waiting, _) => (&mut totals.waiting, &mut no_times),
        _ => return,
    };
    *place = place.wrapping_add(count);
    *times = times.wrapping_add(sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use std::time::Duration;

    #[test]
    fn totals_are_over_all_peers_and_kinds() {
        let mut snapshot = Snapshot::default();
        for (peer, kind, count) in [("server0", "push", 3), ("server1", "pull", 4)] {
            for (direction, factor) in [("sent", 1), ("received", 10)] {
                let labels =
                    [(Label::Peer, peer), (Label::Direction, direction), (Label::Kind, kind)];
                snapshot.add(Counted::Messages, &labels, Value::Number(count * factor));
                snapshot.add(Counted::Bytes, &labels, Value::Number(count * factor * 100));
            }
            let times = Histogram::default();
            (0..count).for_each(|_| times.add(Duration::from_micros(5)));
            let labels = [(Label::Peer, peer), (Label::Kind, kind)];
            snapshot.add(Counted::RequestTime, &labels, Value::Times(Box::new(times.read())));
        }
        snapshot.add(Counted::Queued, &[], Value::Number(2));
        snapshot.add(Counted::PullsCopied, &[], Value::Number(99));
        let process = ProcessNumbers {
            cpu_seconds: Some(1.5),
            open_fds: Some(12),
            ..ProcessNumbers::default()
        };
        let expected = NodeTotals {
            messages_sent: 7,
            messages_received: 70,
            bytes_sent: 700,
            bytes_received: 7000,
            requests: 7,
            request_micros: 35,
            queued: 2,
            cpu_micros: 1_500_000,
            open_fds: 12,
            ..NodeTotals::default()
        };
        assert_eq!(totals_of(&snapshot, &process), expected);
    }
}
