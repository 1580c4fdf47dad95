//! A scheme: over which trees the parts of a model go up to their owners, and down again.
//!
//! Pure. [`Scheme::validate`] says what must hold, whoever made it.

use super::cells::{add, at};
use super::limits::SHARE_SLACK;
use super::{Graph, GraphError};

/// How the parts of one share travel. Each site sums what its children sent with what is its own,
/// and sends one sum to its parent; the root makes the new value, which goes down another tree.
///
/// A parent need not be a neighbour. What goes between two sites that no edge joins takes the route
/// with the fewest hops, and sites on that route pass it on as it is. So a star is a tree too: the
/// root is everybody's parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The site that owns the share.
    pub root: usize,
    /// To which site each one sends its sums; None at the root.
    pub up: Vec<Option<usize>>,
    /// From which site each one gets values; None at the root.
    pub down: Vec<Option<usize>>,
    /// The fraction of the model that takes this tree.
    pub share: f64,
}

/// Trees whose shares add up to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheme {
    /// The trees. Several may have one root.
    pub trees: Vec<Tree>,
}

impl Scheme {
    /// Looks whether every tree reaches every site of the graph from its root and back, and whether
    /// the shares add up to 1.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self, graph: &Graph) -> Result<(), GraphError> {
        graph.connected()?;
        for (tree, found) in self.trees.iter().enumerate() {
            if let Some(wrong) = found.wrong(graph.sites()) {
                return Err(GraphError::Broken { tree, wrong });
            }
        }
        let sum = self.trees.iter().fold(0.0, |sum, tree| sum + tree.share);
        if (sum - 1.0).abs() > SHARE_SLACK {
            return Err(GraphError::Broken {
                tree: self.trees.len().saturating_sub(1),
                wrong: format!("with it the shares of all trees add up to {sum}, not to 1"),
            });
        }
        Ok(())
    }

    /// The fraction of the model that each site owns.
    #[must_use]
    pub fn owners(&self, sites: usize) -> Vec<f64> {
        let mut owners = vec![0.0; sites];
        for tree in &self.trees {
            add(&mut owners, tree.root, tree.share);
        }
        owners
    }

    /// The tree of each of so many parts, in the order of the round: each part goes to the tree
    /// that is then least ahead of its share.
    #[must_use]
    pub(super) fn deal(&self, parts: u64) -> Vec<usize> {
        let mut dealt = vec![0.0; self.trees.len()];
        let mut order = Vec::new();
        for _ in 0..parts {
            let ahead = |(tree, given): (usize, &f64)| {
                let share = self.trees.get(tree).map_or(0.0, |tree| tree.share);
                (share > 0.0).then(|| ((given + 1.0) / share, tree))
            };
            let all = dealt.iter().enumerate().filter_map(ahead);
            let Some((_, tree)) = all.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            add(&mut dealt, tree, 1.0);
            order.push(tree);
        }
        order
    }
}

impl Tree {
    fn wrong(&self, sites: usize) -> Option<String> {
        if self.root >= sites {
            return Some(format!("its root is site {}, of {sites}", self.root + 1));
        }
        if !self.share.is_finite() || self.share < 0.0 {
            return Some(format!("its share is {}", self.share));
        }
        let sides = [("up", &self.up), ("down", &self.down)];
        sides.into_iter().find_map(|(side, parents)| {
            wrong_parents(self.root, parents, sites).map(|wrong| format!("{side}: {wrong}"))
        })
    }
}

fn wrong_parents(root: usize, parents: &[Option<usize>], sites: usize) -> Option<String> {
    if parents.len() != sites {
        return Some(format!("it has {} parents for {sites} sites", parents.len()));
    }
    for (site, parent) in parents.iter().enumerate() {
        let number = site + 1;
        match parent {
            Some(_) if site == root => return Some(format!("root {number} has a parent")),
            None if site != root => return Some(format!("site {number} has no parent")),
            Some(parent) if *parent >= sites => {
                return Some(format!("the parent of site {number} is site {}", parent + 1));
            }
            _ => {}
        }
    }
    let lost = (0..sites).find(|site| depth(parents, *site).is_none())?;
    Some(format!("the path from site {} to the root goes in a circle", lost + 1))
}

/// Hops from a site to the one without a parent; None if the way does not end.
fn depth(parents: &[Option<usize>], mut site: usize) -> Option<usize> {
    for hops in 0..=parents.len() {
        match at(parents, site) {
            None => return Some(hops),
            Some(parent) => site = parent,
        }
    }
    None
}
