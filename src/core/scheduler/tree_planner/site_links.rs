//! What is known of the links between sites while rounds go along trees: what workers measured, and
//! to whom nothing gets through. Says what each link carries now, and which links are to be probed.
//! Pure; the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::sites::Sites;
use super::work_clock::WorkClock;
use crate::placement::graph::NamedGraph;
use crate::placement::links::{CarriedRates, MOST_PEERS};
use crate::placement::measured::Measured;
use crate::scheduler::probes::ProbePair;
use crate::wire::trees::TreeTable;
use crate::wire::{NodeId, is_worker};

/// A link of which nothing was told for so long is probed, if rounds go on; then after twice that
/// time, and so on up to [`STALE_MOST`]. When a link has changed, all begin anew: others may have,
/// too. (Only links that are not kept busy say nothing by themselves.) A rest does not count: else
/// the first data after it would meet probes of all links.
const STALE: Duration = Duration::from_secs(3);
const STALE_MOST: Duration = Duration::from_secs(30);
/// When a link has changed: after that time, for so long.
const HURRY: Duration = Duration::from_secs(1);
const HURRY_FOR: Duration = Duration::from_secs(5);
/// Fraction. Rates that differ by less are the same.
const SAME_RATE: f64 = 0.1;
/// Between two probes of one sender, which sends one at a time.
const PROBE_GAP: Duration = Duration::from_millis(700);
/// A worker says each second to whom nothing gets through.
const STUCK_FOR: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SiteLinks {
    rates: CarriedRates,
    /// For how long rounds went on. Rates, probes and hurry go by it.
    clock: WorkClock,
    /// When something was last told of each link.
    told: BTreeMap<(NodeId, NodeId), Duration>,
    /// By worker, the workers to which nothing gets through, and when it said so.
    stuck: BTreeMap<NodeId, (Duration, Vec<NodeId>)>,
    probed: BTreeMap<(NodeId, NodeId), Probed>,
    /// When each worker last probed a link.
    probing: BTreeMap<NodeId, Duration>,
    /// Links have changed: until then a link is probed after [`HURRY`].
    hurry: Option<Duration>,
}

/// A link that was probed.
#[derive(Clone, Copy, Debug)]
struct Probed {
    at: Duration,
    /// So long it is left alone then.
    pause: Duration,
    /// What was known of it.
    rate: Option<f64>,
}

impl Probed {
    fn is_like(&self, rate: Option<f64>) -> bool {
        let pair = self.rate.zip(rate);
        pair.is_some_and(|(before, now)| (before - now).abs() <= SAME_RATE * before)
    }
}

/// What the links carry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carrying {
    /// The rates of all resources of the graph.
    pub(super) rates: Vec<f64>,
    /// Links, from site to site, over which nothing gets through.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Those whose rates were measured.
    pub(super) measured: BTreeSet<(usize, usize)>,
}

impl Carrying {
    /// Goes by what was said of links that are not cut.
    pub(super) fn forget_rates(&mut self, named: &NamedGraph) {
        let said = named.graph.resources().iter().zip(&mut self.rates);
        said.filter(|(_, rate)| **rate > 0.0).for_each(|(said, rate)| *rate = *said);
        self.measured.clear();
    }
}

impl SiteLinks {
    /// A node told what it measured.
    pub(super) fn report(&mut self, now: Duration, from: NodeId, measured: &Measured) {
        if !measured.carried.is_empty() {
            self.clock.traffic(now);
        }
        let worked = self.clock.at(now);
        for peer in self.rates.report(worked, from, &measured.carried) {
            self.told.insert((peer, from), worked);
        }
        match measured.stuck.as_deref() {
            None => {}
            Some([]) => _ = self.stuck.remove(&from),
            Some(peers) if is_worker(from) => {
                let peers = peers.iter().take(MOST_PEERS).copied().collect();
                self.stuck.insert(from, (now, peers));
            }
            Some(_) => {}
        }
    }

    /// For how long rounds went on.
    pub(super) fn worked(&self, now: Duration) -> Duration {
        self.clock.at(now)
    }

    /// Who is stuck says so each second; what was not repeated is over.
    pub(super) fn expire(&mut self, now: Duration) {
        self.stuck.retain(|_, (told, _)| now.saturating_sub(*told) < STUCK_FOR);
    }

    /// True if nothing gets through somewhere.
    pub(super) fn are_any_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// True if nothing gets through a hop of these trees.
    pub(super) fn blocks(&self, trees: &[TreeTable]) -> bool {
        let cut = |one, other| self.is_stuck(one, other) || self.is_stuck(other, one);
        let mut nodes = trees.iter().flat_map(|tree| &tree.nodes);
        self.are_any_stuck()
            && nodes.any(|node| cut(node.node, node.up) || cut(node.node, node.down))
    }

    /// Only those are in the job.
    pub(super) fn retain(&mut self, members: &[NodeId]) {
        let members: BTreeSet<NodeId> = members.iter().copied().collect();
        let lives = |node: &NodeId| members.contains(node);
        self.rates.retain(lives);
        self.stuck.retain(|node, _| lives(node));
        self.probing.retain(|node, _| lives(node));
        self.told.retain(|(from, to), _| lives(from) && lives(to));
        self.probed.retain(|(from, to), _| lives(from) && lives(to));
    }

    /// What the links of a graph carry: what was measured, or else what was said of them.
    pub(super) fn carrying(&self, sites: &Sites) -> Carrying {
        let named = &sites.network;
        let mut rates = named.graph.resources().to_vec();
        let (mut cut, mut measured) = (BTreeSet::new(), BTreeSet::new());
        for (from, to, resource) in named.graph.own_resources() {
            let Some((sender, receiver)) = sites.head(from).zip(sites.head(to)) else { continue };
            // Confirmations go the other way, so a link that is cut one way is of no use.
            let is_cut = self.is_stuck(sender, receiver) || self.is_stuck(receiver, sender);
            if is_cut {
                cut.insert((from, to));
            }
            let rate = if is_cut { Some(0.0) } else { self.rates.rate(sender, receiver) };
            if let (Some(place), Some(rate)) = (rates.get_mut(resource), rate)
                && *place > 0.0
            {
                *place = rate;
                measured.insert((from, to));
            }
        }
        Carrying { rates, cut, measured }
    }

    /// Links have changed: what is known of the others may not hold any more.
    pub(super) fn changed(&mut self, now: Duration) {
        self.hurry = Some(self.clock.at(now) + HURRY_FOR);
        self.rates.doubt();
        self.probed.values_mut().for_each(|probed| probed.pause = STALE);
    }

    fn is_stuck(&self, from: NodeId, to: NodeId) -> bool {
        self.stuck.get(&from).is_some_and(|(_, peers)| peers.contains(&to))
    }

    /// The links that are to be probed now, while rounds go on: those of which nothing was told for
    /// long, the ones that were probed longest ago first.
    pub(super) fn probes(&mut self, now: Duration, sites: &Sites) -> Vec<ProbePair> {
        if self.clock.rests(now) {
            return Vec::new();
        }
        let now = self.clock.at(now);
        let hurries = self.hurry.is_some_and(|until| now < until);
        let mut stale: Vec<(Option<Duration>, ProbePair)> = Vec::new();
        for (from, to, _) in sites.network.graph.own_resources() {
            let Some((from, to)) = sites.head(from).zip(sites.head(to)) else { continue };
            if self.is_stuck(from, to) || self.is_stuck(to, from) {
                continue;
            }
            let probed = self.probed.get(&(from, to));
            let pause = match hurries {
                true => HURRY,
                false => probed.map_or(STALE, |probed| probed.pause),
            };
            // A probe that shows nothing is not repeated at once: over some ways none does.
            let told = self.told.get(&(from, to)).copied().max(probed.map(|probed| probed.at));
            if told.is_none_or(|told| now.saturating_sub(told) >= pause) {
                stale.push((probed.map(|probed| probed.at), ProbePair { from, to }));
            }
        }
        stale.sort();
        let mut due = Vec::new();
        for (_, probe) in stale {
            let last = self.probing.get(&probe.from);
            if last.is_none_or(|last| now.saturating_sub(*last) >= PROBE_GAP) {
                self.probing.insert(probe.from, now);
                let before = self.probed.get(&(probe.from, probe.to));
                let told = self.told.get(&(probe.from, probe.to)).copied();
                let rate = self.rates.rate(probe.from, probe.to);
                let pause = match before {
                    Some(before) if told < Some(before.at) => before.pause * 2,
                    Some(before) if before.is_like(rate) => before.pause * 2,
                    Some(_) | None => STALE,
                };
                let pause = pause.min(STALE_MOST);
                self.probed.insert((probe.from, probe.to), Probed { at: now, pause, rate });
                due.push(probe);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::graph::text::{MBIT, parse};
    use crate::placement::links::LinkCarried;
    use crate::wire::{server_id, worker_id};

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Two links in a row, a worker at each site, and a server at the first one.
    fn row() -> Sites {
        let named = parse("link a b 40 30\nlink b c 20").unwrap();
        let workers = (0..3).map(|rank| vec![worker_id(rank)]).collect();
        Sites::with(named, workers, vec![vec![server_id(0)], vec![], vec![]])
    }

    /// So many Mbit/s were seen from one worker to another one.
    fn seen(links: &mut SiteLinks, at: f64, (from, to): (usize, usize), mbit: f64) {
        let bytes = (mbit * MBIT) as u64;
        let carried = vec![LinkCarried { peer: worker_id(from), bytes, busy: seconds(1.0) }];
        let measured = Measured { carried, ..Measured::default() };
        links.report(seconds(at), worker_id(to), &measured);
    }

    fn stuck(links: &mut SiteLinks, from: usize, to: &[usize]) {
        let stuck = Some(to.iter().map(|rank| worker_id(*rank)).collect());
        links.report(seconds(1.0), worker_id(from), &Measured { stuck, ..Measured::default() });
    }

    #[test]
    fn what_was_measured_counts_before_what_was_said() {
        let sites = row();
        let mut links = SiteLinks::default();
        let mbit = |links: &SiteLinks| {
            let carrying = links.carrying(&sites);
            let rates: Vec<f64> = carrying.rates.iter().map(|rate| rate / MBIT).collect();
            (rates, carrying.measured, carrying.cut)
        };
        assert_eq!(mbit(&links), (vec![40.0, 30.0, 20.0, 20.0], [].into(), [].into()));
        seen(&mut links, 1.0, (1, 0), 12.0);
        assert_eq!(mbit(&links), (vec![40.0, 12.0, 20.0, 20.0], [(1, 0)].into(), [].into()));
        // Nothing gets through from b to c, so confirmations of what c sends do not either.
        stuck(&mut links, 1, &[2]);
        let (rates, _, cut) = mbit(&links);
        assert_eq!((rates, cut), (vec![40.0, 12.0, 0.0, 0.0], [(1, 2), (2, 1)].into()));
        stuck(&mut links, 1, &[]);
        assert_eq!(mbit(&links).2, [].into());
        stuck(&mut links, 1, &[2]);
        links.retain(&[worker_id(0), worker_id(2)]);
        let (rates, measured, cut) = mbit(&links);
        assert_eq!((rates, measured, cut), (vec![40.0, 30.0, 20.0, 20.0], [].into(), [].into()));
    }

    #[test]
    fn links_that_say_nothing_are_probed_ever_more_rarely() {
        let sites = row();
        let mut links = SiteLinks::default();
        assert_eq!(links.probes(seconds(0.5), &sites), [], "nobody exchanges anything");
        let mut asked = Vec::new();
        for step in 1..700 {
            let now = f64::from(step) / 10.0;
            // All but the way from c to b is busy.
            for link in [(0, 1), (1, 0), (1, 2)] {
                seen(&mut links, now, link, 20.0);
            }
            for probe in links.probes(seconds(now), &sites) {
                assert_eq!((probe.from, probe.to), (worker_id(2), worker_id(1)));
                asked.push(now);
                seen(&mut links, now, (2, 1), 20.0);
            }
        }
        let pauses: Vec<f64> = asked.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect();
        assert_eq!(pauses, [3.0, 3.0, 6.0, 12.0, 24.0], "{asked:?}");
        // Something has changed.
        links.changed(seconds(70.0));
        [70.3, 70.7, 71.1].into_iter().for_each(|at| seen(&mut links, at, (0, 1), 20.0));
        assert_eq!(links.probes(seconds(71.2), &sites).len(), 2, "one from each sender");
        assert_eq!(links.probes(seconds(74.0), &sites), [], "the job rests");
    }

    /// Over a long way no probe may show anything.
    #[test]
    fn probes_that_show_nothing_are_repeated_ever_more_rarely() {
        let sites = row();
        let mut links = SiteLinks::default();
        let mut asked = Vec::new();
        for step in 1..700 {
            let now = f64::from(step) / 10.0;
            [(0, 1), (1, 0), (1, 2)].into_iter().for_each(|link| seen(&mut links, now, link, 20.0));
            asked.extend(links.probes(seconds(now), &sites).iter().map(|_| now));
        }
        let pauses: Vec<f64> = asked.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect();
        assert_eq!(pauses, [3.0, 6.0, 12.0, 24.0], "{asked:?}");
    }

    /// Found in the lab: the first data after a rest met probes of all links.
    #[test]
    fn links_are_not_silent_for_as_long_as_all_rest() {
        let sites = row();
        let mut links = SiteLinks::default();
        let all = [(0, 1), (1, 0), (1, 2), (2, 1)];
        all.into_iter().for_each(|link| seen(&mut links, 1.0, link, 20.0));
        assert_eq!(links.probes(seconds(1.1), &sites), []);
        // One link speaks again, after a rest of 30 s.
        let mut asked = Vec::new();
        for step in 310..350 {
            let now = f64::from(step) / 10.0;
            seen(&mut links, now, (0, 1), 20.0);
            asked.extend(links.probes(seconds(now), &sites).iter().map(|_| now));
        }
        assert_eq!(asked.first(), Some(&33.5), "{asked:?}: of the rest 0.5 s count");
    }
}
