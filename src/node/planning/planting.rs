//! Which trees a scheduler gives out, as `PSLITE_TOPOLOGY` says, anew for every change of who is in
//! the job. Balanced trees need no rates; for others `PSLITE_LINKS` says which hosts have links, and
//! how fast those are until it is measured (`site_links`). When other trees promise shorter rounds
//! over what the links carry now, and when nothing gets through a link, they are planned anew.
//! Called under the van's lock; sends nothing itself.

use std::collections::BTreeSet;
use std::time::Duration;

use super::probes::Probe;
use super::site_links::{Carrying, SiteLinks};
use super::sites::Sites;
use pslite_core::cluster::Cluster;
use pslite_core::placement::graph::{
    Graph, GraphError, NamedGraph, Proposal, Scheme, ServingOrder, Topology, Transfer, blind,
    predict, propose,
};
use pslite_core::placement::measured::Measured;
use pslite_core::trees::{PARTS, SHORTEST_PART};
use pslite_core::wire::trees::{TreeNode, TreeTable};
use pslite_core::wire::{NodeId, WORKER_GROUP};
use pslite_observe::log::{self, Level};

/// Trees are planned anew when the model is longer by that.
const LONGER: f64 = 1.2;
/// Factor. And when a round along those of now takes that many times as long as along others ...
const BETTER: f64 = 1.07;
/// ... for so long: a change of the network is not seen on all links at once.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two looks at what links carry.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Fraction. Rates that differ by less are the same.
const SAME_RATE: f64 = 0.03;

/// Whom trees are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// Servers that serve and are not being emptied.
    pub(super) servers: Vec<NodeId>,
    /// Workers that rounds wait for.
    pub(super) workers: Vec<NodeId>,
}

/// What the last trees were planned for.
#[derive(Clone, Debug)]
struct Planted {
    members: Members,
    /// Bytes of the model.
    bytes: f64,
    /// The overlay before them.
    before: u64,
    /// The trees of sites, if they were planned by rates.
    scheme: Option<Scheme>,
    /// Links, from site to site, over which nothing got through.
    cut: BTreeSet<(usize, usize)>,
}

/// Trees that are to be in force now; none: rounds go straight to the servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Planned {
    pub(super) trees: Vec<TreeTable>,
    /// What went along the former ones may be lost.
    pub(super) lossy: bool,
}

/// What trees are planned by.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) topology: Topology,
    pub(super) links: Option<&'a NamedGraph>,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct Seen {
    at: Duration,
    rates: Vec<f64>,
    /// Since when other trees would be better.
    better: Option<Duration>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Planting {
    planted: Option<Planted>,
    links: SiteLinks,
    seen: Seen,
}

/// The network and the job at one moment.
struct Moment {
    sites: Sites,
    carrying: Carrying,
    graph: Graph,
    shares: Vec<f64>,
    bytes: f64,
}

impl Planting {
    /// A node told what it measured.
    pub(super) fn report(&mut self, now: Duration, from: NodeId, measured: &Measured) {
        self.links.report(now, from, measured);
    }

    /// The trees that are to be in force now, if they are not yet.
    pub(super) fn look(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        plan: Plan<'_>,
    ) -> Option<Planned> {
        if plan.topology == Topology::Star || !cluster.may_order() {
            return None;
        }
        let (members, bytes, overlay) = (members(cluster), bytes(cluster), cluster.overlay());
        // A death takes the trees away. If a node does not know trees they were never in force.
        let stand = self.planted.as_ref().is_some_and(|planted| {
            let longer = plan.links.is_some() && bytes > LONGER * planted.bytes;
            let lost = overlay.trees.is_empty() && overlay.number != planted.before;
            planted.members == members && !longer && !lost
        });
        if stand {
            return plan.links.and_then(|named| self.follow(now, cluster, (plan.topology, named)));
        }
        if members.workers.is_empty() {
            return None;
        }
        self.links.retain(&members.workers);
        let planted = Planted { members, bytes, before: 0, scheme: None, cut: BTreeSet::new() };
        let trees = match (plan.topology, plan.links) {
            (Topology::Balanced(_), _) | (_, None) => {
                let roots = planted.members.servers.iter();
                let tree = |root: &NodeId| balanced(plan.topology, *root, &planted.members);
                let trees = roots.filter_map(tree).collect();
                self.planted = Some(planted);
                trees
            }
            (topology, Some(named)) => self.plant(cluster, (topology, named), planted),
        };
        self.give_out(cluster, Planned { trees, lossy: false })
    }

    /// Trees by what the links carry now, or none, for the reason that is logged.
    fn plant(
        &mut self,
        cluster: &Cluster,
        (topology, named): (Topology, &NamedGraph),
        planted: Planted,
    ) -> Vec<TreeTable> {
        let found = self.moment(cluster, named, &planted).and_then(|moment| {
            let proposal = moment.propose(topology).map_err(|wrong| named.explain(&wrong))?;
            Ok((moment, proposal))
        });
        match found {
            Ok((moment, proposal)) => self.take(&moment, proposal, planted),
            Err(why) => {
                log::write(Level::Warning, &format!("no trees: {why}"));
                let cut = self.cut(cluster, named, &planted.members);
                self.planted = Some(Planted { scheme: None, cut, ..planted });
                Vec::new()
            }
        }
    }

    /// These trees are to be in force.
    fn take(&mut self, moment: &Moment, proposal: Proposal, planted: Planted) -> Vec<TreeTable> {
        if moment.bytes > 0.0 {
            log::write(Level::Info, &told(&proposal));
        }
        let is_star = proposal.topology == Topology::Star;
        let trees = if is_star { Vec::new() } else { moment.tables(&proposal.scheme) };
        let (scheme, cut) = (Some(proposal.scheme), moment.carrying.cut.clone());
        let scheme = scheme.filter(|_| !is_star);
        self.planted = Some(Planted { scheme, cut, bytes: moment.bytes, ..planted });
        trees
    }

    /// What is to be given out, unless nothing is where nothing was.
    fn give_out(&mut self, cluster: &Cluster, planned: Planned) -> Option<Planned> {
        let overlay = cluster.overlay();
        if let Some(planted) = &mut self.planted {
            planted.before = overlay.number;
        }
        self.seen.better = None;
        let nothing_new = planned.trees.is_empty() && overlay.trees.is_empty();
        (!nothing_new).then_some(planned)
    }

    /// Other trees, if they are better over what the links carry now, or if nothing gets through
    /// one of those that are used.
    fn follow(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        (topology, named): (Topology, &NamedGraph),
    ) -> Option<Planned> {
        if matches!(topology, Topology::Balanced(_))
            || now.saturating_sub(self.seen.at) < LOOK_EVERY
        {
            return None;
        }
        self.seen.at = now;
        let planted = self.planted.clone()?;
        let cut = self.cut(cluster, named, &planted.members);
        let lossy = planted.scheme.as_ref().is_some_and(|scheme| uses(scheme, &cut));
        if lossy || (planted.scheme.is_none() && cut != planted.cut) {
            log::write(Level::Warning, &told_cut(named, &cut));
            let trees = self.plant(cluster, (topology, named), planted);
            return self.give_out(cluster, Planned { trees, lossy });
        }
        let trees = self.better(now, cluster, (topology, named), planted)?;
        self.give_out(cluster, Planned { trees, lossy: false })
    }

    /// Other trees that have been better for a while.
    fn better(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        (topology, named): (Topology, &NamedGraph),
        planted: Planted,
    ) -> Option<Vec<TreeTable>> {
        let scheme = planted.scheme.as_ref()?;
        let moment = self.moment(cluster, named, &planted).ok()?;
        let rates = &moment.carrying.rates;
        let same = |(one, other): (&f64, &f64)| (one - other).abs() <= SAME_RATE * other;
        if self.seen.better.is_none()
            && self.seen.rates.len() == rates.len()
            && self.seen.rates.iter().zip(rates).all(same)
        {
            return None;
        }
        self.seen.rates.clone_from(rates);
        if log::enabled(Level::Verbose) {
            log::write(Level::Verbose, &told_rates(named, rates));
        }
        let seconds = predict(&moment.graph, scheme, moment.bytes, moment.transfer()).ok()?;
        let proposal = moment.propose(topology).ok()?;
        if proposal.seconds * BETTER >= seconds {
            self.seen.better = None;
            return None;
        }
        self.links.changed();
        let since = *self.seen.better.get_or_insert(now);
        if now.saturating_sub(since) < SETTLE {
            return None;
        }
        log::write(Level::Info, &format!("the links have changed: a round takes {seconds:.2} s"));
        Some(self.take(&moment, proposal, planted))
    }

    /// The links that are to be probed now.
    pub(super) fn probes(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        links: Option<&NamedGraph>,
    ) -> Vec<Probe> {
        let Some(planted) = self.planted.as_ref().filter(|planted| planted.scheme.is_some()) else {
            return Vec::new();
        };
        let sites = links.map(|named| (named, Sites::of(cluster, named, &planted.members)));
        match sites {
            Some((named, Ok(sites))) => self.links.probes(now, named, &sites),
            _ => Vec::new(),
        }
    }

    fn cut(
        &self,
        cluster: &Cluster,
        named: &NamedGraph,
        members: &Members,
    ) -> BTreeSet<(usize, usize)> {
        let sites = Sites::of(cluster, named, members);
        sites.map(|sites| self.links.carrying(named, &sites).cut).unwrap_or_default()
    }

    /// # Errors
    /// Not all hosts are at a site, or not all sites have a worker.
    fn moment(
        &self,
        cluster: &Cluster,
        named: &NamedGraph,
        planted: &Planted,
    ) -> Result<Moment, String> {
        let sites = Sites::of(cluster, named, &planted.members)?;
        let carrying = self.links.carrying(named, &sites);
        let graph = named.graph.with_rates(carrying.rates.clone());
        let graph = graph.map_err(|wrong| named.explain(&wrong))?;
        let bytes = bytes(cluster);
        let shares = sites.shares(cluster, bytes);
        Ok(Moment { sites, carrying, graph, shares, bytes: bytes.max(planted.bytes) })
    }
}

impl Moment {
    /// The model, or something as small as can be sent while there is none.
    fn model(&self) -> f64 {
        self.bytes.max(SHORTEST_PART as f64)
    }

    fn transfer(&self) -> Transfer {
        let part = (self.bytes / PARTS as f64).max(SHORTEST_PART as f64);
        Transfer { part, order: ServingOrder::Round }
    }

    fn propose(&self, topology: Topology) -> Result<Proposal, GraphError> {
        propose(&self.graph, topology, &self.shares, self.model(), self.transfer())
    }

    /// The trees of sites as trees of nodes.
    fn tables(&self, scheme: &Scheme) -> Vec<TreeTable> {
        let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
        let tables: Option<Vec<Vec<TreeTable>>> =
            used.map(|tree| self.sites.tables(tree)).collect();
        tables.unwrap_or_default().into_iter().flatten().collect()
    }
}

/// True if sums or values of trees go over one of those links.
fn uses(scheme: &Scheme, cut: &BTreeSet<(usize, usize)>) -> bool {
    let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
    used.flat_map(|tree| {
        let up = tree.up.iter().enumerate().filter_map(|(site, to)| Some((site, (*to)?)));
        let down = tree.down.iter().enumerate().filter_map(|(site, from)| Some(((*from)?, site)));
        up.chain(down).collect::<Vec<_>>()
    })
    .any(|link| cut.contains(&link))
}

fn told(Proposal { topology, scheme, seconds }: &Proposal) -> String {
    format!(
        "trees by the links: {topology}, {} of them, {seconds:.2} s a round",
        scheme.trees.len()
    )
}

fn told_rates(named: &NamedGraph, rates: &[f64]) -> String {
    let name = |site: usize| named.names.get(site).map_or("?", String::as_str);
    let links = named.graph.own_resources().filter_map(|(from, to, resource)| {
        let mbit = rates.get(resource)? / 125_000.0;
        Some(format!("{} to {} {mbit:.1}", name(from), name(to)))
    });
    format!("links (Mbit/s): {}", links.collect::<Vec<_>>().join(", "))
}

fn told_cut(named: &NamedGraph, cut: &BTreeSet<(usize, usize)>) -> String {
    let name = |site: &usize| named.names.get(*site).map_or("?", String::as_str);
    let links = cut.iter().map(|(from, to)| format!("{} to {}", name(from), name(to)));
    let links = pslite_core::text::few(links);
    match cut.is_empty() {
        true => "all links carry something again".to_owned(),
        false => format!("nothing gets through these links: {links}"),
    }
}

fn members(cluster: &Cluster) -> Members {
    let live = &cluster.policy().live;
    let workers = if live.is_empty() {
        cluster.ids_of(WORKER_GROUP).unwrap_or_default()
    } else {
        live.iter().filter(|worker| worker.since == 0).map(|worker| worker.node).collect()
    };
    Members { servers: cluster.able_servers(), workers }
}

/// Bytes of the model, as far as servers have said.
fn bytes(cluster: &Cluster) -> f64 {
    let pieces = cluster.pieces().values().flat_map(|key| &key.pieces);
    pieces.map(|piece| piece.bytes as f64).sum()
}

/// The tree of a server that needs no rates. Each node is a site of its own, and the server comes
/// first.
fn balanced(topology: Topology, root: NodeId, members: &Members) -> Option<TreeTable> {
    let sites: Vec<NodeId> = std::iter::once(root).chain(members.workers.iter().copied()).collect();
    let mut shares = vec![0.0; sites.len()];
    *shares.first_mut()? = 1.0;
    let Scheme { trees } = blind(topology, &shares)?;
    let tree = trees.first()?;
    let at = |parents: &[Option<usize>], site: usize| {
        let parent = parents.get(site).copied().flatten()?;
        sites.get(parent).copied()
    };
    let node = |site: usize| {
        let (node, up, down) = (*sites.get(site)?, at(&tree.up, site)?, at(&tree.down, site)?);
        Some(TreeNode { node, up, down })
    };
    let nodes = (1..sites.len()).map(node).collect::<Option<Vec<TreeNode>>>()?;
    Some(TreeTable { root, nodes, weight: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::trees::Table;
    use pslite_core::wire::{server_id, worker_id};

    #[test]
    fn balanced_trees_follow_the_ranks() {
        let servers = vec![server_id(0), server_id(1)];
        let members = Members { servers, workers: (0..7).map(worker_id).collect() };
        let tree = balanced(Topology::Balanced(2), server_id(1), &members).unwrap();
        let table = Table::read(&tree).unwrap();
        assert_eq!((table.root(), table.members().len()), (server_id(1), 7));
        assert_eq!(table.children(server_id(1)), [worker_id(0), worker_id(1)]);
        assert_eq!(table.children(worker_id(0)), [worker_id(2), worker_id(3)]);
        assert_eq!([0, 1, 6].map(|rank| table.through(worker_id(rank))), [4, 3, 1]);
    }
}
