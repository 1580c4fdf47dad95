//! Trees as in MLNET: balanced, and blind to the network (docs/algorithms.md 7). The root is
//! followed by the other sites in the order of their numbers; each has the same number of children.
//! Neighbours in the tree need not be neighbours in the graph.

use super::Tree;
use super::cells::{at, put};

/// The balanced tree of a root; `children` is 1 or more.
pub(super) fn balanced(sites: usize, root: usize, children: usize, share: f64) -> Tree {
    let others = (0..sites).filter(|site| *site != root);
    let order: Vec<usize> = std::iter::once(root).chain(others).collect();
    let mut parents = vec![None; sites];
    for (place, site) in order.iter().enumerate().skip(1) {
        put(&mut parents, *site, Some(at(&order, (place - 1) / children.max(1))));
    }
    Tree { root, up: parents.clone(), down: parents, share }
}
