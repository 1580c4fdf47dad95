//! By which trees the rounds of this server's pieces go (`docs/trees.md`): the owner's side. May
//! touch what the store may.
//!
//! With the end of a round the owner gives out a ticket for the next one, if all workers of a tree
//! pushed to that round. A round with a ticket takes sums by that ticket, and single pushes of
//! workers who are not in the tree. Who is in it and comes alone is told the ticket. What a ticket
//! was for may end before its round: then it is void, and everybody in the tree is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Elastic, Outbound};
use crate::store::contribution::Pushes;
use crate::store::error::StoreError;
use crate::store::mxnet::{Answer, At, Store, done};
use crate::store::name::{Customer, Name};
use crate::store::tensor::{Layout, Piece};
use crate::trees::{Found, Table, Trees, down_from_root};
use crate::values::kind::{RequestKind, kind_of};
use crate::wire::elastic::{Placed, Route};
use crate::wire::trees::{Hop, Overlay, Ticket};
use crate::wire::{Key, Meta, NodeId};

/// What a server knows of trees.
#[derive(Debug, Default)]
pub(super) struct TreesHere {
    trees: Arc<Trees>,
    /// Bytes of rounds that each tree of the newest overlay was given, by its number.
    given: BTreeMap<u32, u64>,
}

impl Elastic {
    /// The newest overlay that is known; 0: none.
    pub(super) fn overlay(&self) -> u64 {
        self.trees.trees.number()
    }

    /// True if every worker of a tree is waited for, with one customer.
    fn may_use(&self, table: &Table) -> bool {
        let Some(workers) = &self.workers else { return true };
        let awaited = workers.awaited();
        table.members().all(|node| awaited.range((node, i32::MIN)..=(node, i32::MAX)).count() == 1)
    }

    /// The tree of the newest overlay that a round of so many bytes takes next, among those whose
    /// workers are all in `pushed`. Each tree gets bytes as its weight says.
    fn choose(&mut self, bytes: u64, pushed: Option<&BTreeSet<NodeId>>) -> Option<u32> {
        let trees = Arc::clone(&self.trees.trees);
        let fits = |table: &Table| {
            pushed.is_none_or(|pushed| table.members().all(|node| pushed.contains(&node)))
                && self.may_use(table)
        };
        let given = |tree: u32| self.trees.given.get(&tree).copied().unwrap_or(0);
        let all = trees.of_root(self.me).filter(|(_, table)| table.weight() > 0 && fits(table));
        let ahead = all.map(|(tree, table)| {
            let load = u128::from(given(tree) + bytes) * (1 << 32) / u128::from(table.weight());
            (load, tree)
        });
        let (_, tree) = ahead.min()?;
        *self.trees.given.entry(tree).or_default() += bytes;
        Some(tree)
    }
}

impl Store {
    /// An overlay came: rounds go by its trees from now on. What waited for it is looked at.
    pub fn overlay(&mut self, overlay: &Overlay, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        if Arc::make_mut(&mut elastic.trees.trees).learn(overlay) {
            elastic.trees.given.clear();
            self.unpark_all(out);
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

    /// A round of these pushes is over: by which ticket the next one goes.
    pub(in crate::store) fn next_ticket(&mut self, at: At, pushes: &[Pushes]) -> Option<Ticket> {
        if !self.sync || self.config.deterministic {
            return None;
        }
        let piece = self.piece(at).ok()?;
        let (bytes, round) = (piece.value.buffer().len() as u64, piece.version + 1);
        let is_dense = piece.layout == Layout::Dense;
        let elastic = self.elastic.as_mut()?;
        if !is_dense || elastic.overlay() == 0 {
            return None;
        }
        let dense =
            |one: &Pushes| matches!(kind_of(one.request().head), Ok((RequestKind::Default, _)));
        let customers = || pushes.iter().flat_map(Pushes::customers);
        let workers: BTreeSet<NodeId> = customers().map(|who| who.worker).collect();
        // A worker with two customers pushes twice to a round; a tree knows it once.
        if workers.len() < customers().count() || !pushes.iter().all(dense) {
            return None;
        }
        let tree = elastic.choose(bytes, Some(&workers))?;
        Some(Ticket { overlay: elastic.overlay(), tree, round })
    }

    /// The ticket of the open round of a piece, or of the next one if nobody has pushed to it yet.
    /// One whose tree is lost is replaced, if that is possible.
    fn ticket(&mut self, at: At) -> Option<Ticket> {
        let piece = self.piece(at).ok()?;
        let ticket = piece.ticket()?;
        let (round, bytes) = (piece.version + 1, piece.value.buffer().len() as u64);
        let is_open = piece.round.is_open();
        let elastic = self.elastic.as_mut()?;
        let is_lost = match elastic.trees.trees.find(&ticket) {
            Found::Here(_) => false,
            Found::NotYet | Found::Gone | Found::Strange => true,
        };
        let now = if ticket.round != round {
            None
        } else if !is_lost {
            return Some(ticket);
        } else if is_open {
            // Some have pushed by the tree that is lost. The others come alone.
            None
        } else {
            let number = elastic.overlay();
            elastic.choose(bytes, None).map(|tree| Ticket { overlay: number, tree, round })
        };
        if let Ok(piece) = self.piece_mut(at) {
            piece.set_ticket(now);
        }
        now
    }

    /// What an answer to a push says of the next round.
    pub(super) fn tell_ticket(&self, key: Key, request: &mut Meta) {
        let Some(placed) = &request.placed else { return };
        let piece = self.tensors.get(&key).and_then(|tensor| {
            let index = match placed.to {
                0 => tensor.whole_piece(),
                to => tensor.exactly(placed.from, to),
            };
            tensor.pieces.get(index?)
        });
        let current = |piece: &Piece| piece.ticket().filter(|it| it.round == piece.version + 1);
        let ticket = piece.and_then(current).filter(|ticket| self.is_for(ticket, request));
        let overlay = self.elastic.as_ref().map_or(0, |elastic| elastic.overlay());
        if let Some(placed) = &mut request.placed {
            (placed.ticket, placed.overlay) = (ticket.map(Box::new), overlay);
        }
    }

    /// True if who sent that request is in the tree of a ticket: another process with the same id
    /// is not. What goes down a tree is for all in it.
    fn is_for(&self, ticket: &Ticket, request: &Meta) -> bool {
        let Some(elastic) = &self.elastic else { return false };
        let table = elastic.trees.trees.get(ticket);
        let workers = elastic.workers.as_ref();
        request.hop.is_some()
            || table.is_some_and(|table| table.has(request.sender))
                && workers.is_none_or(|workers| workers.awaits(Customer::of(request)))
    }

    /// A question: has the push of that name counted? Answered *again* if it has not.
    pub(in crate::store) fn asked(
        &mut self,
        at: At,
        request: Meta,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let (piece, name) = (self.piece(at)?, Name::of(&request));
        if piece.marks.count(&name) {
            return self.answer_duplicate(at, request, out);
        }
        if piece.round.holds(name.who, name.timestamp) {
            return self.wait_for_round(at, request);
        }
        self.send_by_ticket(at, request, out);
        Ok(())
    }

    /// Tells a worker to push again, by the ticket of the round if there is one.
    fn send_by_ticket(&mut self, at: At, mut request: Meta, out: &mut Outbound) {
        let ticket = self.ticket(at).filter(|ticket| self.is_for(ticket, &request));
        let routes = match &request.placed {
            Some(placed) => self.routes(at.key, placed),
            None => Vec::new(),
        };
        self.mark_again(&mut request, routes);
        if let Some(placed) = &mut request.placed {
            placed.ticket = ticket.map(Box::new);
        }
        out.answers.push(done(request));
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
        if !self.is_for(&ticket, request) {
            return false;
        }
        if request.placed.as_ref().and_then(|placed| placed.ticket.as_deref()) == Some(&ticket) {
            self.void_ticket(at, out);
            return false;
        }
        self.send_by_ticket(at, request.clone(), out);
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
        self.refuse_sum(request.clone(), Vec::new(), out);
        false
    }

    /// Nothing is done with a sum: all in its tree are told to push again. Below the floor they ask
    /// of themselves.
    pub(super) fn refuse_sum(&mut self, mut request: Meta, routes: Vec<Route>, out: &mut Outbound) {
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
        if let Some(piece) = piece {
            piece.set_ticket(piece.ticket().filter(|own| *own != ticket));
        }
        self.mark_again(&mut request, routes);
        self.answer(done(request), out);
    }

    /// The ticket of a piece means nothing any more.
    pub(super) fn void_ticket(&mut self, at: At, out: &mut Outbound) {
        let Ok(piece) = self.piece_mut(at) else { return };
        let Some(ticket) = piece.ticket() else { return };
        let (from, to, term) = (piece.from, piece.to, piece.term);
        self.tell_void(at.key, Placed { from, to, term, ..Placed::default() }, ticket, out);
    }

    /// Tells all in the tree of a ticket that it is void. `placed`: of which part it was.
    pub(super) fn tell_void(
        &mut self,
        key: Key,
        placed: Placed,
        ticket: Ticket,
        out: &mut Outbound,
    ) {
        let routes = self.routes(key, &placed);
        let hop = Hop { ticket, key, ..Hop::default() };
        let request = Meta { placed: Some(placed), hop: Some(Box::new(hop)), ..Meta::default() };
        self.refuse_sum(request, routes, out);
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
