//! Why a plan is not made though one could be: a list of gates, each of which has a name, looks at
//! the decision and says what it is closed for. `pslite status` shows the first closed one. What
//! must move (a server is drained, or gone) passes the gates of [`GateStage::Forced`] alone.
//!
//! A gate changes nothing, and does not know the other gates. For each there is a test that fails
//! without it (`gate_tests`).

use std::time::Duration;

use super::look::{Basis, PlannerLook};
use super::reason::Reason;
use super::state::Planner;
use crate::placement::layout::Plan;
use crate::placement::tuning::{CLEAR_GAIN, FIRST_ROUND_WAIT, FIRST_TIMES_WAIT};
use crate::wire::id_to_rank;

/// When a gate is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateStage {
    /// Some pieces must move.
    Forced,
    /// Before a plan is worked out. If one is closed, what was worth it before is forgotten.
    Before,
    /// A plan would be worth it. The same.
    Worth,
    /// It is worth it, and that is remembered: it only has to wait.
    Settle,
}

/// What is to be decided.
#[derive(Clone, Copy)]
pub(super) struct Decision<'a> {
    pub(super) planner: &'a Planner,
    pub(super) now: Duration,
    pub(super) look: &'a PlannerLook,
    /// What would be done; none before [`GateStage::Worth`].
    pub(super) plan: Option<&'a Plan>,
}

/// See the module.
pub(super) struct PlanGate {
    pub(super) name: &'static str,
    pub(super) stage: GateStage,
    /// What it is closed for.
    closed: fn(&Decision<'_>) -> Option<String>,
}

/// All gates, in the order in which they are asked.
pub(super) static GATES: [PlanGate; 9] = [
    PlanGate { name: "portion_under_way", stage: GateStage::Forced, closed: portion_under_way },
    PlanGate { name: "switched_off", stage: GateStage::Before, closed: switched_off },
    PlanGate { name: "rolled_back", stage: GateStage::Before, closed: rolled_back },
    PlanGate { name: "refuted", stage: GateStage::Before, closed: refuted },
    PlanGate { name: "nothing_known", stage: GateStage::Before, closed: nothing_known },
    PlanGate { name: "first_round", stage: GateStage::Worth, closed: first_round },
    PlanGate { name: "without_times", stage: GateStage::Worth, closed: without_times },
    PlanGate { name: "copies_first", stage: GateStage::Settle, closed: copies_first },
    PlanGate { name: "settling", stage: GateStage::Settle, closed: settling },
];

impl Decision<'_> {
    /// Ok if all gates of a stage are open.
    pub(super) fn pass(&self, stage: GateStage) -> Result<(), Reason> {
        let asked = GATES.iter().filter(|gate| gate.stage == stage && !self.is_taken_out(gate));
        let reason =
            |gate: &PlanGate| (gate.closed)(self).map(|text| Reason { gate: gate.name, text });
        asked.map(reason).find(Option::is_some).flatten().map_or(Ok(()), Err)
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "tests take gates out")]
    const fn is_taken_out(&self, _gate: &PlanGate) -> bool {
        false
    }

    #[cfg(test)]
    fn is_taken_out(&self, gate: &PlanGate) -> bool {
        self.planner.without_gate == Some(gate.name)
    }

    /// It is about a server that joins.
    fn joining(&self) -> bool {
        self.plan.map_or_else(|| self.look.is_joining(), |plan| self.look.is_filled_by(plan))
    }
}

/// All at once would hold up the round in which it moves.
fn portion_under_way(decision: &Decision<'_>) -> Option<String> {
    let under_way = decision.planner.rests(decision.now, decision.look);
    under_way.then(|| "the next portion follows when the round is over".to_owned())
}

fn switched_off(decision: &Decision<'_>) -> Option<String> {
    (!decision.planner.settings.enabled).then(|| "planning is switched off".to_owned())
}

/// The model that led to a plan for the worse would lead to the same one again.
fn rolled_back(decision: &Decision<'_>) -> Option<String> {
    let held = decision.planner.is_held(decision.look);
    held.then(|| {
        let until = decision.planner.hold.until();
        format!("the last plan turned out worse; no other one before round {until}")
    })
}

/// A server that holds hardly anything is hardly measured.
fn refuted(decision: &Decision<'_>) -> Option<String> {
    let server = decision.planner.refuted(decision.now, decision.look)?;
    let rank = id_to_rank(server);
    Some(format!(
        "server {rank} holds hardly anything, and rounds show it is not as slow as it seems"
    ))
}

/// Times alone differ for many reasons: only a straggler is one to move anything. A server that
/// joins needs no measurement.
fn nothing_known(decision: &Decision<'_>) -> Option<String> {
    let text = match decision.look.basis {
        Basis::Links => return None,
        Basis::Times => "only times of workers are known, and no server is far behind",
        Basis::Nothing => "nothing is known of the network yet",
    };
    let straggler = decision.planner.stragglers.stragglers().next().is_some();
    let known = decision.joining() || decision.look.basis == Basis::Times && straggler;
    (!known).then(|| text.to_owned())
}

/// Before their first round large pieces cannot be cut, and all small ones would go from where a
/// large one is. A server that joins does not wait: where nobody counts rounds there may never be
/// times.
fn first_round(decision: &Decision<'_>) -> Option<String> {
    let planner = decision.planner;
    let waits = !decision.joining()
        && planner.has_large_piece(decision.look)
        && planner.is_without_baseline(decision.now, FIRST_ROUND_WAIT);
    waits.then(|| "large pieces cannot be cut before a first round".to_owned())
}

/// Without times from before a switch nobody could say whether it was for the better. A plan that
/// makes much of a difference needs no comparison.
fn without_times(decision: &Decision<'_>) -> Option<String> {
    let (planner, plan) = (decision.planner, decision.plan?);
    let clear = plan.before >= CLEAR_GAIN * plan.predicted && planner.is_measured();
    let waits = !clear && planner.is_without_baseline(decision.now, FIRST_TIMES_WAIT);
    waits.then(|| "workers have not told yet how long rounds take".to_owned())
}

/// What is best to move depends on where copies lie; that is decided first.
fn copies_first(decision: &Decision<'_>) -> Option<String> {
    let waits = decision.planner.copies_wanted.is_some();
    waits.then(|| "copies get other places first".to_owned())
}

/// A plan has to be worth it for a while, with a network that holds still.
fn settling(decision: &Decision<'_>) -> Option<String> {
    let (waited, settle) = decision.planner.settled(decision.now, decision.look, decision.plan?)?;
    let (waited, settle) = (waited.as_secs_f64(), settle.as_secs_f64());
    (waited < settle).then(|| format!("a move pays since {waited:.1} s, of {settle:.1} s"))
}
