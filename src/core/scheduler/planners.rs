//! The planners of a job: the one of keys ([`KeyPlanner`]) and the one of trees ([`TreePlanner`]).
//! Nodes' reports go to both. What both decide goes to the membership, as its events. While trees
//! may be planned keys stay: trees are planned for where they are. Reads the membership. Pure: time
//! is an argument, and trees are worked out by the caller ([`Planners::take_job`]).

use std::time::Duration;

use super::key_planner::{KeyDecision, KeyPlanner};
use super::lines::LogLines;
use super::probes::ProbePair;
use super::settings::PlannerSettings;
use super::times::RoundTimes;
use super::tree_planner::{Planned, TreeAnswer, TreeJob, TreePlanner};
use crate::chronicle::{JobEventKind, NewEvent, RoundPoint};
use crate::cluster::{Cluster, Event, Tell};
use crate::placement::graph::Topology;
use crate::placement::measured::Measured;
use crate::wire::NodeId;
use crate::wire::topic::{ProbeRequest, Topic};

/// See the module.
#[derive(Debug)]
pub struct Planners {
    keys: KeyPlanner,
    trees: TreePlanner,
}

impl Planners {
    /// Planners that know nothing. `replicas`: copies of each piece. `ranks`: how many servers the
    /// application counts with. `seed`: of the random numbers. `probe_after`: links of a job that
    /// rests for so long are probed.
    #[must_use]
    pub fn new(replicas: u32, ranks: usize, seed: u64, probe_after: Option<Duration>) -> Self {
        Self {
            keys: KeyPlanner::new(replicas, ranks, seed, probe_after),
            trees: TreePlanner::default(),
        }
    }

    /// A node told what it measured ([`Topic::Measure`]). What cannot be read is left.
    pub fn report(&mut self, now: Duration, from: NodeId, report: &[u8]) {
        if let Some(measured) = Measured::decode(from, report) {
            self.trees.report(now, from, &measured);
            self.keys.report(now, from, measured);
        }
    }

    /// The events that the membership is to get now, in order.
    #[must_use]
    pub fn look(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        settings: PlannerSettings<'_>,
        lines: &mut LogLines,
    ) -> Vec<Event> {
        let mut probes = self.keys.probes(now, cluster);
        self.keys.set_enabled(settings.planning && self.places(settings));
        probes.extend(self.trees.probes(now, cluster, settings));
        let orders = match self.trees.weighs_star() {
            true => KeyDecision::None,
            false => self.keys.look(now, cluster, lines),
        };
        let mut events = match orders {
            KeyDecision::None => Vec::new(),
            KeyDecision::Moves(orders) => vec![Event::Orders(orders)],
            KeyDecision::Copies(copies) => vec![Event::Copies(copies)],
        };
        if let Some(Planned { trees, lossy }) = self.trees.look(now, cluster, settings, lines) {
            let text = match trees.len() {
                0 => "rounds go straight to the servers".to_owned(),
                count => format!("rounds go along trees: {}, {count} of them", settings.topology),
            };
            let event = NewEvent::info(JobEventKind::Tree, text);
            lines.say(event.with("trees", trees.len() as f64));
            events.push(Event::Overlay { over: cluster.overlay().number, trees, lossy });
        }
        if !probes.is_empty() {
            events.push(Event::Tell(probes.into_iter().map(asked).collect()));
        }
        events
    }

    /// Trees that are to be worked out now, if some are: [`TreeAnswer::of`] does, and takes long.
    #[must_use]
    pub fn take_job(&mut self) -> Option<TreeJob> {
        self.trees.take_job()
    }

    /// What came of the job that was taken last. It is looked at with the next look.
    pub fn answered(&mut self, answer: TreeAnswer) {
        self.trees.answered(answer);
    }

    /// Nothing will come of the job that was taken last. There will be another one.
    pub fn job_lost(&mut self) {
        self.trees.job_lost();
    }

    /// How long a round takes, for people.
    #[must_use]
    pub fn times(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        settings: PlannerSettings<'_>,
    ) -> RoundTimes {
        let exchange = cluster.exchange().is_some();
        let mut times = self.keys.times(now, exchange);
        if self.expects(&mut times) {
            (times.no_plan, times.advice, times.advised) = Default::default();
            times.limit = if exchange { String::new() } else { self.keys.held_up(now) };
            times.trees = self.trees.status(now, cluster, settings);
        }
        times
    }

    /// How long a round takes, as a point of a chronicle; none before a round was measured.
    #[must_use]
    pub fn round_point(&self, now: Duration, cluster: &Cluster) -> Option<RoundPoint> {
        let mut times = self.keys.times(now, cluster.exchange().is_some());
        self.expects(&mut times);
        times.point()
    }

    /// If rounds go along trees, what is expected of these. False: they go straight.
    fn expects(&self, times: &mut RoundTimes) -> bool {
        let Some(expected) = self.trees.expected() else { return false };
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        times.predicted = expected.seconds.and_then(seconds);
        times.bound = expected.bound.and_then(seconds);
        true
    }

    /// Whether keys are placed by what the network carries. While trees may be planned they stay:
    /// trees are planned for where they are, and where sums repeat, so do the places of keys.
    fn places(&self, settings: PlannerSettings<'_>) -> bool {
        match settings.topology {
            Topology::Star => true,
            Topology::Auto => self.trees.is_star() && !settings.repeats,
            _ => false,
        }
    }
}

/// Its sender is asked for it.
fn asked(ProbePair { from, to }: ProbePair) -> Tell {
    Tell { to: from, topic: Topic::Probe, bytes: ProbeRequest { to }.bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::config;
    use crate::wire::{Role, server_id};

    const fn settings(topology: Topology) -> PlannerSettings<'static> {
        PlannerSettings { planning: true, topology, links: None, repeats: false }
    }

    #[test]
    fn planners_that_know_nothing_order_nothing_and_have_no_times() {
        let cluster = Cluster::new(config(Role::Scheduler, "s", 1, 1, 0), Duration::ZERO);
        let mut planners = Planners::new(0, 1, 1, None);
        for report in [&b""[..], b"\xff"] {
            planners.report(Duration::ZERO, server_id(0), report);
            let mut lines = LogLines::new(true);
            let (now, settings) = (Duration::from_secs(1), settings(Topology::Star));
            let events = planners.look(now, &cluster, settings, &mut lines);
            assert!(events.is_empty(), "{events:?}");
            assert!(planners.take_job().is_none());
            assert_eq!(planners.times(now, &cluster, settings), RoundTimes::default());
        }
    }

    /// While rounds go along trees keys stay: trees were planned for where they are.
    #[test]
    fn keys_may_move_while_rounds_go_straight() {
        let planners = Planners::new(0, 1, 1, None);
        assert!(planners.places(settings(Topology::Star)));
        assert!(!planners.places(settings(Topology::Auto)), "nobody knows yet");
        assert!(!planners.places(settings(Topology::Packed)));
    }
}
