//! All that a node has counted, at one moment, and its text: one JSON object on one line.

use std::fmt::Write;

use super::events::{Counted, Label};
use super::histogram::BUCKETS;
use pslite_core::wire::{NodeId, SCHEDULER, id_to_rank, is_worker, server_id};

/// The numbers of one event and one set of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(u64),
    /// Of a histogram.
    Times(Box<[u64; BUCKETS]>),
}

impl Value {
    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Times(buckets) => buckets.iter().all(|count| *count == 0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EventSample {
    event: Counted,
    labels: Vec<(Label, String)>,
    value: Value,
}

/// See the module. What is 0 is left out.
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
        if !value.is_zero() {
            let labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
            self.samples.push(EventSample { event, labels, value });
        }
    }

    /// The samples as a JSON array. Names and labels are plain words, so nothing needs to be
    /// escaped.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = String::from("[");
        for (i, sample) in self.samples.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            sample.write(&mut text);
        }
        text.push(']');
        text
    }
}

impl EventSample {
    /// Writing to a string cannot fail.
    fn write(&self, text: &mut String) {
        let _ = write!(text, "{{\"name\":\"{}\"", self.event.event().name);
        for (label, value) in &self.labels {
            let _ = write!(text, ",\"{}\":\"{value}\"", label.name());
        }
        match &self.value {
            Value::Number(number) => {
                let _ = write!(text, ",\"value\":{number}}}");
            }
            Value::Times(buckets) => {
                let used = buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
                let counts: Vec<String> = buckets[..used].iter().map(u64::to_string).collect();
                let total: u64 = buckets.iter().sum();
                let _ = write!(text, ",\"count\":{total},\"buckets\":[{}]}}", counts.join(","));
            }
        }
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
    }
}
