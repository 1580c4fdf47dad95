//! One round of a key in `dist_sync`: what each worker pushed, summed.
//!
//! Stock counts pushes, whoever they come from (kvstore_dist_server.h, ApplyUpdates), so two pushes
//! of one worker can make up a round. Here a customer of a worker counts once in a round; its next
//! push waits for the next one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::askers::Askers;
use super::elastic::marks::Customer;
use super::elastic::workers::Workers;
use super::error::StoreError;
use crate::store::{Part, Sum};
use crate::values::{Buffer, Dtype};
use crate::wire::{Meta, NodeId};

/// Pushes of one key that wait for its next rounds; those beyond are refused.
pub(super) const LATER_MAX: usize = 1024;

/// The round that a piece waits for. Apart from the piece while it is open: at rest, where a server
/// may hold very many small pieces, it takes one word.
#[derive(Debug, Default)]
pub(super) struct Round {
    open: Option<Box<Open>>,
}

/// The pushes of the open round, and those that came too early.
#[derive(Debug, Default)]
struct Open {
    sum: Sum,
    askers: Askers,
    later: VecDeque<(Meta, Part)>,
    /// Its place among the rounds that wait ([`super::stalls`]), once it waits.
    number: Option<u64>,
}

/// A round that everybody has pushed to.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) sum: Sum,
    /// Who awaits an answer, in the order of their pushes.
    pub(super) askers: Vec<Meta>,
    /// Its place among the rounds that waited, if it did.
    pub(super) number: Option<u64>,
}

impl Round {
    /// Takes a push. `like`: the value.
    pub(super) fn push(
        &mut self,
        request: Meta,
        part: Part,
        dtype: Dtype,
        quorum: &Quorum,
        like: &Buffer,
    ) -> Result<(), StoreError> {
        let is_early = self.has(&request);
        let open = self.open.get_or_insert_default();
        if is_early {
            if open.later.len() >= LATER_MAX {
                return Err(StoreError::TooEarly { waiting: LATER_MAX });
            }
            open.later.push_back((request, part));
            return Ok(());
        }
        open.sum.add(request.sender, part, dtype, quorum.keeps_order, like)?;
        open.askers.push(request);
        Ok(())
    }

    /// Ends the round if it has all that it waited for.
    pub(super) fn complete(&mut self, quorum: &Quorum) -> Option<Complete> {
        let open = self.open.as_mut()?;
        let full = match &quorum.live {
            None => open.askers.as_slice().len() >= quorum.workers,
            Some(live) => live.are_all_in(open.askers.as_slice()),
        };
        if !full || open.askers.as_slice().is_empty() {
            return None;
        }
        let sum = std::mem::take(&mut open.sum);
        let askers = open.askers.take();
        let number = open.number.take();
        self.rest();
        Some(Complete { sum, askers, number })
    }

    /// Gives back its memory if it has nothing.
    fn rest(&mut self) {
        self.open.take_if(|open| open.askers.as_slice().is_empty() && open.later.is_empty());
    }

    /// Some are dead: what they sent for later rounds does not count. What they sent for the open
    /// one does, if it has a push of somebody who lives too; else that is given up: its place among
    /// those that waited, if it did.
    pub(super) fn forget(&mut self, is_dead: impl Fn(&Meta) -> bool) -> Option<u64> {
        let open = self.open.as_mut()?;
        open.later.retain(|(request, _)| !is_dead(request));
        if !open.askers.as_slice().iter().all(is_dead) {
            return None;
        }
        open.sum = Sum::default();
        open.askers = Askers::default();
        let number = open.number.take();
        self.rest();
        number
    }

    /// A push that came too early, for the round that begins now.
    pub(super) fn next_push(&mut self) -> Option<(Meta, Part)> {
        let later = &self.open.as_ref()?.later;
        let next = later.iter().position(|(request, _)| !self.has(request))?;
        let next = self.open.as_mut()?.later.remove(next);
        self.rest();
        next
    }

    /// True if that push of the same customer is in it, or waits for the next one.
    pub(super) fn holds(&self, request: &Meta, timestamp: i32) -> bool {
        let who = Customer::of(request);
        let is = |other: &Meta| other.timestamp == timestamp && Customer::of(other) == who;
        self.open.as_ref().is_some_and(|open| {
            open.askers.of(who) == Some(timestamp) || open.later.iter().any(|(push, _)| is(push))
        })
    }

    /// True if its customer has a push in the open round: this one is for a later one.
    pub(super) fn has(&self, request: &Meta) -> bool {
        let who = Customer::of(request);
        self.open.as_ref().is_some_and(|open| open.askers.of(who).is_some())
    }

    /// Gives up the round. All whose pushes it had, and those that came too early; none of them
    /// counted.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Meta> {
        let Open { mut askers, later, .. } =
            self.open.take().map_or_else(Open::default, |open| *open);
        askers.take().into_iter().chain(later.into_iter().map(|(request, _)| request))
    }

    /// The workers that it waits for, in order. `first`: those that the job was formed with.
    pub(super) fn lacks(
        &self,
        quorum: &Quorum,
        first: impl Iterator<Item = NodeId>,
    ) -> Vec<NodeId> {
        let Some(live) = &quorum.live else {
            let here: BTreeSet<NodeId> = self.pushed().collect();
            return first.filter(|worker| !here.contains(worker)).collect();
        };
        let here = self.askers().iter().map(Customer::of).map(|who| (who.worker, who.customer));
        let here: BTreeSet<(NodeId, i32)> = here.collect();
        let lacks: BTreeSet<NodeId> =
            live.awaited().difference(&here).map(|(worker, _)| *worker).collect();
        lacks.into_iter().collect()
    }

    /// Who has pushed to it; a worker with several customers perhaps more than once.
    pub(super) fn pushed(&self) -> impl Iterator<Item = NodeId> {
        self.askers().iter().map(|asker| asker.sender)
    }

    /// Its place among the rounds that wait, if it does.
    pub(super) fn number(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.number)
    }

    /// It waits, and has that place. Nothing if nobody has pushed to it.
    pub(super) fn wait_as(&mut self, number: u64) {
        if let Some(open) = &mut self.open {
            open.number = Some(number);
        }
    }

    /// Who has pushed to it, in the order in which they did.
    fn askers(&self) -> &[Meta] {
        self.open.as_ref().map_or(&[], |open| open.askers.as_slice())
    }

    /// True if somebody has pushed to it.
    pub(super) fn is_open(&self) -> bool {
        !self.askers().is_empty()
    }
}

/// When a round is complete, and how it is summed.
#[derive(Clone, Debug)]
pub(super) struct Quorum {
    /// How many workers push to each round.
    pub(super) workers: usize,
    /// Which ones do, where it is not for ever the same.
    pub(super) live: Option<Arc<Workers>>,
    /// Sum in the order of ranks, not of arrival.
    pub(super) keeps_order: bool,
}
