//! Trees and links as people see them: in `pslite status`, and in the scheduler's log. Pure.

use std::collections::BTreeSet;

use super::site_links::Carrying;
use crate::cluster::Cluster;
use crate::placement::graph::text::MBIT;
use crate::placement::graph::{NamedGraph, Proposal, Scheme, Tree, drawing};
use crate::scheduler::status::{LinkStatus, TreeStatus};
use crate::text::few;
use crate::wire::trees::{TreeNode, TreeTable};
use crate::wire::{NodeId, id_to_rank};

/// Nodes of a tree of nodes that is drawn.
const DRAWN_MAX: usize = 64;

/// The trees that rounds take, the largest share first. Equal ones are one.
pub(super) fn trees(named: &NamedGraph, scheme: &Scheme) -> Vec<TreeStatus> {
    let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
    let drawn = |root: usize, parents: &[Option<usize>]| drawing(&named.names, root, parents);
    let mut all: Vec<TreeStatus> = Vec::new();
    for Tree { root, up, down, share } in used {
        let (up, down) = (drawn(*root, up), drawn(*root, down));
        match all.iter_mut().find(|tree| (&tree.up, &tree.down) == (&up, &down)) {
            Some(same) => same.share += share,
            None => {
                let root = named.name(*root).to_owned();
                all.push(TreeStatus { share: *share, root, up, down });
            }
        }
    }
    all.sort_by(|one, other| other.share.total_cmp(&one.share));
    all
}

/// The trees of nodes that are in force. Of a large job none is drawn: it would be one long line.
pub(super) fn tables(cluster: &Cluster) -> Vec<TreeStatus> {
    let tables = &cluster.overlay().trees;
    let drawn = tables.iter().filter(|table| table.nodes.len() <= DRAWN_MAX);
    drawn.map(|table| drawn_table(cluster, table, tables.len())).collect()
}

fn drawn_table(cluster: &Cluster, table: &TreeTable, trees: usize) -> TreeStatus {
    let ids: Vec<NodeId> =
        std::iter::once(table.root).chain(table.nodes.iter().map(|node| node.node)).collect();
    let name = |id: &NodeId| match cluster.node(*id) {
        Some(node) => format!("{}{}", node.role.name(), id_to_rank(*id)),
        None => id.to_string(),
    };
    let names: Vec<String> = ids.iter().map(name).collect();
    let parents = |to: fn(&TreeNode) -> NodeId| -> Vec<Option<usize>> {
        let place = |node: &TreeNode| ids.iter().position(|id| *id == to(node));
        std::iter::once(None).chain(table.nodes.iter().map(place)).collect()
    };
    TreeStatus {
        share: 1.0 / trees as f64,
        root: names.first().cloned().unwrap_or_default(),
        up: drawing(&names, 0, &parents(|node| node.up)),
        down: drawing(&names, 0, &parents(|node| node.down)),
    }
}

/// Which hosts are in no tree.
pub(super) fn left_out(hosts: &[String]) -> String {
    format!(
        "no worker of this job is at these hosts of PSLITE_LINKS: {}",
        few(hosts.iter().cloned())
    )
}

/// Why rounds go straight though there could be trees.
pub(super) fn star(seconds: f64) -> String {
    format!("no trees promise a round that is 15 % shorter than the {seconds:.2} s without")
}

/// The links, each direction by itself.
pub(super) fn links(named: &NamedGraph, carrying: &Carrying) -> Vec<LinkStatus> {
    let links = named.graph.own_resources().map(|(from, to, resource)| LinkStatus {
        from: named.name(from).to_owned(),
        to: named.name(to).to_owned(),
        mbit: carrying.rates.get(resource).map_or(0.0, |rate| rate / MBIT),
        measured: carrying.measured.contains(&(from, to)),
    });
    links.collect()
}

/// What each link carries, in one line.
pub(super) fn rates(named: &NamedGraph, carrying: &Carrying) -> String {
    let links = links(named, carrying).into_iter();
    let told = links.map(|LinkStatus { from, to, mbit, .. }| format!("{from} to {to} {mbit:.1}"));
    format!("links (Mbit/s): {}", told.collect::<Vec<_>>().join(", "))
}

/// Which links carry nothing.
pub(super) fn cut(named: &NamedGraph, cut: &BTreeSet<(usize, usize)>) -> String {
    if cut.is_empty() {
        return "all links carry something again".to_owned();
    }
    let links = cut.iter().map(|(from, to)| {
        let (from, to) = (named.name(*from), named.name(*to));
        format!("{from} to {to}")
    });
    format!("nothing gets through these links: {}", few(links))
}

/// What a plan promises.
pub(super) fn proposal(Proposal { topology, scheme, seconds }: &Proposal) -> String {
    let count = scheme.trees.len();
    format!("trees by the links: {topology}, {count} of them, {seconds:.2} s a round")
}
