//! What to show people: who holds how much and why, what was predicted, what was measured.

use std::time::Duration;

use super::advice::Advice;
use super::look::{Basis, PlannerLook};
use super::reason::Reason;
use super::state::Planner;
use crate::placement::shares::waiting;
use crate::placement::statistics::median;
use crate::placement::stragglers::{Cause, Evidence, IterationTime, SlowWorker, cause};
use crate::wire::NodeId;

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatus {
    /// The node.
    pub id: NodeId,
    /// Bytes of values that it holds.
    pub bytes: u64,
    /// The same, as a fraction of all.
    pub share: f64,
    /// Pieces that it holds.
    pub pieces: usize,
    /// Bytes per second that the planner counts on it to send and to receive. None: not measured.
    pub rates: Option<(f64, f64)>,
    /// Seconds of a round that it should take by its card.
    pub expected: Option<f64>,
    /// Seconds of a round that workers wait for it.
    pub measured: Option<f64>,
    /// How many times slower it is than its card says.
    pub slowdown: f64,
    /// It is a straggler: why.
    pub straggler: Option<Cause>,
    /// It may hold pieces.
    pub usable: bool,
}

/// The job.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// All servers, in ascending order of ids.
    pub servers: Vec<ServerStatus>,
    /// Seconds of a round with this layout, by the model. None: no link has been measured. (Times
    /// of workers alone say nothing of the network: they contain how long workers wait for each
    /// other.)
    pub predicted: Option<f64>,
    /// Seconds of a round, as the worker measures it that waits least for the others.
    pub measured: Option<f64>,
    /// What an iteration takes each worker.
    pub iterations: Vec<(NodeId, IterationTime)>,
    /// T*: seconds that no layout can go below. None: no link has been measured.
    pub bound: Option<f64>,
    /// `bound / measured`: 1 is perfect (docs/algorithms.md 1).
    pub eta: Option<f64>,
    /// Workers that hold the others up.
    pub slow_workers: Vec<SlowWorker>,
    /// What one server more would bring, and one fewer.
    pub advice: [Option<Advice>; 2],
    /// A plan is being carried out.
    pub moving: bool,
    /// Plans so far, those that went back included.
    pub plans: u64,
    /// Plans that went back.
    pub rollbacks: u64,
    /// Bytes that plans moved.
    pub moved_bytes: u64,
    /// The server that the last plan relieved, and what kept it. None: it was not made for a server
    /// that is slow.
    pub relieved: Option<(NodeId, Cause)>,
    /// Why the last plan was made.
    pub reason: String,
    /// Why the last look at the job gave no plan. None: one is being carried out, or nobody looked.
    pub no_plan: Option<Reason>,
}

impl Planner {
    /// How the job stands.
    #[must_use]
    pub fn status(&self, now: Duration) -> Status {
        let look = self.look(now);
        let timed = look.as_ref().filter(|look| look.basis != Basis::Nothing);
        let bound = timed.and_then(PlannerLook::bound);
        let by_links = look.as_ref().filter(|look| look.basis == Basis::Links);
        let measured = self.times.least_round_seconds(self.switch_round);
        Status {
            servers: look.as_ref().map(|look| self.server_statuses(now, look)).unwrap_or_default(),
            predicted: by_links.map(|look| waiting::seconds(&self.layout, &look.seen)),
            measured,
            bound,
            iterations: self.times.iterations().collect(),
            eta: bound.zip(measured).map(|(bound, measured)| bound / measured),
            slow_workers: self.times.slow_workers(),
            advice: self.advice(),
            moving: self.moving.is_some(),
            plans: self.plans,
            rollbacks: self.rollbacks,
            moved_bytes: self.moved_bytes,
            relieved: self.relieved,
            reason: self.reason.clone(),
            no_plan: self.no_plan.clone(),
        }
    }

    /// Why the last look at the job gave no plan.
    #[must_use]
    pub const fn no_plan(&self) -> Option<&Reason> {
        self.no_plan.as_ref()
    }

    /// What is counted on, in one line for logs: for each node what it can send and receive in
    /// Mbit/s (`~`: not measured), for each server the seconds of a round by its card and as
    /// workers see it.
    #[must_use]
    pub fn describe(&self, now: Duration) -> Option<String> {
        let look = self.look(now)?;
        let mbit = |rate: f64| rate * 8e-6;
        let network = self.network.now();
        let nodes = |ids: Vec<NodeId>| network.cards(&ids).map(|cards| (ids, cards));
        let mut text = String::new();
        let workers = nodes(look.seen.workers().iter().map(|worker| worker.id).collect());
        let servers = nodes(look.seen.servers().iter().map(|server| server.id).collect());
        for (ids, cards) in workers.into_iter().chain(servers) {
            for (id, card) in ids.iter().zip(cards) {
                let known = if card.known { "" } else { "~" };
                text += &format!("{id}: {known}{:.0}/{:.0}, ", mbit(card.up), mbit(card.down));
            }
        }
        for (index, (server, seconds)) in look.expected().into_iter().enumerate() {
            let load = look.loads.get(index).map_or(0.0, |load| load / 1e6);
            let seen = self.stragglers.seconds(server).unwrap_or(0.0);
            let slower = look.seen.servers().get(index).map_or(1.0, |server| server.slowdown);
            text += &format!(
                "server {server}: {load:.1} MB, {seconds:.2} s, seen {seen:.2} s, x{slower:.2}; "
            );
        }
        let round = waiting::seconds(&self.layout, &look.seen);
        let measured = self.times.round_seconds(self.switch_round).unwrap_or(0.0);
        let bound = look.bound().unwrap_or(0.0);
        Some(format!("{text}a round {round:.2} s, seen {measured:.2} s, at best {bound:.2} s"))
    }

    fn server_statuses(&self, now: Duration, look: &PlannerLook) -> Vec<ServerStatus> {
        let held = &self.summary.held;
        let total = look.total().max(f64::MIN_POSITIVE);
        let expected = look.expected();
        let slow: Vec<NodeId> = self.stragglers.stragglers().collect();
        let links = look.basis == Basis::Links;
        let mut statuses = Vec::new();
        for (index, server) in look.plain.servers().iter().enumerate() {
            let id = server.id;
            let holding = held.get(&id).copied().unwrap_or_default();
            statuses.push(ServerStatus {
                id,
                bytes: holding.bytes,
                share: look.loads.get(index).map_or(0.0, |load| load / total),
                pieces: holding.pieces,
                rates: links.then_some((server.up, server.down)),
                expected: expected.get(index).map(|(_, seconds)| *seconds).filter(|_| links),
                measured: self.stragglers.seconds(id),
                slowdown: self.stragglers.correction(id, now).slowdown,
                straggler: slow.contains(&id).then(|| self.cause_of(index, now, look)),
                usable: server.usable,
            });
        }
        statuses
    }

    /// The server that decides how long the round is, and what keeps it.
    pub(super) fn slowest(&self, now: Duration, look: &PlannerLook) -> Option<(NodeId, Cause)> {
        let seconds = look.seen.server_seconds(&look.loads);
        let (index, _) = seconds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        let id = look.seen.servers().get(index)?.id;
        Some((id, self.cause_of(index, now, look)))
    }

    /// What keeps a server: compared with what its card could do, and how much of the bytes it had
    /// for that, when pieces last moved; before that, with the others.
    fn cause_of(&self, index: usize, now: Duration, look: &PlannerLook) -> Cause {
        let servers = look.plain.servers();
        let rates = || servers.iter().map(|server| server.up.min(server.down));
        let median = median(rates()).unwrap_or(1.0);
        let usual = |id: &NodeId| self.usual_rates.get(id).copied().unwrap_or(median);
        let times = servers.iter().zip(&look.loads).map(|(server, load)| load / usual(&server.id));
        let times: Vec<f64> = times.collect();
        let loaded = times.iter().filter(|time| **time > 0.0);
        #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
        let mean = times.iter().sum::<f64>() / loaded.count().max(1) as f64;
        let (Some(server), Some(time)) = (servers.get(index), times.get(index)) else {
            return Cause::Unknown;
        };
        let links = look.basis == Basis::Links;
        cause(&Evidence {
            seconds: self.stragglers.seconds(server.id).unwrap_or(f64::INFINITY),
            handler_seconds: self.handlers.get(&server.id).copied(),
            starved: self.network.is_starved(server.id),
            slowdown: self.stragglers.correction(server.id, now).slowdown,
            load: time / mean,
            rate: if links { server.up.min(server.down) / usual(&server.id) } else { 1.0 },
        })
    }
}
