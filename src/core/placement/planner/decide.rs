//! When to plan: what must move moves at once; what would be worth it has to stay so for a while;
//! what turned out worse goes back.

use std::time::Duration;

use super::candidate::{Candidate, OnTrial};
use super::gates::{Decision, GateStage};
use super::hold::NetworkTimes;
use super::look::{Basis, PlannerLook};
use super::reason::Reason;
use super::settings::PlacementSettings;
use super::state::Planner;
use crate::placement::cost::bytes;
use crate::placement::layout::{MoveOccasion, Plan, apply};
use crate::placement::shares::{self, ShareParameters};
use crate::placement::stragglers::{self, Cause, Verdict};
use crate::placement::tuning::{
    HORIZON_ROUNDS, KNOWN_SPAN_MAX, KNOWN_SPAN_ROUNDS, LARGE_PIECE, MOVE_WAIT, MOVE_WAIT_ROUNDS,
    NETWORK_CHANGED, SETTLE_DRIFT, SETTLE_RESTARTS_MAX, SMALL_GAIN,
};

impl Planner {
    /// What to move, if anything. To be called often (every 100 ms is enough); gives no other plan
    /// until the layout was set again. `random` gives numbers evenly from [0, 1).
    pub fn tick(&mut self, now: Duration, random: &mut dyn FnMut() -> f64) -> Option<Plan> {
        if self.moving.is_some_and(|deadline| now >= deadline) {
            self.moving = None;
            self.on_trial = None;
        }
        let early =
            self.last_look.is_some_and(|last| now.saturating_sub(last) < self.settings.period);
        if self.moving.is_some() || (early && !self.is_forced()) {
            return None;
        }
        self.last_look = Some(now);
        let look = self.look(now)?;
        self.first_look.get_or_insert(now);
        self.network.remember_for(Self::span(&look));
        let news = self.digest(now, &look);
        // What was just learnt counts.
        let look = if news { self.look(now)? } else { look };
        if news {
            self.consider_advice(&look);
        }
        let rolled_back = self.judge(&look);
        let mut plan = match rolled_back {
            Some(plan) => Some(plan),
            None => self.next_plan(now, &look, random),
        }?;
        self.started(now, &look, &mut plan);
        Some(plan)
    }

    /// How long what a card was able to do counts.
    fn span(look: &PlannerLook) -> Duration {
        let seconds = look.model.bound(look.total()) * KNOWN_SPAN_ROUNDS;
        Duration::try_from_secs_f64(seconds).unwrap_or(KNOWN_SPAN_MAX).min(KNOWN_SPAN_MAX)
    }

    /// Some pieces must move: at once.
    fn is_forced(&self) -> bool {
        self.members.servers.iter().any(Self::is_usable)
            && self.summary.held.keys().any(|owner| !self.may_hold(*owner))
    }

    fn parameters(&self, look: &PlannerLook) -> ShareParameters {
        let round = look.model.round_seconds(&look.loads);
        let steady = self.settings.steady.as_secs_f64() / round;
        // Not clamp: a round of no length gives no number.
        let horizon = steady.max(HORIZON_ROUNDS.0).min(HORIZON_ROUNDS.1);
        ShareParameters { horizon, ..self.settings.shares.clone() }
    }

    /// What to move, if that is not held up; else why not is noted.
    fn next_plan(
        &mut self,
        now: Duration,
        look: &PlannerLook,
        random: &mut dyn FnMut() -> f64,
    ) -> Option<Plan> {
        let forced = self.is_forced();
        let plan = if forced { self.must_move(now, look) } else { self.pays(now, look, random) };
        let plan = match plan {
            Ok(plan) => plan,
            Err(reason) => {
                self.no_plan = Some(reason);
                return None;
            }
        };
        self.on_trial = (!forced && !look.is_filled_by(&plan)).then(|| OnTrial {
            layout: self.layout.clone(),
            held: self.summary.held.clone(),
            predicted: plan.predicted,
            factors: Vec::new(),
        });
        let plan = Plan { bound: look.bound(), ..plan };
        match look.basis {
            // Its seconds are of a network that was made up.
            Basis::Nothing => Some(Plan { before: 0.0, predicted: 0.0, ..plan }),
            _ => Some(plan),
        }
    }

    /// The plan for pieces that are at servers that shall hold nothing, or at nobody.
    fn must_move(&mut self, now: Duration, look: &PlannerLook) -> Result<Plan, Reason> {
        Decision { planner: self, now, look, plan: None }.pass(GateStage::Forced)?;
        let plan = self.worked_out(look)?;
        Ok(self.portion(now, look, plan))
    }

    /// The plan that makes rounds shorter, once all gates are open.
    fn pays(
        &mut self,
        now: Duration,
        look: &PlannerLook,
        random: &mut dyn FnMut() -> f64,
    ) -> Result<Plan, Reason> {
        let plan = match self.worth_it(now, look) {
            Ok(plan) => plan,
            Err(reason) => {
                self.candidate = None;
                return Err(reason);
            }
        };
        self.follow(now, plan.predicted);
        Decision { planner: self, now, look, plan: Some(&plan) }.pass(GateStage::Settle)?;
        Ok(if look.is_filled_by(&plan) { plan } else { self.vary(plan, look, random) })
    }

    /// A plan that has only to wait.
    fn worth_it(&self, now: Duration, look: &PlannerLook) -> Result<Plan, Reason> {
        let decision = Decision { planner: self, now, look, plan: None };
        decision.pass(GateStage::Before)?;
        let plan = self.worked_out(look)?;
        Decision { plan: Some(&plan), ..decision }.pass(GateStage::Worth)?;
        Ok(plan)
    }

    fn worked_out(&self, look: &PlannerLook) -> Result<Plan, Reason> {
        let plan = shares::plan(&self.layout, &look.model, &self.parameters(look));
        plan.ok().flatten().ok_or_else(Reason::no_gain)
    }

    /// Whether the network is the one that the last plan was made for.
    fn is_as_expected(&self, look: &PlannerLook) -> bool {
        let now = NetworkTimes::of(look, &look.loads);
        self.expected.is_some_and(|then| now.is_near(then, NETWORK_CHANGED))
    }

    /// Whether it is too early to move anything: without times from before a switch nobody can say
    /// whether it was for the better. Not for ever: perhaps no worker measures.
    pub(super) fn is_without_baseline(&self, now: Duration, wait: Duration) -> bool {
        let since = self.first_look.unwrap_or(now);
        !self.times.are_of_most(self.members.workers.len()) && now.saturating_sub(since) < wait
    }

    pub(super) fn has_large_piece(&self, look: &PlannerLook) -> bool {
        let large = look.total() * LARGE_PIECE;
        bytes(self.summary.largest_whole) > large
    }

    /// Whether it is known what each server can receive when several workers send. As long as one
    /// worker alone makes the keys, servers that wait for it look slow.
    pub(super) fn is_measured(&self) -> bool {
        let mut servers = self.members.servers.iter().filter(|server| Self::is_usable(server));
        servers.all(|server| self.network.is_down_known(server.id))
    }

    /// For how long a plan has to be worth it.
    fn settle(&self, plan: &Plan, joining: bool) -> Duration {
        let PlacementSettings { settle, steady, .. } = self.settings;
        let round = Duration::try_from_secs_f64(plan.before).unwrap_or(steady).min(steady);
        let is_small = !joining && plan.before < SMALL_GAIN * plan.predicted;
        if is_small { settle.max(round) } else { settle }
    }

    /// Notes that a plan is worth it, if that is new, or if the network is still changing.
    fn follow(&mut self, now: Duration, predicted: f64) {
        let busy = self.busy.at(now);
        let fresh = |restarts| Candidate { since: now, busy, predicted, restarts };
        let candidate = self.candidate.get_or_insert_with(|| fresh(0));
        let drifted = (predicted - candidate.predicted).abs() > SETTLE_DRIFT * candidate.predicted;
        if drifted && candidate.restarts < SETTLE_RESTARTS_MAX {
            *candidate = fresh(candidate.restarts + 1);
        }
    }

    /// For how long a plan has been worth it, and for how long it has to be. If servers were
    /// measured only time counts in which the job uses the network: what the end of a round made a
    /// card look like is no more true because a rest follows. (Who joins need not be measured.)
    pub(super) fn settled(
        &self,
        now: Duration,
        look: &PlannerLook,
        plan: &Plan,
    ) -> Option<(Duration, Duration)> {
        let (candidate, joining) = (self.candidate.as_ref()?, look.is_filled_by(plan));
        let waited = match look.basis == Basis::Links && !joining {
            true => self.busy.at(now).saturating_sub(candidate.busy),
            false => now.saturating_sub(candidate.since),
        };
        Some((waited, self.settle(plan, joining)))
    }

    /// Rarely something else than the best known, where a straggler is not understood
    /// (docs/algorithms.md 4.5).
    fn vary(&self, plan: Plan, look: &PlannerLook, random: &mut dyn FnMut() -> f64) -> Plan {
        if self.stragglers.stragglers().next().is_none() {
            return plan;
        }
        let factors = self.stragglers.explore(random);
        if factors.is_empty() {
            return plan;
        }
        let varied = factors.iter().fold(look.model.clone(), |model, (server, factor)| {
            model.with_slowdown(*server, 1.0 / factor)
        });
        let target = varied.target(&look.loads, look.homeless, 0.0);
        let other = target.and_then(|target| {
            shares::plan_towards(&self.layout, &look.model, &target, &self.parameters(look))
                .ok()
                .flatten()
        });
        match other {
            Some(other) => {
                Plan { reason: format!("{}; trying other shares", other.reason), ..other }
            }
            None => plan,
        }
    }

    /// Looks at the rounds since the last switch. Gives the way back if they are longer than they
    /// would be without it. No word about a plan for a network that is another one by now: its
    /// layout gets a new plan anyway, and a way back would be followed by a time without any.
    fn judge(&mut self, look: &PlannerLook) -> Option<Plan> {
        let trial = self.on_trial.as_ref()?;
        if !self.is_as_expected(look) {
            self.on_trial = None;
            return None;
        }
        let rounds = self.times.rounds_since(self.switch_round);
        let verdict = stragglers::verdict(&trial.factors, rounds);
        if verdict == Verdict::Open {
            return None;
        }
        let trial = self.on_trial.take()?;
        let Verdict::Worse(factor) = verdict else {
            self.hold.shorten();
            return None;
        };
        let measured = self.times.round_seconds(self.switch_round)?;
        let (old_loads, old_homeless) = look.model.loads_held(&trial.held);
        let usable = |loads: &[f64]| {
            look.model
                .servers()
                .iter()
                .zip(loads)
                .all(|(server, load)| server.usable || *load <= 0.0)
        };
        if old_homeless > 0.0 || !usable(&old_loads) {
            return None;
        }
        let moves = shares::way_back(&self.layout, &trial.layout);
        self.hold.begin(self.newest_round(), NetworkTimes::of(look, &old_loads));
        self.stragglers.failed();
        self.rollbacks += 1;
        let reason = format!(
            "rounds take {measured:.3} s where {:.3} s were expected, {:.0} % more than before: \
             back to \
             the former layout",
            trial.predicted,
            (factor - 1.0) * 100.0
        );
        let moved_bytes = shares::moved_bytes(&self.layout, &moves);
        let (before, predicted) = (measured, measured / factor);
        let (bound, occasion) = (look.bound(), MoveOccasion::Back);
        let plan = Plan { moves, before, predicted, bound, moved_bytes, reason, occasion };
        (!plan.moves.is_empty()).then_some(plan)
    }

    /// A plan goes out.
    fn started(&mut self, now: Duration, look: &PlannerLook, plan: &mut Plan) {
        // Only plans for a slow server are tried.
        self.relieved = self.on_trial.as_ref().and_then(|_| self.slowest(now, look));
        if let Some((server, cause)) = self.relieved.filter(|(_, cause)| *cause != Cause::Unknown) {
            plan.reason = format!("{} (node {server}: {cause})", plan.reason);
        }
        let rates =
            look.plain.servers().iter().map(|server| (server.id, server.up.min(server.down)));
        self.usual_rates = rates.collect();
        let limit =
            Duration::try_from_secs_f64(plan.before * MOVE_WAIT_ROUNDS).unwrap_or(MOVE_WAIT);
        self.moving = Some(now.saturating_add(limit.max(MOVE_WAIT)));
        // By the loads alone: so each look can tell cheaply whether the network is still that one.
        let after = apply(&self.layout, &plan.moves).ok();
        let loads = after.map_or_else(|| look.loads.clone(), |after| look.model.loads_of(&after).0);
        self.expected = Some(NetworkTimes::of(look, &loads));
        self.candidate = None;
        self.no_plan = None;
        self.plans += 1;
        self.moved_bytes = self.moved_bytes.saturating_add(plan.moved_bytes);
        self.reason.clone_from(&plan.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_gain_has_to_last_a_round() {
        let planner = Planner::new(PlacementSettings::default());
        let settle = |before, predicted, joining| {
            let (moves, reason) = (Vec::new(), String::new());
            let (bound, moved_bytes, occasion) = (None, 1, MoveOccasion::Shorter);
            let plan = Plan { moves, before, predicted, bound, moved_bytes, reason, occasion };
            planner.settle(&plan, joining).as_secs_f64()
        };
        assert_eq!([settle(8.0, 7.0, false), settle(12.0, 10.0, false)], [8.0, 12.0]);
        assert_eq!([settle(12.0, 9.0, false), settle(12.0, 4.0, false)], [2.0; 2]);
        // Rounds need not become shorter by much if a server joins.
        assert_eq!(settle(8.0, 7.0, true), 2.0);
        assert_eq!(settle(0.5, 0.45, false), 2.0);
        // Nor need they ever end.
        assert_eq!(settle(500.0, 450.0, false), 60.0);
        for odd in [f64::INFINITY, f64::NAN, 0.0, -1.0] {
            assert!(
                [settle(odd, 1.0, false), settle(1.0, odd, false)]
                    .iter()
                    .all(|s| (2.0..=60.0).contains(s)),
                "{odd}"
            );
        }
    }
}
