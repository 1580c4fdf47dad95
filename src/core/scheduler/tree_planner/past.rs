//! Former trees along which something may be under way still. When other trees come into force,
//! the round under way goes on along the former ones (docs/trees.md, "When trees change"). A part
//! that is seldom pushed has a ticket of trees that were in force rounds ago. Pure.

use std::collections::{BTreeSet, VecDeque};

use super::planted::uses;
use crate::placement::graph::Scheme;
use crate::wire::trees::OVERLAYS_KEPT;

/// So many are remembered, beside those in force. What goes along older ones counts as lost.
const MOST: usize = OVERLAYS_KEPT as usize - 1;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PastTrees(VecDeque<Scheme>);

impl PastTrees {
    /// These are no longer in force.
    pub(super) fn add(&mut self, scheme: Scheme) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(scheme);
    }

    /// What went along them is lost, and goes another way.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// True if sums or values of some of them go over one of those links, from site to site.
    pub(super) fn use_any(&self, cut: &BTreeSet<(usize, usize)>) -> bool {
        self.0.iter().any(|former| uses(former, cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::graph::Tree;

    /// A tree of two of three sites, the first of which owns all.
    fn scheme(second: usize) -> Scheme {
        let mut parents = vec![None; 3];
        parents[second] = Some(0);
        let tree = Tree { root: 0, share: 1.0, up: parents.clone(), down: parents };
        Scheme { trees: vec![tree] }
    }

    #[test]
    fn trees_are_remembered_until_what_goes_along_them_counts_as_lost() {
        let mut former = PastTrees::default();
        former.add(scheme(1));
        let [up, down, other] = [(1, 0), (0, 1), (0, 2)].map(|link| BTreeSet::from([link]));
        (1..MOST).for_each(|_| former.add(scheme(2)));
        assert!(former.use_any(&up) && former.use_any(&down) && former.use_any(&other));
        former.add(scheme(2));
        assert!(!former.use_any(&up) && former.use_any(&other));
        former.clear();
        assert!(!former.use_any(&other));
    }
}
