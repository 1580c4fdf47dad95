//! By which trees the rounds of this server's pieces go (`docs/trees.md`): the owner's side. May
//! touch what a `Mover` may.
//!
//! With the end of a round the owner gives out a ticket for the next one, if all workers of a tree
//! pushed to that round; or when a worker asks how to push (`questions`). A round with a ticket
//! takes sums by that ticket, and single pushes of workers who are not in the tree. Who is in it
//! and comes alone is told the ticket. What a ticket was for may end before its round: then it is
//! void, and everybody in the tree is told. When new trees come, tickets that are not in use are
//! replaced at once: the old one is void, and what says so has the new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::choice::{goes_by_tree, may_use};
use super::mover::{Mover, Whereabouts};
use super::parts::Parts;
use super::questions::has;
use crate::store::config::SumOrder;
use crate::store::holdings::At;
use crate::store::outbound::{Answer, Outbound, done};
use crate::store::pieces::contribution::Pushes;
use crate::store::pieces::name::Name;
use crate::store::pieces::tensor::{Layout, Piece};
use crate::trees::{Found, Table, Void, down_from_root};
use crate::values::KeyPart;
use crate::wire::elastic::{PartAsk, Route};
use crate::wire::trees::{Hop, Overlay, PartTicket, Ticket};
use crate::wire::{Key, Meta, NodeId, Payload};

/// Who pushed to a round: one customer of each worker.
#[derive(Clone, Debug)]
pub(in crate::store) struct Pushed {
    workers: BTreeSet<NodeId>,
    /// The same one of all of them.
    customer: i32,
}

impl Whereabouts<'_> {
    /// A piece comes to this server.
    pub(super) fn withhold_ticket(self, piece: &mut Piece) {
        if self.known.overlay() > 0 {
            piece.has_come();
        }
    }

    /// Sends an answer: to who asked, or, if it is one to a sum, down its tree.
    pub(in crate::store) fn answer(self, answer: Answer, out: &mut Outbound) {
        if answer.request.hop().is_some() && self.held.config.elastic {
            let (trees, me) = (&self.known.trees.trees, self.known.servers.me);
            out.downs.extend(down_from_root(trees, me, &answer.request, &answer.kv));
        } else {
            out.answers.push(answer);
        }
    }

    /// True if rounds are such that a tree can carry them.
    pub(super) fn sums_by_tree(self, key: Key) -> bool {
        self.held.mode(key).sync && self.held.config.order != SumOrder::Ranks
    }

    /// A round of these pushes is over: whose they were, if the next one may go by a tree.
    pub(super) fn by_tree_next(self, at: At, pushes: &[Pushes]) -> Option<Pushed> {
        let is_dense = self.held.piece(at).is_ok_and(|piece| piece.layout == Layout::Dense);
        if !self.sums_by_tree(at.key) || !is_dense || self.known.overlay() == 0 {
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

    /// The next ticket of a piece, but for the tree.
    pub(super) fn next_of(self, piece: &Piece) -> Ticket {
        Ticket { overlay: self.known.overlay(), tree: 0, round: piece.version + 1 }
    }

    /// What an answer to a push says of the next round; one that says *again* of how to push.
    pub(super) fn tell_ticket(self, key: Key, request: &mut Meta) {
        let Some(reply) = request.reply() else { return };
        let part = KeyPart { key, from: reply.from, to: reply.to };
        let pieces = self.held.within(part);
        // Where a push has counted that comes again, the ticket is for a later one.
        let is_due = |piece: &&Piece| !reply.again || !has(piece, request);
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
        let may_ask = !reply.again && pieces.iter().any(|piece| self.may_have(key, piece));
        let overlay = self.known.overlay();
        let overlay = if may_ask { 0 } else { overlay };
        if let Some(reply) = request.answering() {
            (reply.ticket, reply.tickets, reply.overlay) = (ticket.map(Box::new), tickets, overlay);
        }
    }

    /// True if a question may bring a piece a ticket: none was given out for the next round. Not
    /// even that there is none has been said.
    pub(super) fn may_have(self, key: Key, piece: &Piece) -> bool {
        self.sums_by_tree(key)
            && piece.layout == Layout::Dense
            && piece.may_give(&self.next_of(piece))
    }

    /// True if who sent that request is in the tree of a ticket: another process with the same id
    /// is not, nor may another customer be. What goes down a tree is for all in it.
    fn is_for(self, piece: &Piece, ticket: &Ticket, request: &Meta) -> bool {
        let table = self.known.trees.trees.get(ticket);
        request.hop().is_some()
            || table.is_some_and(|table| table.has(request.sender))
                && piece.ticket_customer() == request.customer_id
                && self.held.attendance.is_awaited(request)
    }
}

impl Mover<'_> {
    /// See `Store::overlay`. True if it is new: then what waited for it is to be looked at.
    pub(in crate::store) fn overlay(&mut self, overlay: &Overlay) -> bool {
        let former = self.known.overlay();
        if !Arc::make_mut(&mut self.known.trees.trees).learn(overlay) {
            return false;
        }
        if overlay.number > former {
            self.known.trees.given.clear();
            if former == 0 {
                self.begin_tickets();
            }
            self.renew_tickets();
        }
        true
    }

    /// New trees came. Pieces whose round has ended, while others still wait for the same one, go
    /// by them in the next round: their tickets are replaced. What goes along the old trees now
    /// goes on.
    fn renew_tickets(&mut self) {
        let waits = |piece: &Piece| {
            let ticket = piece.ticket().filter(|ticket| ticket.round == piece.version + 1)?;
            (!piece.round.is_open()).then_some(ticket)
        };
        let newest =
            self.held.pieces().filter(|piece| piece.ticket().is_some()).map(|piece| piece.version);
        let Some(newest) = newest.max() else { return };
        let is_done = |piece: &Piece| piece.version == newest;
        let due = self.held.pieces_that(|piece| waits(piece).filter(|_| is_done(piece)));
        for (at, ticket) in due {
            self.renew_ticket(at, ticket);
        }
    }

    /// The ticket of a piece is replaced by one for the newest trees, if one of them has no other
    /// workers.
    fn renew_ticket(&mut self, at: At, old: Ticket) {
        let Some(table) = self.known.trees.trees.get(&old) else { return };
        let members: BTreeSet<NodeId> = table.members().collect();
        let Ok(piece) = self.held.piece(at) else { return };
        let (from, to, term, customer) =
            (piece.from, piece.to, piece.term, piece.ticket_customer());
        self.give_ticket(at, customer, |table| table.members().all(|node| members.contains(&node)));
        let next = self.held.piece(at).ok().and_then(Piece::ticket).filter(|next| *next != old);
        if next.is_some() {
            let ask = PartAsk { from, to, term, ..PartAsk::default() };
            self.tell_void(at.key, customer, ask, Void { ticket: old, next });
        }
    }

    /// The first overlay came. Parts are shorter from now on, and who had a piece before it came
    /// here may have known trees already.
    fn begin_tickets(&mut self) {
        self.known.parts = Parts::default();
        let all = self.held.pieces_mut();
        all.filter(|piece| !piece.was_made_here()).for_each(Piece::has_come);
    }

    /// A round of a part of a key is over, and that is cut and moved as it was to be. What is
    /// here of it gets tickets by trees whose workers have all pushed. What gets none goes
    /// alone, until there are other trees.
    pub(super) fn give_tickets(&mut self, part: KeyPart, pushed: Option<&Pushed>) {
        let KeyPart { key, from, to } = part;
        if self.known.overlay() == 0 || !self.look().sums_by_tree(key) {
            return;
        }
        let all = self.held.tensors.get(&key).map_or(0..0, |tensor| tensor.within(from, to));
        for at in all.map(|index| At { key, index }) {
            if let Some(Pushed { workers, customer }) = pushed {
                self.give_ticket(at, *customer, |table| {
                    table.members().all(|node| workers.contains(&node))
                });
            }
            let next = self.held.piece(at).map(|piece| self.look().next_of(piece));
            if let (Ok(next), Ok(piece)) = (next, self.held.piece_mut(at))
                && piece.may_give(&next)
            {
                piece.withhold(next);
            }
        }
    }

    /// The next round of a piece gets a ticket by a tree that fits, if there is one.
    pub(super) fn give_ticket(&mut self, at: At, customer: i32, fits: impl Fn(&Table) -> bool) {
        let Ok(piece) = self.held.piece(at) else { return };
        let next = self.look().next_of(piece);
        if !piece.may_give(&next) {
            return;
        }
        let bytes = piece.value.buffer().len() as u64;
        let (part, order) = (piece.of_key(at.key), self.held.config.order);
        let taker = (self.held.view.space(at.key), customer);
        let (attendance, trees) = (&self.held.attendance, &mut self.known.trees);
        let fits = |table: &Table| fits(table) && may_use(attendance, table, taker);
        let tree = match order {
            SumOrder::Trees => trees.choose_fixed(part, fits),
            SumOrder::Arrival | SumOrder::Ranks => trees.choose(bytes, fits),
        };
        if let (Some(tree), Ok(piece)) = (tree, self.held.piece_mut(at)) {
            piece.set_ticket(Ticket { tree, ..next }, customer);
        }
    }

    /// The ticket of the open round of a piece, or of the next one if nobody has pushed to it yet.
    /// One whose tree is lost is replaced, if that is possible.
    pub(super) fn ticket(&mut self, at: At) -> Option<Ticket> {
        let piece = self.held.piece(at).ok()?;
        let (ticket, customer) = (piece.ticket()?, piece.ticket_customer());
        let (round, is_open) = (piece.version + 1, piece.round.is_open());
        let is_lost = match self.known.trees.trees.find(&ticket) {
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
        self.held.piece(at).ok()?.ticket()
    }

    /// True if a push that came alone was told to come by the ticket of its round. A worker that
    /// names that ticket cannot: then the ticket is void.
    pub(super) fn is_sent_by_tree(&mut self, at: At, pushes: &Pushes) -> bool {
        let (Ok(piece), Pushes::One(request)) = (self.held.piece(at), pushes) else { return false };
        let name = Name::of(request);
        if piece.ticket().is_none() || piece.marks.count(&name) || piece.round.has_one_of(name.who)
        {
            return false;
        }
        let Some(ticket) = self.ticket(at) else { return false };
        if !self.held.piece(at).is_ok_and(|piece| self.look().is_for(piece, &ticket, request)) {
            return false;
        }
        if request.ask().and_then(|ask| ask.ticket.as_deref()) == Some(&ticket) {
            self.void_ticket(at);
            return false;
        }
        self.say_how(at.key, request.clone());
        true
    }

    /// True if a sum goes into a round of the piece now. Else its ticket is void for all.
    pub(super) fn takes_sum(&mut self, at: At, request: &Meta) -> bool {
        let of_sum = request.hop().map(|hop| hop.ticket);
        if of_sum.is_some() && self.ticket(at) == of_sum {
            return true;
        }
        self.refuse_sum(request.clone(), Vec::new(), None);
        false
    }

    /// Nothing is done with a sum: all in its tree are told to push again, by the ticket `next` if
    /// there is one. Below the floor they ask of themselves.
    pub(super) fn refuse_sum(
        &mut self,
        mut request: Meta,
        routes: Vec<Route>,
        next: Option<Ticket>,
    ) {
        let Some(hop) = request.hop() else { return };
        if self.known.trees.trees.get(&hop.ticket).is_none() {
            return;
        }
        let (key, ticket) = (hop.key, hop.ticket);
        let (from, to) = request.ask().map_or((0, 0), |ask| (ask.from, ask.to));
        let tensor = self.held.tensors.get_mut(&key);
        // Parts of a key may have the same one.
        let piece = tensor.and_then(|tensor| {
            let index = tensor.exactly(from, to)?;
            tensor.pieces.get_mut(index)
        });
        if let Some(piece) = piece.filter(|piece| piece.ticket() == Some(ticket)) {
            piece.end_ticket();
        }
        self.look().mark_again(&mut request, routes);
        if let Some(reply) = request.answering() {
            reply.ticket = next.map(Box::new);
        }
        Whereabouts { held: self.held, known: self.known }.answer(done(request), self.out);
    }

    /// That customer sends no more: no sum gets its name by the tickets of trees with its worker.
    /// The other workers push alone, and rounds end without it, or it is said who left.
    pub(in crate::store) fn void_tickets_of(&mut self, worker: NodeId, customer: i32) {
        let has_it = |ticket: &Ticket| {
            let table = self.known.trees.trees.get(ticket);
            table.is_some_and(|table| table.has(worker))
        };
        let void = self.held.pieces_that(|piece| {
            piece.ticket().filter(|ticket| piece.ticket_customer() == customer && has_it(ticket))
        });
        for (at, _) in void {
            self.void_ticket(at);
        }
    }

    /// The ticket of a piece is used up.
    pub(super) fn end_ticket(&mut self, at: At) {
        if let Ok(piece) = self.held.piece_mut(at) {
            piece.end_ticket();
        }
    }

    /// The ticket of a piece means nothing any more, and all in its tree are told so.
    pub(super) fn void_ticket(&mut self, at: At) {
        let Ok(piece) = self.held.piece_mut(at) else { return };
        let Some(ticket) = piece.ticket() else { return };
        let (from, to, term) = (piece.from, piece.to, piece.term);
        let ask = PartAsk { from, to, term, ..PartAsk::default() };
        let customer = piece.ticket_customer();
        self.tell_void(at.key, customer, ask, Void::of(ticket));
    }

    /// Tells that customer of all workers in the tree of a ticket that it is void. `ask`: of
    /// which part it was.
    pub(super) fn tell_void(&mut self, key: Key, customer_id: i32, ask: PartAsk, void: Void) {
        let Void { ticket, next } = void;
        let routes = self.look().routes(KeyPart { key, from: ask.from, to: ask.to });
        let hop = Hop { ticket, key, ..Hop::default() };
        let payload = Payload::Up(ask, Box::new(hop));
        let request = Meta { customer_id, payload, ..Meta::default() };
        self.refuse_sum(request, routes, next);
    }
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
