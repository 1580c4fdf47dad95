//! The OpenMetrics 1.0 text of a process, which Prometheus reads: families of samples, each sample
//! with its labels. Built anew for each scrape from a [`Snapshot`], so counting costs nothing more;
//! `prometheus-client` makes the text of it, with what has to be escaped. Touches nothing else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::events::{Counted, EventKind, EventRow};
use super::histogram::{BUCKETS, HistogramCounts};
use super::snapshot::{Snapshot, Value};

/// Microseconds in a second.
const MICROS: f64 = 1e6;
/// The bounds of a histogram's buckets: 16 µs, and each four times the one before ...
const FIRST_BOUND: usize = 4;
const BOUND_STEP: usize = 2;
/// ... to 67 s.
const BOUNDS: usize = 12;

/// The labels of a sample, in order.
pub type SampleLabels = Vec<(&'static str, Cow<'static, str>)>;

/// What is said of a family of samples.
#[derive(Clone, Copy, Debug)]
pub struct FamilyRow {
    /// Its name; of a counter with `_total`.
    pub name: &'static str,
    /// How its numbers are to be read.
    pub kind: EventKind,
    /// What tells its samples apart.
    pub labels: &'static [&'static str],
    /// What it is.
    pub text: &'static str,
}

impl From<&EventRow> for FamilyRow {
    fn from(row: &EventRow) -> Self {
        // Labels that come of the row are beside `node`, and are given with the samples.
        Self { name: row.exposed, kind: row.kind, labels: &[], text: row.text }
    }
}

/// The number of one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum ExposedValue {
    /// A whole number.
    Count(u64),
    /// Any other.
    Number(f64),
    /// Of a histogram.
    Times(Box<HistogramCounts>),
    /// Of a histogram of which no buckets are known.
    TimesInAll {
        /// How many times were counted.
        count: u64,
        /// All together, in microseconds.
        sum: u64,
    },
}

impl ExposedValue {
    /// That many microseconds in seconds.
    #[must_use]
    pub fn seconds(micros: u64) -> Self {
        Self::Number(micros as f64 / MICROS)
    }
}

#[derive(Debug)]
struct MetricFamily {
    row: FamilyRow,
    samples: BTreeMap<SampleLabels, ExposedValue>,
}

/// See the module. No two samples of a family have the same labels.
#[derive(Debug, Default)]
pub struct Exposition {
    /// In the order in which they came.
    families: Vec<MetricFamily>,
    places: BTreeMap<&'static str, usize>,
}

impl Exposition {
    /// Sets a sample. Of two with the same labels the last one counts.
    pub fn set(&mut self, row: &FamilyRow, labels: SampleLabels, value: ExposedValue) {
        self.samples_of(row).insert(labels, value);
    }

    /// Adds all that a node has counted.
    pub fn add_snapshot(&mut self, node: &str, snapshot: Snapshot) {
        for sample in snapshot.into_samples() {
            let event = sample.event.event();
            let mut labels = vec![("node", Cow::from(node.to_owned()))];
            let more = sample.labels.into_iter();
            labels.extend(more.map(|(label, text)| (label.name(), Cow::from(text))));
            let value = match sample.value {
                Value::Number(micros) if event.unit == "µs" => ExposedValue::seconds(micros),
                Value::Number(number) => ExposedValue::Count(number),
                Value::Times(times) => ExposedValue::Times(times),
            };
            self.merge(sample.event, labels, value);
        }
    }

    /// Several peers that have no id yet have one name.
    fn merge(&mut self, event: Counted, labels: SampleLabels, value: ExposedValue) {
        match self.samples_of(&event.event().into()).entry(labels) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(mut place) => match (place.get_mut(), value) {
                (ExposedValue::Count(most), ExposedValue::Count(more))
                    if event == Counted::WaitingMax =>
                {
                    *most = (*most).max(more);
                }
                (ExposedValue::Count(sum), ExposedValue::Count(more)) => {
                    *sum = sum.wrapping_add(more);
                }
                (ExposedValue::Number(sum), ExposedValue::Number(more)) => *sum += more,
                (ExposedValue::Times(sum), ExposedValue::Times(more)) => sum.merge(&more),
                // An event has one kind of value.
                (place, value) => *place = value,
            },
        }
    }

    fn samples_of(&mut self, row: &FamilyRow) -> &mut BTreeMap<SampleLabels, ExposedValue> {
        let place = *self.places.entry(row.name).or_insert_with(|| {
            self.families.push(MetricFamily { row: *row, samples: BTreeMap::new() });
            self.families.len() - 1
        });
        &mut self.families[place].samples
    }

    /// The text.
    #[must_use]
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.families.iter().filter(|family| !family.samples.is_empty());
        families.into_iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

impl MetricFamily {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let FamilyRow { name, kind, text, .. } = self.row;
        // The encoder writes the unit and `_total` by itself.
        let name = name.strip_suffix("_total").unwrap_or(name);
        let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
        let unit = units.into_iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
        let (name, unit) = unit.map_or((name, None), |(name, unit)| (name, Some(unit)));
        let kind_of = match kind {
            EventKind::Counter => MetricType::Counter,
            EventKind::Gauge => MetricType::Gauge,
            EventKind::Histogram => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(name, text, unit.as_ref(), kind_of)?;
        for (labels, value) in &self.samples {
            encode_value(metric.encode_family(labels)?, kind, value)?;
        }
        Ok(())
    }
}

fn encode_value(
    mut encoder: MetricEncoder<'_>,
    kind: EventKind,
    value: &ExposedValue,
) -> fmt::Result {
    match (value, kind) {
        (ExposedValue::Count(count), EventKind::Counter) => {
            encoder.encode_counter::<NoLabelSet, u64, u64>(count, None)
        }
        (ExposedValue::Number(number), EventKind::Counter) => {
            encoder.encode_counter::<NoLabelSet, f64, u64>(number, None)
        }
        (ExposedValue::Count(count), _) => encoder.encode_gauge(count),
        (ExposedValue::Number(number), _) => encoder.encode_gauge(number),
        (ExposedValue::Times(times), _) => {
            let sum = times.sum as f64 / MICROS;
            encoder.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets(times), None)
        }
        (ExposedValue::TimesInAll { count, sum }, _) => {
            let all = [(f64::INFINITY, *count)];
            encoder.encode_histogram::<NoLabelSet>(*sum as f64 / MICROS, *count, &all, None)
        }
    }
}

/// The upper bounds in seconds, and how many are between each and the one before. Those of ours are
/// powers of two of a microsecond, so no time has to be cut.
fn buckets(times: &HistogramCounts) -> [(f64, u64); BOUNDS + 1] {
    let mut from = 0;
    std::array::from_fn(|n| {
        let end = FIRST_BOUND + n * BOUND_STEP;
        let (bound, to) = match n < BOUNDS {
            true => ((1_u64 << end) as f64 / MICROS, end + 1),
            false => (f64::INFINITY, BUCKETS),
        };
        let count = times.buckets[from..to].iter().sum();
        from = to;
        (bound, count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EVENTS, Label};
    use crate::histogram::Histogram;
    use std::time::Duration;

    type Sample<'a> = (Counted, &'a [(Label, &'a str)], Value);

    fn snapshot(samples: &[Sample<'_>]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (event, labels, value) in samples {
            snapshot.add(*event, labels, value.clone());
        }
        snapshot
    }

    fn text_of(snapshot: Snapshot) -> String {
        let mut exposition = Exposition::default();
        exposition.add_snapshot("worker0", snapshot);
        exposition.text()
    }

    #[test]
    fn an_empty_text_has_its_end() {
        assert_eq!(text_of(Snapshot::default()), "# EOF\n");
    }

    #[test]
    fn counters_and_gauges_have_their_names_and_units() {
        let peer = [(Label::Peer, "server0"), (Label::Direction, "sent"), (Label::Kind, "push")];
        let text = text_of(snapshot(&[
            (Counted::Bytes, &peer, Value::Number(1 << 60)),
            (Counted::Queued, &[], Value::Number(3)),
            (Counted::Garbage, &[], Value::Number(0)),
            (Counted::ExchangeHeld, &[], Value::Number(1_500_000)),
        ]));
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE pslite_message_bytes counter",
                "# UNIT pslite_message_bytes bytes",
                concat!(
                    r#"pslite_message_bytes_total{node="worker0",peer="server0","#,
                    r#"direction="sent",kind="push"} 1152921504606846976"#
                ),
                "# TYPE pslite_queued_messages gauge",
                r#"pslite_queued_messages{node="worker0"} 3"#,
                "# TYPE pslite_dropped_messages counter",
                r#"pslite_dropped_messages_total{node="worker0"} 0"#,
                "# TYPE pslite_exchange_held_seconds counter",
                "# UNIT pslite_exchange_held_seconds seconds",
                r#"pslite_exchange_held_seconds_total{node="worker0"} 1.5"#,
                "# EOF",
            ]
        );
    }

    #[test]
    fn histograms_have_twelve_bounds_and_a_sum() {
        let histogram = Histogram::default();
        for micros in [1, 15, 16, 63, 64, 67_108_863, 67_108_864, 200_000_000] {
            histogram.add(Duration::from_micros(micros));
        }
        let labels = [(Label::Peer, "server0"), (Label::Kind, "pull")];
        let value = Value::Times(Box::new(histogram.read()));
        let text = text_of(snapshot(&[(Counted::RequestTime, &labels, value)]));
        let of = r#"node="worker0",peer="server0",kind="pull""#;
        let bucket = |bound: &str| {
            let start = format!("pslite_request_duration_seconds_bucket{{le=\"{bound}\",{of}}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("no {start} in {text}")).parse::<u64>().unwrap()
        };
        assert_eq!(text.matches("_bucket{").count(), BOUNDS + 1);
        let expected = [("0.000016", 2), ("0.000064", 4), ("0.000256", 5), ("67.108864", 6)];
        for (bound, count) in expected.into_iter().chain([("+Inf", 8)]) {
            assert_eq!(bucket(bound), count, "{bound}: {text}");
        }
        assert!(text.contains(&format!("pslite_request_duration_seconds_count{{{of}}} 8\n")));
        let sum = format!("pslite_request_duration_seconds_sum{{{of}}} 334.217886\n");
        assert!(text.contains(&sum), "{text}");
    }

    /// Of which only the number and the sum are known.
    #[test]
    fn a_histogram_without_buckets_is_one_all_the_same() {
        let mut exposition = Exposition::default();
        let value = ExposedValue::TimesInAll { count: 3, sum: 500_000 };
        let labels = vec![("node", Cow::from("server1"))];
        exposition.set(&Counted::StoreTime.event().into(), labels, value);
        let text = exposition.text();
        for line in [
            r#"pslite_store_duration_seconds_sum{node="server1"} 0.5"#,
            r#"pslite_store_duration_seconds_count{node="server1"} 3"#,
            r#"pslite_store_duration_seconds_bucket{le="+Inf",node="server1"} 3"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    /// Several peers without an id are all `unnamed`.
    #[test]
    fn no_series_comes_twice() {
        let peer = [(Label::Peer, "unnamed"), (Label::Direction, "sent"), (Label::Carrier, "zmq")];
        let queue = [(Label::Peer, "unnamed"), (Label::Carrier, "zmq")];
        let mut times = HistogramCounts { sum: 7, ..HistogramCounts::default() };
        times.buckets[3] = 1;
        let times = Value::Times(Box::new(times));
        let text = text_of(snapshot(&[
            (Counted::CarriedBytes, &peer, Value::Number(3)),
            (Counted::CarriedBytes, &peer, Value::Number(4)),
            (Counted::WaitingMax, &queue, Value::Number(3)),
            (Counted::WaitingMax, &queue, Value::Number(4)),
            (Counted::SendTime, &queue, times.clone()),
            (Counted::SendTime, &queue, times),
        ]));
        let number = |name: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.split_once("} "));
            let numbers: Vec<&str> = lines.map(|(_, number)| number).collect();
            numbers.join(" ")
        };
        assert_eq!(number("pslite_carried_bytes_total"), "7", "{text}");
        assert_eq!(number("pslite_send_queue_messages_max"), "4", "{text}");
        assert_eq!(number("pslite_send_duration_seconds_count"), "2", "{text}");
    }

    /// Host names come from whoever registers.
    #[test]
    fn labels_from_outside_do_not_break_a_line() {
        let mut exposition = Exposition::default();
        let row = FamilyRow {
            name: "pslite_x",
            kind: EventKind::Gauge,
            labels: &["from"],
            text: "A name.",
        };
        let odd = "a\"b\\c\nd} 5";
        let labels = vec![("from", Cow::from(odd))];
        exposition.set(&row, labels, ExposedValue::Number(0.25));
        let text = exposition.text();
        let line = r#"pslite_x{from="a\"b\\c\nd} 5"} 0.25"#;
        assert_eq!(text.lines().nth(2), Some(line), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    /// The encoder takes them as they are.
    #[test]
    fn no_help_text_needs_to_be_escaped() {
        for (_, event) in EVENTS {
            assert!(!event.text.contains(['\n', '\\', '"']), "{}", event.text);
        }
    }
}
