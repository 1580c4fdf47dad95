//! What a relay promises of itself, as code (`crate::invariant`).

use std::collections::BTreeSet;

use super::{Found, Relay};
use crate::invariant::{Valid, require};
use crate::wire::NodeId;
use crate::wire::trees::Ticket;

impl Relay {
    /// Every open sum is of a tree that is known and that this worker is in, names workers that
    /// push through it, each once, and lacks somebody. What waits for an overlay waits for one that
    /// is not here.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        for (part, open) in &self.sums {
            let table = self.trees.get(&open.ticket);
            let table = table.ok_or_else(|| format!("the sum of {part:?} is of no known tree"))?;
            let through = table.through(self.me);
            require(open.workers.len() < through, || {
                format!("the sum of {part:?} lacks none of its {through} pushes and was not sent")
            })?;
            let named: BTreeSet<NodeId> = open.names.iter().map(|name| name.worker).collect();
            require(named.is_subset(&open.workers) && named.len() == open.names.len(), || {
                format!("the sum of {part:?} names {named:?}, counted are {:?}", open.workers)
            })?;
            let strange = open.workers.iter().find(|worker| !table.goes_through(**worker, self.me));
            require(strange.is_none(), || {
                format!("the sum of {part:?} has worker {strange:?}, who pushes elsewhere")
            })?;
        }
        let floor = self.trees.floor();
        let old = self.own.iter().find(|(_, own)| own.ticket.overlay < floor);
        require(old.is_none(), || format!("a push waits below the floor {floor}: {old:?}"))?;
        let early = self.early.iter().filter_map(|(meta, _)| meta.hop());
        let is_late = |ticket: &Ticket| !matches!(self.trees.find(ticket), Found::NotYet);
        let late = early.map(|hop| hop.ticket).find(is_late);
        require(late.is_none(), || format!("a hop by {late:?} waits, and its overlay is here"))
    }
}
