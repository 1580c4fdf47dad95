//! The planner of a job: what nodes report goes in, plans come out (docs/algorithms.md 4.9: A
//! gives the prior, C corrects it, one planner with one set of shares).
//!
//! Runs on the scheduler. Pure: time and chance are arguments, nothing is sent. Whoever runs it
//! carries the plans out, and says when pieces have moved. Must not know how pieces travel.

mod advice;
mod busy;
mod copies;
mod decide;
mod gates;
mod hold;
mod look;
mod portions;
mod status;

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;

pub use advice::{Advice, ServerStep};
pub use copies::CopyPairs;
pub use gates::Reason;
pub use status::{ServerStatus, Status};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::cost::Replicas;
use super::layout::{LayoutError, PieceLoad, Summary, sort};
use super::links::{Network, RateReport};
use super::shares::ShareParameters;
use super::stragglers::{Cause, StragglerParameters, Stragglers, Times, Trial, WorkerReport};
use super::tuning::{LOOK_PERIOD, SETTLE, STEADY};
use crate::wire::NodeId;
use decide::{Candidate, OnTrial};

/// How to plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// False: nothing moves unless it must (a server is drained or gone).
    pub enabled: bool,
    /// Copies of the pieces.
    pub replicas: Replicas,
    /// Planner A. Its horizon is set by [`Settings::steady`].
    pub shares: ShareParameters,
    /// Planner C.
    pub stragglers: StragglerParameters,
    /// Between two looks at the job, at least (docs/algorithms.md 2.4 looks every 5 s; a look costs
    /// less than a millisecond, and a change of the network should not cost several rounds).
    pub period: Duration,
    /// A plan has to be worth it for that long: longer than it takes until all nodes have noticed a
    /// change.
    pub settle: Duration,
    /// How long the network is expected to stay as it is; what a move costs has to come back in
    /// that time.
    pub steady: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: Replicas::None,
            shares: ShareParameters::default(),
            stragglers: StragglerParameters::default(),
            period: LOOK_PERIOD,
            settle: SETTLE,
            steady: STEADY,
        }
    }
}

/// What a server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// It holds pieces.
    #[default]
    Active,
    /// It shall be emptied.
    Draining,
}

/// A worker of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerMember {
    /// The node.
    pub id: NodeId,
    /// Nodes of one host have one number. None: it is alone.
    pub host: Option<u32>,
}

/// A live server of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMember {
    /// The node.
    pub id: NodeId,
    /// As of workers.
    pub host: Option<u32>,
    /// What it is for.
    pub duty: Duty,
}

/// Who is in the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Live workers.
    pub workers: Vec<WorkerMember>,
    /// Live servers.
    pub servers: Vec<ServerMember>,
}

/// What nodes tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A node: its links.
    Links(RateReport),
    /// A worker: its last rounds.
    Rounds(WorkerReport),
    /// Some worker has finished that round; may come more often than `Rounds`.
    Progress {
        /// The round.
        round: u64,
    },
    /// A server: seconds of a round that it spends with requests, waiting for its processor
    /// included.
    Handler {
        /// The server.
        server: NodeId,
        /// Seconds of a round.
        seconds: f64,
    },
}

/// The planner.
#[derive(Clone, Debug)]
pub struct Planner {
    settings: Settings,
    members: Members,
    layout: Vec<PieceLoad>,
    summary: Summary,
    network: Network,
    times: Times,
    handlers: BTreeMap<NodeId, f64>,
    stragglers: Stragglers,
    /// Whether the stragglers were measured against cards.
    against_cards: bool,
    trial: Trial,
    on_trial: Option<OnTrial>,
    candidate: Option<Candidate>,
    busy: busy::Busy,
    /// Since when other places for copies have been worth it, and when they were last changed.
    copies_wanted: Option<Duration>,
    copies_moved: Option<Duration>,
    advisers: [advice::Adviser; 2],
    /// The newest round that some worker has finished, and when it was told.
    progress: u64,
    progress_at: Option<Duration>,
    /// The first round of which nothing is left from before the last switch.
    switch_round: u64,
    first_look: Option<Duration>,
    last_look: Option<Duration>,
    /// What the last plan was made for.
    expected: Option<hold::RoundTimes>,
    /// A plan is being carried out: until when it is waited for.
    moving: Option<Duration>,
    hold: hold::Hold,
    plans: u64,
    rollbacks: u64,
    moved_bytes: u64,
    /// Bytes per second of each server when pieces last moved.
    usual_rates: BTreeMap<NodeId, f64>,
    relieved: Option<(NodeId, Cause)>,
    reason: String,
    /// Why the last look gave no plan.
    no_plan: Option<Reason>,
    /// Tests take one gate out.
    #[cfg(test)]
    without_gate: Option<&'static str>,
    /// When a portion of what must move went out, if more is to come.
    portion_at: Option<Duration>,
}

/// Pieces of a layout, at most.
pub const MOST_PIECES: usize = 1 << 20;

impl Planner {
    /// A planner that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let stragglers = Stragglers::new(settings.stragglers.clone());
        Self {
            settings,
            members: Members::default(),
            layout: Vec::new(),
            summary: Summary::default(),
            network: Network::default(),
            times: Times::default(),
            handlers: BTreeMap::new(),
            stragglers,
            against_cards: false,
            trial: Trial::default(),
            on_trial: None,
            candidate: None,
            busy: busy::Busy::default(),
            copies_wanted: None,
            copies_moved: None,
            advisers: <[advice::Adviser; 2]>::default(),
            progress: 0,
            progress_at: None,
            switch_round: 0,
            first_look: None,
            last_look: None,
            expected: None,
            moving: None,
            hold: hold::Hold::default(),
            plans: 0,
            rollbacks: 0,
            moved_bytes: 0,
            usual_rates: BTreeMap::new(),
            relieved: None,
            reason: String::new(),
            no_plan: None,
            #[cfg(test)]
            without_gate: None,
            portion_at: None,
        }
    }

    /// Who is in the job now. What is known of those who are gone is forgotten.
    pub fn set_members(&mut self, members: Members) {
        let now: BTreeSet<NodeId> = ids(&members).collect();
        for gone in ids(&self.members).filter(|id| !now.contains(id)) {
            self.network.forget(gone);
            self.times.forget(gone);
            self.stragglers.forget(gone);
            self.handlers.remove(&gone);
            self.usual_rates.remove(&gone);
        }
        self.members = members;
        self.candidate = None;
        // It was about other servers.
        self.advisers = <[advice::Adviser; 2]>::default();
    }

    /// Where all pieces are: at the start, when keys are added, and when the moves of a plan are
    /// done (or were given up). Ends the plan that is being carried out.
    ///
    /// # Errors
    /// It is no layout; the old one stays.
    pub fn set_layout(&mut self, mut layout: Vec<PieceLoad>) -> Result<(), LayoutError> {
        sort(&mut layout)?;
        layout.truncate(MOST_PIECES);
        if self.moving.is_none() && layout == self.layout {
            return Ok(());
        }
        if self.moving.take().is_some() {
            self.switch_round = self.newest_round().saturating_add(1);
            self.candidate = None;
        } else {
            // Nobody asked us: what is on trial is no longer what is measured.
            self.on_trial = None;
        }
        // In the first round pieces change one after the other (they can be cut from then on). A
        // plan that is worth it need not wait until that is over: it is made anew from the layout
        // of that moment.
        self.summary = Summary::of(&layout);
        self.layout = layout;
        Ok(())
    }

    /// A node told something.
    pub fn report(&mut self, now: Duration, report: Report) {
        match report {
            Report::Links(report) => {
                self.busy.report(now);
                self.network.report(now, &report);
            }
            Report::Rounds(report) => {
                if self.members.workers.iter().any(|worker| worker.id == report.worker) {
                    self.times.report(report);
                }
            }
            Report::Progress { round } if round > self.progress => {
                (self.progress, self.progress_at) = (round, Some(now));
            }
            Report::Progress { .. } => {}
            Report::Handler { server, seconds } => {
                let known = self.members.servers.iter().any(|member| member.id == server);
                if known && seconds.is_finite() && seconds >= 0.0 {
                    self.handlers.insert(server, seconds);
                }
            }
        }
    }

    /// One that knows nothing, of the same job. The round under way and the next one do not count:
    /// they are of what was before.
    #[must_use]
    pub fn anew(&self, settings: Settings) -> Self {
        let (switch_round, progress) = (self.newest_round().saturating_add(2), self.progress);
        Self { switch_round, progress, ..Self::new(settings) }
    }

    /// Planning on or off; what must move moves in any case.
    pub const fn set_enabled(&mut self, enabled: bool) {
        self.settings.enabled = enabled;
    }

    fn newest_round(&self) -> u64 {
        self.progress.max(self.times.newest_round())
    }

    /// Whether a server may hold pieces.
    fn is_usable(server: &ServerMember) -> bool {
        server.duty == Duty::Active
    }
}

/// All nodes of a job.
fn ids(members: &Members) -> impl Iterator<Item = NodeId> {
    let workers = members.workers.iter().map(|worker| worker.id);
    workers.chain(members.servers.iter().map(|server| server.id))
}

impl From<RateReport> for Report {
    fn from(report: RateReport) -> Self {
        Self::Links(report)
    }
}

impl From<WorkerReport> for Report {
    fn from(report: WorkerReport) -> Self {
        Self::Rounds(report)
    }
}
