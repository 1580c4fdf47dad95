//! Which tree a round takes, of those of the newest overlay (`docs/trees.md`). May touch what the
//! store may.

use super::state::Elastic;
use crate::trees::Table;
use crate::values::Space;
use crate::values::kind::{RequestKind, kind_of};
use crate::wire::{Key, Meta};

/// Who takes a tree: the space of a key, and the customer that pushes to it.
type TreeTaker = (Space, i32);

impl Elastic {
    /// True if every worker of a tree is waited for, with that customer alone.
    fn may_use(&self, table: &Table, (space, customer): TreeTaker) -> bool {
        let Some(workers) = &self.workers else {
            return !table.members().any(|node| self.left.contains(&(node, customer)));
        };
        table.members().all(|node| workers.only_awaited(node, space) == Some(customer))
    }

    /// The trees of the newest overlay with this root that fit, with their weights.
    fn usable(
        &self,
        taker: TreeTaker,
        fits: impl Fn(&Table) -> bool,
    ) -> impl Iterator<Item = (u32, u64)> {
        let all = self.trees.trees.of_root(self.me).filter(move |(_, table)| {
            table.weight() > 0 && fits(table) && self.may_use(table, taker)
        });
        all.map(|(tree, table)| (tree, u64::from(table.weight())))
    }

    /// The tree of the newest overlay that a round of so many bytes takes next, among those that
    /// fit. Each tree gets bytes as its weight says.
    pub(super) fn choose(
        &mut self,
        bytes: u64,
        taker: TreeTaker,
        fits: impl Fn(&Table) -> bool,
    ) -> Option<u32> {
        let given = |tree: u32| self.trees.given.get(&tree).copied().unwrap_or(0);
        let ahead = self.usable(taker, fits).map(|(tree, weight)| {
            let load = u128::from(given(tree) + bytes) * (1 << 32) / u128::from(weight);
            (load, tree)
        });
        let (_, tree) = ahead.min()?;
        *self.trees.given.entry(tree).or_default() += bytes;
        Some(tree)
    }

    /// The same, but the tree depends on the piece alone, not on which round ended first.
    pub(super) fn choose_fixed(
        &self,
        key: Key,
        from: u64,
        taker: TreeTaker,
        fits: impl Fn(&Table) -> bool,
    ) -> Option<u32> {
        let sum: u64 = self.usable(taker, &fits).map(|(_, weight)| weight).sum();
        // Neighbours in a tensor take different trees.
        let spread = (key ^ from.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let mut left = spread.checked_rem(sum)?;
        self.usable(taker, &fits).find_map(|(tree, weight)| match left.checked_sub(weight) {
            None => Some(tree),
            Some(rest) => {
                left = rest;
                None
            }
        })
    }
}

/// True if a push of that kind may go along a tree: not rows.
pub(super) fn goes_by_tree(push: &Meta) -> bool {
    matches!(kind_of(push.head), Ok((RequestKind::Default | RequestKind::Compressed, _)))
}
