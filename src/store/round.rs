//! One round of a key in `dist_sync`: what each worker pushed, summed.
//!
//! Stock counts pushes, whoever they come from (kvstore_dist_server.h, ApplyUpdates), so two pushes of
//! one worker can make up a round. Here a customer of a worker counts once in a round; its next push
//! waits for the next one.

use std::collections::VecDeque;

use super::error::StoreError;
use super::part::{Part, Sum};
use super::{Buffer, Dtype};
use crate::wire::Meta;

/// Pushes of one key that wait for its next rounds; those beyond are refused.
pub(super) const LATER_MAX: usize = 1024;

/// The pushes of the open round, and those that came too early.
#[derive(Debug, Default)]
pub(super) struct Round {
    sum: Sum,
    askers: Vec<Meta>,
    later: VecDeque<(Meta, Part)>,
}

/// A round that everybody has pushed to.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) sum: Sum,
    /// Who awaits an answer, in the order of their pushes.
    pub(super) askers: Vec<Meta>,
}

impl Round {
    /// Takes a push. `Some` if it was the last one that the round waited for. `like`: the value.
    pub(super) fn push(
        &mut self,
        request: Meta,
        part: Part,
        dtype: Dtype,
        quorum: &Quorum,
        like: &Buffer,
    ) -> Result<Option<Complete>, StoreError> {
        if self.has(&request) {
            if self.later.len() >= LATER_MAX {
                return Err(StoreError::TooEarly { waiting: LATER_MAX });
            }
            self.later.push_back((request, part));
            return Ok(None);
        }
        self.sum.add(request.sender, part, dtype, quorum.keeps_order, like)?;
        self.askers.push(request);
        if self.askers.len() < quorum.workers {
            return Ok(None);
        }
        let sum = std::mem::take(&mut self.sum);
        Ok(Some(Complete { sum, askers: std::mem::take(&mut self.askers) }))
    }

    /// A push that came too early, for the round that begins now.
    pub(super) fn next_push(&mut self) -> Option<(Meta, Part)> {
        let next = self.later.iter().position(|(request, _)| !self.has(request))?;
        self.later.remove(next)
    }

    /// True if that push of the same customer is in it, or waits for the next one.
    pub(super) fn holds(&self, request: &Meta, timestamp: i32) -> bool {
        let is = |other: &Meta| {
            (other.sender, other.customer_id, other.timestamp)
                == (request.sender, request.customer_id, timestamp)
        };
        self.askers.iter().chain(self.later.iter().map(|(request, _)| request)).any(is)
    }

    fn has(&self, request: &Meta) -> bool {
        let who = |meta: &Meta| (meta.sender, meta.customer_id);
        self.askers.iter().any(|asker| who(asker) == who(request))
    }

    /// Gives up the round. All whose pushes it had, and those that came too early; none of them counted.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Meta> {
        let Self { askers, later, .. } = std::mem::take(self);
        askers.into_iter().chain(later.into_iter().map(|(request, _)| request))
    }

    /// True if somebody has pushed to it.
    pub(super) fn is_open(&self) -> bool {
        !self.askers.is_empty()
    }
}

/// When a round is complete, and how it is summed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quorum {
    /// How many workers push to each round.
    pub(super) workers: usize,
    /// Sum in the order of ranks, not of arrival.
    pub(super) keeps_order: bool,
}
