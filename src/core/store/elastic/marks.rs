//! Who pushes, and which pushes counted: of each customer of each worker the last one. Pure.

use crate::wire::elastic::Mark;
use crate::wire::{Meta, NodeId};

/// Timestamps count up to this and begin anew at 0.
const TIMESTAMPS: u32 = 1 << 31;

/// One customer of one process. A worker's id may become another process's, whose timestamps begin
/// anew: that is another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Customer {
    pub(in crate::store) worker: NodeId,
    pub(in crate::store) customer: i32,
    /// Which one of the worker's lives (`Placed::life`).
    pub(in crate::store) life: u64,
}

impl Customer {
    /// Whose request that is.
    pub(in crate::store) fn of(request: &Meta) -> Self {
        let life = request.placed.as_ref().map_or(0, |placed| placed.life);
        Self { worker: request.sender, customer: request.customer_id, life }
    }
}

/// The last push of each customer that counted in a completed round. Of a worker's lives only the
/// last one is known: what an earlier one might still say means nothing any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Marks {
    /// By worker and customer. No map: each piece has marks, and there may be very many small
    /// pieces.
    last: Vec<Mark>,
}

impl Marks {
    /// True if this push has counted. One that does not say which part of a key it is about is
    /// never looked up: nobody sends it twice.
    pub(in crate::store) fn count(&self, request: &Meta) -> bool {
        request.placed.is_some() && self.has(Customer::of(request), request.timestamp)
    }

    /// True if the push before this one, of the same customer and key, has counted, or if there was
    /// none.
    pub(in crate::store) fn count_before(&self, request: &Meta) -> bool {
        before(request).is_none_or(|before| self.has(Customer::of(request), before))
    }

    /// True if that customer's push has counted, or can count no more.
    fn has(&self, of: Customer, timestamp: i32) -> bool {
        let found = self.find((of.worker, of.customer));
        found.ok().and_then(|at| self.last.get(at)).is_some_and(|last| {
            last.life > of.life || (last.life == of.life && !is_later(timestamp, last.timestamp))
        })
    }

    /// The mark of a push.
    pub(in crate::store) fn of(request: &Meta) -> Option<Mark> {
        request.placed.as_ref().map(|placed| Mark {
            worker: request.sender,
            customer: request.customer_id,
            timestamp: request.timestamp,
            life: placed.life,
        })
    }

    /// These pushes count now too.
    pub(in crate::store) fn add(&mut self, marks: &[Mark]) {
        for (index, mark) in marks.iter().enumerate() {
            match self.find((mark.worker, mark.customer)) {
                Ok(at) => {
                    let last = &mut self.last[at];
                    let later = is_later(mark.timestamp, last.timestamp);
                    if mark.life > last.life || (mark.life == last.life && later) {
                        *last = *mark;
                    }
                }
                Err(at) => {
                    if self.last.len() == self.last.capacity() {
                        // Most rounds have the same customers: no more room than for these.
                        self.last.reserve_exact(marks.len() - index);
                    }
                    self.last.insert(at, *mark);
                }
            }
        }
    }

    /// Where the mark of a customer is, or would be.
    fn find(&self, who: (NodeId, i32)) -> Result<usize, usize> {
        self.last.binary_search_by_key(&who, |mark| (mark.worker, mark.customer))
    }

    /// The worker's id is another process's now.
    pub(in crate::store) fn forget(&mut self, worker: NodeId) {
        self.last.retain(|mark| mark.worker != worker);
    }

    /// All of them.
    pub(in crate::store) fn to_wire(&self) -> Vec<Mark> {
        self.last.clone()
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
        push_in(0, timestamp)
    }

    fn push_in(life: u64, timestamp: i32) -> Meta {
        let placed = Some(Placed { life, ..Placed::default() });
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
        let mark = Mark { worker: 9, customer: 0, timestamp: 0, life: 0 };
        assert_eq!(marks.to_wire(), [mark]);
        marks.forget(9);
        assert!(!marks.count(&push(0)));
    }

    #[test]
    fn another_life_begins_anew_and_ends_the_one_before() {
        let mut marks = Marks::default();
        marks.add(&[Marks::of(&push(100)).unwrap()]);
        assert!(!marks.count(&push_in(4, 3)), "the new process counts from 0 again");
        marks.add(&[Marks::of(&push_in(4, 3)).unwrap()]);
        assert!(marks.count(&push_in(4, 3)) && !marks.count(&push_in(4, 4)));
        assert!(marks.count(&push(101)), "nothing of the former one counts any more");
        marks.add(&[Marks::of(&push(101)).unwrap()]);
        assert_eq!(marks.to_wire(), [Mark { worker: 9, customer: 0, timestamp: 3, life: 4 }]);
    }
}
