//! What people are told of an exchange, made of two reports of each worker, one of them some
//! seconds older. Times are those of the worker's own clock. Pure.

use std::collections::BTreeMap;

use crate::wire::NodeId;
use crate::wire::exchange::status::{ExchangeStatus, ExchangeWorker};
use crate::wire::exchange::word::{ExchangeId, ExchangeReport, Stage};

/// Rates are of so many microseconds at least.
const SPAN: u64 = 10_000_000;

/// Reports of a worker that are compared with its last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportMarks {
    /// At least [`SPAN`] older, once there is such a one.
    older: ExchangeReport,
    newer: ExchangeReport,
}

impl ReportMarks {
    /// A worker has said how it is.
    pub(super) fn note(&mut self, report: &ExchangeReport) {
        if report.since < self.newer.since {
            *self = Self::default(); // Another process.
        }
        if report.since - self.newer.since >= SPAN {
            self.older = self.newer;
            self.newer = *report;
        }
    }

    /// What has grown by how much, until that report.
    fn growth(&self, report: &ExchangeReport) -> ReportGrowth {
        let more = |of: fn(&ExchangeReport) -> u64| of(report).saturating_sub(of(&self.older));
        ReportGrowth {
            seconds: more(|report| report.since) as f64 / 1e6,
            iterations: more(|report| report.iterations) as f64,
            rounds: more(|report| report.rounds) as f64,
            computed: more(|report| report.computed) as f64 / 1e6,
            held: more(|report| report.held) as f64 / 1e6,
            busy: more(|report| report.busy) as f64 / 1e6,
        }
    }
}

/// What has grown by how much, in so many seconds.
#[derive(Clone, Copy, Debug)]
struct ReportGrowth {
    seconds: f64,
    iterations: f64,
    rounds: f64,
    computed: f64,
    held: f64,
    busy: f64,
}

impl ReportGrowth {
    fn part(&self, of: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| of / self.seconds)
    }
}

/// See [`ExchangeStatus`].
pub(super) fn overview(
    of: ExchangeId,
    reports: &BTreeMap<NodeId, ExchangeReport>,
    marks: &BTreeMap<NodeId, ReportMarks>,
) -> ExchangeStatus {
    let stays = |report: &ExchangeReport| report.stage != Stage::Left as i32;
    let slowest = reports.iter().filter(|(_, report)| stays(report) && report.step > 0);
    let slowest = slowest.max_by_key(|(_, report)| report.step).map(|(id, report)| (*id, report));
    let growth = |id: &NodeId, report: &ExchangeReport| {
        marks
            .get(id)
            .map_or_else(|| ReportMarks::default().growth(report), |marks| marks.growth(report))
    };
    let worker = |(id, report): (&NodeId, &ExchangeReport)| {
        let grown = growth(id, report);
        let exchanges = grown.rounds / f64::from(report.sections.max(1));
        ExchangeWorker {
            id: *id,
            iterations: report.iterations,
            steps: grown.part(grown.iterations),
            per_exchange: (exchanges > 0.0).then(|| grown.iterations / exchanges),
            computing: grown.part(grown.computed),
            held: grown.part(grown.held),
            stage: match Stage::try_from(report.stage) {
                Ok(Stage::Here | Stage::Stopped | Stage::Goes) => "aligns",
                Ok(Stage::Left) => "left",
                _ => "",
            }
            .to_owned(),
            is_slowest: slowest.is_some_and(|(slowest, _)| slowest == *id),
        }
    };
    let workers: Vec<ExchangeWorker> = reports.iter().map(worker).collect();
    let of_slowest = slowest.map(|(id, report)| (report, growth(&id, report)));
    let period = of_slowest.and_then(|(report, grown)| {
        let exchanges = grown.rounds / f64::from(report.sections.max(1));
        (exchanges > 0.0).then(|| grown.seconds / exchanges)
    });
    ExchangeStatus {
        app: of.app,
        customer: of.customer,
        window: reports.values().map(|report| report.window).max().unwrap_or(0),
        rounds: of_slowest.map_or(0, |(report, _)| report.rounds),
        period,
        busy: of_slowest.and_then(|(_, grown)| grown.part(grown.busy)),
        gain: gain(reports, &workers),
        workers,
    }
}

/// Steps of all in a second, by those of a plain job: there each takes one in the time of the
/// slowest step and of an exchange.
fn gain(reports: &BTreeMap<NodeId, ExchangeReport>, workers: &[ExchangeWorker]) -> Option<f64> {
    let stays = || reports.values().filter(|report| report.stage != Stage::Left as i32);
    let slowest = stays().map(|report| report.step).max().filter(|step| *step > 0)?;
    let exchange = stays().map(|report| report.exchange).filter(|time| *time > 0).min()?;
    let plain = (slowest + exchange) as f64 / 1e6;
    let here = || workers.iter().filter(|worker| worker.stage != "left");
    let steps: f64 = here().filter_map(|worker| worker.steps).sum();
    let count = here().count();
    (count > 0).then(|| steps * plain / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: ExchangeId = ExchangeId { app: 0, customer: 0 };

    /// A worker `seconds` after its first push, whose step takes `step` seconds.
    fn report(seconds: f64, step: f64) -> ExchangeReport {
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        ExchangeReport {
            iterations: (seconds / step) as u64,
            rounds: (seconds * 2.0) as u64,
            sections: 8,
            window: 5,
            step: micros(step),
            exchange: micros(4.0),
            computed: micros(seconds * 0.75),
            busy: micros(seconds * 0.5),
            since: micros(seconds),
            ..ExchangeReport::default()
        }
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!((found.unwrap() - expected).abs() < 0.02 * expected, "{found:?}, {expected}");
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let (mut marks, mut last) = (BTreeMap::<NodeId, ReportMarks>::new(), BTreeMap::new());
        for second in 0..60 {
            for (id, step) in [(9, 0.25), (11, 1.0)] {
                let report = report(f64::from(second), step);
                marks.entry(id).or_default().note(&report);
                last.insert(id, report);
            }
        }
        let status = overview(OF, &last, &marks);
        close(status.workers[0].steps, 4.0);
        close(status.workers[1].steps, 1.0);
        close(status.workers[0].per_exchange, 16.0);
        close(status.workers[1].computing, 0.75);
        close(status.period, 4.0);
        close(status.busy, 0.5);
        // Five steps a second; a plain job takes two in five seconds.
        close(status.gain, 12.5);
        assert!(status.workers[1].is_slowest && !status.workers[0].is_slowest);
        assert_eq!((status.window, status.rounds), (5, 118));
    }

    #[test]
    fn what_was_long_ago_counts_no_more() {
        let mut marks = ReportMarks::default();
        for second in 0..40 {
            marks.note(&report(f64::from(second), 1.0));
        }
        // Since then it stands still.
        let mut last = report(40.0, 1.0);
        for second in 40..80 {
            last.since = second * 1_000_000;
            marks.note(&last);
        }
        let marks = BTreeMap::from([(9, marks)]);
        let status = overview(OF, &BTreeMap::from([(9, last)]), &marks);
        assert_eq!(status.workers[0].steps, Some(0.0));
        assert_eq!((status.period, status.workers[0].per_exchange), (None, None));
    }

    #[test]
    fn nothing_is_known_at_first() {
        let reports = BTreeMap::from([(9, ExchangeReport::default())]);
        let status = overview(OF, &reports, &BTreeMap::new());
        assert_eq!((status.gain, status.period, status.workers[0].steps), (None, None, None));
    }

    #[test]
    fn a_process_that_takes_the_place_of_another_begins_anew() {
        let mut marks = ReportMarks::default();
        (0..30).for_each(|second| marks.note(&report(f64::from(second), 1.0)));
        let back = report(1.0, 1.0);
        marks.note(&back);
        let status = overview(OF, &BTreeMap::from([(9, back)]), &BTreeMap::from([(9, marks)]));
        close(status.workers[0].steps, 1.0);
    }
}
