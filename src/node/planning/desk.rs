//! A scheduler's planner, from the first report on. It passes its decisions to the membership as
//! events. The node's clock calls it. Names no van.

use std::sync::Mutex;
use std::time::Duration;

use super::planting::{Plan, Planned};
use super::probes::Probe;
use super::{Planning, Planting, Steps};
use crate::running::NodeState;
use crate::settings::Settings;
use crate::sync::lock;
use pslite_core::cluster::{Cluster, Event, Tell};
use pslite_core::placement::graph::Topology;
use pslite_core::placement::measured::Measured;
use pslite_core::scheduler::RoundTimes;
use pslite_core::store::SumOrder;
use pslite_core::wire::topic::{ProbeRequest, Topic};
use pslite_core::wire::{NodeId, Role};
use pslite_observe::log::{self, Level};

/// See the module. Locked within the membership's lock, never the other way round.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Option<(Planning, Planting)>>);

impl Desk {
    /// A node told what it measured.
    pub(crate) fn report(&self, state: &NodeState, from: NodeId, report: &[u8]) {
        if let Some((planning, planting)) = &mut *lock(&self.0)
            && let Some(measured) = Measured::decode(from, report)
        {
            planting.report(state.now(), from, &measured);
            planning.report(state.now(), from, measured);
        }
    }

    /// The events that the membership is to get now, in order. `seed` is the seed of the planner's
    /// random numbers; only the first call uses it.
    pub(crate) fn look(&self, state: &NodeState, cluster: &Cluster, seed: u64) -> Vec<Event> {
        let settings = &state.settings;
        if settings.role != Role::Scheduler {
            return Vec::new();
        }
        let mut planning = lock(&self.0);
        let now = state.now();
        let (planning, planting) = planning.get_or_insert_with(|| {
            let replicas = cluster.policy().replicas;
            let (ranks, probe_after) = (settings.num_servers, settings.probe_after);
            (Planning::new(replicas, ranks, seed, probe_after), Planting::default())
        });
        let mut probes = planning.probes(now, cluster);
        let plan = plan(settings);
        planning.set_enabled(settings.planning && places(plan, planting));
        probes.extend(planting.probes(now, cluster, plan));
        let steps = match planting.weighs_star() {
            true => Steps::None,
            false => planning.look(now, cluster),
        };
        let mut events = match steps {
            Steps::None => Vec::new(),
            Steps::Orders(orders) => vec![Event::Orders(orders)],
            Steps::Copies(copies) => vec![Event::Copies(copies)],
        };
        events.extend(planting.look(now, cluster, plan).map(|Planned { trees, lossy }| {
            let text = match trees.len() {
                0 => "rounds go straight to the servers".to_owned(),
                count => format!("rounds go along trees: {}, {count} of them", settings.topology),
            };
            log::write(Level::Info, &text);
            Event::Overlay { over: cluster.overlay().number, trees, lossy }
        }));
        if !probes.is_empty() {
            events.push(Event::Tell(probes.into_iter().map(asked).collect()));
        }
        events
    }

    /// How long a round takes.
    pub(crate) fn times(&self, state: &NodeState, cluster: &Cluster) -> RoundTimes {
        let Some((planning, planting)) = &mut *lock(&self.0) else { return RoundTimes::default() };
        let (now, exchange) = (state.now(), cluster.exchange().is_some());
        let mut times = planning.times(now, exchange);
        if let Some(expected) = planting.expected() {
            let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
            times.predicted = expected.seconds.and_then(seconds);
            times.bound = expected.bound.and_then(seconds);
            (times.no_plan, times.advice) = Default::default();
            times.limit = if exchange { String::new() } else { planning.held_up(now) };
            times.trees = planting.status(now, cluster, plan(&state.settings));
        }
        times
    }
}

/// What trees are planned for, as the settings say it.
fn plan(settings: &Settings) -> Plan<'_> {
    let repeats = settings.sum_order == SumOrder::Trees;
    let (topology, links) = (settings.topology, settings.links.as_ref());
    Plan { topology, links, fixed: repeats || !settings.planning, repeats }
}

/// Its sender is asked for it.
fn asked(Probe { from, to }: Probe) -> Tell {
    Tell { to: from, topic: Topic::Probe, bytes: ProbeRequest { to }.bytes() }
}

/// Whether keys are placed by what the network carries. While trees may be planned they stay: trees
/// are planned for where they are, and where sums repeat, so do the places of keys.
fn places(plan: Plan<'_>, planting: &Planting) -> bool {
    match plan.topology {
        Topology::Star => true,
        Topology::Auto => planting.is_star() && !plan.repeats,
        _ => false,
    }
}

#[cfg(test)]
#[path = "desk_tests.rs"]
pub(super) mod tests;
