//! All that a node has counted, at one moment, and its text: one JSON object on one line.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::events::{Counted, Label};
use super::histogram::HistogramCounts;
use pslite_core::wire::{NodeId, SCHEDULER, id_to_rank, is_worker, server_id};

/// The numbers of one event and one set of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(u64),
    /// Of a histogram.
    Times(Box<HistogramCounts>),
}

impl Value {
    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Times(times) => times.count() == 0,
        }
    }
}

/// The numbers of one event and one set of labels, with these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventSample {
    pub(super) event: Counted,
    /// In the order of the event's row.
    pub(super) labels: Vec<(Label, String)>,
    pub(super) value: Value,
}

/// See the module. What is 0 is left out, unless its event has no labels: of such a one the
/// OpenMetrics text says 0, so that it is there before something is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    samples: Vec<EventSample>,
}

impl Snapshot {
    /// Adds the numbers of an event; the labels are those of its row, in that order.
    pub fn add(&mut self, event: Counted, labels: &[(Label, &str)], value: Value) {
        debug_assert!(
            labels.iter().map(|(label, _)| label).eq(event.event().labels),
            "{event:?} has other labels"
        );
        if labels.is_empty() || !value.is_zero() {
            let labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
            self.samples.push(EventSample { event, labels, value });
        }
    }

    pub(super) fn samples(&self) -> &[EventSample] {
        &self.samples
    }

    pub(super) fn into_samples(self) -> Vec<EventSample> {
        self.samples
    }

    /// The samples as a JSON array. What is 0 is left out.
    #[must_use]
    pub fn json(&self) -> String {
        to_json(self)
    }
}

/// Texts and numbers only: there is nothing that JSON cannot say.
fn to_json(of: &impl Serialize) -> String {
    serde_json::to_string(of).unwrap_or_default()
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.samples.iter().filter(|sample| !sample.value.is_zero()))
    }
}

impl Serialize for EventSample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.event.event().name)?;
        for (label, value) in &self.labels {
            map.serialize_entry(label.name(), value)?;
        }
        match &self.value {
            Value::Number(number) => map.serialize_entry("value", number)?,
            Value::Times(times) => {
                let used = times.buckets.iter().rposition(|count| *count > 0);
                map.serialize_entry("count", &times.count())?;
                map.serialize_entry("sum", &times.sum)?;
                map.serialize_entry("buckets", &times.buckets[..used.map_or(0, |last| last + 1)])?;
            }
        }
        map.end()
    }
}

/// A line of the metrics file.
#[derive(Clone, Debug, Serialize)]
pub struct MetricsLine<'a> {
    /// Seconds since 1970.
    pub time: f64,
    /// Seconds since the start of the node.
    pub uptime: f64,
    /// What the node does.
    pub role: &'a str,
    /// Its rank; -1 before the job is complete.
    pub rank: i32,
    /// Its process.
    pub pid: u32,
    /// What it has counted.
    pub metrics: &'a Snapshot,
}

impl MetricsLine<'_> {
    /// One JSON object, without a line end. Times are said to the millisecond.
    #[must_use]
    pub fn json(&self) -> String {
        let millis = |seconds: f64| (seconds * 1e3).round() / 1e3;
        to_json(&Self { time: millis(self.time), uptime: millis(self.uptime), ..self.clone() })
    }
}

/// The name of a peer in snapshots.
#[must_use]
pub fn peer_name(id: Option<NodeId>) -> String {
    match id {
        Some(SCHEDULER) => "scheduler".to_owned(),
        Some(id) if id >= server_id(0) => {
            format!("{}{}", if is_worker(id) { "worker" } else { "server" }, id_to_rank(id))
        }
        _ => "unnamed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_the_names_that_people_know() {
        let names = [None, Some(1), Some(8), Some(9), Some(10), Some(13), Some(-3)].map(peer_name);
        assert_eq!(
            names,
            ["unnamed", "scheduler", "server0", "worker0", "server1", "worker2", "unnamed"]
        );
    }

    #[test]
    fn what_is_zero_is_left_out() {
        let mut snapshot = Snapshot::default();
        snapshot.add(Counted::Queued, &[], Value::Number(0));
        snapshot.add(Counted::Garbage, &[], Value::Number(3));
        assert_eq!(snapshot.json(), r#"[{"name":"garbage","value":3}]"#);
        assert_eq!(snapshot.samples().len(), 2, "but known");
    }

    #[test]
    fn a_line_says_who_counted_and_when() {
        let mut snapshot = Snapshot::default();
        let mut times = HistogramCounts { sum: 5, ..HistogramCounts::default() };
        times.buckets[2] = 2;
        let labels = [(Label::Peer, "server0"), (Label::Kind, "push")];
        snapshot.add(Counted::RequestTime, &labels, Value::Times(Box::new(times)));
        let line = MetricsLine {
            time: 1_700_000_000.123_4,
            uptime: 12.0,
            role: "worker",
            rank: 0,
            pid: 4711,
            metrics: &snapshot,
        };
        let expected = concat!(
            r#"{"time":1700000000.123,"uptime":12.0,"role":"worker","rank":0,"pid":4711,"#,
            r#""metrics":[{"name":"request_time","peer":"server0","kind":"push","count":2,"#,
            r#""sum":5,"buckets":[0,0,2]}]}"#
        );
        assert_eq!(line.json(), expected);
    }
}
