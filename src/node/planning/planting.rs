//! Which trees a scheduler gives out, as `PSLITE_TOPOLOGY` says: those that need no rates of links,
//! anew for every change of who is in the job. Called under the van's lock; sends nothing itself.

use pslite_core::cluster::Cluster;
use pslite_core::placement::graph::{Scheme, Topology, blind};
use pslite_core::wire::trees::{TreeNode, TreeTable};
use pslite_core::wire::{NodeId, WORKER_GROUP};

/// Whom trees are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members {
    /// Servers that serve and are not being emptied.
    servers: Vec<NodeId>,
    /// Workers that rounds wait for.
    workers: Vec<NodeId>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Planting {
    /// Whom the last trees were for, and the overlay before them.
    planted: Option<(Members, u64)>,
}

impl Planting {
    /// The trees that are to be in force now, if they are not yet.
    pub(super) fn look(&mut self, cluster: &Cluster, topology: Topology) -> Option<Vec<TreeTable>> {
        if topology == Topology::Star || !cluster.may_order() {
            return None;
        }
        let members = members(cluster);
        let overlay = cluster.overlay();
        // A death takes the trees away. If a node does not know trees they were never in force.
        let stand = self.planted.as_ref().is_some_and(|(planted, before)| {
            *planted == members && (!overlay.trees.is_empty() || overlay.number == *before)
        });
        if stand || members.workers.is_empty() {
            return None;
        }
        let trees = members.servers.iter().filter_map(|root| tree(topology, *root, &members));
        let trees: Vec<TreeTable> = trees.collect();
        self.planted = Some((members, overlay.number));
        Some(trees)
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

/// The tree of a server. Each node is a site of its own, and the server comes first.
fn tree(topology: Topology, root: NodeId, members: &Members) -> Option<TreeTable> {
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
        let tree = tree(Topology::Balanced(2), server_id(1), &members).unwrap();
        let table = Table::read(&tree).unwrap();
        assert_eq!((table.root(), table.members().len()), (server_id(1), 7));
        assert_eq!(table.children(server_id(1)), [worker_id(0), worker_id(1)]);
        assert_eq!(table.children(worker_id(0)), [worker_id(2), worker_id(3)]);
        assert_eq!([0, 1, 6].map(|rank| table.through(worker_id(rank))), [4, 3, 1]);
    }
}
