//! Each element has one owner at a time: of all servers that live and were not declared dead no two
//! own it. And a round of an element is applied by one server, unless that died before anybody
//! could know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pslite_core::wire::elastic::{Claim, Holding};
use pslite_core::wire::{Key, NodeId};

/// A piece that a server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) key: Key,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) term: u64,
    pub(super) version: u64,
    /// Its owner had it before, with the same term.
    pub(super) known: bool,
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, from, to, term, version, .. } = self;
        write!(f, "{from}..{to} of key {key}, term {term:#x}, version {version}")
    }
}

/// Some elements between which no piece ends.
#[derive(Clone, Debug, Default)]
struct Cell {
    owners: BTreeMap<NodeId, (u64, u64)>,
    /// The newest round that was applied, and by whom.
    applied: Option<(u64, NodeId)>,
}

/// Who owns what.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    cells: BTreeMap<(Key, u64), Cell>,
    held: BTreeMap<NodeId, BTreeSet<(Key, u64)>>,
    gone: BTreeSet<NodeId>,
}

impl Owners {
    pub(super) fn gone(&mut self, server: NodeId) {
        self.gone.insert(server);
        for cell in self.held.remove(&server).into_iter().flatten() {
            if let Some(cell) = self.cells.get_mut(&cell) {
                cell.owners.remove(&server);
            }
        }
    }

    pub(super) fn is_gone(&self, server: NodeId) -> bool {
        self.gone.contains(&server)
    }

    /// What is wrong, and what the server owns: of one key, or of all.
    pub(super) fn holds(
        &mut self,
        server: NodeId,
        key: Option<Key>,
        claims: &[Claim],
        align: impl Fn(Key) -> Option<u64>,
    ) -> (Option<String>, Vec<Owned>) {
        if self.gone.contains(&server) {
            return (None, Vec::new());
        }
        let held = self.held.entry(server).or_default();
        let before = match key {
            None => std::mem::take(held),
            Some(key) => {
                let of_key: BTreeSet<_> = held.range((key, 0)..=(key, u64::MAX)).copied().collect();
                of_key.iter().for_each(|cell| _ = held.remove(cell));
                of_key
            }
        };
        let mut now = BTreeSet::new();
        let (mut found, mut pieces) = (None, Vec::new());
        for claim in claims.iter().filter(|claim| claim.holding == Holding::Owner as i32) {
            let Some(align) = align(claim.key).filter(|align| *align > 0) else { continue };
            let mut piece = Owned {
                key: claim.key,
                from: claim.from,
                to: claim.to,
                term: claim.term,
                version: claim.version,
                known: true,
            };
            for index in claim.from / align..claim.to.div_ceil(align) {
                now.insert((claim.key, index));
                let cell = self.cells.entry((claim.key, index)).or_default();
                let former = cell.owners.insert(server, (claim.term, claim.version));
                piece.known &= former.is_some_and(|(term, _)| term == claim.term);
                let wrong = cell.check(server, former, claim.version, &self.gone);
                found = found
                    .or_else(|| wrong.map(|why| format!("server {server} has {piece}, but {why}")));
            }
            pieces.push(piece);
        }
        for index in before.difference(&now) {
            if let Some(cell) = self.cells.get_mut(index) {
                cell.owners.remove(&server);
            }
        }
        self.held.entry(server).or_default().extend(now);
        (found, pieces)
    }
}

impl Cell {
    fn check(
        &mut self,
        server: NodeId,
        former: Option<(u64, u64)>,
        version: u64,
        gone: &BTreeSet<NodeId>,
    ) -> Option<String> {
        let mut wrong = None;
        if let Some((other, (term, _))) = self.owners.iter().find(|(other, _)| **other != server) {
            wrong = Some(format!("server {other} owns a part of it too, with term {term:#x}"));
        }
        let newly = former.is_none_or(|(_, before)| before < version);
        if let Some((applied, by)) = self.applied.filter(|(_, by)| *by != server && newly)
            && !gone.contains(&by)
        {
            if former.is_some() && applied >= version {
                wrong = Some(format!("server {by} has applied round {applied} of it"));
            } else if former.is_none() && applied > version {
                wrong = Some(format!("server {by} has applied round {applied}, which is lost"));
            }
        }
        let applies = former.is_some_and(|(_, before)| before < version);
        if applies && self.applied.is_none_or(|(applied, _)| applied <= version) {
            self.applied = Some((version, server));
        }
        if former.is_none()
            && self.applied.is_some_and(|(applied, by)| gone.contains(&by) && applied > version)
        {
            // Who had applied it is gone with it.
            self.applied = Some((version, server));
        }
        wrong
    }
}
