//! The contributions of a round without their sums, in the order in which they came. Pure. A round
//! of few pushes is searched; one of many has an index, so that a push costs no more the more
//! workers there are.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::contribution::Pushes;
use super::name::Customer;
use crate::invariant::{Valid, require};
use crate::wire::NodeId;

/// Up to so many pushes are searched.
const SEARCHED_MAX: usize = 16;

/// Whose pushes are in a round, of each customer one, and whose requests await its end.
#[derive(Debug, Default)]
pub(in crate::store) struct Contributors {
    all: Vec<Pushes>,
    /// Apart, since there may be very many keys, whose rounds are open at the same time, and few
    /// workers: the timestamp of each customer's push, once they are many.
    #[allow(clippy::box_collection, reason = "an absent one is to cost eight bytes")]
    index: Option<Box<BTreeMap<Customer, i32>>>,
    /// Customers of processes that have died. What they pushed is in the sum; their successors are
    /// to push it again, and have the answer.
    #[allow(clippy::box_collection, reason = "as above")]
    dead: Option<Box<BTreeSet<Customer>>>,
}

impl Contributors {
    /// Adds the pushes of customers that have none yet.
    pub(in crate::store) fn push(&mut self, pushes: Pushes) {
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

    /// That worker has died.
    pub(in crate::store) fn died(&mut self, worker: NodeId) {
        let of_it = self.customers().filter(|who| who.worker == worker);
        let dead: BTreeSet<Customer> = of_it.collect();
        if !dead.is_empty() {
            self.dead.get_or_insert_default().extend(dead);
        }
    }

    /// True if somebody is dead whose successor has not pushed yet.
    pub(in crate::store) const fn lack_any(&self) -> bool {
        self.dead.is_some()
    }

    /// True if that is a push of a process that has the id of one that died, whose push is here.
    pub(in crate::store) fn is_successor(&self, pushes: &Pushes) -> bool {
        let Pushes::One(push) = pushes else { return false };
        self.dead.as_ref().is_some_and(|dead| dead.contains(&Customer::of(push)))
    }

    /// The push of a successor takes the place of the former one: it awaits the answer from now on.
    pub(in crate::store) fn succeed(&mut self, pushes: Pushes) {
        let Some(name) = pushes.names().next() else { return };
        if let Some(dead) = &mut self.dead {
            dead.remove(&name.who);
        }
        self.dead.take_if(|dead| dead.is_empty());
        if let Some(index) = &mut self.index {
            index.insert(name.who, name.timestamp);
        }
        let is_former = |one: &&mut Pushes| one.customers().any(|who| who == name.who);
        if let Some(former) = self.all.iter_mut().find(is_former) {
            *former = pushes;
        }
    }

    /// How many pushes they are.
    pub(in crate::store) fn len(&self) -> usize {
        match &self.index {
            Some(index) => index.len(),
            None => self.all.iter().map(Pushes::count).sum(),
        }
    }

    /// True if there are none.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The timestamp of the push of a customer, if it has one.
    pub(in crate::store) fn of(&self, who: Customer) -> Option<i32> {
        match &self.index {
            Some(index) => index.get(&who).copied(),
            None => {
                let mut names = self.all.iter().flat_map(Pushes::names);
                names.find(|name| name.who == who).map(|name| name.timestamp)
            }
        }
    }

    /// Whose pushes they are, in the order in which they came.
    pub(in crate::store) fn customers(&self) -> impl Iterator<Item = Customer> + '_ {
        self.all.iter().flat_map(Pushes::customers)
    }

    /// No customer is in it twice, and the index is what a walk over all finds.
    pub(in crate::store) fn validate(&self) -> Valid {
        let names = self.all.iter().flat_map(Pushes::names).map(|name| (name.who, name.timestamp));
        // This is looked at after each push in debug builds: no map, as long as they are few.
        let mut walked: SmallVec<[(Customer, i32); SEARCHED_MAX]> = names.collect();
        walked.sort_unstable();
        let twice = walked.windows(2).find(|pair| pair[0].0 == pair[1].0);
        require(twice.is_none(), || format!("two pushes are of one customer: {twice:?}"))?;
        let is_walked = |index: &BTreeMap<Customer, i32>| {
            index.iter().map(|(who, timestamp)| (*who, *timestamp)).eq(walked.iter().copied())
        };
        require(self.index.as_deref().is_none_or(is_walked), || {
            format!("the index is {:?}, the pushes are {walked:?}", self.index)
        })?;
        let is_in = |who: &Customer| walked.binary_search_by_key(who, |(who, _)| *who).is_ok();
        let here = |dead: &BTreeSet<Customer>| dead.iter().all(is_in);
        require(self.dead.as_ref().is_none_or(|dead| !dead.is_empty() && here(dead)), || {
            format!("of the dead {:?} some have pushed nothing to it", self.dead)
        })
    }

    /// All, in the order in which they came; none is left.
    pub(in crate::store) fn take(&mut self) -> Vec<Pushes> {
        (self.index, self.dead) = (None, None);
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

    /// Few pushes and many, which have an index.
    #[test]
    fn the_push_of_a_successor_takes_the_place_of_the_dead_ones() {
        for workers in [3, 40] {
            let mut contributors = Contributors::default();
            (0..workers).for_each(|worker| contributors.push(Pushes::One(push(worker, 8))));
            contributors.died(99);
            assert!(!contributors.lack_any());
            contributors.died(1);
            let (successor, other) = (Pushes::One(push(1, 0)), Pushes::One(push(0, 9)));
            assert!(contributors.is_successor(&successor) && !contributors.is_successor(&other));
            assert!(contributors.lack_any());
            contributors.succeed(successor);
            contributors.validate().unwrap();
            assert!(!contributors.lack_any() && contributors.len() == workers as usize);
            assert_eq!(contributors.of(Customer::of(&push(1, 0))), Some(0));
            assert!(!contributors.is_successor(&Pushes::One(push(1, 1))), "one is there already");
            let answered = contributors.take().into_iter().map(Pushes::into_request);
            let answered: Vec<_> = answered.map(|push| (push.sender, push.timestamp)).collect();
            assert_eq!(answered[..3], [(0, 8), (1, 0), (2, 8)]);
        }
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
            let sum = push(first, 1).along(hop);
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
