//! Which trees a scheduler gives out, as `PSLITE_TOPOLOGY` says, anew for every change of who is in
//! the job. Balanced trees need no rates. For others `PSLITE_LINKS` says which hosts have links,
//! and how fast those are until it is measured (`site_links`). When other trees promise shorter
//! rounds over what the links carry now, and when nothing gets through a link, they are planned
//! anew. Sends nothing itself; the work is done elsewhere (`job`). Pure; the time is an argument.

use std::sync::Arc;
use std::time::Duration;

use super::job::{Jobs, TreeAnswer, TreeJob};
use super::link_news::{Better, LinkNews};
use super::past::PastTrees;
use super::planted::{Growth, Planted, TreeMembers, balanced, bytes, members, uses};
use super::shown;
use super::site_links::SiteLinks;
use super::sites::Sites;
use super::under_way::{RoundSeconds, UnderWay};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::cluster::Cluster;
use crate::placement::graph::{NamedGraph, Topology};
use crate::placement::measured::Measured;
use crate::scheduler::lines::LogLines;
use crate::scheduler::probes::ProbePair;
use crate::scheduler::settings::PlannerSettings;
use crate::scheduler::status::TreesStatus;
use crate::wire::NodeId;
use crate::wire::trees::TreeTable;

/// Trees are planned anew when the model is longer by that.
const LONGER: f64 = 1.2;
/// What `pslite status` shows is at most that old.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// The size of model that is planned for where plans must not depend on when keys are made, in
/// bytes.
const NOMINAL: f64 = 32e6;

/// Trees that are to be in force now; none: rounds go straight to the servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::scheduler) struct Planned {
    pub(in crate::scheduler) trees: Vec<TreeTable>,
    /// What went along the former ones may be lost.
    pub(in crate::scheduler) lossy: bool,
}

/// What is expected of rounds along the trees in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::scheduler) struct Expected {
    /// Seconds of a round, predicted for what the links carry now.
    pub(in crate::scheduler) seconds: Option<f64>,
    /// T*, for that too.
    pub(in crate::scheduler) bound: Option<f64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::scheduler) struct TreePlanner {
    planted: Option<Planted>,
    links: SiteLinks,
    jobs: Jobs,
    news: LinkNews,
    expected: Expected,
    under_way: UnderWay,
    past: PastTrees,
    growth: Growth,
    /// What people were shown, and since when.
    shown: Option<(Duration, Arc<TreesStatus>)>,
}

impl TreePlanner {
    /// A node told what it measured.
    pub(in crate::scheduler) fn report(
        &mut self,
        now: Duration,
        from: NodeId,
        measured: &Measured,
    ) {
        self.links.report(now, from, measured);
        if let Some(round) = measured.progress {
            self.under_way.ended(self.links.worked(now), round);
        }
    }

    /// The trees that are to be in force now, if they are not yet.
    pub(in crate::scheduler) fn look(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        if plan.topology == Topology::Star || !cluster.may_order() {
            return None;
        }
        let members = members(cluster);
        if members.workers.is_empty() {
            // Nobody waits for what is being planned.
            self.jobs.answer();
            return None;
        }
        self.links.expire(now);
        if let Some(planned) = self.block(now, cluster, plan, &members, lines) {
            return Some(planned);
        }
        let Some(named) = plan.links.filter(|_| !matches!(plan.topology, Topology::Balanced(_)))
        else {
            return self.blind(cluster, plan.topology, members);
        };
        if self.stands(cluster, &members, 0.0) && !self.jobs.is_open() && !self.news.is_due(now) {
            return None;
        }
        self.news.look(now);
        if let Some(seconds) = self.expected.seconds {
            self.under_way.goes_on(self.links.worked(now), seconds);
        }
        let bytes = if plan.repeats { NOMINAL } else { bytes(cluster) };
        let answer = self.jobs.answer().filter(|answer| answer.job.members == members);
        let planned = answer.and_then(|answer| {
            let stand = self.stands(cluster, &members, bytes)
                && self.planted.as_ref().is_some_and(|now| now.is_for(&answer.job.shares));
            if stand {
                return self.follow(now, cluster, plan.is_fixed(), answer, lines);
            }
            if self.is_lost(cluster) {
                self.past.clear();
                self.under_way.begins_again(self.links.worked(now));
            }
            self.plant(cluster, answer, false, lines)
        });
        // The first few keys say little about who owns the model.
        let waits = plan.topology == Topology::Auto
            && self.growth.goes_on(now, bytes)
            && self.planted.is_some();
        // Keys that are on their way are not yet where they will be.
        let moves = self.is_star() && cluster.has_open_orders();
        match planned.is_some() || self.jobs.is_open() || waits || moves {
            true => planned,
            false => self.ask(cluster, plan, named, members, bytes, lines),
        }
    }

    /// Has trees planned, if they do not stand or there is news. No trees, if there can be none.
    fn ask(
        &mut self,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
        named: &NamedGraph,
        members: TreeMembers,
        bytes: f64,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        let stand = self.stands(cluster, &members, bytes);
        match self.job(cluster, plan, named, members.clone(), bytes) {
            Ok(job) if !stand || self.is_news(&job) => self.jobs.ask(job),
            Err(why) if !stand => {
                let star = bytes > 0.0;
                let none = Planted { members, bytes, star, ..Planted::default() };
                return self.without(cluster, none, &why, lines);
            }
            Ok(_) | Err(_) => {}
        }
        None
    }

    /// True if a death took the trees away. If a node does not know trees they were never in force.
    fn is_lost(&self, cluster: &Cluster) -> bool {
        let overlay = cluster.overlay();
        let before = self.planted.as_ref().map(|planted| planted.before);
        overlay.trees.is_empty() && before.is_some_and(|before| overlay.number != before)
    }

    /// True if trees stand as they were planned.
    fn stands(&self, cluster: &Cluster, members: &TreeMembers, bytes: f64) -> bool {
        self.planted.as_ref().is_some_and(|planted| {
            let longer = bytes > LONGER * planted.bytes;
            let back = planted.blocked && !self.links.are_any_stuck();
            planted.members == *members && !longer && !self.is_lost(cluster) && !back
        })
    }

    /// No trees, if nothing gets through a hop of those in force that no plan goes around: balanced
    /// trees know no links, and neither do the hops of a switch.
    fn block(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
        members: &TreeMembers,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        if !self.stands(cluster, members, 0.0) {
            return None;
        }
        let trees = &cluster.overlay().trees;
        let planted = self.planted.as_mut().filter(|_| self.links.blocks(trees))?;
        let goes_around = plan.links.zip(planted.scheme.as_ref()).is_some_and(|(named, scheme)| {
            let sites = Sites::of(cluster, named, &planted.members, plan.repeats);
            sites.is_ok_and(|sites| uses(scheme, &self.links.carrying(&sites).cut))
        });
        if goes_around {
            return None;
        }
        let why = "nothing gets from one worker to another";
        lines.say(NewEvent::warning(JobEventKind::Tree, format!("no trees: {why}")));
        (planted.blocked, planted.scheme, planted.why) = (true, None, why.to_owned());
        self.expected = Expected::default();
        self.past.clear();
        self.under_way.begins_again(self.links.worked(now));
        self.give_out(cluster, Planned { trees: Vec::new(), lossy: true })
    }

    /// Trees that need no rates.
    fn blind(
        &mut self,
        cluster: &Cluster,
        topology: Topology,
        members: TreeMembers,
    ) -> Option<Planned> {
        if self.stands(cluster, &members, 0.0) {
            return None;
        }
        let tree = |root: &NodeId| balanced(topology, *root, &members);
        let trees = members.servers.iter().filter_map(tree).collect();
        self.planted = Some(Planted { members, ..Planted::default() });
        self.give_out(cluster, Planned { trees, lossy: false })
    }

    /// No trees, for that reason.
    fn without(
        &mut self,
        cluster: &Cluster,
        none: Planted,
        why: &str,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        lines.say(NewEvent::warning(JobEventKind::Tree, format!("no trees: {why}")));
        self.expected = Expected::default();
        let (cut, why) = (self.news.cut().clone(), why.to_owned());
        self.planted = Some(Planted { cut, why, ..none });
        self.give_out(cluster, Planned::default())
    }

    /// What is to be planned now.
    ///
    /// # Errors
    /// Not all hosts are at a site, or not all sites have a worker.
    fn job(
        &mut self,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
        named: &NamedGraph,
        members: TreeMembers,
        bytes: f64,
    ) -> Result<TreeJob, String> {
        self.links.retain(&members.workers);
        let sites = Sites::of(cluster, named, &members, plan.repeats)?;
        let mut carrying = self.links.carrying(&sites);
        let network = &sites.network;
        if plan.is_fixed() {
            carrying.forget_rates(network);
        }
        let graph = network.graph.with_rates(carrying.rates.clone());
        let graph = graph.map_err(|wrong| network.explain(&wrong))?;
        let shares = sites.shares(cluster, plan.repeats);
        let scheme = self.planted.as_ref().and_then(|planted| planted.scheme.clone());
        let topology = plan.topology;
        Ok(TreeJob { members, sites, carrying, graph, shares, bytes, topology, scheme })
    }

    /// True if what is to be planned for differs from what was planned for last.
    fn is_news(&mut self, job: &TreeJob) -> bool {
        let Some(planted) = &self.planted else { return true };
        let is_used = planted.scheme.is_some() || job.carrying.cut != planted.cut;
        !planted.is_for(&job.shares) || (is_used && self.news.is_news(&job.carrying))
    }

    /// The trees of an answer are to be in force.
    fn plant(
        &mut self,
        cluster: &Cluster,
        answer: TreeAnswer,
        lossy: bool,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        let TreeAnswer { job, proposal, bound, .. } = answer;
        let proposal = match proposal {
            Ok(proposal) => proposal,
            Err(wrong) => {
                self.news.set_cut(&job.carrying.cut);
                let TreeJob { members, bytes, sites, .. } = job;
                let none = Planted { members, bytes, star: self.is_star(), ..Planted::default() };
                let planned = self.without(cluster, none, &sites.network.explain(&wrong), lines);
                return planned.map(|planned| Planned { lossy, ..planned });
            }
        };
        if job.bytes > 0.0 {
            let event = NewEvent::info(JobEventKind::Tree, shown::proposal(&proposal));
            let event = event.with("after", proposal.seconds);
            lines.say(bound.into_iter().fold(event, |event, bound| event.with("bound", bound)));
        }
        let is_same = |planted: &Planted| planted.members == job.members;
        if !job.sites.left_out.is_empty() && !self.planted.as_ref().is_some_and(is_same) {
            let text = shown::left_out(&job.sites.left_out);
            lines.say(NewEvent::warning(JobEventKind::Tree, text));
        }
        self.expected = Expected { seconds: Some(proposal.seconds), bound };
        let is_star = proposal.topology == Topology::Star;
        let trees = if is_star { Vec::new() } else { job.tables(&proposal.scheme) };
        let TreeJob { members, bytes, carrying, shares, .. } = job;
        let scheme = (!is_star).then_some(proposal.scheme);
        let cut = carrying.cut;
        let star = is_star && bytes > 0.0;
        let shares = if star && !is_emptied(cluster) { Vec::new() } else { shares };
        let former = self.planted.take().filter(|former| former.members.workers == members.workers);
        match former.and_then(|former| former.scheme) {
            _ if lossy => self.past.clear(),
            Some(scheme) => self.past.add(scheme),
            None => {}
        }
        let (before, blocked) = Default::default();
        let why = if is_star { shown::star(proposal.seconds) } else { String::new() };
        self.planted =
            Some(Planted { members, bytes, shares, before, scheme, cut, blocked, star, why });
        self.give_out(cluster, Planned { trees, lossy })
    }

    /// What is to be given out, unless nothing is where nothing was.
    fn give_out(&mut self, cluster: &Cluster, planned: Planned) -> Option<Planned> {
        let overlay = cluster.overlay();
        if let Some(planted) = &mut self.planted {
            // To take trees away needs an overlay, too.
            let gone = planned.trees.is_empty() && !overlay.trees.is_empty();
            planted.before = overlay.number + u64::from(gone);
        }
        self.news.forget_better();
        let nothing_new = planned.trees.is_empty() && overlay.trees.is_empty();
        (!nothing_new).then_some(planned)
    }

    /// Other trees, if they have been better over what the links carry for a while, or if nothing
    /// gets through a link that is used.
    fn follow(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        fixed: bool,
        answer: TreeAnswer,
        lines: &mut LogLines,
    ) -> Option<Planned> {
        let named = answer.job.sites.network.clone();
        let cut = &answer.job.carrying.cut;
        let planted = self.planted.as_mut()?;
        let lossy = planted.scheme.as_ref().is_some_and(|scheme| uses(scheme, cut))
            || self.past.use_any(cut);
        if lossy && answer.proposal.is_err() {
            // No other link leads there. A process that is stopped looks the same.
            if *cut != planted.cut {
                let text = "; what is left does not join all sites, so rounds wait";
                let text = shown::cut(&named, cut) + text;
                lines.say(NewEvent::warning(JobEventKind::Link, text));
                planted.cut.clone_from(cut);
            }
            return None;
        }
        if lossy || (planted.scheme.is_none() && *cut != planted.cut) {
            lines.say(NewEvent::warning(JobEventKind::Link, shown::cut(&named, cut)));
            self.links.changed(now);
            self.under_way.begins_again(self.links.worked(now));
            return self.plant(cluster, answer, lossy, lines);
        }
        if lines.is_verbose() {
            lines.step(shown::rates(&named, &answer.job.carrying));
        }
        let promised = answer.proposal.as_ref().ok().map(|proposal| proposal.seconds);
        let Some((seconds, promised)) = answer.seconds.zip(promised) else {
            self.news.forget_better();
            return None;
        };
        self.expected = Expected { seconds: Some(seconds), bound: answer.bound };
        if fixed {
            return None;
        }
        match self.news.compare(now, seconds, promised) {
            Better::Settled => {}
            Better::Begins => {
                self.links.changed(now);
                return None;
            }
            Better::Waits | Better::No => return None,
        }
        let text = format!("the links have changed: a round takes {seconds:.2} s");
        let event = NewEvent::info(JobEventKind::Link, text);
        lines.say(event.with("before", seconds).with("after", promised));
        let star = answer.star.unwrap_or(f64::INFINITY);
        let round = RoundSeconds { in_force: seconds, promised, star };
        let again = self.under_way.starts_again(self.links.worked(now), round);
        if !again {
            self.under_way.other_trees(seconds);
        }
        self.plant(cluster, answer, again, lines)
    }

    /// Trees that are to be worked out now, if some are.
    pub(in crate::scheduler) const fn take_job(&mut self) -> Option<TreeJob> {
        self.jobs.take()
    }

    /// What came of the job that was taken last.
    pub(in crate::scheduler) fn answered(&mut self, answer: TreeAnswer) {
        self.jobs.answered(answer);
    }

    /// Nothing will come of it.
    pub(in crate::scheduler) fn job_lost(&mut self) {
        self.jobs.lost();
    }

    /// The links that are to be probed now.
    pub(in crate::scheduler) fn probes(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
    ) -> Vec<ProbePair> {
        let planted = self.planted.as_ref().filter(|planted| planted.scheme.is_some());
        let links = plan.links.filter(|_| !plan.is_fixed());
        let Some((named, planted)) = links.zip(planted) else { return Vec::new() };
        let sites = Sites::of(cluster, named, &planted.members, plan.repeats);
        sites.map_or_else(|_| Vec::new(), |sites| self.links.probes(now, &sites))
    }

    /// True if the star was found to be best, or there can be no trees. So none count on keys to
    /// stay where they are.
    pub(in crate::scheduler) fn is_star(&self) -> bool {
        self.planted.as_ref().is_some_and(|planted| planted.star)
    }

    /// True while it is being planned whether trees are better than the star, for where keys are.
    pub(in crate::scheduler) fn weighs_star(&self) -> bool {
        self.is_star() && self.jobs.is_open()
    }

    /// What is expected of rounds along the trees in force. None: rounds go straight.
    pub(in crate::scheduler) fn expected(&self) -> Option<Expected> {
        let planted = self.planted.as_ref().filter(|planted| planted.scheme.is_some());
        planted.map(|_| self.expected)
    }

    /// For people: the trees of sites, and what links carry. None: there are none.
    pub(in crate::scheduler) fn status(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        plan: PlannerSettings<'_>,
    ) -> Option<Arc<TreesStatus>> {
        if self.shown.as_ref().is_none_or(|(at, _)| now.saturating_sub(*at) >= SHOW_EVERY) {
            let status = self.status_now(cluster, plan);
            self.shown = status.map(|status| (now, Arc::new(status)));
        }
        self.shown.as_ref().map(|(_, status)| Arc::clone(status))
    }

    fn status_now(&self, cluster: &Cluster, plan: PlannerSettings<'_>) -> Option<TreesStatus> {
        let planted = self.planted.as_ref()?;
        let (topology, overlay) = (plan.topology.to_string(), cluster.overlay().number);
        let (mut trees, mut links, why) = (Vec::new(), Vec::new(), planted.why.clone());
        if let Some((named, scheme)) = plan.links.zip(planted.scheme.as_ref()) {
            let sites = Sites::of(cluster, named, &planted.members, plan.repeats).ok()?;
            links = shown::links(&sites.network, &self.links.carrying(&sites));
            trees = shown::trees(&sites.network, scheme);
        } else if why.is_empty() {
            trees = shown::tables(cluster);
        }
        Some(TreesStatus { topology, overlay, trees, links, why })
    }
}

/// True while keys must leave a server. Otherwise the placement decides where keys are while the
/// star is best, and keys that move are no reason for trees.
fn is_emptied(cluster: &Cluster) -> bool {
    cluster.able_servers().len() < cluster.policy().servers.len()
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
