//! Trees that carry the rounds of pieces (`docs/trees.md`): workers sum gradients on the way up to
//! the owner, and its values come down to them.
//!
//! Pure. `table` is one tree as a node knows it, [`Trees`] all that it knows, `relay` what a worker
//! does with what goes through it, `names` who is in a sum. What an owner does is in
//! `store::moving::tickets`, how a part finds its tree in `kv::flights`. May touch `wire` and
//! `values`; must not know keys' places, rounds of a store or requests of an application.
//!
//! What holds it together:
//!
//! - A *ticket* says which tree a piece takes in which round. The owner gives it out with the end
//!   of the round before, or to those who ask. So all workers have the same one, and nobody has to
//!   wait for a switch.
//! - A sum names the pushes in it. A relay sends it up once it has the names of all workers that
//!   push through it. The owner counts names, never messages.
//! - Whatever goes wrong on the way is mended by asking the owner about a name: it counted, or it
//!   is pushed again.

mod names;
mod relay;
mod table;
mod turn;
mod validate;

use std::collections::BTreeMap;

use crate::wire::NodeId;
use crate::wire::trees::{OVERLAYS_KEPT, Overlay, Ticket};

pub use self::names::{is_of, name_of};
pub use self::relay::{Relay, Step, Void, down_from_root};
pub use self::table::Table;
pub use self::turn::place_in_round;

/// Trees of one overlay; those beyond are not used.
pub const TREES_MAX: usize = 1 << 10;

/// Along trees a model is in so many parts, since a hop passes a part on when all of it is there.
pub const PARTS: usize = 400;
/// But none of fewer bytes: each is a message of its own.
pub const SHORTEST_PART: usize = 64 << 10;

/// The trees that one node knows.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    number: u64,
    floor: u64,
    /// By overlay. A tree that could not be read is none.
    overlays: BTreeMap<u64, Vec<Option<Table>>>,
}

/// What a node knows of the tree of a ticket.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// This is it.
    Here(&'a Table),
    /// Its overlay has not come yet.
    NotYet,
    /// What went along it may be lost: its overlay is below the floor.
    Gone,
    /// It is none that this node ever heard of: others may go by it, and this node cannot.
    Strange,
}

impl Trees {
    /// Takes an overlay in. False if it is known, or too old. One that was lost with a connection
    /// may come after a newer one.
    pub fn learn(&mut self, overlay: &Overlay) -> bool {
        let is_known = self.overlays.contains_key(&overlay.number);
        if overlay.number == 0 || is_known || overlay.number < self.floor() {
            return false;
        }
        let trees = overlay.trees.iter().take(TREES_MAX).map(|tree| Table::read(tree).ok());
        self.number = self.number.max(overlay.number);
        self.floor = self.floor.max(overlay.floor.min(overlay.number));
        self.overlays.insert(overlay.number, trees.collect());
        let floor = self.floor();
        self.overlays.retain(|number, _| *number >= floor);
        true
    }

    /// The newest overlay that is known; 0: none.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// True if rounds may go along a tree now.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.overlays.get(&self.number).is_some_and(|trees| trees.iter().any(Option::is_some))
    }

    /// What went by an overlay below that may be lost.
    #[must_use]
    pub const fn floor(&self) -> u64 {
        let forgotten = (self.number + 1).saturating_sub(OVERLAYS_KEPT);
        if forgotten > self.floor { forgotten } else { self.floor }
    }

    /// The tree of a ticket.
    #[must_use]
    pub fn find(&self, ticket: &Ticket) -> Found<'_> {
        if ticket.overlay < self.floor() {
            return Found::Gone;
        }
        let Some(trees) = self.overlays.get(&ticket.overlay) else { return Found::NotYet };
        let tree = trees.get(ticket.tree as usize).and_then(Option::as_ref);
        tree.map_or(Found::Strange, Found::Here)
    }

    /// The same, if it is here.
    #[must_use]
    pub fn get(&self, ticket: &Ticket) -> Option<&Table> {
        match self.find(ticket) {
            Found::Here(table) => Some(table),
            Found::NotYet | Found::Gone | Found::Strange => None,
        }
    }

    /// The trees of the newest overlay whose root is that server, with their numbers.
    pub fn of_root(&self, root: NodeId) -> impl Iterator<Item = (u32, &Table)> {
        let newest = self.overlays.get(&self.number).into_iter().flatten();
        let numbered = (0..).zip(newest).filter_map(|(tree, table)| Some((tree, table.as_ref()?)));
        numbered.filter(move |(_, table)| table.root() == root)
    }

    /// All trees of the newest overlay.
    pub fn newest(&self) -> impl Iterator<Item = &Table> {
        self.overlays.get(&self.number).into_iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests;
