//! Drives a scheduler's planners, from the first look on: gives them the time, the reports and the
//! settings, writes what they say to the log, keeps how long rounds take, and has trees worked out
//! on a thread. Returns what they decide as events of the membership. The node's clock calls it.
//! Names no van.

use std::sync::Mutex;
use std::time::Duration;

use super::tree_thread::TreeThread;
use crate::running::NodeState;
use crate::settings::Settings;
use crate::sync::lock;
use pslite_core::cluster::{Cluster, Event};
use pslite_core::scheduler::{LogLines, PlannerSettings, Planners, RoundTimes};
use pslite_core::store::SumOrder;
use pslite_core::wire::{NodeId, Role};
use pslite_observe::log::{self, Level};

/// See the module. Locked within the membership's lock, never the other way round.
#[derive(Default)]
pub(crate) struct PlanningDriver(Mutex<Option<Driven>>);

struct Driven {
    planners: Planners,
    thread: TreeThread,
    /// When it is looked again how long rounds take, for the chronicle.
    next_point: Duration,
}

/// How often it is looked how long rounds take. The chronicle may want it less often.
const POINT_EVERY: Duration = Duration::from_secs(1);

impl PlanningDriver {
    /// A node told what it measured.
    pub(crate) fn report(&self, state: &NodeState, from: NodeId, report: &[u8]) {
        if let Some(driven) = &mut *lock(&self.0) {
            driven.planners.report(state.now(), from, report);
        }
    }

    /// The events that the membership is to get now, in order. `seed` is the seed of the planner's
    /// random numbers; only the first call uses it.
    pub(crate) fn look(&self, state: &NodeState, cluster: &Cluster, seed: u64) -> Vec<Event> {
        let settings = &state.settings;
        if settings.role != Role::Scheduler {
            return Vec::new();
        }
        let mut driven = lock(&self.0);
        let Driven { planners, thread, next_point } = driven.get_or_insert_with(|| {
            let replicas = cluster.policy().replicas;
            let (ranks, probe_after) = (settings.num_servers, settings.probe_after);
            let planners = Planners::new(replicas, ranks, seed, probe_after);
            Driven { planners, thread: TreeThread::default(), next_point: Duration::ZERO }
        });
        thread.bring_answers(state, planners);
        let mut said = LogLines::new(log::enabled(Level::Verbose));
        let events = planners.look(state.now(), cluster, planned(settings), &mut said);
        thread.take_jobs(state, planners);
        state.say_lines(said.into_lines());
        if state.now() >= *next_point && state.is_point_due() {
            *next_point = state.now().saturating_add(POINT_EVERY);
            planners
                .round_point(state.now(), cluster)
                .into_iter()
                .for_each(|point| state.add_point(point));
        }
        events
    }

    /// How long a round takes.
    pub(crate) fn times(&self, state: &NodeState, cluster: &Cluster) -> RoundTimes {
        match &mut *lock(&self.0) {
            Some(driven) => driven.planners.times(state.now(), cluster, planned(&state.settings)),
            None => RoundTimes::default(),
        }
    }
}

/// How the settings say that keys and trees are planned.
fn planned(settings: &Settings) -> PlannerSettings<'_> {
    PlannerSettings {
        planning: settings.planning,
        topology: settings.topology,
        links: settings.links.as_ref(),
        repeats: settings.sum_order == SumOrder::Trees,
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
