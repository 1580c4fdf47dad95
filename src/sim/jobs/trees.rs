//! Trees that a simulated scheduler draws, as a planner would that knows nothing: for each server
//! one or two, over all workers that rounds wait for, up and down different ways.

use std::collections::BTreeMap;

use crate::app::View;
use pslite_core::random::Random;
use pslite_core::wire::trees::{TreeNode, TreeTable};
use pslite_core::wire::{NodeId, WORKER_GROUP};

/// One set of trees; none if there is no worker that rounds wait for.
pub(super) fn draw(view: &View<'_>, random: &mut Random) -> Vec<TreeTable> {
    let live = &view.cluster.policy().live;
    let workers: Vec<NodeId> = if live.is_empty() {
        view.cluster.ids_of(WORKER_GROUP).unwrap_or_default()
    } else {
        live.iter().filter(|worker| worker.since == 0).map(|worker| worker.node).collect()
    };
    if workers.is_empty() || random.percent(10) {
        return Vec::new();
    }
    let roots = view.cluster.able_servers();
    let of_root = |root: &NodeId| -> Vec<TreeTable> {
        let count = 1 + random.below(2);
        (0..count).map(|_| tree(*root, &workers, random)).collect()
    };
    roots.iter().flat_map(of_root).collect()
}

fn tree(root: NodeId, workers: &[NodeId], random: &mut Random) -> TreeTable {
    let (up, down) = (parents(root, workers, random), parents(root, workers, random));
    let place = |node: &NodeId| {
        let of = |parents: &BTreeMap<NodeId, NodeId>| parents.get(node).copied().unwrap_or(root);
        TreeNode { node: *node, up: of(&up), down: of(&down) }
    };
    TreeTable {
        root,
        nodes: workers.iter().map(place).collect(),
        weight: 1 + random.below(4) as u32,
    }
}

/// Of each worker one that is nearer to the root.
fn parents(root: NodeId, workers: &[NodeId], random: &mut Random) -> BTreeMap<NodeId, NodeId> {
    let mut left = workers.to_vec();
    let mut placed = vec![root];
    let mut parents = BTreeMap::new();
    while !left.is_empty() {
        let node = left.swap_remove(random.below(left.len() as u64) as usize);
        let parent = placed[random.below(placed.len() as u64) as usize];
        parents.insert(node, parent);
        placed.push(node);
    }
    parents
}
