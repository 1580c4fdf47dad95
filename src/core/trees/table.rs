//! One tree as a node knows it: who sends sums to whom, and who gets values from whom. Checked when
//! it comes; nothing of it is believed before. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::NodeId;
use crate::wire::trees::TreeTable;

/// Workers of one tree; a table with more is refused.
const NODES_MAX: usize = 1 << 12;

/// A worker's place in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TreePlace {
    /// To whom it sends sums.
    up: NodeId,
    /// From whom it gets values.
    down: NodeId,
    /// How many workers send their pushes through it, itself included.
    through: usize,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    root: NodeId,
    weight: u32,
    places: BTreeMap<NodeId, TreePlace>,
    /// Who gets values from each node, ascending.
    children: BTreeMap<NodeId, Vec<NodeId>>,
}

impl Table {
    /// Reads a tree.
    ///
    /// # Errors
    /// A node is in it twice or does not reach the root; the text says which.
    pub fn read(tree: &TreeTable) -> Result<Self, String> {
        if tree.nodes.is_empty() || tree.nodes.len() > NODES_MAX {
            return Err(format!("a tree of {} nodes", tree.nodes.len()));
        }
        let mut places = BTreeMap::new();
        for node in &tree.nodes {
            let place = TreePlace { up: node.up, down: node.down, through: 0 };
            if node.node == tree.root || places.insert(node.node, place).is_some() {
                return Err(format!("node {} is in the tree twice", node.node));
            }
        }
        let mut table =
            Self { root: tree.root, weight: tree.weight, places, children: BTreeMap::new() };
        let members: Vec<NodeId> = table.places.keys().copied().collect();
        for node in members {
            let on_the_way = table.way(node, |place| place.up)?;
            table.way(node, |place| place.down)?;
            for through in on_the_way {
                if let Some(place) = table.places.get_mut(&through) {
                    place.through += 1;
                }
            }
            if let Some(parent) = table.places.get(&node).map(|place| place.down) {
                table.children.entry(parent).or_default().push(node);
            }
        }
        Ok(table)
    }

    /// The nodes from one to the root, without that.
    fn way(
        &self,
        from: NodeId,
        next: impl Fn(&TreePlace) -> NodeId,
    ) -> Result<Vec<NodeId>, String> {
        let (mut at, mut nodes) = (from, Vec::new());
        while at != self.root {
            let place = self.places.get(&at).filter(|_| nodes.len() < self.places.len());
            let Some(place) = place else {
                return Err(format!("node {from} does not reach the root of its tree"));
            };
            nodes.push(at);
            at = next(place);
        }
        Ok(nodes)
    }

    /// The server whose pieces take it.
    #[must_use]
    pub const fn root(&self) -> NodeId {
        self.root
    }

    /// Which part of its root's pieces takes it, in relation to the root's other trees.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }

    /// True if that worker is in it.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.places.contains_key(&node)
    }

    /// All workers in it.
    pub fn members(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.places.keys().copied()
    }

    /// To whom a node sends its sums, if it is in it.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.places.get(&node).map(|place| place.up)
    }

    /// How many workers' pushes are in a sum that a node sends up.
    #[must_use]
    pub fn through(&self, node: NodeId) -> usize {
        self.places.get(&node).map_or(0, |place| place.through)
    }

    /// True if a worker's pushes go through a node.
    #[must_use]
    pub fn goes_through(&self, worker: NodeId, node: NodeId) -> bool {
        let mut at = worker;
        while at != node {
            // Every node reaches the root, which has no place.
            let Some(place) = self.places.get(&at) else { return false };
            at = place.up;
        }
        true
    }

    /// To whom a node sends values.
    #[must_use]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.children.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Which of a node's children values for that worker go to.
    #[must_use]
    pub fn child_towards(&self, node: NodeId, worker: NodeId) -> Option<NodeId> {
        let mut at = worker;
        for _ in 0..=self.places.len() {
            let parent = self.places.get(&at)?.down;
            if parent == node {
                return Some(at);
            }
            at = parent;
        }
        None
    }

    /// All pairs of nodes between which something goes.
    #[must_use]
    pub fn edges(&self) -> BTreeSet<(NodeId, NodeId)> {
        let up = self.places.iter().map(|(node, place)| (*node, place.up));
        let down = self.places.iter().map(|(node, place)| (place.down, *node));
        up.chain(down).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::trees::TreeNode;

    fn tree(root: NodeId, nodes: &[(NodeId, NodeId, NodeId)]) -> TreeTable {
        let node = |&(node, up, down): &(NodeId, NodeId, NodeId)| TreeNode { node, up, down };
        TreeTable { root, weight: 1, nodes: nodes.iter().map(node).collect() }
    }

    #[test]
    fn sums_and_values_take_different_ways() {
        // Up: 13 -> 11 -> 9 -> 8. Down: 8 -> 13 -> 9, 8 -> 11.
        let table = Table::read(&tree(8, &[(9, 8, 13), (11, 9, 8), (13, 11, 8)])).unwrap();
        assert_eq!([9, 11, 13].map(|node| table.through(node)), [3, 2, 1]);
        assert_eq!(table.children(8), [11, 13]);
        assert_eq!(table.children(13), [9]);
        assert_eq!(table.child_towards(8, 9), Some(13));
        assert_eq!((table.child_towards(13, 9), table.child_towards(9, 13)), (Some(9), None));
        assert!(table.goes_through(13, 9) && !table.goes_through(9, 13));
        assert_eq!(table.edges().len(), 6);
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for nodes in [
            &[][..],
            &[(9, 8, 8), (9, 8, 8)],
            &[(8, 8, 8)],
            &[(9, 11, 8), (11, 9, 8)],
            &[(9, 8, 11), (11, 8, 9)],
            &[(9, 8, 8), (11, 13, 8)],
        ] {
            assert!(Table::read(&tree(8, nodes)).is_err(), "{nodes:?}");
        }
    }
}
