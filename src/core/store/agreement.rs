//! What all workers of `pslite.store` have to say alike: the arrays that they make, with type and
//! shape, and the optimizers that servers are to run. Servers know arrays by numbers, and take the
//! first optimizer that comes, so workers that mean different things would train on a mixture.
//!
//! A worker says what it makes in *steps*, and goes on when all workers that are waited for have
//! said the same in the same step. What was said by all is a *fact*. A worker that came back is
//! waited for by nobody; what it says must be facts already. Each server keeps the same books of
//! what it was told, and a worker believes the first one that says *agreed*: servers come and go.
//!
//! Pure. May touch what the store may. Workers ask again and again, so nothing here waits.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;

use super::command::agreements::{Asker, Verdict, is_readable};
use super::error::StoreError;
use super::outbound::Outbound;
use super::pieces::tensor::Piece;
use super::state::Store;
use crate::keys::KeyName;
use crate::values::SHARED;
use crate::wire::agreement::{Agree, AgreeState, Agreed};
use crate::wire::{Meta, NodeId, worker_id};

impl Store {
    /// A worker says what it makes ([`Head::Agree`](super::command::Head::Agree)). The body of the
    /// answer. Servers that joined are told of new facts.
    ///
    /// # Errors
    /// The body cannot be read.
    pub fn agree(&mut self, request: &Meta, out: &mut Outbound) -> Result<Bytes, StoreError> {
        let said = Agree::decode(&request.body[..]).ok().filter(is_readable);
        let said = said.ok_or(StoreError::Malformed("it says nothing that can be compared"))?;
        // One that is dead for the others, or that this server does not know yet.
        let verdict = match self.held.attendance.is_former(request) {
            true => Verdict::Waits("this worker is not in the job yet".to_owned()),
            false => self.compare(request, &said),
        };
        if self.moves() && !self.known.waits_for_commands() && self.held.agreements.take_news() {
            self.mover(out).tell_joined();
        }
        let makes_keys = request.ask().is_some_and(|ask| ask.life > 0);
        let (state, text) = verdict.told();
        let answer = Agreed { state: state.into(), text, makes_keys };
        Ok(Bytes::from(answer.encode_to_vec()))
    }

    fn compare(&mut self, request: &Meta, said: &Agree) -> Verdict {
        let live = self.held.attendance.workers().cloned();
        let asker = Asker {
            id: request.sender,
            awaited: self.awaited_by_steps(request.customer_id),
            goes_on: live.is_some(),
        };
        if !said.stands {
            return self.held.agreements.hear(&asker, request.customer_id, said);
        }
        let ahead = self.held.agreements.ahead_of(&asker, request.customer_id, said.step);
        match ahead.iter().find_map(|id| self.round_between(asker.id, *id)) {
            Some(key) => self.held.agreements.circle(&asker, request.customer_id, said.step, key),
            None => Verdict::Agreed,
        }
    }

    /// The workers for which steps wait.
    fn awaited_by_steps(&self, customer: i32) -> BTreeSet<NodeId> {
        let Some(live) = self.held.attendance.workers() else {
            return (0..self.held.config.workers).map(worker_id).collect();
        };
        let of = |only: bool| {
            let all = live.awaited(SHARED).filter(move |(_, of)| !only || *of == customer);
            all.map(|(worker, _)| worker).collect::<BTreeSet<NodeId>>()
        };
        // A customer that was made later is not in the list of those that registered.
        Some(of(true)).filter(|all| !all.is_empty()).unwrap_or_else(|| of(false))
    }

    /// The key of an open round in which `one` has pushed and `other` has not.
    fn round_between(&self, one: NodeId, other: NodeId) -> Option<KeyName> {
        let waits = |piece: &Piece| {
            let pushed: BTreeSet<NodeId> = piece.round.pushed().collect();
            piece.round.is_open() && pushed.contains(&one) && !pushed.contains(&other)
        };
        let mut tensors = self.held.tensors.iter();
        let found = tensors.find(|(_, tensor)| tensor.pieces.iter().any(waits));
        found.map(|(key, _)| self.held.view.name(*key))
    }
}

impl Verdict {
    fn told(self) -> (AgreeState, String) {
        match self {
            Self::Agreed => (AgreeState::Agreed, String::new()),
            Self::Waits(text) => (AgreeState::Waits, text),
            Self::Differs(text) => (AgreeState::Differs, text),
            Self::Again => (AgreeState::Again, String::new()),
        }
    }
}
