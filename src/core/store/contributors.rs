//! The contributions of a round without their sums, in the order in which they came. Pure. A round
//! of few pushes is searched; one of many has an index, so that a push costs no more the more
//! workers there are.

use std::collections::BTreeMap;

use super::contribution::Pushes;
use super::name::Customer;
use crate::invariant::{Valid, require};

/// Up to so many pushes are searched.
const SEARCHED_MAX: usize = 16;

/// Whose pushes are in a round, of each customer one, and whose requests await its end.
#[derive(Debug, Default)]
pub(super) struct Contributors {
    all: Vec<Pushes>,
    /// Apart, since there may be very many keys, whose rounds are open at the same time, and few
    /// workers: the timestamp of each customer's push, once they are many.
    #[allow(clippy::box_collection, reason = "an absent one is to cost eight bytes")]
    index: Option<Box<BTreeMap<Customer, i32>>>,
}

impl Contributors {
    /// Adds the pushes of customers that have none yet.
    pub(super) fn push(&mut self, pushes: Pushes) {
        if self.all.is_empty() {
            self.all.reserve_exact(1);
        }
        if let Some(index) = &mut self.index {
            index.extend(pushes.names().map(|name| (name.who, name.timestamp)));
        }
        // A tree's sums have one answer.
        let same = match pushes {
            Pushes::One(_) => None,
            Pushes::Several(_) => self.all.iter_mut().find(|one| one.goes_with(&pushes)),
        };
        match same {
            Some(one) => one.join(pushes),
            None => self.all.push(pushes),
        }
        if self.index.is_none() && self.len() > SEARCHED_MAX {
            let names = self.all.iter().flat_map(Pushes::names);
            self.index = Some(Box::new(names.map(|name| (name.who, name.timestamp)).collect()));
        }
    }

    /// How many pushes they are.
    pub(super) fn len(&self) -> usize {
        match &self.index {
            Some(index) => index.len(),
            None => self.all.iter().map(Pushes::count).sum(),
        }
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The timestamp of the push of a customer, if it has one.
    pub(super) fn of(&self, who: Customer) -> Option<i32> {
        match &self.index {
            Some(index) => index.get(&who).copied(),
            None => {
                let mut names = self.all.iter().flat_map(Pushes::names);
                names.find(|name| name.who == who).map(|name| name.timestamp)
            }
        }
    }

    /// Whose pushes they are, in the order in which they came.
    pub(super) fn customers(&self) -> impl Iterator<Item = Customer> + '_ {
        self.all.iter().flat_map(Pushes::customers)
    }

    /// No customer is in it twice, and the index is what a walk over all finds.
    pub(super) fn validate(&self) -> Valid {
        let names = || self.all.iter().flat_map(Pushes::names);
        let walked: BTreeMap<Customer, i32> =
            names().map(|name| (name.who, name.timestamp)).collect();
        let count = names().count();
        require(walked.len() == count, || {
            format!("{count} pushes are of {} customers", walked.len())
        })?;
        require(self.index.as_ref().is_none_or(|index| **index == walked), || {
            format!("the index is {:?}, the pushes are {walked:?}", self.index)
        })
    }

    /// All, in the order in which they came; none is left.
    pub(super) fn take(&mut self) -> Vec<Pushes> {
        self.index = None;
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::name_of;
    use crate::wire::Meta;
    use crate::wire::trees::{Hop, Ticket};

    fn push(sender: i32, timestamp: i32) -> Meta {
        Meta { sender, timestamp, ..Meta::default() }
    }

    #[test]
    fn a_push_is_found_by_its_customer_whether_there_are_few_or_many() {
        let mut contributors = Contributors::default();
        for worker in 0..40 {
            let who = Customer::of(&push(worker, 0));
            assert_eq!(contributors.of(who), None);
            contributors.push(Pushes::One(push(worker, 7 + worker)));
            let known: Vec<_> =
                (0..=worker).map(|known| contributors.of(Customer::of(&push(known, 0)))).collect();
            assert_eq!(known, (0..=worker).map(|known| Some(7 + known)).collect::<Vec<_>>());
        }
        assert_eq!(contributors.len(), 40);
        assert_eq!(contributors.take().last().map(|last| last.request().sender), Some(39));
        assert_eq!(contributors.of(Customer::of(&push(3, 0))), None);
        assert!(contributors.is_empty() && contributors.take().is_empty());
    }

    #[test]
    fn each_name_of_a_sum_is_found_whether_there_are_few_or_many() {
        let mut contributors = Contributors::default();
        for first in (0..40).step_by(4) {
            let names = (first..first + 4).map(|worker| name_of(&push(worker, 7 + worker)));
            let ticket = Ticket { tree: first as u32 / 8, ..Ticket::default() };
            let hop = Hop { ticket, names: names.collect(), ..Hop::default() };
            let sum = Meta { hop: Some(Box::new(hop)), ..push(first, 1) };
            contributors.push(Pushes::several(sum).unwrap());
            assert_eq!(contributors.len(), first as usize + 4);
            for worker in 0..44 {
                let found = contributors.of(Customer::of(&push(worker, 0)));
                assert_eq!(found, (worker < first + 4).then_some(7 + worker));
            }
        }
        let workers: Vec<_> = contributors.customers().map(|who| who.worker).collect();
        assert_eq!(workers, (0..40).collect::<Vec<_>>());
        assert_eq!(contributors.take().len(), 5, "each tree is answered once");
    }

    /// A round keeps one for each push, and a server may have very many open rounds.
    #[test]
    fn a_push_takes_no_more_than_its_request() {
        assert_eq!(size_of::<Pushes>(), size_of::<Meta>());
    }
}
