//! Which parts of pushes go along a tree (`docs/trees.md`). The owner of a part says so with the
//! end of each round, by a ticket, which one push uses. Where it has said nothing it is asked, once
//! for each push, overlay and term. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::part::{By, Part, PartState, PartWay};
use super::{Flights, Slice};
use crate::trees::{Found, Table, Trees, Void};
use crate::values::{Form, KeyPart};
use crate::wire::elastic::PartReply;
use crate::wire::trees::{PartTicket, Ticket};
use crate::wire::{Key, NodeId, worker_id};

/// Values of fewer bytes go alone rather than after a question. That takes a round trip, and with
/// its answer some 300 bytes on the way, which is what a tree is to save.
pub(super) const ASKS_FROM: u64 = 4 << 10;
/// Bytes of an element of a value whose pushes are compressed.
const F32: u64 = 4;
/// Parts of which one answer tells; those beyond are asked about.
const TOLD_MAX: usize = 1 << 12;

/// What a worker knows of how its next pushes go. By default it knows no tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Tickets {
    me: NodeId,
    trees: Arc<Trees>,
    /// Who has a tree of the newest overlay in which this worker is.
    roots: BTreeSet<NodeId>,
    /// Parts are disjoint.
    of: BTreeMap<KeyPart, OwnerWord>,
    /// The last ticket of each part that was void: that can be heard before the ticket itself,
    /// which came down another tree.
    void: BTreeMap<KeyPart, Void>,
}

/// What the owner of a part has said of the next push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerWord {
    /// It goes by that ticket, which no push has used.
    Ticket(Ticket),
    /// It goes alone, while no newer overlay than that is known.
    Alone(u64),
}

/// What becomes of a push of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// No tree takes it, or this worker is not in the tree.
    Alone,
    /// It goes by that ticket.
    Tree(Ticket),
    /// A tree might take it, or did before it was lost: its owner knows.
    Ask,
    /// The tree of its ticket has not come yet.
    Wait,
}

impl Tickets {
    /// These trees are in force, and `me` is this worker.
    fn follow(&mut self, me: NodeId, trees: Arc<Trees>) {
        let floor = trees.floor();
        // A ticket below the floor is none anyway.
        self.void.retain(|_, void| void.ticket.overlay >= floor);
        let mine = trees.newest().filter(|table| table.weight() > 0 && table.has(me));
        self.roots = mine.map(Table::root).collect();
        (self.me, self.trees) = (me, trees);
    }

    /// The newest overlay that is known.
    pub(super) fn number(&self) -> u64 {
        self.trees.number()
    }

    fn get(&self, part: KeyPart) -> Option<OwnerWord> {
        self.of.get(&part).copied()
    }

    /// The ticket of a part, which is used now or means nothing any more.
    fn take(&mut self, part: KeyPart) -> Option<Ticket> {
        let Some(OwnerWord::Ticket(ticket)) = self.get(part) else { return None };
        self.of.remove(&part);
        Some(ticket)
    }

    /// The owner of a part, or the relay here, has answered a push.
    pub(super) fn answered(&mut self, key: Key, part: &mut Part, reply: &PartReply) {
        let overlay = reply.overlay;
        let was_asked = match part.sent().map(|way| way.by) {
            Some(By::Tree(ticket)) if reply.again => {
                // It is void: only newer trees, or another owner, may take the push.
                part.asked = part.asked.max((ticket.overlay, part.term));
                false
            }
            Some(By::Name) => true,
            _ => false,
        };
        if !reply.tickets.is_empty() {
            let whole = (part.from, if part.to == 0 { u64::MAX } else { part.to });
            let is_within =
                |it: &&PartTicket| whole.0 <= it.from && it.from < it.to && it.to <= whole.1;
            for PartTicket { from, to, ticket } in
                reply.tickets.iter().take(TOLD_MAX).filter(is_within)
            {
                let told = KeyPart { key, from: *from, to: *to };
                self.told(told, *ticket, overlay, reply.again);
            }
            return;
        }
        // Who is told *again* without a ticket, and has not asked, may be told of an earlier push
        // with one.
        if reply.ticket.is_none() && reply.again && !was_asked {
            return;
        }
        // Who pushed a whole key is told how long it is.
        let told = match (part.to, &reply.routes[..]) {
            (0, [route]) => KeyPart { key, from: route.from, to: route.to },
            _ => part.of_key(key),
        };
        self.told(told, reply.ticket.as_deref().copied(), overlay, reply.again);
    }

    /// The owner of a part says which ticket its next push has, if it has one. `again`: of a push
    /// that was to be sent again; what was said of an earlier one may be newer.
    fn told(&mut self, part: KeyPart, ticket: Option<Ticket>, overlay: u64, again: bool) {
        if part.from >= part.to {
            return;
        }
        let in_force = ticket.and_then(|ticket| self.in_force(part, ticket));
        let is_void = ticket.is_some() && in_force.is_none();
        let known = self.get(part);
        let is_older = match (in_force, known) {
            (Some(ticket), Some(OwnerWord::Ticket(known))) => ticket.is_before(&known),
            (None, Some(OwnerWord::Ticket(_))) => again || is_void,
            _ => false,
        };
        if is_older {
            return;
        }
        // The piece may have been cut since.
        let before = |end| KeyPart { key: part.key, from: end, to: 0 };
        let until = self.of.range(before(0)..before(part.to)).rev();
        let over: Vec<_> =
            until.map(|(known, _)| *known).take_while(|known| part.from < known.to).collect();
        over.iter().for_each(|known| _ = self.of.remove(known));
        self.of.insert(part, in_force.map_or(OwnerWord::Alone(overlay), OwnerWord::Ticket));
    }

    /// A ticket, or the one in its place; `None`: it is void.
    fn in_force(&self, part: KeyPart, ticket: Ticket) -> Option<Ticket> {
        match self.void.get(&part) {
            Some(void) if void.ticket == ticket => void.next,
            Some(void) if !void.ticket.is_before(&ticket) => None,
            _ => Some(ticket),
        }
    }

    fn go(&self, key: Key, part: &Part, is_long: bool) -> Go {
        let alone = match self.get(part.of_key(key)) {
            None => 0,
            Some(OwnerWord::Alone(overlay)) => overlay,
            Some(OwnerWord::Ticket(ticket)) => return self.go_by(ticket),
        };
        let number = self.trees.number();
        let may_ask = alone < number && (part.asked.0 < number || part.asked.1 < part.term);
        let is_new = part.term == 0 && self.makes_keys();
        let is_worth_it = is_long && self.roots.contains(&part.owner);
        if may_ask && is_worth_it && !is_new { Go::Ask } else { Go::Alone }
    }

    /// True if a push of a key may go along a tree. `is_new`: nothing is known of the key.
    pub(super) fn may_take(&self, is_new: bool) -> bool {
        let makes_it = is_new && self.makes_keys();
        !makes_it && !self.roots.is_empty()
    }

    /// True of MXNet's rank 0: what is not known to be anywhere is made by its first push.
    fn makes_keys(&self) -> bool {
        self.me == worker_id(0)
    }

    fn go_by(&self, ticket: Ticket) -> Go {
        match self.trees.find(&ticket) {
            Found::Here(table) if table.has(self.me) => Go::Tree(ticket),
            // The owner sees that by the trees that the push names. Where this worker should have
            // gone along the tree, it makes the ticket void.
            Found::Here(_) | Found::Strange => Go::Alone,
            Found::Gone => Go::Ask,
            Found::NotYet => Go::Wait,
        }
    }

    /// A push of a part is sent that way: the ticket that it names, which is used now, and the
    /// newest overlay that this worker knows.
    pub(super) fn use_for(&mut self, part: KeyPart, way: PartWay) -> (Option<Ticket>, u64) {
        let known = self.take(part);
        let ticket = match way.by {
            By::Tree(ticket) => Some(ticket),
            By::Itself => known,
            By::Name => None,
        };
        (ticket, self.trees.number())
    }
}

impl Flights {
    /// These trees are in force. Parts that went along one that may be lost ask their owners. The
    /// caller does what its relay has waited with until these trees came, and then calls
    /// [`Flights::retry`]: a ticket that is void by now is not to be used before.
    pub fn set_trees(&mut self, now: Duration, me: NodeId, trees: Arc<Trees>) {
        let floor = trees.floor();
        self.tickets.get_or_insert_default().follow(me, trees);
        for (name, flight) in &mut self.open {
            for part in flight.parts.iter_mut().filter(|part| part.is_below(floor)) {
                (part.asks, part.state) = (true, PartState::Waiting(now));
                self.waiting.insert(flight.number, *name);
            }
        }
        self.look_at_all();
    }

    /// A ticket means nothing any more. A push that was to use it uses the one in its place.
    pub fn void_ticket(&mut self, part: KeyPart, void: Void) {
        let Some(tickets) = &mut self.tickets else { return };
        let last = tickets.void.entry(part).or_insert(void);
        if last.ticket.is_before(&void.ticket) {
            *last = void;
        }
        let Some(OwnerWord::Ticket(own)) = tickets.get(part) else { return };
        let next = tickets.in_force(part, own);
        if next == Some(own) {
            return;
        }
        tickets.take(part);
        if let Some(next) = next {
            tickets.of.insert(part, OwnerWord::Ticket(next));
        }
    }

    /// Which way a part of a push goes now; `None`: none yet.
    pub(super) fn way_of(&self, slice: &Slice, part: &Part) -> Option<PartWay> {
        let Some(tickets) = self.tickets.as_deref() else { return Some(part.way()) };
        let is_opaque = part.to == 0 && part.term > 0;
        // Values come down the tree, as long as they are, whatever the push has of them.
        let (bytes, size) = match slice.form {
            Form::Dense { size } => (slice.kv.vals.len(), size),
            Form::TwoBit { .. } => (slice.form.value_bytes(&slice.kv).unwrap_or(0), F32),
            Form::Whole => return Some(part.way()),
        };
        if part.asks || is_opaque {
            return Some(part.way());
        }
        let bytes = match part.to {
            0 => bytes as u64,
            to => (to - part.from).saturating_mul(size),
        };
        match tickets.go(slice.key, part, bytes >= self.asks_from) {
            Go::Alone => Some(part.way()),
            Go::Tree(ticket) => Some(PartWay { next: tickets.me, by: By::Tree(ticket) }),
            Go::Ask => Some(PartWay { next: part.owner, by: By::Name }),
            Go::Wait => None,
        }
    }
}

impl Part {
    /// True if it is under way along a tree of an overlay below that one.
    fn is_below(&self, floor: u64) -> bool {
        matches!(self.sent().map(|way| way.by), Some(By::Tree(ticket)) if ticket.overlay < floor)
    }
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
