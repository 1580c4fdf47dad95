//! Which pushes counted, by their names: of each customer of each worker the last one. Pure.

use super::name::{Customer, Name};
use crate::invariant::{Valid, require};
use crate::wire::NodeId;
use crate::wire::elastic::Mark;

/// Timestamps count up to this and begin anew at 0.
const TIMESTAMPS: u32 = 1 << 31;

/// The last push of each customer that counted in a completed round. Of a worker's lives only the
/// last one is known: what an earlier one might still say means nothing any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Marks {
    /// By worker and customer. No map: each piece has marks, and there may be very many small
    /// pieces.
    last: Vec<Mark>,
}

impl Marks {
    /// True if this push has counted. One of a worker that does not follow pieces is never looked
    /// up: nobody sends it twice.
    pub(in crate::store) fn count(&self, push: &Name) -> bool {
        push.slice.is_some() && self.has(push.who, push.timestamp)
    }

    /// True if the push before this one, of the same customer and key, has counted, or if there was
    /// none.
    pub(in crate::store) fn count_before(&self, push: &Name) -> bool {
        push.before().is_none_or(|before| self.has(push.who, before))
    }

    /// True if that customer's push has counted, or can count no more.
    fn has(&self, of: Customer, timestamp: i32) -> bool {
        let found = self.find(of.worker, of.customer);
        found.ok().and_then(|at| self.last.get(at)).is_some_and(|last| {
            last.life > of.life || (last.life == of.life && !is_later(timestamp, last.timestamp))
        })
    }

    /// These pushes count now too.
    pub(in crate::store) fn add(&mut self, marks: &[Mark]) {
        for (index, mark) in marks.iter().enumerate() {
            match self.find(mark.worker, mark.customer) {
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
    fn find(&self, worker: NodeId, customer: i32) -> Result<usize, usize> {
        self.last.binary_search_by_key(&(worker, customer), |mark| (mark.worker, mark.customer))
    }

    /// The worker's id is another process's now.
    pub(in crate::store) fn forget(&mut self, worker: NodeId) {
        self.last.retain(|mark| mark.worker != worker);
    }

    /// Each customer has one mark, and they are in order: only so are they found.
    pub(in crate::store) fn validate(&self) -> Valid {
        let who = |mark: &Mark| (mark.worker, mark.customer);
        let mut pairs = self.last.windows(2);
        let wrong = pairs.find(|pair| who(&pair[0]) >= who(&pair[1]));
        require(wrong.is_none(), || format!("two marks are not in order: {wrong:?}"))
    }

    /// The other way round, for the test of [`Self::validate`].
    #[cfg(test)]
    pub(in crate::store) fn spoil(&mut self) {
        self.last.reverse();
    }

    /// All of them.
    pub(in crate::store) fn to_wire(&self) -> Vec<Mark> {
        self.last.clone()
    }
}

/// True if `one` comes after `other`, of two timestamps less than half of all apart (RFC 1982).
pub(in crate::store) const fn is_later(one: i32, other: i32) -> bool {
    let ahead = (one as u32).wrapping_sub(other as u32) & (TIMESTAMPS - 1);
    0 < ahead && ahead < TIMESTAMPS / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(timestamp: i32) -> Name {
        push_in(0, timestamp)
    }

    fn push_in(life: u64, timestamp: i32) -> Name {
        let who = Customer { worker: 9, customer: 0, life };
        Name { who, timestamp, after: 0, slice: Some(0) }
    }

    fn add(marks: &mut Marks, push: &Name) {
        marks.add(push.mark().as_slice());
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
        add(&mut marks, &push(i32::MAX));
        assert!(marks.count(&push(i32::MAX)) && !marks.count(&push(7)));
        add(&mut marks, &push(0));
        add(&mut marks, &push(i32::MAX));
        assert!(marks.count(&push(0)) && marks.count(&push(i32::MAX)) && !marks.count(&push(1)));
        let other = |worker, customer| Customer { worker, customer, life: 0 };
        assert!(!marks.count(&Name { who: other(11, 0), ..push(0) }));
        assert!(!marks.count(&Name { slice: None, ..push(0) }));
        let next = |after| Name { after, ..push(9) };
        assert!(marks.count_before(&next(0)) && marks.count_before(&next(1)));
        assert!(marks.count_before(&next(1 << 31)) && !marks.count_before(&next(2)));
        assert!(!marks.count_before(&Name { who: other(9, 1), ..next(1) }));
        let mark = Mark { worker: 9, customer: 0, timestamp: 0, life: 0 };
        assert_eq!(marks.to_wire(), [mark]);
        marks.forget(9);
        assert!(!marks.count(&push(0)));
    }

    #[test]
    fn another_life_begins_anew_and_ends_the_one_before() {
        let mut marks = Marks::default();
        add(&mut marks, &push(100));
        assert!(!marks.count(&push_in(4, 3)), "the new process counts from 0 again");
        add(&mut marks, &push_in(4, 3));
        assert!(marks.count(&push_in(4, 3)) && !marks.count(&push_in(4, 4)));
        assert!(marks.count(&push(101)), "nothing of the former one counts any more");
        add(&mut marks, &push(101));
        assert_eq!(marks.to_wire(), [Mark { worker: 9, customer: 0, timestamp: 3, life: 4 }]);
    }
}
