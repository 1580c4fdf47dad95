//! Who is at each site of a graph of links, and the trees of sites as trees of nodes. Pure.
//!
//! The first worker of a site, its *head*, sums what comes there, and all that goes from one site
//! to another goes from head to head. So one connection carries it, in the order of the round, and
//! shows what the link carries.

use pslite_core::cluster::Cluster;
use pslite_core::placement::graph::{NamedGraph, Tree};
use pslite_core::wire::NodeId;
use pslite_core::wire::trees::{TreeNode, TreeTable};

use super::planted::Members;

/// The share of a tree that weighs one.
const WEIGHTS: f64 = 1e6;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sites {
    workers: Vec<Vec<NodeId>>,
    servers: Vec<Vec<NodeId>>,
}

impl Sites {
    /// # Errors
    /// A host has no site, or a site no worker, which is to sum there.
    pub(super) fn of(
        cluster: &Cluster,
        named: &NamedGraph,
        members: &Members,
    ) -> Result<Self, String> {
        let at = |id: &NodeId| -> Result<usize, String> {
            let host = cluster.node(*id).map_or("", |node| &node.hostname);
            let site = named.names.iter().position(|name| name == host);
            site.ok_or_else(|| format!("PSLITE_LINKS names no host {host} (DMLC_NODE_HOST)"))
        };
        let none = vec![Vec::new(); named.names.len()];
        let mut sites = Self { workers: none.clone(), servers: none };
        for (ids, into) in
            [(&members.workers, &mut sites.workers), (&members.servers, &mut sites.servers)]
        {
            for id in ids {
                into.get_mut(at(id)?).into_iter().for_each(|there| there.push(*id));
            }
        }
        let mut all = named.names.iter().zip(&sites.workers);
        match all.find(|(_, workers)| workers.is_empty()) {
            Some((name, _)) => Err(format!("no worker of this job is at {name} of PSLITE_LINKS")),
            None => Ok(sites),
        }
    }

    #[cfg(test)]
    pub(super) const fn with(workers: Vec<Vec<NodeId>>, servers: Vec<Vec<NodeId>>) -> Self {
        Self { workers, servers }
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
    use pslite_core::trees::Table;
    use pslite_core::wire::{server_id, worker_id};

    /// Three sites in a row, the second of which owns all, with two workers and two servers; the
    /// third site gets its values by the first one.
    #[test]
    fn the_first_worker_of_a_site_sums_for_it() {
        let [a, b, c, d] = [0, 1, 2, 3].map(worker_id);
        let servers = vec![vec![], vec![server_id(0), server_id(1)], vec![]];
        let sites = Sites { workers: vec![vec![a], vec![b, c], vec![d]], servers };
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
