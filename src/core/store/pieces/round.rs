//! One round of a key in `dist_sync`: what each worker pushed, summed.
//!
//! Stock counts pushes, whoever they come from (kvstore_dist_server.h, ApplyUpdates), so two pushes
//! of one worker can make up a round. Here a customer of a worker counts once in a round; its next
//! push waits for the next one. What a round takes are contributions ([`super::contribution`]): it
//! counts the pushes that these name.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::awaited::Workers;
use super::contribution::{Contribution, Pushes};
use super::contributors::Contributors;
use super::name::Customer;
use super::sums::Sum;
use crate::invariant::{Valid, require};
use crate::store::error::StoreError;
use crate::values::{Buffer, Dtype, Space};
use crate::wire::{Meta, NodeId};

/// Contributions to one key that wait for its next rounds; those beyond are refused.
pub(in crate::store) const LATER_MAX: usize = 1024;

/// The round that a piece waits for. Apart from the piece while it is open: at rest, where a server
/// may hold very many small pieces, it takes one word.
#[derive(Debug, Default)]
pub(in crate::store) struct Round {
    open: Option<Box<Open>>,
}

/// The contributions to the open round, and those that came too early.
#[derive(Debug, Default)]
struct Open {
    sum: Sum,
    contributors: Contributors,
    later: VecDeque<Contribution>,
    /// Its place among the rounds that wait ([`super::stalls`]), once it waits.
    number: Option<u64>,
}

impl Open {
    /// True if everybody has pushed that it waited for.
    fn is_full(&self, quorum: &Quorum) -> bool {
        let all = match &quorum.live {
            None => self.contributors.len() >= quorum.workers && !self.contributors.lack_any(),
            Some(live) => live.are_all_in(&self.contributors, quorum.space),
        };
        all && !self.contributors.is_empty()
    }
}

/// A round that everybody has pushed to.
#[derive(Debug)]
pub(in crate::store) struct Complete {
    pub(in crate::store) sum: Sum,
    /// Which pushes are in it and who awaits an answer, in the order in which they came.
    pub(in crate::store) contributors: Vec<Pushes>,
    /// Its place among the rounds that waited, if it did.
    pub(in crate::store) number: Option<u64>,
}

impl Round {
    /// Takes a contribution. `like`: the value.
    pub(in crate::store) fn push(
        &mut self,
        contribution: Contribution,
        dtype: Dtype,
        quorum: &Quorum,
        like: &Buffer,
    ) -> Result<(), StoreError> {
        let is_early = self.has(&contribution.pushes);
        let open = self.open.get_or_insert_default();
        if open.contributors.is_successor(&contribution.pushes) {
            open.contributors.succeed(contribution.pushes);
            return Ok(());
        }
        if is_early {
            if open.later.len() >= LATER_MAX {
                return Err(StoreError::TooEarly { waiting: LATER_MAX });
            }
            open.later.push_back(contribution);
            return Ok(());
        }
        let Contribution { sum, pushes } = contribution;
        open.sum.add(pushes.first_worker(), sum, dtype, quorum.keeps_order, like)?;
        open.contributors.push(pushes);
        Ok(())
    }

    /// Ends the round if it has all that it waited for.
    pub(in crate::store) fn complete(&mut self, quorum: &Quorum) -> Option<Complete> {
        let open = self.open.as_mut()?;
        if !open.is_full(quorum) {
            return None;
        }
        let sum = std::mem::take(&mut open.sum);
        let contributors = open.contributors.take();
        let number = open.number.take();
        self.rest();
        Some(Complete { sum, contributors, number })
    }

    /// Gives back its memory if it has nothing.
    fn rest(&mut self) {
        self.open.take_if(|open| open.contributors.is_empty() && open.later.is_empty());
    }

    /// Some are dead: what they sent for later rounds does not count, unless it is in one sum with
    /// a push of somebody who lives. What they sent for the open one does, if it has a push of
    /// somebody who lives too; else that is given up: its place among those that waited, if it did.
    pub(in crate::store) fn forget(&mut self, is_dead: impl Fn(Customer) -> bool) -> Option<u64> {
        let open = self.open.as_mut()?;
        open.later.retain(|contribution| !contribution.pushes.customers().all(&is_dead));
        if !open.contributors.customers().all(is_dead) {
            return None;
        }
        open.sum = Sum::default();
        open.contributors = Contributors::default();
        let number = open.number.take();
        self.rest();
        number
    }

    /// A worker of a job whose keys stay has died, and another process may take its id. What it
    /// sent for the open round is in the sum and stays there, but the round waits for the push of
    /// its successor, which takes its place ([`Self::push`]). So a successor that asks how far the
    /// job is, and goes on from there, is in step with the others.
    pub(in crate::store) fn died(&mut self, worker: NodeId) {
        let Some(open) = self.open.as_mut() else { return };
        open.later.retain(|early| !early.pushes.customers().all(|who| who.worker == worker));
        open.contributors.died(worker);
        self.rest();
    }

    /// A contribution that came too early, for the round that begins now.
    pub(in crate::store) fn next_push(&mut self) -> Option<Contribution> {
        let later = &self.open.as_ref()?.later;
        let next = later.iter().position(|contribution| !self.has(&contribution.pushes))?;
        let next = self.open.as_mut()?.later.remove(next);
        self.rest();
        next
    }

    /// True if that push of that customer is in it, or waits for the next one.
    pub(in crate::store) fn holds(&self, who: Customer, timestamp: i32) -> bool {
        let later = |open: &Open| {
            let names = open.later.iter().flat_map(|contribution| contribution.pushes.names());
            names.into_iter().any(|name| name.timestamp == timestamp && name.who == who)
        };
        self.open
            .as_ref()
            .is_some_and(|open| open.contributors.of(who) == Some(timestamp) || later(open))
    }

    /// True if a customer of these pushes has one in the open round: they are for a later one.
    pub(in crate::store) fn has(&self, pushes: &Pushes) -> bool {
        pushes.customers().any(|who| self.has_one_of(who))
    }

    /// True if that customer has a push in the open round.
    pub(in crate::store) fn has_one_of(&self, who: Customer) -> bool {
        self.open.as_ref().is_some_and(|open| open.contributors.of(who).is_some())
    }

    /// Gives up the round. The requests whose pushes it had, and those that came too early; none of
    /// them counted.
    pub(in crate::store) fn give_up(&mut self) -> impl Iterator<Item = Meta> {
        let Open { mut contributors, later, .. } =
            self.open.take().map_or_else(Open::default, |open| *open);
        let later = later.into_iter().map(|contribution| contribution.pushes);
        contributors.take().into_iter().chain(later).map(Pushes::into_request)
    }

    /// The workers that it waits for, in order. `first`: those that the job was formed with.
    pub(in crate::store) fn lacks(
        &self,
        quorum: &Quorum,
        first: impl Iterator<Item = NodeId>,
    ) -> Vec<NodeId> {
        let Some(live) = &quorum.live else {
            let here: BTreeSet<NodeId> = self.pushed().collect();
            return first.filter(|worker| !here.contains(worker)).collect();
        };
        let here = self.customers().map(|who| (who.worker, who.customer));
        let here: BTreeSet<(NodeId, i32)> = here.collect();
        let awaited = live.awaited(quorum.space);
        let lacks: BTreeSet<NodeId> =
            awaited.filter(|who| !here.contains(who)).map(|(worker, _)| worker).collect();
        lacks.into_iter().collect()
    }

    /// Who has pushed to it; a worker with several customers perhaps more than once.
    pub(in crate::store) fn pushed(&self) -> impl Iterator<Item = NodeId> {
        self.customers().map(|who| who.worker)
    }

    /// Its place among the rounds that wait, if it does.
    pub(in crate::store) fn number(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.number)
    }

    /// It waits, and has that place. Nothing if nobody has pushed to it.
    pub(in crate::store) fn wait_as(&mut self, number: u64) {
        if let Some(open) = &mut self.open {
            open.number = Some(number);
        }
    }

    /// It waits for somebody, each customer is in it once, and what came too early has a reason: a
    /// push of one of its customers is in the open round.
    pub(in crate::store) fn validate(&self, quorum: &Quorum) -> Valid {
        let Some(open) = &self.open else { return Ok(()) };
        open.contributors.validate()?;
        require(!open.is_full(quorum), || {
            format!("it has all of its {} pushes and is not over", open.contributors.len())
        })?;
        require(open.later.len() <= LATER_MAX, || {
            format!("{} contributions came too early: more than may", open.later.len())
        })?;
        let free = open.later.iter().find(|contribution| !self.has(&contribution.pushes));
        require(free.is_none(), || {
            let whose: Vec<Customer> =
                free.iter().flat_map(|contribution| contribution.pushes.customers()).collect();
            format!("a push of {whose:?} waits for the end of a round that has none of theirs")
        })
    }

    /// Whose pushes are in it, in the order in which they came.
    fn customers(&self) -> impl Iterator<Item = Customer> {
        self.open.iter().flat_map(|open| open.contributors.customers())
    }

    /// True if somebody has pushed to it.
    pub(in crate::store) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.contributors.is_empty())
    }
}

/// When a round is complete, and how it is summed.
#[derive(Clone, Debug)]
pub(in crate::store) struct Quorum {
    /// How many workers push to each round.
    pub(in crate::store) workers: usize,
    /// Which ones do, where it is not for ever the same.
    pub(in crate::store) live: Option<Arc<Workers>>,
    /// Whose keys it is about: of a space other than the shared one only that customer pushes.
    pub(in crate::store) space: Space,
    /// Sum in the order of ranks, not of arrival.
    pub(in crate::store) keeps_order: bool,
}
