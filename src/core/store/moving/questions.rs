//! Workers that ask how to push (`docs/trees.md`): whether a push has counted, and if not, by which
//! ticket it goes. May touch what the store may.
//!
//! Who asks is told a ticket for each part here that it asks about. Where the next round has none
//! and nobody has pushed to it, it is given one now, which all are told who ask later. What is too
//! long is cut before, so that also the first round goes in parts. Who is told of no ticket pushes
//! alone.

use super::choice::goes_by_tree;
use crate::store::error::StoreError;
use crate::store::outbound::{Outbound, done};
use crate::store::pieces::name::Name;
use crate::store::pieces::tensor::Piece;
use crate::store::state::{At, Store};
use crate::values::KeyPart;
use crate::wire::{Key, Meta, NodeId, id_to_rank, worker_id};

/// When a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Asked {
    /// As it comes: what it is about may be cut.
    Now,
    /// Between the pushes of two rounds.
    Later,
}

impl Store {
    /// A question: has the push of that name counted? If not, the answer is *again*, and how.
    pub(in crate::store) fn asked(
        &mut self,
        at: At,
        request: Meta,
        when: Asked,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let (piece, name) = (self.piece(at)?, Name::of(&request));
        if piece.marks.count(&name) {
            return self.answer_duplicate(at, request, out);
        }
        if piece.round.holds(name.who, name.timestamp) {
            return self.wait_for_round(at, request);
        }
        self.offer(at, &request, when, out);
        self.say_how(at.key, request, out);
        Ok(())
    }

    /// The same about a key that is in other pieces than the worker believes, or not here.
    pub(in crate::store) fn asked_of_others(
        &mut self,
        key: Key,
        request: Meta,
        out: &mut Outbound,
    ) {
        let part = request.placed.as_ref().map(|placed| (placed.from, placed.to));
        let (from, to) = part.unwrap_or_default();
        let part = KeyPart { key, from, to };
        let begins: Vec<u64> = self.within(part).iter().map(|piece| piece.from).collect();
        for begin in begins {
            let tensor = self.tensors.get(&key);
            if let Some(index) = tensor.and_then(|tensor| tensor.begins_at(begin)) {
                self.offer(At { key, index }, &request, Asked::Now, out);
            }
        }
        self.say_how(key, request, out);
    }

    /// The pieces here that lie within a part of a key.
    pub(super) fn within(&self, part: KeyPart) -> &[Piece] {
        let KeyPart { key, from, to } = part;
        let tensor = self.tensors.get(&key);
        tensor.and_then(|tensor| tensor.pieces.get(tensor.within(from, to))).unwrap_or_default()
    }

    /// The next round of a piece gets a ticket, if it can have one and has none.
    fn offer(&mut self, at: At, request: &Meta, when: Asked, out: &mut Outbound) {
        let Ok(piece) = self.piece(at) else { return };
        let (from, to) = (piece.from, piece.to);
        if has(piece, request) || self.ticket(at).is_some() || !self.may_offer(at, request) {
            return;
        }
        if when == Asked::Now {
            self.carry_out_asked(at, out);
        }
        let knows_all = self.live_workers().is_some();
        let customer = request.customer_id;
        let (asker, workers) = (request.sender, self.config.workers);
        let is_first = |rank: usize, node| rank < workers && worker_id(rank) == node;
        let pushes = |node: NodeId| {
            knows_all || usize::try_from(id_to_rank(node)).is_ok_and(|rank| is_first(rank, node))
        };
        let all = self.tensors.get(&at.key).map_or(0..0, |tensor| tensor.within(from, to));
        for index in all {
            self.give_ticket(At { index, ..at }, customer, |table| {
                table.has(asker) && table.members().all(pushes)
            });
        }
    }

    /// True if that request may bring a piece a ticket: nobody has pushed to the round, and none
    /// was given out for it.
    fn may_offer(&self, at: At, request: &Meta) -> bool {
        let Ok(piece) = self.piece(at) else { return false };
        // Nobody may hear of the parts of a key before it is known to be safe.
        let is_made = piece.version > 0 || !piece.withholds(0);
        self.may_have(at.key, piece)
            && is_made
            && !piece.round.is_open()
            && goes_by_tree(request)
            && self.is_awaited(request)
    }

    /// Tells a worker to push again, and by which tickets, if there are some.
    pub(super) fn say_how(&self, key: Key, mut request: Meta, out: &mut Outbound) {
        if self.is_former(&request) {
            return;
        }
        let routes = request.placed.as_ref().map(|placed| self.routes(key, placed));
        self.mark_again(&mut request, routes.unwrap_or_default());
        self.tell_ticket(key, &mut request);
        out.answers.push(done(request));
    }
}

/// True if that push has counted at a piece, or will with its round.
pub(super) fn has(piece: &Piece, request: &Meta) -> bool {
    let name = Name::of(request);
    piece.marks.count(&name) || piece.round.holds(name.who, name.timestamp)
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
