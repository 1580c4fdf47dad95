//! The pushes of a round, in the order in which they came, and who made them. Pure. A round of few
//! workers is searched; one of many has an index, so that a push costs no more the more workers
//! there are.

use std::collections::BTreeMap;

use super::elastic::marks::Customer;
use crate::wire::Meta;

/// Up to so many are searched.
const SEARCHED_MAX: usize = 16;

/// The requests that await the end of a round: of each customer one.
#[derive(Debug, Default)]
pub(super) struct Askers {
    all: Vec<Meta>,
    /// Apart, since there may be very many keys, whose rounds are open at the same time, and few
    /// workers: the timestamp of each customer's push, once they are many.
    #[allow(clippy::box_collection, reason = "an absent one is to cost eight bytes")]
    index: Option<Box<BTreeMap<Customer, i32>>>,
}

impl Askers {
    /// Adds a push of a customer that has none yet.
    pub(super) fn push(&mut self, request: Meta) {
        if self.all.is_empty() {
            self.all.reserve_exact(1);
        }
        let who = (Customer::of(&request), request.timestamp);
        self.all.push(request);
        if let Some(index) = &mut self.index {
            index.insert(who.0, who.1);
        } else if self.all.len() > SEARCHED_MAX {
            let all = self.all.iter().map(|asker| (Customer::of(asker), asker.timestamp));
            self.index = Some(Box::new(all.collect()));
        }
    }

    /// The timestamp of the push of a customer, if it has one.
    pub(super) fn of(&self, who: Customer) -> Option<i32> {
        match &self.index {
            Some(index) => index.get(&who).copied(),
            None => {
                let mut all = self.all.iter();
                all.find(|asker| Customer::of(asker) == who).map(|asker| asker.timestamp)
            }
        }
    }

    /// All, in the order in which they came.
    pub(super) fn as_slice(&self) -> &[Meta] {
        &self.all
    }

    /// All, in the order in which they came; none is left.
    pub(super) fn take(&mut self) -> Vec<Meta> {
        self.index = None;
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_found_by_its_customer_whether_there_are_few_or_many() {
        let mut askers = Askers::default();
        let push = |sender, timestamp| Meta { sender, timestamp, ..Meta::default() };
        for worker in 0..40 {
            let who = Customer::of(&push(worker, 0));
            assert_eq!(askers.of(who), None);
            askers.push(push(worker, 7 + worker));
            let known: Vec<_> =
                (0..=worker).map(|known| askers.of(Customer::of(&push(known, 0)))).collect();
            assert_eq!(known, (0..=worker).map(|known| Some(7 + known)).collect::<Vec<_>>());
        }
        assert_eq!(askers.as_slice().len(), 40);
        assert_eq!(askers.take().last().map(|last| last.sender), Some(39));
        assert_eq!(askers.of(Customer::of(&push(3, 0))), None);
        assert!(askers.take().is_empty());
    }
}
