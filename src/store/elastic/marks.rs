//! Which pushes counted: of each customer of each worker the last one. Pure.

use std::collections::BTreeMap;

use crate::wire::elastic::Mark;
use crate::wire::{Meta, NodeId};

/// Timestamps count up to this and begin anew at 0.
const TIMESTAMPS: u32 = 1 << 31;

/// The last push of each customer that counted in a completed round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Marks {
    last: BTreeMap<(NodeId, i32), i32>,
}

impl Marks {
    /// True if this push has counted. One that does not say which part of a key it is about is never looked
    /// up: nobody sends it twice.
    pub(in crate::store) fn count(&self, request: &Meta) -> bool {
        if request.placed.is_none() {
            return false;
        }
        let last = self.last.get(&(request.sender, request.customer_id));
        last.is_some_and(|last| !is_later(request.timestamp, *last))
    }

    /// True if the push before this one, of the same customer and key, has counted, or if there was none.
    pub(in crate::store) fn count_before(&self, request: &Meta) -> bool {
        let Some(before) = before(request) else { return true };
        let last = self.last.get(&(request.sender, request.customer_id));
        last.is_some_and(|last| !is_later(before, *last))
    }

    /// The mark of a push.
    pub(super) fn of(request: &Meta) -> Option<Mark> {
        request.placed.as_ref().map(|_| Mark {
            worker: request.sender,
            customer: request.customer_id,
            timestamp: request.timestamp,
        })
    }

    /// These pushes count now too.
    pub(super) fn add(&mut self, marks: &[Mark]) {
        for mark in marks {
            let last = self.last.entry((mark.worker, mark.customer)).or_insert(mark.timestamp);
            if is_later(mark.timestamp, *last) {
                *last = mark.timestamp;
            }
        }
    }

    /// The worker's id is another process's now.
    pub(super) fn forget(&mut self, worker: NodeId) {
        self.last.retain(|(sender, _), _| *sender != worker);
    }

    /// All of them.
    pub(super) fn to_wire(&self) -> Vec<Mark> {
        let mark = |(&(worker, customer), &timestamp)| Mark { worker, customer, timestamp };
        self.last.iter().map(mark).collect()
    }
}

/// The timestamp of the push before this one, if there was one.
pub(in crate::store) fn before(request: &Meta) -> Option<i32> {
    let after = request.placed.as_ref().map_or(0, |placed| placed.after);
    i32::try_from(after.checked_sub(1)?).ok()
}

/// True if `one` comes after `other`, of two timestamps less than half of all apart (RFC 1982).
pub(in crate::store) const fn is_later(one: i32, other: i32) -> bool {
    let ahead = (one as u32).wrapping_sub(other as u32) & (TIMESTAMPS - 1);
    0 < ahead && ahead < TIMESTAMPS / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::elastic::Placed;

    fn push(timestamp: i32) -> Meta {
        let placed = Some(Placed::default());
        Meta { sender: 9, customer_id: 0, timestamp, placed, ..Meta::default() }
    }

    #[test]
    fn timestamps_wrap() {
        assert!(is_later(1, 0) && !is_later(0, 1) && !is_later(5, 5));
        assert!(is_later(0, i32::MAX) && is_later(3, i32::MAX - 3) && !is_later(i32::MAX, 0));
    }

    #[test]
    fn what_counted_counts_and_no_more() {
        let mut marks = Marks::default();
        assert!(!marks.count(&push(0)));
        marks.add(&[Marks::of(&push(i32::MAX)).unwrap()]);
        assert!(marks.count(&push(i32::MAX)) && !marks.count(&push(7)));
        marks.add(&[Marks::of(&push(0)).unwrap()]);
        marks.add(&[Marks::of(&push(i32::MAX)).unwrap()]);
        assert!(marks.count(&push(0)) && marks.count(&push(i32::MAX)) && !marks.count(&push(1)));
        assert!(!marks.count(&Meta { sender: 11, ..push(0) }));
        assert!(!marks.count(&Meta { placed: None, ..push(0) }));
        let next = |after| Meta { placed: Some(Placed { after, ..Placed::default() }), ..push(9) };
        assert!(marks.count_before(&next(0)) && marks.count_before(&next(1)));
        assert!(marks.count_before(&next(1 << 31)) && !marks.count_before(&next(2)));
        assert!(!marks.count_before(&Meta { customer_id: 1, ..next(1) }));
        assert_eq!(marks.to_wire(), [Mark { worker: 9, customer: 0, timestamp: 0 }]);
        marks.forget(9);
        assert!(!marks.count(&push(0)));
    }
}
