//! When pieces came to their owners, as far as the scheduler knows (`docs/elastic.md`, "Death"): by
//! that it tells an old copy of what a dead server once had from a copy of what it had last. Pure:
//! pieces and orders in, what is new out.
//!
//! One entry for each part of a key that ever changed its owner; a later one takes the place of the
//! earlier ones.

use std::collections::BTreeMap;

use super::claims::{Piece, Pieces, takeover_term};
use crate::wire::elastic::Order;
use crate::wire::{Key, NodeId};

/// A part of a key, and since when it is its owner's.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Tenure {
    /// The first element.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// One past the last element.
    #[prost(uint64, tag = "2")]
    pub to: u64,
    /// Who got it.
    #[prost(int32, tag = "3")]
    pub owner: NodeId,
    /// It had no lower term when it came.
    #[prost(uint64, tag = "4")]
    pub since: u64,
    /// It had that term there.
    #[prost(uint64, tag = "5")]
    pub term: u64,
}

/// Parts of one key, ascending and disjoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyTenures {
    /// The parts.
    #[prost(message, repeated, tag = "1")]
    pub parts: Vec<Tenure>,
}

/// Parts of all keys.
pub type Tenures = BTreeMap<Key, KeyTenures>;

impl KeyTenures {
    /// Takes in a later one.
    pub fn note(&mut self, new: Tenure) {
        let outside = |known: Tenure| {
            let before = Tenure { to: known.to.min(new.from), ..known };
            let behind = Tenure { from: known.from.max(new.to), ..known };
            [before, behind].into_iter().filter(|part| part.from < part.to)
        };
        let mut parts: Vec<Tenure> =
            std::mem::take(&mut self.parts).into_iter().flat_map(outside).collect();
        parts.push(new);
        parts.sort_unstable_by_key(|part| part.from);
        self.parts = parts;
    }
}

/// Takes in all of `news`.
pub fn note(all: &mut Tenures, news: &Tenures) {
    for (key, news) in news {
        let known = all.entry(*key).or_default();
        news.parts.iter().for_each(|new| known.note(*new));
    }
}

/// What came to another owner between two views of all pieces. `epoch` is that of the policy of the
/// second one, if it follows from one: what this puts where it was not has the policy's term. Of
/// what the first view does not have, orders say whose it was.
#[must_use]
pub fn changes(
    before: &Pieces,
    after: &Pieces,
    orders: &[(NodeId, Order)],
    epoch: Option<u64>,
) -> Tenures {
    let mut changes = Tenures::new();
    let orders = orders_by_key(orders);
    // Before the loop. In it the compiler multiplies what an epoch that is not there left on the
    // stack, and branches on that: no harm, but valgrind finds it.
    let taken_over = epoch.map(takeover_term);
    for (key, known) in after {
        let former = before.get(key).map_or(&[][..], |known| &known.pieces);
        if former == known.pieces {
            continue;
        }
        let orders = orders.get(key).map_or(&[][..], Vec::as_slice);
        let mut parts = Vec::new();
        for piece in &known.pieces {
            if taken_over == Some(piece.term) {
                parts.push(tenure(piece, piece.from, piece.to, piece.term));
            } else {
                came_to(piece, former, orders, &mut parts);
            }
        }
        if !parts.is_empty() {
            changes.insert(*key, KeyTenures { parts });
        }
    }
    changes
}

/// Orders, in their order, by the key that they are about.
pub(super) fn orders_by_key(orders: &[(NodeId, Order)]) -> BTreeMap<Key, Vec<(NodeId, Order)>> {
    let mut by_key: BTreeMap<Key, Vec<(NodeId, Order)>> = BTreeMap::new();
    for ordered in orders {
        by_key.entry(ordered.1.key).or_default().push(*ordered);
    }
    by_key
}

/// Those parts of a piece that were another one's.
fn came_to(piece: &Piece, former: &[Piece], orders: &[(NodeId, Order)], out: &mut Vec<Tenure>) {
    let first = former.partition_point(|known| known.to <= piece.from);
    let of_it = former[first..].iter().take_while(|known| known.from < piece.to);
    let mut is_known = false;
    for known in of_it {
        is_known = true;
        if known.owner != piece.owner {
            let (from, to) = (known.from.max(piece.from), known.to.min(piece.to));
            out.push(tenure(piece, from, to, known.term.saturating_add(1)));
        }
    }
    let went = |(giver, order): &(NodeId, Order)| {
        *giver != piece.owner && order.from < piece.to && piece.from < order.to
    };
    if !is_known && orders.iter().any(went) {
        // Under which term it came is not known.
        out.push(tenure(piece, piece.from, piece.to, 1));
    }
}

const fn tenure(piece: &Piece, from: u64, to: u64, since: u64) -> Tenure {
    Tenure { from, to, owner: piece.owner, since, term: piece.term }
}

#[cfg(test)]
mod tests {
    use super::super::claims::KeyPieces;
    use super::*;

    const KEY: Key = 3;

    fn pieces(all: &[(u64, u64, NodeId, u64)]) -> Pieces {
        let piece = |&(from, to, owner, term): &(u64, u64, NodeId, u64)| Piece {
            key: KEY,
            from,
            to,
            term,
            version: 0,
            owner,
            leaving_to: None,
            bytes: 0,
            state_bytes: 0,
            align: 1,
            safe: true,
        };
        [(KEY, KeyPieces { length: 10, pieces: all.iter().map(piece).collect() })].into()
    }

    fn parts(tenures: &Tenures) -> Vec<(u64, u64, NodeId, u64, u64)> {
        let all = tenures.get(&KEY).map_or(&[][..], |key| &key.parts);
        all.iter().map(|part| (part.from, part.to, part.owner, part.since, part.term)).collect()
    }

    #[test]
    fn what_changes_hands_is_noted_and_what_is_only_cut_is_not() {
        let before = pieces(&[(0, 6, 8, 5), (6, 10, 10, 3)]);
        let after = pieces(&[(0, 4, 8, 6), (4, 8, 12, 9), (8, 10, 10, 4)]);
        let found = changes(&before, &after, &[], None);
        assert_eq!(parts(&found), [(4, 6, 12, 6, 9), (6, 8, 12, 4, 9)]);
        assert_eq!(parts(&changes(&after, &after, &[], None)), []);
    }

    #[test]
    fn what_a_policy_puts_elsewhere_is_noted_under_its_term() {
        let term = takeover_term(4);
        let after = pieces(&[(0, 6, 8, term), (6, 10, 10, 3)]);
        for before in [Pieces::new(), pieces(&[(0, 6, 8, 5), (6, 10, 10, 3)])] {
            let found = changes(&before, &after, &[], Some(4));
            assert_eq!(parts(&found), [(0, 6, 8, term, term)]);
        }
    }

    #[test]
    fn orders_say_whose_it_was_if_nothing_else_does() {
        let after = pieces(&[(0, 6, 8, 5), (6, 10, 10, 7)]);
        let orders = [(8, Order { key: KEY, from: 0, to: 10, owner: 10 })];
        let found = changes(&pieces(&[]), &after, &orders, Some(4));
        assert_eq!(parts(&found), [(6, 10, 10, 1, 7)]);
    }

    #[test]
    fn a_later_one_takes_the_place_of_what_it_overlaps() {
        let mut all = Tenures::new();
        for (from, to, owner) in [(0, 10, 8), (2, 4, 10), (3, 6, 12)] {
            let new = Tenure { from, to, owner, since: 1, term: 1 };
            note(&mut all, &[(KEY, KeyTenures { parts: vec![new] })].into());
        }
        let owners: Vec<_> = parts(&all).into_iter().map(|part| (part.0, part.1, part.2)).collect();
        assert_eq!(owners, [(0, 2, 8), (2, 3, 10), (3, 6, 12), (6, 10, 8)]);
    }
}
