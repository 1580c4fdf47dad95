//! Workers that ask how to push (`docs/trees.md`): whether a push has counted, and if not, by which
//! ticket it goes. May touch what a `Mover` may.
//!
//! Who asks is told a ticket for each part here that it asks about. Where the next round has none
//! and nobody has pushed to it, it is given one now, which all are told who ask later. What is too
//! long is cut before, so that also the first round goes in parts. Who is told of no ticket pushes
//! alone.

use super::choice::goes_by_tree;
use super::mover::{Mover, Whereabouts};
use crate::store::error::StoreError;
use crate::store::holdings::At;
use crate::store::outbound::done;
use crate::store::pieces::name::Name;
use crate::store::pieces::tensor::Piece;
use crate::values::KeyPart;
use crate::wire::{Key, Meta, NodeId, id_to_rank, worker_id};

/// When a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// As it comes: what it is about may be cut.
    Now,
    /// Between the pushes of two rounds.
    Later,
}

impl Whereabouts<'_> {
    /// True if that request may bring a piece a ticket: nobody has pushed to the round, and none
    /// was given out for it.
    fn may_offer(self, at: At, request: &Meta) -> bool {
        let Ok(piece) = self.held.piece(at) else { return false };
        // Nobody may hear of the parts of a key before it is known to be safe.
        let is_made = piece.version > 0 || !piece.withholds(0);
        self.may_have(at.key, piece)
            && is_made
            && !piece.round.is_open()
            && goes_by_tree(request)
            && self.held.attendance.is_awaited(request)
    }
}

impl Mover<'_> {
    /// A question: has the push of that name counted? If not, the answer is *again*, and how.
    pub(super) fn asked(&mut self, at: At, request: Meta, when: Asked) -> Result<(), StoreError> {
        let (piece, name) = (self.held.piece(at)?, Name::of(&request));
        if piece.marks.count(&name) {
            return self.answer_duplicate(at, request);
        }
        if piece.round.holds(name.who, name.timestamp) {
            return self.held.wait_for_round(at, request);
        }
        self.offer(at, &request, when);
        self.say_how(at.key, request);
        Ok(())
    }

    /// The same about a key that is in other pieces than the worker believes, or not here.
    pub(super) fn asked_of_others(&mut self, key: Key, request: Meta) {
        let part = request.ask().map(|ask| (ask.from, ask.to));
        let (from, to) = part.unwrap_or_default();
        let part = KeyPart { key, from, to };
        let begins: Vec<u64> = self.held.within(part).iter().map(|piece| piece.from).collect();
        for begin in begins {
            if let Some(at) = self.held.begins_at(key, begin) {
                self.offer(at, &request, Asked::Now);
            }
        }
        self.say_how(key, request);
    }

    /// The next round of a piece gets a ticket, if it can have one and has none.
    fn offer(&mut self, at: At, request: &Meta, when: Asked) {
        let Ok(piece) = self.held.piece(at) else { return };
        let (from, to) = (piece.from, piece.to);
        if has(piece, request) || self.ticket(at).is_some() || !self.look().may_offer(at, request) {
            return;
        }
        if when == Asked::Now {
            self.carry_out_asked(at);
        }
        let knows_all = self.held.attendance.workers().is_some();
        let customer = request.customer_id;
        let (asker, workers) = (request.sender, self.held.config.workers);
        let is_first = |rank: usize, node| rank < workers && worker_id(rank) == node;
        let pushes = |node: NodeId| {
            knows_all || usize::try_from(id_to_rank(node)).is_ok_and(|rank| is_first(rank, node))
        };
        let all = self.held.tensors.get(&at.key).map_or(0..0, |tensor| tensor.within(from, to));
        for index in all {
            self.give_ticket(At { index, ..at }, customer, |table| {
                table.has(asker) && table.members().all(pushes)
            });
        }
    }

    /// Tells a worker to push again, and by which tickets, if there are some.
    pub(super) fn say_how(&mut self, key: Key, mut request: Meta) {
        if self.held.attendance.is_former(&request) {
            return;
        }
        let look = self.look();
        let part = request.ask().map(|ask| KeyPart { key, from: ask.from, to: ask.to });
        let routes = part.map(|part| look.routes(part));
        look.mark_again(&mut request, routes.unwrap_or_default());
        look.tell_ticket(key, &mut request);
        self.out.answers.push(done(request));
    }
}

/// True if a request only asks whether a push has counted.
pub(super) fn asks(request: &Meta) -> bool {
    request.push && request.ask().is_some_and(|ask| ask.asks)
}

/// True if that push has counted at a piece, or will with its round.
pub(super) fn has(piece: &Piece, request: &Meta) -> bool {
    let name = Name::of(request);
    piece.marks.count(&name) || piece.round.holds(name.who, name.timestamp)
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
