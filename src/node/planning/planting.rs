//! Which trees a scheduler gives out, as `PSLITE_TOPOLOGY` says, anew for every change of who is in
//! the job. Balanced trees need no rates; for others `PSLITE_LINKS` says which hosts have links,
//! and how fast those are. Called under the van's lock; sends nothing itself.

use pslite_core::cluster::Cluster;
use pslite_core::placement::graph::{
    NamedGraph, Scheme, ServingOrder, Topology, Transfer, Tree, blind, propose,
};
use pslite_core::trees::{PARTS, SHORTEST_PART};
use pslite_core::wire::trees::{TreeNode, TreeTable};
use pslite_core::wire::{NodeId, WORKER_GROUP};
use pslite_observe::log::{self, Level};

/// Trees are planned anew when the model is longer by that.
const LONGER: f64 = 1.2;
/// The share of a tree that weighs one.
const WEIGHTS: f64 = 1e6;

/// Whom trees are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members {
    /// Servers that serve and are not being emptied.
    servers: Vec<NodeId>,
    /// Workers that rounds wait for.
    workers: Vec<NodeId>,
}

/// What the last trees were planned for.
#[derive(Clone, Debug)]
struct Planted {
    members: Members,
    /// Bytes of the model.
    bytes: f64,
    /// The overlay before them.
    before: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Planting {
    planted: Option<Planted>,
}

impl Planting {
    /// The trees that are to be in force now, if they are not yet.
    pub(super) fn look(
        &mut self,
        cluster: &Cluster,
        topology: Topology,
        links: Option<&NamedGraph>,
    ) -> Option<Vec<TreeTable>> {
        if topology == Topology::Star || !cluster.may_order() {
            return None;
        }
        let (members, bytes, overlay) = (members(cluster), bytes(cluster), cluster.overlay());
        // A death takes the trees away. If a node does not know trees they were never in force.
        let stand = self.planted.as_ref().is_some_and(|planted| {
            let longer = links.is_some() && bytes > LONGER * planted.bytes;
            let lost = overlay.trees.is_empty() && overlay.number != planted.before;
            planted.members == members && !longer && !lost
        });
        if stand || members.workers.is_empty() {
            return None;
        }
        let trees = match (topology, links) {
            (Topology::Balanced(_), _) | (_, None) => {
                let servers = members.servers.iter();
                servers.filter_map(|root| balanced(topology, *root, &members)).collect()
            }
            (_, Some(named)) => match planned(cluster, (topology, named), &members, bytes) {
                Ok(trees) => trees,
                Err(why) => {
                    log::write(Level::Warning, &format!("no trees: {why}"));
                    Vec::new()
                }
            },
        };
        self.planted = Some(Planted { members, bytes, before: overlay.number });
        let nothing_new = trees.is_empty() && overlay.trees.is_empty();
        (!nothing_new).then_some(trees)
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

/// Who is at each site of a graph.
struct Sites {
    workers: Vec<Vec<NodeId>>,
    servers: Vec<Vec<NodeId>>,
}

impl Sites {
    /// # Errors
    /// A host has no site, or a site no worker, which is to sum there.
    fn of(cluster: &Cluster, named: &NamedGraph, members: &Members) -> Result<Self, String> {
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

    /// Which fraction of the model each site owns: equal parts for the servers while there is none.
    fn shares(&self, cluster: &Cluster, bytes: f64) -> Vec<f64> {
        let servers: usize = self.servers.iter().map(Vec::len).sum();
        let pieces = || cluster.pieces().values().flat_map(|key| &key.pieces);
        let owned = |at: &Vec<NodeId>| -> f64 {
            if bytes <= 0.0 {
                return at.len() as f64 / servers.max(1) as f64;
            }
            let own = pieces().filter(|piece| at.contains(&piece.owner));
            own.map(|piece| piece.bytes as f64).sum::<f64>() / bytes
        };
        self.servers.iter().map(owned).collect()
    }

    /// A tree of sites as a table for each server at its root. The first worker of a site sums what
    /// comes there.
    fn tables(&self, tree: &Tree) -> Option<Vec<TreeTable>> {
        let head = |site: usize| self.workers.get(site)?.first().copied();
        let table = |root: &NodeId| {
            let next = |parents: &[Option<usize>], site: usize| match parents.get(site)? {
                Some(parent) if *parent != tree.root => head(*parent),
                _ => Some(*root),
            };
            let mut nodes = Vec::new();
            for (site, workers) in self.workers.iter().enumerate() {
                let (up, down) = (next(&tree.up, site)?, next(&tree.down, site)?);
                let first = head(site)?;
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

/// The trees of a topology through the links of the hosts.
fn planned(
    cluster: &Cluster,
    (topology, named): (Topology, &NamedGraph),
    members: &Members,
    bytes: f64,
) -> Result<Vec<TreeTable>, String> {
    let sites = Sites::of(cluster, named, members)?;
    let shares = sites.shares(cluster, bytes);
    let shortest = SHORTEST_PART as f64;
    let part = (bytes / PARTS as f64).max(shortest);
    let transfer = Transfer { part, order: ServingOrder::Round };
    let proposal = propose(&named.graph, topology, &shares, bytes.max(shortest), transfer);
    let proposal = proposal.map_err(|wrong| named.explain(&wrong))?;
    if bytes > 0.0 {
        let (by, seconds) = (proposal.topology, proposal.seconds);
        let count = proposal.scheme.trees.len();
        let text = format!("trees by the links: {by}, {count} of them, {seconds:.2} s a round");
        log::write(Level::Info, &text);
    }
    if proposal.topology == Topology::Star {
        return Ok(Vec::new());
    }
    let tables = proposal.scheme.trees.iter().filter(|tree| tree.share > 0.0);
    let tables: Option<Vec<Vec<TreeTable>>> = tables.map(|tree| sites.tables(tree)).collect();
    Ok(tables.unwrap_or_default().into_iter().flatten().collect())
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
            assert_eq!(
                (table.parent(a), table.parent(d), weight),
                (Some(root), Some(root), 250_000)
            );
            assert_eq!((table.parent(b), table.parent(c)), (Some(root), Some(b)));
            assert_eq!((table.children(root), table.children(a)), (&[a, b][..], &[d][..]));
        }
    }
}
