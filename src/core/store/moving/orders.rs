//! Orders to move: which parts of a piece they are about, and which wait for the end of a round
//! (docs/elastic.md, "A move"). Pure.

use std::collections::BTreeMap;

use super::limits::ORDERS_MAX;
use super::servers::LiveServers;
use crate::store::pieces::tensor::{ALIGN, Piece};
use crate::wire::elastic::Order;
use crate::wire::{Key, NodeId};

/// A part of a piece, and where it is to go if it does not stay.
pub(super) type Segment = (u64, u64, Option<NodeId>);

/// The parts of a piece `[from, to)` under these orders, of which later ones count more. Cuts are
/// possible at multiples of [`ALIGN`]; if there may be none, only orders about the whole piece
/// count.
pub(super) fn segments(from: u64, to: u64, orders: &[Order], divisible: bool) -> Vec<Segment> {
    let mut parts: Vec<Segment> = vec![(from, to, None)];
    for order in orders {
        let down = |at: u64| at / ALIGN * ALIGN;
        let begin = if order.from <= from { from } else { down(order.from).max(from) };
        let end = if order.to >= to { to } else { down(order.to).max(from) };
        let apart = order.from >= to || order.to <= from;
        if apart || begin >= end || (!divisible && (begin, end) != (from, to)) {
            continue;
        }
        let outside = parts.iter().flat_map(|&(from, to, owner)| {
            [(from, to.min(begin), owner), (from.max(end), to, owner)]
        });
        let mut all: Vec<Segment> = outside.filter(|(from, to, _)| from < to).collect();
        all.push((begin, end, Some(order.owner)));
        all.sort_unstable();
        parts = all;
    }
    parts.dedup_by(|next, before| {
        let same = next.2 == before.2;
        if same {
            before.1 = next.1;
        }
        same
    });
    parts
}

/// The same parts, none of them of more elements than that: longer ones are cut into parts of about
/// equal length.
pub(super) fn shortened(parts: &[Segment], longest: u64) -> Vec<Segment> {
    let longest = (longest / ALIGN * ALIGN).max(ALIGN);
    let shorter = |&(from, to, owner): &Segment| {
        let count = (to - from).div_ceil(longest);
        let step = (to - from).div_ceil(count.max(1)).next_multiple_of(ALIGN).min(longest);
        // The first cut lies between words; all others are whole words behind it.
        let first = from / ALIGN * ALIGN + step;
        let borders = std::iter::successors(Some(first), move |at| at.checked_add(step));
        let mut borders: Vec<u64> = borders.take_while(|at| *at < to).collect();
        borders.push(to);
        let begins = std::iter::once(from).chain(borders.clone());
        begins.zip(borders).map(move |(from, to)| (from, to, owner)).collect::<Vec<Segment>>()
    };
    parts.iter().flat_map(shorter).collect()
}

/// What was ordered and waits for the end of a round.
#[derive(Debug, Default)]
pub(super) struct WaitingOrders {
    of: BTreeMap<Key, Vec<Order>>,
}

impl WaitingOrders {
    /// Those about a key, of which later ones count more.
    pub(super) fn of(&self, key: Key) -> &[Order] {
        self.of.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The keys that they are about.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.of.keys()
    }

    /// One more. Of too many the oldest is forgotten.
    pub(super) fn add(&mut self, order: Order) {
        let waiting = self.of.entry(order.key).or_default();
        if waiting.len() >= ORDERS_MAX {
            waiting.remove(0);
        }
        waiting.push(order);
    }

    /// What waits to be moved of these elements stays.
    pub(super) fn take_back(&mut self, order: &Order) {
        let Some(waiting) = self.of.get_mut(&order.key) else { return };
        let outside = |known: &Order| {
            let before = Order { to: known.to.min(order.from), ..*known };
            let behind = Order { from: known.from.max(order.to), ..*known };
            [before, behind].into_iter().filter(|part| part.from < part.to)
        };
        *waiting = waiting.iter().flat_map(outside).collect();
        let over = waiting.len().saturating_sub(ORDERS_MAX);
        waiting.drain(..over);
    }

    /// Forgets those that name a server that is gone.
    pub(super) fn forget_to(&mut self, servers: &LiveServers) {
        self.of.values_mut().for_each(|all| all.retain(|order| !servers.is_gone(order.owner)));
    }

    /// Forgets those that none of these pieces, which are all of a key, waits to follow.
    pub(super) fn forget_idle(&mut self, key: Key, pieces: &[Piece]) {
        let Some(orders) = self.of.get_mut(&key) else { return };
        orders.retain(|order| {
            let about = |piece: &&Piece| piece.from < order.to && order.from < piece.to;
            pieces.iter().filter(about).any(is_busy)
        });
        if orders.is_empty() {
            self.of.remove(&key);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }
}

/// True if it must not leave yet: workers are pushing to it, or the server that it came from, or
/// its former replica, still keeps it as it was.
pub(super) fn is_busy(piece: &Piece) -> bool {
    piece.round.is_open() || piece.source.is_some() || piece.former_copy.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_parts_are_cut_between_words() {
        let parts = [(0, 64, None), (64, 229, Some(8)), (229, 230, None)];
        let short = [
            (0, 32, None),
            (32, 64, None),
            (64, 96, Some(8)),
            (96, 128, Some(8)),
            (128, 160, Some(8)),
            (160, 192, Some(8)),
            (192, 224, Some(8)),
            (224, 229, Some(8)),
            (229, 230, None),
        ];
        assert_eq!(shortened(&parts, 40), short);
        assert_eq!(shortened(&parts, u64::MAX), parts);
        assert_eq!(shortened(&[(5, 40, None)], 1), [(5, 16, None), (16, 32, None), (32, 40, None)]);
        assert_eq!(shortened(&[(0, 100, None)], 64), [(0, 64, None), (64, 100, None)]);
    }

    #[test]
    fn orders_cut_between_words_and_the_last_one_counts() {
        let order = |from, to, owner| Order { key: 0, from, to, owner };
        let parts = |orders: &[Order]| segments(16, 100, orders, true);
        assert_eq!(parts(&[]), [(16, 100, None)]);
        assert_eq!(parts(&[order(0, 200, 8)]), [(16, 100, Some(8))]);
        assert_eq!(
            parts(&[order(40, 70, 8)]),
            [(16, 32, None), (32, 64, Some(8)), (64, 100, None)]
        );
        assert_eq!(
            parts(&[order(0, 64, 8), order(32, 100, 10)]),
            [(16, 32, Some(8)), (32, 100, Some(10))]
        );
        assert_eq!(parts(&[order(0, 64, 8), order(64, 100, 8)]), [(16, 100, Some(8))]);
        assert_eq!(parts(&[order(17, 31, 8), order(100, 120, 8)]), [(16, 100, None)]);
        let whole = |orders: &[Order]| segments(16, 100, orders, false);
        assert_eq!(whole(&[order(16, 64, 8)]), [(16, 100, None)]);
        assert_eq!(whole(&[order(16, 100, 8), order(16, 64, 10)]), [(16, 100, Some(8))]);
    }
}
