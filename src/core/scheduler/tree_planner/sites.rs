//! Who is at each site of a graph of links, and the trees of sites as trees of nodes. Pure.
//!
//! The first worker of a site, its *head*, sums what comes there, and all that goes from one site
//! to another goes from head to head. So one connection carries it, in the order of the round, and
//! shows what the link carries.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::placement::graph::{NamedGraph, Tree};
use crate::wire::NodeId;
use crate::wire::trees::{TreeNode, TreeTable};

use super::planted::TreeMembers;

/// The share of a tree that weighs one.
const WEIGHTS: f64 = 1e6;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sites {
    /// The sites that have a worker, which is to sum there, and the links between them.
    pub(super) network: NamedGraph,
    workers: Vec<Vec<NodeId>>,
    servers: Vec<Vec<NodeId>>,
    /// Hosts of the file that have no worker.
    pub(super) left_out: Vec<String>,
}

impl Sites {
    /// Those of a job. A server that has no place is left out while it owns nothing and others do,
    /// unless `every` server counts: then it does not matter when keys are made.
    ///
    /// # Errors
    /// The host of a node has no site, or that of a server no worker.
    pub(super) fn of(
        cluster: &Cluster,
        named: &NamedGraph,
        members: &TreeMembers,
        every: bool,
    ) -> Result<Self, String> {
        let host = |id: &NodeId| cluster.node(*id).map_or("", |node| &node.hostname);
        let at = |id: &NodeId| named.names.iter().position(|name| name == host(id));
        let unknown =
            |id: &NodeId| format!("PSLITE_LINKS names no host {} (DMLC_NODE_HOST)", host(id));
        let mut workers = vec![Vec::new(); named.names.len()];
        for id in &members.workers {
            let site = at(id).ok_or_else(|| unknown(id))?;
            workers.get_mut(site).into_iter().for_each(|there| there.push(*id));
        }
        let has_worker =
            |site: usize| workers.get(site).is_some_and(|there: &Vec<NodeId>| !there.is_empty());
        let mut servers = vec![Vec::new(); named.names.len()];
        let owners: BTreeSet<NodeId> = cluster
            .pieces()
            .values()
            .flat_map(|key| &key.pieces)
            .map(|piece| piece.owner)
            .collect();
        // Before there are keys all may get some; so may all if the only owners are emptied.
        let all = every || !members.servers.iter().any(|server| owners.contains(server));
        let has_place = |id: &NodeId| at(id).is_some_and(has_worker);
        for id in members.servers.iter().filter(|id| all || owners.contains(id) || has_place(id)) {
            let site = at(id).ok_or_else(|| unknown(id))?;
            if !has_worker(site) {
                let name = named.name(site);
                return Err(format!("a server is at {name} of PSLITE_LINKS, and no worker"));
            }
            servers.get_mut(site).into_iter().for_each(|there| there.push(*id));
        }
        let network = named.among(has_worker).map_err(|wrong| named.explain(&wrong))?;
        let left_out = (0..named.names.len()).filter(|site| !has_worker(*site));
        let left_out = left_out.map(|site| named.name(site).to_owned()).collect();
        let here = |all: Vec<Vec<NodeId>>| -> Vec<Vec<NodeId>> {
            let sites = all.into_iter().enumerate().filter(|(site, _)| has_worker(*site));
            sites.map(|(_, there)| there).collect()
        };
        let servers = here(servers);
        Ok(Self { network, servers, workers: here(workers.clone()), left_out })
    }

    #[cfg(test)]
    pub(super) const fn with(
        network: NamedGraph,
        workers: Vec<Vec<NodeId>>,
        servers: Vec<Vec<NodeId>>,
    ) -> Self {
        Self { network, workers, servers, left_out: Vec::new() }
    }

    /// Which fraction of the model each site owns, of what these servers have: a server that is
    /// being emptied has pieces, too. Equal parts for the servers while they have none, and if
    /// `equal`.
    pub(super) fn shares(&self, cluster: &Cluster, equal: bool) -> Vec<f64> {
        let pieces = || cluster.pieces().values().flat_map(|key| &key.pieces);
        let owned = |at: &Vec<NodeId>| -> f64 {
            let own = pieces().filter(|piece| at.contains(&piece.owner));
            own.map(|piece| piece.bytes as f64).sum()
        };
        let owned: Vec<f64> = self.servers.iter().map(owned).collect();
        let all: f64 = owned.iter().sum();
        if !equal && all > 0.0 {
            return owned.iter().map(|bytes| bytes / all).collect();
        }
        let servers: usize = self.servers.iter().map(Vec::len).sum();
        self.servers.iter().map(|at| at.len() as f64 / servers.max(1) as f64).collect()
    }

    /// The head of a site.
    pub(super) fn head(&self, site: usize) -> Option<NodeId> {
        self.workers.get(site)?.first().copied()
    }

    /// A tree of sites as a table for each server at its root.
    pub(super) fn tables(&self, tree: &Tree) -> Option<Vec<TreeTable>> {
        let table = |root: &NodeId| {
            let next = |parents: &[Option<usize>], site: usize| match parents.get(site)? {
                Some(parent) => self.head(*parent),
                None => Some(*root),
            };
            let mut nodes = Vec::new();
            for (site, workers) in self.workers.iter().enumerate() {
                let (up, down) = (next(&tree.up, site)?, next(&tree.down, site)?);
                let first = self.head(site)?;
                nodes.extend(workers.iter().map(|node| match *node == first {
                    true => TreeNode { node: *node, up, down },
                    false => TreeNode { node: *node, up: first, down: first },
                }));
            }
            let weight = (tree.share * WEIGHTS).max(1.0) as u32;
            Some(TreeTable { root: *root, nodes, weight })
        };
        self.servers.get(tree.root)?.iter().map(table).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::graph::text::parse;
    use crate::trees::Table;
    use crate::wire::{server_id, worker_id};

    /// Three sites in a row, the second of which owns all, with two workers and two servers; the
    /// third site gets its values by the first one.
    #[test]
    fn the_first_worker_of_a_site_sums_for_it() {
        let [a, b, c, d] = [0, 1, 2, 3].map(worker_id);
        let servers = vec![vec![], vec![server_id(0), server_id(1)], vec![]];
        let row = parse("link a b\nlink b c").unwrap();
        let sites = Sites::with(row, vec![vec![a], vec![b, c], vec![d]], servers);
        let (up, down) = (vec![Some(1), None, Some(1)], vec![Some(1), None, Some(0)]);
        let tables = sites.tables(&Tree { root: 1, up, down, share: 0.25 }).unwrap();
        assert_eq!(tables.iter().map(|table| table.root).collect::<Vec<_>>(), [8, 10]);
        for table in tables {
            let (root, weight) = (table.root, table.weight);
            let table = Table::read(&table).unwrap();
            assert_eq!((table.parent(a), table.parent(d), weight), (Some(b), Some(b), 250_000));
            assert_eq!((table.parent(b), table.parent(c)), (Some(root), Some(b)));
            assert_eq!((table.children(root), table.children(a)), (&[b][..], &[d][..]));
            assert_eq!(table.children(b), &[a, c][..]);
        }
    }
}
