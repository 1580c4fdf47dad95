//! Trees and links as people see them: in `pslite status`, and in the scheduler's log. Pure.

use std::collections::BTreeSet;

use super::site_links::Carrying;
use pslite_core::cluster::{LinkStatus, TreeStatus};
use pslite_core::placement::graph::text::MBIT;
use pslite_core::placement::graph::{NamedGraph, Proposal, Scheme, drawing};
use pslite_core::text::few;

/// The trees that rounds take.
pub(super) fn trees(named: &NamedGraph, scheme: &Scheme) -> Vec<TreeStatus> {
    let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
    let drawn = |root: usize, parents: &[Option<usize>]| drawing(&named.names, root, parents);
    used.map(|tree| TreeStatus {
        share: tree.share,
        root: named.name(tree.root).to_owned(),
        up: drawn(tree.root, &tree.up),
        down: drawn(tree.root, &tree.down),
    })
    .collect()
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
