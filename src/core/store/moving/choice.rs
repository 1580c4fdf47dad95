//! Which tree a round takes, of those of the newest overlay (`docs/trees.md`). May touch
//! `trees`, and who is awaited.

use super::state::TreesHere;
use crate::store::pieces::awaited::Attendance;
use crate::trees::Table;
use crate::values::kind::{RequestKind, kind_of};
use crate::values::{KeyPart, Space};
use crate::wire::Meta;

/// Who takes a tree: the space of a key, and the customer that pushes to it.
pub(super) type TreeTaker = (Space, i32);

/// True if every worker of a tree is waited for, with that customer alone.
pub(super) fn may_use(
    attendance: &Attendance,
    table: &Table,
    (space, customer): TreeTaker,
) -> bool {
    let Some(workers) = attendance.workers() else {
        return !table.members().any(|node| attendance.has_left(node, customer));
    };
    table.members().all(|node| workers.only_awaited(node, space) == Some(customer))
}

impl TreesHere {
    /// The trees of the newest overlay with this root that fit, with their weights.
    fn usable(&self, fits: impl Fn(&Table) -> bool) -> impl Iterator<Item = (u32, u64)> {
        let all = self.trees.of_root(self.root);
        let all = all.filter(move |(_, table)| table.weight() > 0 && fits(table));
        all.map(|(tree, table)| (tree, u64::from(table.weight())))
    }

    /// The tree of the newest overlay that a round of so many bytes takes next, among those that
    /// fit. Each tree gets bytes as its weight says.
    pub(super) fn choose(&mut self, bytes: u64, fits: impl Fn(&Table) -> bool) -> Option<u32> {
        let given = |tree: u32| self.given.get(&tree).copied().unwrap_or(0);
        let ahead = self.usable(fits).map(|(tree, weight)| {
            let load = u128::from(given(tree) + bytes) * (1 << 32) / u128::from(weight);
            (load, tree)
        });
        let (_, tree) = ahead.min()?;
        *self.given.entry(tree).or_default() += bytes;
        Some(tree)
    }

    /// The same, but the tree depends on the piece alone, not on which round ended first.
    pub(super) fn choose_fixed(&self, part: KeyPart, fits: impl Fn(&Table) -> bool) -> Option<u32> {
        let sum: u64 = self.usable(&fits).map(|(_, weight)| weight).sum();
        let mut left = ((u128::from(spread(part)) * u128::from(sum)) >> u64::BITS) as u64;
        self.usable(&fits).find_map(|(tree, weight)| match left.checked_sub(weight) {
            None => Some(tree),
            Some(rest) => {
                left = rest;
                None
            }
        })
    }
}

/// Where a piece is between all trees, of 2^64: keys that follow each other, and equal parts of a
/// key, are spread evenly. So each tree gets nearly its weight of any few of them, which places
/// drawn at random would not give it: of 400 parts a tree that is to get 20 would get 16 to 24, and
/// the round takes as long as the link that gets most. (The two-dimensional sequence of the plastic
/// number, M. Roberts 2018.)
fn spread(part: KeyPart) -> u64 {
    const OF_KEY: u64 = 0xC13F_A9A9_02A6_328F;
    const OF_PART: u64 = 0x91E1_0DA5_C79E_7B1D;
    let length = part.to.saturating_sub(part.from);
    let number = part.from.checked_div(length).unwrap_or(0);
    part.key.wrapping_mul(OF_KEY).wrapping_add(number.wrapping_mul(OF_PART))
}

/// True if a push of that kind may go along a tree: not rows.
pub(super) fn goes_by_tree(push: &Meta) -> bool {
    matches!(kind_of(push.head), Ok((RequestKind::Default | RequestKind::Compressed, _)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By how many of these places more, or fewer, than is its due some tree gets, whatever its
    /// weight.
    fn unevenness(mut places: Vec<u64>) -> f64 {
        places.sort_unstable();
        let due = |place: &u64| *place as f64 / 2_f64.powi(64) * places.len() as f64;
        let off = places.iter().enumerate().map(|(at, place)| (due(place) - at as f64).abs());
        off.fold(0.0, f64::max)
    }

    #[test]
    fn equal_parts_and_neighbouring_keys_are_spread_evenly() {
        let part = |key, number: u64, length: u64| {
            spread(KeyPart { key, from: number * length, to: (number + 1) * length })
        };
        for key in [0, 7, u64::MAX / 3, u64::MAX - 1000] {
            for (count, most) in [(20, 4.0), (100, 4.0), (400, 6.0)] {
                for length in [1, 100, 16_000, 16_384] {
                    let parts = (0..count).map(|number| part(key, number, length)).collect();
                    assert!(unevenness(parts) < most, "{count} parts of {length} of key {key}");
                }
                let keys = (0..count).map(|number| part(key + number, 0, 10)).collect();
                assert!(unevenness(keys) < most, "{count} keys from {key}");
            }
        }
        let mut random = crate::random::Random::new(1);
        let drawn = unevenness((0..400).map(|_| random.below(u64::MAX)).collect());
        assert!(drawn > 6.0, "{drawn}: what is drawn is not");
        assert_eq!(part(3, 0, 0), part(3, 0, 1), "an empty piece");
    }
}
