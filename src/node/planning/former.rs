//! Former trees along which a round may be under way still. When other trees come into force, the
//! round under way goes on along the former ones. So do parts of the next round: their owners have
//! given out tickets already (docs/trees.md, "When trees change"). Pure.

use std::collections::{BTreeSet, VecDeque};

use super::planted::uses;
use pslite_core::placement::graph::Scheme;

/// So many are remembered. More do not come within two rounds.
const MOST: usize = 8;
/// The round that was under way and the next one may go along them. When a worker has ended one
/// more, all workers have ended those.
const ROUNDS: u64 = 3;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct FormerTrees(VecDeque<FormerTree>);

/// Trees that were in force.
#[derive(Clone, Debug)]
struct FormerTree {
    scheme: Scheme,
    /// The newest round that a worker had ended when others came.
    ended: u64,
}

impl FormerTrees {
    /// These are no longer in force since a worker ended that round.
    pub(super) fn add(&mut self, scheme: Scheme, ended: u64) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(FormerTree { scheme, ended });
    }

    /// A worker has ended that round. Those along which none can be under way are forgotten.
    pub(super) fn ended(&mut self, round: u64) {
        self.0.retain(|former| round < former.ended.saturating_add(ROUNDS));
    }

    /// What went along them is lost, and goes another way.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// True if sums or values of some of them go over one of those links, from site to site.
    pub(super) fn use_any(&self, cut: &BTreeSet<(usize, usize)>) -> bool {
        self.0.iter().any(|former| uses(&former.scheme, cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::placement::graph::Tree;

    /// The second of two sites owns nothing.
    fn scheme() -> Scheme {
        let tree = Tree { root: 0, share: 1.0, up: vec![None, Some(0)], down: vec![None, Some(0)] };
        Scheme { trees: vec![tree] }
    }

    #[test]
    fn trees_are_remembered_until_no_round_can_be_under_way_along_them() {
        let mut former = FormerTrees::default();
        former.add(scheme(), 7);
        let [up, down, other] = [(1, 0), (0, 1), (0, 2)].map(|link| BTreeSet::from([link]));
        former.ended(9);
        assert!(former.use_any(&up) && former.use_any(&down) && !former.use_any(&other));
        former.ended(10);
        assert!(!former.use_any(&up));
        (0..100).for_each(|round| former.add(scheme(), round));
        assert_eq!(former.0.len(), MOST);
        former.clear();
        assert!(!former.use_any(&up));
    }
}
