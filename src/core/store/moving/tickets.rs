//! By which trees the rounds of this server's pieces go (`docs/trees.md`): the owner's side. May
//! touch what the store may.
//!
//! With the end of a round the owner gives out a ticket for the next one, if all workers of a tree
//! pushed to that round; or when a worker asks how to push (`questions`). A round with a ticket
//! takes sums by that ticket, and single pushes of workers who are not in the tree. Who is in it
//! and comes alone is told the ticket. What a ticket was for may end before its round: then it is
//! void, and everybody in the tree is told. When new trees come, tickets that are not in use are
//! replaced at once: the old one is void, and what says so has the new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::choice::goes_by_tree;
use super::parts::Parts;
use super::questions::has;
use crate::store::config::SumOrder;
use crate::store::outbound::{Answer, Outbound, done};
use crate::store::pieces::contribution::Pushes;
use crate::store::pieces::name::{Customer, Name};
use crate::store::pieces::tensor::{Layout, Piece};
use crate::store::state::{At, Store};
use crate::trees::{Found, Table, Void, down_from_root};
use crate::values::KeyPart;
use crate::wire::elastic::{Placed, Route};
use crate::wire::trees::{Hop, Overlay, PartTicket, Ticket};
use crate::wire::{Key, Meta, NodeId};

/// Who pushed to a round: one customer of each worker.
#[derive(Clone, Debug)]
pub(in crate::store) struct Pushed {
    workers: BTreeSet<NodeId>,
    /// The same one of all of them.
    customer: i32,
}

impl Store {
    /// An overlay came: rounds go by its trees from now on. What waited for it is looked at.
    pub fn overlay(&mut self, overlay: &Overlay, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let former = elastic.overlay();
        if !Arc::make_mut(&mut elastic.trees.trees).learn(overlay) {
            return;
        }
        if overlay.number > former {
            elastic.trees.given.clear();
            if former == 0 {
                self.begin_tickets();
            }
            self.renew_tickets(out);
        }
        self.unpark_all(out);
    }

    /// New trees came. Pieces whose round has ended, while others still wait for the same one, go
    /// by them in the next round: their tickets are replaced. What goes along the old trees now
    /// goes on.
    fn renew_tickets(&mut self, out: &mut Outbound) {
        let waits = |piece: &Piece| {
            let ticket = piece.ticket().filter(|ticket| ticket.round == piece.version + 1)?;
            (!piece.round.is_open()).then_some(ticket)
        };
        let all = || self.tensors.values().flat_map(|tensor| &tensor.pieces);
        let newest = all().filter(|piece| piece.ticket().is_some()).map(|piece| piece.version);
        let Some(newest) = newest.max() else { return };
        let is_done = |piece: &Piece| piece.version == newest;
        for (at, ticket) in self.pieces_that(|piece| waits(piece).filter(|_| is_done(piece))) {
            self.renew_ticket(at, ticket, out);
        }
    }

    /// Of each piece here what `has` gives, and where the piece is.
    fn pieces_that<T>(&self, has: impl Fn(&Piece) -> Option<T>) -> Vec<(At, T)> {
        let mut found = Vec::new();
        for (key, tensor) in &self.tensors {
            let pieces = tensor.pieces.iter().enumerate();
            found.extend(pieces.filter_map(|(index, piece)| {
                has(piece).map(|what| (At { key: *key, index }, what))
            }));
        }
        found
    }

    /// The ticket of a piece is replaced by one for the newest trees, if one of them has no other
    /// workers.
    fn renew_ticket(&mut self, at: At, old: Ticket, out: &mut Outbound) {
        let Some(elastic) = &self.elastic else { return };
        let Some(table) = elastic.trees.trees.get(&old) else { return };
        let members: BTreeSet<NodeId> = table.members().collect();
        let Ok(piece) = self.piece(at) else { return };
        let (from, to, term, customer) =
            (piece.from, piece.to, piece.term, piece.ticket_customer());
        self.give_ticket(at, customer, |table| table.members().all(|node| members.contains(&node)));
        let next = self.piece(at).ok().and_then(Piece::ticket).filter(|next| *next != old);
        if next.is_some() {
            let placed = Placed { from, to, term, ..Placed::default() };
            self.tell_void(at.key, customer, placed, Void { ticket: old, next }, out);
        }
    }

    /// The first overlay came. Parts are shorter from now on, and who had a piece before it came
    /// here may have known trees already.
    fn begin_tickets(&mut self) {
        if let Some(elastic) = &mut self.elastic {
            elastic.parts = Parts::default();
        }
        let all = self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces);
        all.filter(|piece| !piece.was_made_here()).for_each(Piece::has_come);
    }

    /// A piece comes to this server.
    pub(super) fn withhold_ticket(&self, piece: &mut Piece) {
        if self.elastic.as_ref().is_some_and(|elastic| elastic.overlay() > 0) {
            piece.has_come();
        }
    }

    /// Sends an answer: to who asked, or, if it is one to a sum, down its tree.
    pub(in crate::store) fn answer(&self, answer: Answer, out: &mut Outbound) {
        match self.elastic.as_ref().filter(|_| answer.request.hop.is_some()) {
            None => out.answers.push(answer),
            Some(elastic) => {
                let (trees, me) = (&elastic.trees.trees, elastic.me);
                out.downs.extend(down_from_root(trees, me, &answer.request, &answer.kv));
            }
        }
    }

    /// True if rounds are such that a tree can carry them.
    pub(super) fn sums_by_tree(&self, key: Key) -> bool {
        self.mode(key).sync && self.config.order != SumOrder::Ranks
    }

    /// A round of these pushes is over: whose they were, if the next one may go by a tree.
    pub(in crate::store) fn by_tree_next(&self, at: At, pushes: &[Pushes]) -> Option<Pushed> {
        let elastic = self.elastic.as_ref()?;
        let is_dense = self.piece(at).is_ok_and(|piece| piece.layout == Layout::Dense);
        if !self.sums_by_tree(at.key) || !is_dense || elastic.overlay() == 0 {
            return None;
        }
        let dense = |one: &Pushes| goes_by_tree(one.request());
        let customers = || pushes.iter().flat_map(Pushes::customers);
        let workers: BTreeSet<NodeId> = customers().map(|who| who.worker).collect();
        // A worker with two customers pushes twice to a round; a tree knows it once. And what goes
        // along it is for one customer, whichever worker's.
        let once = workers.len() == customers().count();
        let customer = customers().next()?.customer;
        let same = customers().all(|who| who.customer == customer);
        (once && same && pushes.iter().all(dense)).then_some(Pushed { workers, customer })
    }

    /// A round of a part of a key is over, and that is cut and moved as it was to be. What is
    /// here of it gets tickets by trees whose workers have all pushed. What gets none goes
    /// alone, until there are other trees.
    pub(super) fn give_tickets(&mut self, part: KeyPart, pushed: Option<&Pushed>) {
        let KeyPart { key, from, to } = part;
        let is_tree_known = self.elastic.as_ref().is_some_and(|elastic| elastic.overlay() > 0);
        if !is_tree_known || !self.sums_by_tree(key) {
            return;
        }
        let all = self.tensors.get(&key).map_or(0..0, |tensor| tensor.within(from, to));
        for at in all.map(|index| At { key, index }) {
            if let Some(Pushed { workers, customer }) = pushed {
                self.give_ticket(at, *customer, |table| {
                    table.members().all(|node| workers.contains(&node))
                });
            }
            let next = self.piece(at).ok().and_then(|piece| self.next_of(piece));
            if let (Some(next), Ok(piece)) = (next, self.piece_mut(at))
                && piece.may_give(&next)
            {
                piece.withhold(next);
            }
        }
    }

    /// The next round of a piece gets a ticket by a tree that fits, if there is one.
    pub(super) fn give_ticket(&mut self, at: At, customer: i32, fits: impl Fn(&Table) -> bool) {
        let Ok(piece) = self.piece(at) else { return };
        let Some(next) = self.next_of(piece).filter(|next| piece.may_give(next)) else { return };
        let bytes = piece.value.buffer().len() as u64;
        let (part, order) = (piece.of_key(at.key), self.config.order);
        let taker = (self.view.space(at.key), customer);
        let tree = self.elastic.as_mut().and_then(|elastic| match order {
            SumOrder::Trees => elastic.choose_fixed(part, taker, fits),
            SumOrder::Arrival | SumOrder::Ranks => elastic.choose(bytes, taker, fits),
        });
        if let (Some(tree), Ok(piece)) = (tree, self.piece_mut(at)) {
            piece.set_ticket(Ticket { tree, ..next }, customer);
        }
    }

    /// The next ticket of a piece, but for the tree.
    pub(super) fn next_of(&self, piece: &Piece) -> Option<Ticket> {
        let overlay = self.elastic.as_ref()?.overlay();
        Some(Ticket { overlay, tree: 0, round: piece.version + 1 })
    }

    /// The ticket of the open round of a piece, or of the next one if nobody has pushed to it yet.
    /// One whose tree is lost is replaced, if that is possible.
    pub(super) fn ticket(&mut self, at: At) -> Option<Ticket> {
        let piece = self.piece(at).ok()?;
        let (ticket, customer) = (piece.ticket()?, piece.ticket_customer());
        let (round, is_open) = (piece.version + 1, piece.round.is_open());
        let is_lost = match self.elastic.as_ref()?.trees.trees.find(&ticket) {
            Found::Here(_) => false,
            Found::NotYet | Found::Gone | Found::Strange => true,
        };
        if ticket.round == round && !is_lost {
            return Some(ticket);
        }
        self.end_ticket(at);
        // If it is open some have pushed by the tree that is lost. The others come alone.
        if ticket.round == round && !is_open {
            self.give_ticket(at, customer, |_| true);
        }
        self.piece(at).ok()?.ticket()
    }

    /// What an answer to a push says of the next round; one that says *again* of how to push.
    pub(super) fn tell_ticket(&self, key: Key, request: &mut Meta) {
        let Some(placed) = &request.placed else { return };
        let part = KeyPart { key, from: placed.from, to: placed.to };
        let pieces = self.within(part);
        // Where a push has counted that comes again, the ticket is for a later one.
        let is_due = |piece: &&Piece| !placed.again || !has(piece, request);
        let current = |piece: &Piece| {
            let ticket = piece.ticket().filter(|ticket| ticket.round == piece.version + 1);
            ticket.filter(|ticket| self.is_for(piece, ticket, request))
        };
        let (ticket, tickets) = match pieces {
            [only] if part == only.of_key(key) || part.to == 0 => {
                (Some(only).filter(is_due).and_then(current), Vec::new())
            }
            cut => {
                let told = |piece: &Piece| {
                    let (from, to, ticket) = (piece.from, piece.to, current(piece));
                    PartTicket { from, to, ticket }
                };
                (None, cut.iter().filter(is_due).map(told).collect())
            }
        };
        let may_ask = !placed.again && pieces.iter().any(|piece| self.may_have(key, piece));
        let overlay = self.elastic.as_ref().map_or(0, |elastic| elastic.overlay());
        let overlay = if may_ask { 0 } else { overlay };
        if let Some(placed) = &mut request.placed {
            (placed.ticket, placed.tickets, placed.overlay) =
                (ticket.map(Box::new), tickets, overlay);
        }
    }

    /// True if a question may bring a piece a ticket: none was given out for the next round. Not
    /// even that there is none has been said.
    pub(super) fn may_have(&self, key: Key, piece: &Piece) -> bool {
        self.sums_by_tree(key)
            && piece.layout == Layout::Dense
            && self.next_of(piece).is_some_and(|next| piece.may_give(&next))
    }

    /// True if who sent that request is in the tree of a ticket: another process with the same id
    /// is not, nor may another customer be. What goes down a tree is for all in it.
    fn is_for(&self, piece: &Piece, ticket: &Ticket, request: &Meta) -> bool {
        let Some(elastic) = &self.elastic else { return false };
        let table = elastic.trees.trees.get(ticket);
        request.hop.is_some()
            || table.is_some_and(|table| table.has(request.sender))
                && piece.ticket_customer() == request.customer_id
                && self.is_awaited(request)
    }

    /// True if a push that came alone was told to come by the ticket of its round. A worker that
    /// names that ticket cannot: then the ticket is void.
    pub(in crate::store) fn is_sent_by_tree(
        &mut self,
        at: At,
        pushes: &Pushes,
        out: &mut Outbound,
    ) -> bool {
        let (Ok(piece), Pushes::One(request)) = (self.piece(at), pushes) else { return false };
        let name = Name::of(request);
        if piece.ticket().is_none() || piece.marks.count(&name) || piece.round.has_one_of(name.who)
        {
            return false;
        }
        let Some(ticket) = self.ticket(at) else { return false };
        if !self.piece(at).is_ok_and(|piece| self.is_for(piece, &ticket, request)) {
            return false;
        }
        if request.placed.as_ref().and_then(|placed| placed.ticket.as_deref()) == Some(&ticket) {
            self.void_ticket(at, out);
            return false;
        }
        self.say_how(at.key, request.clone(), out);
        true
    }

    /// True if a sum goes into a round of the piece now. Else its ticket is void for all.
    pub(in crate::store) fn takes_sum(
        &mut self,
        at: At,
        request: &Meta,
        out: &mut Outbound,
    ) -> bool {
        let of_sum = request.hop.as_ref().map(|hop| hop.ticket);
        if of_sum.is_some() && self.ticket(at) == of_sum {
            return true;
        }
        self.refuse_sum(request.clone(), Vec::new(), None, out);
        false
    }

    /// Nothing is done with a sum: all in its tree are told to push again, by the ticket `next` if
    /// there is one. Below the floor they ask of themselves.
    pub(super) fn refuse_sum(
        &mut self,
        mut request: Meta,
        routes: Vec<Route>,
        next: Option<Ticket>,
        out: &mut Outbound,
    ) {
        let (Some(hop), Some(elastic)) = (&request.hop, &self.elastic) else { return };
        if elastic.trees.trees.get(&hop.ticket).is_none() {
            return;
        }
        let (key, ticket) = (hop.key, hop.ticket);
        let (from, to) = request.placed.as_ref().map_or((0, 0), |placed| (placed.from, placed.to));
        let tensor = self.tensors.get_mut(&key);
        // Parts of a key may have the same one.
        let piece = tensor.and_then(|tensor| {
            let index = tensor.exactly(from, to)?;
            tensor.pieces.get_mut(index)
        });
        if let Some(piece) = piece.filter(|piece| piece.ticket() == Some(ticket)) {
            piece.end_ticket();
        }
        self.mark_again(&mut request, routes);
        if let Some(placed) = &mut request.placed {
            placed.ticket = next.map(Box::new);
        }
        self.answer(done(request), out);
    }

    /// That customer sends no more: no sum gets its name by the tickets of trees with its worker.
    /// The other workers push alone, and rounds end without it, or it is said who left.
    pub(super) fn void_tickets_of(&mut self, worker: NodeId, customer: i32, out: &mut Outbound) {
        let Some(elastic) = &self.elastic else { return };
        let has_it = |ticket: &Ticket| {
            let table = elastic.trees.trees.get(ticket);
            table.is_some_and(|table| table.has(worker))
        };
        let void = self.pieces_that(|piece| {
            piece.ticket().filter(|ticket| piece.ticket_customer() == customer && has_it(ticket))
        });
        for (at, _) in void {
            self.void_ticket(at, out);
        }
    }

    /// The ticket of a piece is used up.
    pub(super) fn end_ticket(&mut self, at: At) {
        if let Ok(piece) = self.piece_mut(at) {
            piece.end_ticket();
        }
    }

    /// The ticket of a piece means nothing any more, and all in its tree are told so.
    pub(super) fn void_ticket(&mut self, at: At, out: &mut Outbound) {
        let Ok(piece) = self.piece_mut(at) else { return };
        let Some(ticket) = piece.ticket() else { return };
        let (from, to, term) = (piece.from, piece.to, piece.term);
        let placed = Placed { from, to, term, ..Placed::default() };
        let customer = piece.ticket_customer();
        self.tell_void(at.key, customer, placed, Void::of(ticket), out);
    }

    /// Tells that customer of all workers in the tree of a ticket that it is void. `placed`: of
    /// which part it was.
    pub(super) fn tell_void(
        &mut self,
        key: Key,
        customer_id: i32,
        placed: Placed,
        void: Void,
        out: &mut Outbound,
    ) {
        let Void { ticket, next } = void;
        let routes = self.routes(key, &placed);
        let hop = Hop { ticket, key, ..Hop::default() };
        let (placed, hop) = (Some(placed), Some(Box::new(hop)));
        let request = Meta { customer_id, placed, hop, ..Meta::default() };
        self.refuse_sum(request, routes, next, out);
    }

    /// Of the pushes of a sum, those whose workers are not waited for get no values: what they
    /// would pull may be newer.
    pub(in crate::store) fn clear_wants(&self, request: &mut Meta) {
        let Some(hop) = &mut request.hop else { return };
        let workers = self.elastic.as_ref().and_then(|elastic| elastic.workers.as_ref());
        let Some(workers) = workers else { return };
        for name in &mut hop.names {
            let who = Customer { worker: name.worker, customer: name.customer, life: name.life };
            name.wants &= workers.awaits(who);
        }
    }
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
