//! Which parts of pushes go along a tree (`docs/trees.md`). The owner of a part says so with the
//! end of each round, by a ticket, which one push uses. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::part::{By, Part, PartState, Way};
use super::{Flights, Slice};
use crate::trees::{Found, Trees};
use crate::values::Form;
use crate::wire::trees::Ticket;
use crate::wire::{Key, NodeId};

/// The tickets of a worker that no push has used.
#[derive(Clone, Debug)]
pub(super) struct Tickets {
    me: NodeId,
    trees: Arc<Trees>,
    /// By the part of the key: its first element, and one past its last.
    of: BTreeMap<Key, BTreeMap<(u64, u64), Ticket>>,
    /// The last ticket of each part that was void: that can be heard before the ticket itself,
    /// which came down another tree.
    void: BTreeMap<(Key, (u64, u64)), Ticket>,
}

/// What becomes of a push of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// It has no ticket, or this worker is not in the tree.
    Alone,
    /// It goes by that ticket.
    Tree(Ticket),
    /// The tree of its ticket is lost: its owner knows the next one.
    Ask,
    /// The tree of its ticket has not come yet.
    Wait,
}

impl Tickets {
    fn new(me: NodeId, trees: Arc<Trees>) -> Self {
        Self { me, trees, of: BTreeMap::new(), void: BTreeMap::new() }
    }

    fn get(&self, key: Key, range: (u64, u64)) -> Option<Ticket> {
        self.of.get(&key)?.get(&range).copied()
    }

    fn take(&mut self, key: Key, range: (u64, u64)) -> Option<Ticket> {
        let of_key = self.of.get_mut(&key)?;
        let ticket = of_key.remove(&range);
        if of_key.is_empty() {
            self.of.remove(&key);
        }
        ticket
    }

    /// The owner of a part says which ticket its next push has, if it has one.
    pub(super) fn told(&mut self, key: Key, (from, to): (u64, u64), ticket: Option<Ticket>) {
        if let Some(of_key) = self.of.get_mut(&key) {
            // The piece may have been cut since.
            of_key.retain(|(begin, end), _| *end <= from || to <= *begin);
        }
        let is_new = |ticket: &Ticket| {
            self.void.get(&(key, (from, to))).is_none_or(|void| void.is_before(ticket))
        };
        match ticket.filter(is_new) {
            Some(ticket) => _ = self.of.entry(key).or_default().insert((from, to), ticket),
            None if self.of.get(&key).is_some_and(BTreeMap::is_empty) => _ = self.of.remove(&key),
            None => {}
        }
    }

    fn go(&self, key: Key, range: (u64, u64)) -> Go {
        let Some(ticket) = self.get(key, range) else { return Go::Alone };
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
    pub(super) fn use_for(
        &mut self,
        key: Key,
        range: (u64, u64),
        way: Way,
    ) -> (Option<Ticket>, u64) {
        let known = self.take(key, range);
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
        match &mut self.tickets {
            Some(tickets) => {
                tickets.trees = trees;
                // A ticket below the floor is none anyway.
                tickets.void.retain(|_, void| void.overlay >= floor);
            }
            None => self.tickets = Some(Box::new(Tickets::new(me, trees))),
        }
        for (name, flight) in &mut self.open {
            for part in flight.parts.iter_mut().filter(|part| part.is_below(floor)) {
                (part.asks, part.state) = (true, PartState::Waiting(now));
                self.waiting.insert(flight.number, *name);
            }
        }
        self.look_at_all();
    }

    /// A ticket means nothing any more.
    pub fn void_ticket(&mut self, key: Key, range: (u64, u64), ticket: Ticket) {
        let Some(tickets) = &mut self.tickets else { return };
        let void = tickets.void.entry((key, range)).or_insert(ticket);
        if void.is_before(&ticket) {
            *void = ticket;
        }
        if tickets.get(key, range).is_some_and(|own| !ticket.is_before(&own)) {
            tickets.take(key, range);
        }
    }

    /// Which way a part of a push goes now; `None`: none yet.
    pub(super) fn way_of(&self, slice: &Slice, part: &Part) -> Option<Way> {
        let Some(tickets) = self.tickets.as_deref() else { return Some(part.way()) };
        let is_dense = matches!(slice.form, Form::Dense { .. });
        if part.asks || part.to == 0 || !is_dense {
            return Some(part.way());
        }
        match tickets.go(slice.key, (part.from, part.to)) {
            Go::Alone => Some(part.way()),
            Go::Tree(ticket) => Some(Way { next: tickets.me, by: By::Tree(ticket) }),
            Go::Ask => Some(Way { next: part.owner, by: By::Name }),
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
