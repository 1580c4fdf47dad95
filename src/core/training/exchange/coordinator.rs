//! The scheduler's end of an exchange: it brings workers together that align, and says how many
//! rounds may be in flight and how many steps a stretch has, by what they measure. Pure.
//!
//! **A meeting.** When all workers are [`Stage::Here`], it tells each to stop. When all have
//! stopped, it tells each how many rounds to send, the highest number that one of them has sent. It
//! knows what workers tell it again and again, so one that has forgotten all learns it anew: a
//! worker says which meeting it was in last, and how that ended.
//!
//! Only those workers meet that rounds wait for ([`crate::lives`]), and that have not left. A
//! worker that came back is in rounds if it is in time, so it could not be equal to the others.
//!
//! A report is handled in a time that does not grow with their number, but for the one that
//! completes a stage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::overview::{ReportMarks, overview};
use super::pace::window_for;
use crate::invariant::{Valid, require};
use crate::wire::NodeId;
use crate::wire::exchange::status::ExchangeStatus;
use crate::wire::exchange::word::{ExchangeId, ExchangeReport, ExchangeWord, Stage};
use crate::wire::exchange::{ExchangeMode, ExchangeSpec};

/// So many of those that a worker waits for are named to it.
const NAMED_MAX: usize = 8;
/// Exchanges of a job: kvstores of a script.
const EXCHANGES_MAX: usize = 1 << 12;
/// The most steps that are set for a fast worker, by those of the slowest.
const TIMES_MAX: u64 = 64;

/// To be sent.
pub type ExchangeOutbox = Vec<(NodeId, ExchangeWord)>;

/// See the module.
#[derive(Clone, Debug)]
pub struct ExchangeCoordinator {
    spec: ExchangeSpec,
    /// Whom rounds wait for.
    awaited: BTreeSet<NodeId>,
    /// By whose they are.
    exchanges: BTreeMap<ExchangeId, KeptExchange>,
}

/// What is kept of an exchange.
#[derive(Clone, Debug, Default)]
struct KeptExchange {
    /// The last report of each worker.
    reports: BTreeMap<NodeId, ExchangeReport>,
    /// Awaited workers by where they are.
    here: BTreeSet<NodeId>,
    stopped: BTreeSet<NodeId>,
    left: BTreeSet<NodeId>,
    /// The last meeting; 0: there was none.
    meeting: u64,
    /// How many rounds each has sent at its end, once all have stopped.
    until: Option<u64>,
    /// What was said last of the window, and of each worker's steps.
    window: u32,
    steps: BTreeMap<NodeId, u32>,
    /// For people.
    marks: BTreeMap<NodeId, ReportMarks>,
}

impl ExchangeCoordinator {
    /// That of a job with that spec. Nobody is awaited yet.
    #[must_use]
    pub const fn new(spec: ExchangeSpec) -> Self {
        Self { spec, awaited: BTreeSet::new(), exchanges: BTreeMap::new() }
    }

    /// What the job does.
    #[must_use]
    pub const fn spec(&self) -> &ExchangeSpec {
        &self.spec
    }

    // ---- who is there ---------------------------------------------------------------------------

    /// Rounds wait for these workers from now on.
    pub fn awaits(&mut self, workers: impl IntoIterator<Item = NodeId>, out: &mut ExchangeOutbox) {
        let awaited: BTreeSet<NodeId> = workers.into_iter().collect();
        if awaited == self.awaited {
            return;
        }
        self.awaited = awaited;
        for (of, kept) in &mut self.exchanges {
            let nodes: Vec<NodeId> = kept.reports.keys().copied().collect();
            nodes.into_iter().for_each(|node| kept.place(node, &self.awaited));
            kept.go_on(*of, &self.awaited, out);
        }
    }

    /// A worker is gone; another process may take its place.
    pub fn lost(&mut self, node: NodeId, out: &mut ExchangeOutbox) {
        self.awaited.remove(&node);
        for (of, kept) in &mut self.exchanges {
            kept.reports.remove(&node);
            kept.steps.remove(&node);
            kept.marks.remove(&node);
            kept.place(node, &self.awaited);
            kept.go_on(*of, &self.awaited, out);
        }
    }

    // ---- what workers say -----------------------------------------------------------------------

    /// A worker says how it is.
    pub fn handle(&mut self, from: NodeId, report: ExchangeReport, out: &mut ExchangeOutbox) {
        let of = report.of;
        if !self.exchanges.contains_key(&of) && self.exchanges.len() >= EXCHANGES_MAX {
            return;
        }
        let kept = self.exchanges.entry(of).or_default();
        kept.learn(&report);
        kept.marks.entry(from).or_default().note(&report);
        kept.reports.insert(from, report);
        kept.place(from, &self.awaited);
        let before = out.len();
        kept.go_on(of, &self.awaited, out);
        // It may not have heard what was said before.
        if out.len() == before {
            out.extend(kept.answer(of, from, &self.awaited).map(|word| (from, word)));
        }
    }

    // ---- what is measured -----------------------------------------------------------------------

    /// Time has passed, a second or so: says what has changed of the window and of steps.
    pub fn tick(&mut self, out: &mut ExchangeOutbox) {
        for (of, kept) in &mut self.exchanges {
            kept.set_window(*of, &self.spec, &self.awaited, out);
            kept.set_steps(*of, &self.spec, &self.awaited, out);
        }
    }

    // ---- for people -----------------------------------------------------------------------------

    /// How the exchanges are. It walks over all workers.
    #[must_use]
    pub fn status(&self) -> Vec<ExchangeStatus> {
        let of_all = self.exchanges.iter();
        of_all.map(|(of, kept)| overview(*of, &kept.reports, &kept.marks)).collect()
    }

    /// What this coordinator promises of itself: see [`crate::invariant`].
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        for (of, kept) in &self.exchanges {
            for (node, report) in &kept.reports {
                let is = |stage: Stage| self.awaited.contains(node) && report.stage == stage as i32;
                let sets = [
                    (&kept.here, Stage::Here),
                    (&kept.stopped, Stage::Stopped),
                    (&kept.left, Stage::Left),
                ];
                for (set, stage) in sets {
                    require(set.contains(node) == is(stage), || {
                        format!("{of:?}: node {node} is not kept as {stage:?}")
                    })?;
                }
                require(report.meeting <= kept.meeting, || {
                    format!("{of:?}: node {node} was in a meeting that is unknown")
                })?;
            }
        }
        Ok(())
    }
}

impl KeptExchange {
    /// What a report says of a meeting.
    fn learn(&mut self, report: &ExchangeReport) {
        if report.meeting > self.meeting {
            self.meeting = report.meeting;
            self.until = None;
        }
        let knows_the_end = report.stage != Stage::Stopped as i32;
        if report.meeting == self.meeting && report.meeting > 0 && knows_the_end {
            self.until = Some(report.until);
        }
    }

    /// Notes where a worker is.
    fn place(&mut self, node: NodeId, awaited: &BTreeSet<NodeId>) {
        let at = self.reports.get(&node).filter(|_| awaited.contains(&node));
        let at = at.map(|report| report.stage);
        for (set, stage) in [
            (&mut self.here, Stage::Here),
            (&mut self.stopped, Stage::Stopped),
            (&mut self.left, Stage::Left),
        ] {
            if at == Some(stage as i32) {
                set.insert(node);
            } else {
                set.remove(&node);
            }
        }
    }

    /// Tells all to stop, or to go on, if the time has come.
    fn go_on(&mut self, of: ExchangeId, awaited: &BTreeSet<NodeId>, out: &mut ExchangeOutbox) {
        let all = awaited.len() - self.left.len();
        if all == 0 {
            return;
        }
        // Until its end is known, who is still here has not heard of it: that one hears it again.
        let is_over = self.meeting == 0 || self.until.is_some();
        if self.here.len() == all && is_over {
            self.meeting += 1;
            self.until = None;
            let word = self.stop(of);
            return out.extend(self.here.iter().map(|node| (*node, word.clone())));
        }
        if self.stopped.len() == all && self.until.is_none() {
            let sent = |node: &NodeId| self.reports.get(node).map_or(0, |report| report.sent);
            self.until = self.stopped.iter().map(sent).max();
            let Some(word) = self.goes(of) else { return };
            out.extend(self.stopped.iter().map(|node| (*node, word.clone())));
        }
    }

    /// What one worker has to hear again.
    fn answer(
        &self,
        of: ExchangeId,
        node: NodeId,
        awaited: &BTreeSet<NodeId>,
    ) -> Option<ExchangeWord> {
        if self.stopped.contains(&node) {
            let met = self.reports.get(&node)?.meeting == self.meeting;
            return self.goes(of).filter(|_| met);
        }
        if !self.here.contains(&node) {
            return None;
        }
        if self.reports.get(&node)?.meeting < self.meeting && self.until.is_none() {
            return Some(self.stop(of));
        }
        let missing =
            awaited.iter().filter(|other| !self.here.contains(other) && !self.left.contains(other));
        let missing = missing.take(NAMED_MAX).copied().collect();
        Some(ExchangeWord { of, missing, ..ExchangeWord::default() })
    }

    fn stop(&self, of: ExchangeId) -> ExchangeWord {
        ExchangeWord { of, meeting: self.meeting, ..ExchangeWord::default() }
    }

    fn goes(&self, of: ExchangeId) -> Option<ExchangeWord> {
        let (meeting, until) = (self.meeting, self.until?);
        Some(ExchangeWord { of, meeting, goes: true, until, ..ExchangeWord::default() })
    }

    /// The reports of those that rounds wait for now.
    fn of_all<'a>(
        &'a self,
        awaited: &'a BTreeSet<NodeId>,
    ) -> impl Iterator<Item = (NodeId, &'a ExchangeReport)> {
        let is_there = |node: &NodeId| awaited.contains(node) && !self.left.contains(node);
        self.reports.iter().filter(move |(node, _)| is_there(node)).map(|(node, of)| (*node, of))
    }

    /// The median step of the slowest worker, in microseconds; 0: not known.
    fn slowest(&self, awaited: &BTreeSet<NodeId>) -> u64 {
        self.of_all(awaited).map(|(_, report)| report.step).max().unwrap_or(0)
    }

    /// The window follows what is measured by one at a time, so it does not swing.
    fn set_window(
        &mut self,
        of: ExchangeId,
        spec: &ExchangeSpec,
        awaited: &BTreeSet<NodeId>,
        out: &mut ExchangeOutbox,
    ) {
        if spec.window != 0 {
            return;
        }
        let slowest = self.slowest(awaited);
        // Who is last to send waits for the network alone.
        let exchange = self.of_all(awaited).map(|(_, report)| report.exchange);
        let exchange = exchange.filter(|time| *time > 0).min().unwrap_or(0);
        if slowest == 0 || exchange == 0 {
            return;
        }
        let micros = Duration::from_micros;
        let wanted = window_for(spec.sections, micros(slowest), micros(exchange));
        let now = self.of_all(awaited).map(|(_, report)| report.window).max().unwrap_or(0);
        let last = if self.window == 0 { now.max(1) } else { self.window };
        let window = wanted.clamp(last.saturating_sub(1), last + 1);
        self.window = window;
        let behind = self.of_all(awaited).filter(|(_, report)| report.window != window);
        let word = ExchangeWord { of, window, ..ExchangeWord::default() };
        out.extend(behind.map(|(node, _)| (node, word.clone())));
    }

    /// A worker takes as many steps as fit into the time in which the slowest takes the job's.
    fn set_steps(
        &mut self,
        of: ExchangeId,
        spec: &ExchangeSpec,
        awaited: &BTreeSet<NodeId>,
        out: &mut ExchangeOutbox,
    ) {
        let slowest = self.slowest(awaited);
        if spec.mode != ExchangeMode::Esync as i32 || slowest == 0 {
            return;
        }
        for (node, report) in &self.reports {
            if report.step == 0 || report.stage == Stage::Left as i32 {
                continue;
            }
            let steps = steps_for(spec.steps, report.step, slowest);
            let said = self.steps.insert(*node, steps);
            if said != Some(steps) || report.steps != steps {
                let word = ExchangeWord { of, steps, ..ExchangeWord::default() };
                out.push((*node, word));
            }
        }
    }
}

/// How many steps a worker takes whose step takes so long, where the slowest takes `steps` of its
/// own (ESync: `k` times the slowest by its own, rounded down).
fn steps_for(steps: u32, own: u64, slowest: u64) -> u32 {
    let own = own.max(slowest / TIMES_MAX).max(1);
    let many = u128::from(steps) * u128::from(slowest) / u128::from(own);
    u32::try_from(many).unwrap_or(u32::MAX).max(steps.max(1))
}
