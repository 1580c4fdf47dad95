//! The state of the planner, and how what it is told changes that. What it concludes is in the
//! files beside this one, a question each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::advice::Adviser;
use super::busy::Busy;
use super::candidate::{Candidate, OnTrial};
use super::hold::{NetworkTimes, RollbackHold};
use super::members::{Duty, Members, ServerMember, ids};
use super::reason::Reason;
use super::report::Report;
use super::settings::PlacementSettings;
use crate::placement::layout::{LayoutError, PieceLoad, Summary, sort};
use crate::placement::links::Network;
use crate::placement::stragglers::{Cause, Stragglers, Times, Trial};
use crate::wire::NodeId;

/// The planner.
#[derive(Clone, Debug)]
pub struct Planner {
    pub(super) settings: PlacementSettings,
    pub(super) members: Members,
    pub(super) layout: Vec<PieceLoad>,
    pub(super) summary: Summary,
    pub(super) network: Network,
    pub(super) times: Times,
    pub(super) handlers: BTreeMap<NodeId, f64>,
    pub(super) stragglers: Stragglers,
    /// Whether the stragglers were measured against cards.
    pub(super) against_cards: bool,
    pub(super) trial: Trial,
    pub(super) on_trial: Option<OnTrial>,
    pub(super) candidate: Option<Candidate>,
    pub(super) busy: Busy,
    /// Since when other places for copies have been worth it, and when they were last changed.
    pub(super) copies_wanted: Option<Duration>,
    pub(super) copies_moved: Option<Duration>,
    pub(super) advisers: [Adviser; 2],
    /// The newest round that some worker has finished, and when it was told.
    pub(super) progress: u64,
    pub(super) progress_at: Option<Duration>,
    /// The first round of which nothing is left from before the last switch.
    pub(super) switch_round: u64,
    pub(super) first_look: Option<Duration>,
    pub(super) last_look: Option<Duration>,
    /// What the last plan was made for.
    pub(super) expected: Option<NetworkTimes>,
    /// A plan is being carried out: until when it is waited for.
    pub(super) moving: Option<Duration>,
    pub(super) hold: RollbackHold,
    pub(super) plans: u64,
    pub(super) rollbacks: u64,
    pub(super) moved_bytes: u64,
    /// Bytes per second of each server when pieces last moved.
    pub(super) usual_rates: BTreeMap<NodeId, f64>,
    pub(super) relieved: Option<(NodeId, Cause)>,
    pub(super) reason: String,
    /// Why the last look gave no plan.
    pub(super) no_plan: Option<Reason>,
    /// Tests take one gate out.
    #[cfg(test)]
    pub(super) without_gate: Option<&'static str>,
    /// When a portion of what must move went out, if more is to come.
    pub(super) portion_at: Option<Duration>,
}

/// Pieces of a layout, at most.
pub const MOST_PIECES: usize = 1 << 20;

impl Planner {
    /// A planner that knows nothing yet.
    #[must_use]
    pub fn new(settings: PlacementSettings) -> Self {
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
            busy: Busy::default(),
            copies_wanted: None,
            copies_moved: None,
            advisers: <[Adviser; 2]>::default(),
            progress: 0,
            progress_at: None,
            switch_round: 0,
            first_look: None,
            last_look: None,
            expected: None,
            moving: None,
            hold: RollbackHold::default(),
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
        self.advisers = <[Adviser; 2]>::default();
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
    pub fn anew(&self, settings: PlacementSettings) -> Self {
        let (switch_round, progress) = (self.newest_round().saturating_add(2), self.progress);
        Self { switch_round, progress, ..Self::new(settings) }
    }

    /// Planning on or off; what must move moves in any case.
    pub const fn set_enabled(&mut self, enabled: bool) {
        self.settings.enabled = enabled;
    }

    pub(super) fn newest_round(&self) -> u64 {
        self.progress.max(self.times.newest_round())
    }

    /// Whether a server may hold pieces.
    pub(super) fn is_usable(server: &ServerMember) -> bool {
        server.duty == Duty::Active
    }
}
