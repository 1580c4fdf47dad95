//! The times that workers measure: collected on the worker, put together on the scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::placement::statistics::median;
use crate::placement::tuning::{REPORT_AFTER, REPORT_ROUNDS, SLOW_WORKER};
use crate::wire::NodeId;

/// Workers and servers that are listened to, at most.
const MOST_NODES: usize = 16_384;

/// What one worker saw of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerTime {
    /// The server.
    pub server: NodeId,
    /// Seconds from the first byte pushed to it to the last answer of it, in a round.
    pub seconds: f64,
}

/// What one worker saw in its last rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// The worker.
    pub worker: NodeId,
    /// The first round that this covers.
    pub first_round: u64,
    /// The last one.
    pub last_round: u64,
    /// Seconds of a round from the first push to the last answer, median of these rounds.
    pub round_seconds: f64,
    /// The same for each server, medians of the rounds in which it was used.
    pub servers: Vec<ServerTime>,
}

/// One round of a worker.
#[derive(Clone, Copy, Debug)]
pub struct TimedRound<'a> {
    /// Its number.
    pub number: u64,
    /// When it began, by the worker's clock.
    pub begun: Duration,
    /// Seconds from the first push to the last answer.
    pub seconds: f64,
    /// Those of each server.
    pub servers: &'a [ServerTime],
}

/// Collects the times of a worker's rounds until a report is due.
#[derive(Clone, Debug)]
pub struct Profile {
    worker: NodeId,
    first_round: u64,
    since: Option<Duration>,
    /// When pieces last moved.
    switched: Duration,
    rounds: Vec<f64>,
    servers: BTreeMap<NodeId, Vec<f64>>,
}

impl Profile {
    /// That worker's.
    #[must_use]
    pub fn new(worker: NodeId) -> Self {
        let (rounds, servers) = (Vec::new(), BTreeMap::new());
        let switched = Duration::ZERO;
        Self { worker, first_round: 0, since: None, switched, rounds, servers }
    }

    /// A round is over. Gives a report if one is due. The round in which pieces moved is left out:
    /// it is neither of the old layout nor of the new one, and what moves uses the cards as well.
    pub fn round(&mut self, now: Duration, round: &TimedRound<'_>) -> Option<WorkerReport> {
        if round.begun < self.switched {
            return None;
        }
        if self.rounds.is_empty() {
            self.first_round = round.number;
        }
        self.rounds.push(round.seconds);
        for time in round.servers {
            if self.servers.len() < MOST_NODES || self.servers.contains_key(&time.server) {
                self.servers.entry(time.server).or_default().push(time.seconds);
            }
        }
        let since = *self.since.get_or_insert(round.begun);
        let due = self.rounds.len() >= REPORT_ROUNDS || now.saturating_sub(since) >= REPORT_AFTER;
        due.then(|| self.take(now, round.number))
    }

    /// Pieces have moved: times from before would be mixed with those after.
    pub fn switched(&mut self, now: Duration) {
        self.switched = now;
        self.rounds.clear();
        self.servers.clear();
    }

    fn take(&mut self, now: Duration, last_round: u64) -> WorkerReport {
        self.since = Some(now);
        let times = std::mem::take(&mut self.servers).into_iter();
        let times = times
            .filter_map(|(server, times)| Some(ServerTime { server, seconds: median(times)? }));
        let round_seconds = median(std::mem::take(&mut self.rounds)).unwrap_or(0.0);
        let (worker, first_round) = (self.worker, self.first_round);
        WorkerReport { worker, first_round, last_round, round_seconds, servers: times.collect() }
    }
}

/// The last report of every worker.
#[derive(Clone, Debug, Default)]
pub struct Times {
    reports: BTreeMap<NodeId, WorkerReport>,
    /// Who has reported since the last look.
    news: usize,
}

impl Times {
    /// A worker reported.
    pub fn report(&mut self, report: WorkerReport) {
        let sane = report.round_seconds.is_finite() && report.round_seconds > 0.0;
        if sane && (self.reports.len() < MOST_NODES || self.reports.contains_key(&report.worker)) {
            self.reports.insert(report.worker, report);
            self.news += 1;
        }
    }

    /// Whether most of so many workers have reported. One alone may have timed how it made the
    /// keys, which is no round.
    #[must_use]
    pub fn are_of_most(&self, workers: usize) -> bool {
        self.reports.len() * 2 > workers
    }

    /// Whether as many reports came since the last look as half of the workers.
    pub const fn is_news(&mut self, workers: usize) -> bool {
        let news = self.news * 2 >= workers && self.news > 0;
        if news {
            self.news = 0;
        }
        news
    }

    /// A worker is gone.
    pub fn forget(&mut self, worker: NodeId) {
        self.reports.remove(&worker);
    }

    /// The newest round that some worker has finished.
    #[must_use]
    pub fn newest_round(&self) -> u64 {
        self.reports.values().map(|report| report.last_round).max().unwrap_or(0)
    }

    /// The reports that cover no round before that one.
    fn since(&self, round: u64) -> impl Iterator<Item = &WorkerReport> {
        self.reports.values().filter(move |report| report.first_round >= round)
    }

    /// Rounds since then that the median report covers.
    #[must_use]
    pub fn rounds_since(&self, round: u64) -> u64 {
        let last = self.since(round).map(|report| report.last_round);
        last.max().map_or(0, |last| last.saturating_sub(round).saturating_add(1))
    }

    /// Seconds of a round, median over workers.
    #[must_use]
    pub fn round_seconds(&self, since: u64) -> Option<f64> {
        median(self.since(since).map(|report| report.round_seconds))
    }

    /// Seconds of each server, median over workers: robust against a slow worker
    /// (docs/algorithms.md 4.3).
    #[must_use]
    pub fn server_seconds(&self, since: u64) -> BTreeMap<NodeId, f64> {
        let mut times = BTreeMap::<NodeId, Vec<f64>>::new();
        for time in self.since(since).flat_map(|report| &report.servers) {
            times.entry(time.server).or_default().push(time.seconds);
        }
        times.into_iter().filter_map(|(server, times)| Some((server, median(times)?))).collect()
    }

    /// Workers that wait longer than the others for every server alike: that is their own matter,
    /// and moves nothing.
    #[must_use]
    pub fn slow_workers(&self) -> Vec<NodeId> {
        let typical =
            |report: &WorkerReport| median(report.servers.iter().map(|time| time.seconds));
        let Some(usual) = median(self.reports.values().filter_map(typical)) else {
            return Vec::new();
        };
        let slow = |report: &&WorkerReport| {
            typical(report).is_some_and(|typical| typical > usual * (1.0 + SLOW_WORKER))
        };
        self.reports.values().filter(slow).map(|report| report.worker).collect()
    }
}
