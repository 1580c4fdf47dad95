//! The times that workers measure: collected on the worker, put together on the scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::placement::statistics::{lower_median, median};
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

/// What an iteration of one worker takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IterationTime {
    /// Seconds from the first push of a round to the first push of the next one.
    pub seconds: f64,
    /// Those in which none of its requests was under way: it computes, or does something else. The
    /// rest it waits, for the network or for other workers.
    pub computing: f64,
}

impl IterationTime {
    /// Seconds in which requests were under way.
    #[must_use]
    pub fn waiting(self) -> f64 {
        (self.seconds - self.computing).max(0.0)
    }

    fn is_sane(self) -> bool {
        let Self { seconds, computing } = self;
        seconds.is_finite() && seconds > 0.0 && (0.0..=seconds).contains(&computing)
    }
}

/// A worker for which the others wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowWorker {
    /// The worker.
    pub worker: NodeId,
    /// What its iteration takes.
    pub time: IterationTime,
    /// Seconds that the usual one of the others computes.
    pub usual: f64,
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
    /// What an iteration took, medians of these rounds. None: the worker does not say.
    pub iteration: Option<IterationTime>,
    /// The same as `round_seconds` for each server, medians of the rounds in which it was used.
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
    /// What the iteration took that it began.
    pub iteration: Option<IterationTime>,
    /// Seconds of each server.
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
    iterations: Vec<IterationTime>,
    servers: BTreeMap<NodeId, Vec<f64>>,
}

impl Profile {
    /// That worker's.
    #[must_use]
    pub fn new(worker: NodeId) -> Self {
        Self {
            worker,
            first_round: 0,
            since: None,
            switched: Duration::ZERO,
            rounds: Vec::new(),
            iterations: Vec::new(),
            servers: BTreeMap::new(),
        }
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
        self.iterations.extend(round.iteration);
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
        self.iterations.clear();
        self.servers.clear();
    }

    fn take(&mut self, now: Duration, last_round: u64) -> WorkerReport {
        self.since = Some(now);
        let times = std::mem::take(&mut self.servers).into_iter();
        let times = times
            .filter_map(|(server, times)| Some(ServerTime { server, seconds: median(times)? }));
        let round_seconds = median(std::mem::take(&mut self.rounds)).unwrap_or(0.0);
        let iterations = std::mem::take(&mut self.iterations);
        let usual = |of: fn(&IterationTime) -> f64| median(iterations.iter().map(of));
        let iteration = usual(|time| time.seconds).zip(usual(|time| time.computing));
        WorkerReport {
            worker: self.worker,
            first_round: self.first_round,
            last_round,
            round_seconds,
            iteration: iteration.map(|(seconds, computing)| IterationTime { seconds, computing }),
            servers: times.collect(),
        }
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

    /// Seconds of the round of the worker that waits least for the others. The others' rounds are
    /// longer because that one computes longer; that says nothing of the network.
    #[must_use]
    pub fn least_round_seconds(&self, since: u64) -> Option<f64> {
        self.since(since).map(|report| report.round_seconds).reduce(f64::min)
    }

    /// What an iteration takes each worker that says it.
    pub fn iterations(&self) -> impl Iterator<Item = (NodeId, IterationTime)> {
        let sane = |report: &WorkerReport| report.iteration.filter(|time| time.is_sane());
        self.reports.values().filter_map(move |report| Some((report.worker, sane(report)?)))
    }

    /// Workers for which the others wait: they compute longer than the usual one of the others, by
    /// a good part of the iteration, and the others' iterations are as long as theirs. (In
    /// `dist_async` they are not: there nobody waits.)
    #[must_use]
    pub fn slow_workers(&self) -> Vec<SlowWorker> {
        let all: Vec<(NodeId, IterationTime)> = self.iterations().collect();
        // Of two workers the faster one is the usual one.
        let usual = lower_median(all.iter().map(|(_, time)| time.computing));
        let seconds = median(all.iter().map(|(_, time)| time.seconds));
        let Some((usual, seconds)) = usual.zip(seconds) else { return Vec::new() };
        let in_step = |time: &IterationTime| (time.seconds / seconds - 1.0).abs() < SLOW_WORKER;
        let slow = |time: &IterationTime| time.computing - usual > SLOW_WORKER * time.seconds;
        let slow = all.into_iter().filter(|(_, time)| in_step(time) && slow(time));
        slow.map(|(worker, time)| SlowWorker { worker, time, usual }).collect()
    }
}
