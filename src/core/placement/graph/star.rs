//! Stock ps-lite as a scheme: nobody sums on the way. Each site sends to each owner, over the route
//! with the fewest hops, and gets the value back from it.

use super::Tree;

/// The tree of a root whose children all other sites are.
pub(super) fn star(sites: usize, root: usize, share: f64) -> Tree {
    let parents: Vec<Option<usize>> =
        (0..sites).map(|site| (site != root).then_some(root)).collect();
    Tree { root, up: parents.clone(), down: parents, share }
}
