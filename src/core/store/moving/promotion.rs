//! Deaths and policies: what a server takes over, and forgets (docs/elastic.md, "Death").
//! May touch what a `Mover` may.

use std::collections::BTreeSet;

use super::kept::{Copy, Leaving};
use super::mover::Mover;
use super::state::Elsewhere;
use crate::store::holdings::At;
use crate::store::pieces::tensor::{Copied, Layout, Piece};
use crate::values::KeyPart;
use crate::wire::elastic::{Claim, KeyRoute, Route};
use crate::wire::transfer::PieceName;
use crate::wire::word::RoutedPolicy;
use crate::wire::{Key, NodeId};

impl Mover<'_> {
    /// See `Store::collect`.
    pub(in crate::store) fn collect(&mut self, epoch: u64, lost: &[NodeId]) -> Vec<Claim> {
        self.known.servers.collect(epoch, lost);
        // What left for one of them now would be claimed by nobody.
        self.known.orders.forget_to(&self.known.servers);
        let claims = self.look().claims(true);
        self.known.changes.clear();
        if claims.is_empty() && self.known.servers.collecting.is_some() {
            self.known.copies.unsaid.get_or_insert_default();
        }
        claims
    }

    /// See `Store::policy`. False, and nothing, if it is older than what is known. What may be due
    /// then is [`Self::settle_all`]'s.
    pub(in crate::store) fn policy(&mut self, routed: &RoutedPolicy) -> bool {
        let RoutedPolicy { policy, routes } = routed;
        let former = (self.known.servers.live.clone(), self.known.replica.at);
        if !self.known.servers.obey(policy) {
            return false;
        }
        self.held.attendance.obey(&policy.live);
        self.known.replica.obey(policy, &self.known.servers);
        for ((server, ..), confirmed) in self.known.copies.unsaid.take().unwrap_or_default() {
            self.send(server, confirmed, Vec::new());
        }
        let mut promoted = BTreeSet::new();
        for KeyRoute { key, route } in routes {
            self.promote(*key, route, &mut promoted);
            self.known.learn(*key, *route);
        }
        self.forget_lost(&promoted);
        self.change_replica(former.1);
        self.policy_for_joiners(&former.0);
        true
    }

    /// After a policy: answers may go, and former owners be told.
    pub(in crate::store) fn settle_all(&mut self) {
        let keys: Vec<Key> = self.held.tensors.keys().copied().collect();
        for key in keys {
            self.release_settled(key);
            self.settle(key);
        }
    }

    /// The worker is gone, or another process has its id: its pushes are no duplicates.
    pub(in crate::store) fn forget_worker(&mut self, worker: NodeId) {
        self.known.parked.forget(worker);
        let copies = self.known.copies.of.values_mut().flatten().map(|copy| &mut copy.piece);
        self.held.pieces_mut().chain(copies).for_each(|piece| piece.marks.forget(worker));
        for leaving in self.known.leaving.values_mut().flatten() {
            leaving.written.marks.retain(|mark| mark.worker != worker);
        }
    }

    /// Takes over a piece, or a part of it, of which there is a copy here of a server that is gone.
    fn promote(&mut self, key: Key, route: &Route, promoted: &mut BTreeSet<(Key, u64)>) {
        let within = |from: u64, to: u64| from <= route.from && route.to <= to;
        let owned = self.held.tensors.get(&key).is_some_and(|tensor| {
            tensor.pieces.iter().any(|own| own.from < route.to && route.from < own.to)
        });
        // Only who wins without being the owner gets this term; other routes may be older than what
        // is known.
        let mine =
            route.owner == self.known.servers.me && route.term == self.known.servers.epoch << 32;
        if !mine || owned || route.from >= route.to {
            return;
        }
        let copies =
            self.known.copies.of_key(key).filter(|(peer, _)| self.known.servers.is_gone(*peer));
        let best = copies
            .flat_map(|(_, copies)| copies)
            .filter(|copy| within(copy.piece.from, copy.piece.to))
            .max_by_key(|copy| (copy.piece.term, copy.piece.version));
        let leaving = self.known.leaving.get(&key).into_iter().flatten().filter(|leaving| {
            self.known.servers.is_gone(leaving.to)
                && within(leaving.piece().from, leaving.piece().to)
        });
        let rank = |leaving: &Leaving| (leaving.term, leaving.written.version);
        let leaving = leaving.max_by_key(|leaving| rank(leaving));
        let rank_of_copy = best.map(|copy| (copy.piece.term, copy.piece.version));
        let rank_of_leaving = leaving.map(rank);
        let found = if rank_of_leaving >= rank_of_copy {
            leaving.and_then(|leaving| {
                promoted.insert((key, leaving.piece().from));
                self.read_leaving(leaving)
            })
        } else {
            best.map(|copy| self.copy_of(key, copy))
        };
        // Nothing found: it is on its way here.
        let Some((piece, length)) = found.filter(|(piece, _)| piece.term < route.term) else {
            return;
        };
        self.take_over(key, length, piece, route);
    }

    fn read_leaving(&self, leaving: &Leaving) -> Option<(Piece, u64)> {
        let Leaving { written, frames, term, .. } = leaving;
        let generation = self.held.generation(written.piece.key);
        let mut piece = self.held.read_piece(written, frames, generation).ok()?;
        piece.term = *term;
        Some((piece, written.length))
    }

    fn copy_of(&self, key: Key, copy: &Copy) -> (Piece, u64) {
        let piece = &copy.piece;
        let mut piece = piece.part(piece.from, piece.to, self.held.memory.as_deref());
        if copy.generation != self.held.generation(key) {
            piece.state = None;
        }
        (piece, copy.length)
    }

    fn take_over(&mut self, key: Key, length: u64, piece: Piece, route: &Route) {
        let whole = (piece.from, piece.to) == (route.from, route.to);
        if !whole && piece.layout != Layout::Dense {
            return;
        }
        let mut piece = if whole {
            piece
        } else {
            piece.part(route.from, route.to, self.held.memory.as_deref())
        };
        piece.term = route.term;
        (piece.copied, piece.former_copy, piece.source) = (Copied::Not, None, None);
        if self.held.mode(key).widens(piece.dtype) {
            piece.make_master();
        }
        self.look().withhold_ticket(&mut piece);
        self.insert(key, length, piece);
    }

    /// Forgets what is kept of, or for, servers that are gone.
    fn forget_lost(&mut self, promoted: &BTreeSet<(Key, u64)>) {
        let known = &mut *self.known;
        let Elsewhere { servers, copies, leaving, orders, .. } = &mut *known;
        let lost = &servers.lost;
        copies.of.retain(|(_, peer), _| !lost.contains(peer));
        let mut gone = Vec::new();
        leaving.retain(|key, all| {
            let (lost, kept) =
                std::mem::take(all).into_iter().partition(|leaving| lost.contains(&leaving.to));
            *all = kept;
            let lost: Vec<Leaving> = lost;
            gone.extend(lost.into_iter().map(|leaving| (*key, leaving)));
            !all.is_empty()
        });
        // They were given before what the policy knows; the scheduler gives new ones.
        orders.clear();
        for piece in self.held.pieces_mut() {
            piece.source = piece.source.filter(|source| !lost.contains(&source.server));
        }
        known.changes.of_all();
        for (key, leaving) in gone {
            // The replica's copy of what was taken back is replaced by the next seed.
            let replica = self.known.replica.at;
            if leaving.copy != replica || !promoted.contains(&(key, leaving.piece().from)) {
                self.drop_copy(&leaving);
            }
        }
    }

    /// Sends the replica what it has not got: all that was at one that is gone, and, piece by
    /// piece, what is at one that is being emptied. What is at one that stays goes there with its
    /// next round: it costs no bytes more than that.
    fn change_replica(&mut self, former: Option<NodeId>) {
        if self.known.replica.at != former {
            self.known.replica.seeds.clear();
        }
        self.forget_copies();
        self.give_up_former_copies();
        let mut first = Vec::new();
        self.known.replica.seeds.begin();
        for (key, leaving) in &self.known.leaving {
            for leaving in leaving.iter().filter(|leaving| leaving.copy.is_none()) {
                let PieceName { from, to, .. } = leaving.piece();
                self.known.replica.seeds.push(KeyPart { key: *key, from, to });
            }
        }
        for (&key, tensor) in &self.held.tensors {
            let pieces = tensor.pieces.iter().enumerate();
            for (index, piece) in
                pieces.filter(|(_, piece)| piece.copied.at() != self.known.replica.at)
            {
                match piece.source {
                    // Nobody is answered for it before it is safe.
                    Some(_) if piece.copied == Copied::Not => first.push(At { key, index }),
                    _ if self.known.replica.has_time(piece, &self.known.servers) => {}
                    _ => self.known.replica.seeds.push(piece.of_key(key)),
                }
            }
        }
        for at in first {
            self.seed(at);
        }
        self.send_seeds();
    }

    /// Copies at servers that are gone are none any more: those confirm nothing, so answers do not
    /// wait for them.
    fn forget_copies(&mut self) {
        let lost = self.known.servers.lost.clone();
        for leaving in self.known.leaving.values_mut().flatten() {
            leaving.copy = leaving.copy.filter(|at| !lost.contains(at));
        }
        for piece in self.held.pieces_mut() {
            if piece.copied.at().is_some_and(|at| lost.contains(&at)) {
                piece.copied = Copied::Not;
            }
            piece.former_copy = piece.former_copy.filter(|former| !lost.contains(&former.at));
        }
        for key in self.known.waiting.keys().copied().collect::<Vec<_>>() {
            self.release_settled(key);
        }
    }
}
