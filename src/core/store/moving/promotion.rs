//! Deaths and policies: what a server says that it holds, and what it takes over (docs/elastic.md,
//! "Death"). May touch what the store may.

use std::collections::BTreeSet;

use bytes::Bytes;
use pslite_optimizers::Optimizer;

use super::kept::{Copy, Leaving};
use super::moves::may_be_cut;
use super::state::Elastic;
use crate::store::moving::changes::{Claimant, News};
use crate::store::outbound::Outbound;
use crate::store::pieces::tensor::{ALIGN, Copied, Layout, Piece};
use crate::store::state::{At, Store};
use crate::values::KeyPart;
use crate::wire::elastic::{Claim, Holding, KeyRoute, Route};
use crate::wire::transfer::{PieceName, WrittenPiece};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Key, NodeId};

impl Elastic {
    /// Copies of a key, with the servers that own what they are copies of.
    fn copies_of(&self, key: Key) -> impl Iterator<Item = (NodeId, &[Copy])> {
        let of_key = self.copies.range((key, NodeId::MIN)..=(key, NodeId::MAX));
        of_key.map(|((_, owner), copies)| (*owner, &copies[..]))
    }

    /// Takes over what a policy says of servers. False if a newer one is known, or expected.
    fn obey(&mut self, policy: &Policy, ranks: usize) -> bool {
        if policy.epoch < self.epoch || self.collecting.is_some_and(|epoch| policy.epoch < epoch) {
            return false;
        }
        self.epoch = policy.epoch;
        let mut servers = policy.servers.clone();
        servers.sort_unstable();
        servers.dedup();
        // Those that were there and are not any more are released.
        let former = std::mem::replace(&mut self.servers, servers);
        self.lost.extend(&policy.lost);
        self.lost.extend(former.iter().filter(|server| !self.servers.contains(server)));
        self.servers.retain(|server| !self.lost.contains(server));
        if policy.homes.len() == ranks {
            self.homes.clone_from(&policy.homes);
        }
        self.replicas = policy.replicas.min(1);
        self.draining.clone_from(&policy.draining);
        let named = policy.copies.iter().find(|copy| copy.owner == self.me);
        self.named_replica = named.map(|copy| copy.holder);
        self.collecting = None;
        self.workers_live(&policy.live);
        true
    }
}

impl Store {
    /// Servers are dead: takes nothing from them any more, and says what it holds. Until the policy
    /// comes that follows from it, no new keys are made here, and no former owner is told that its
    /// piece has come. Nor, if it holds nothing, is a copy confirmed that comes now: that policy
    /// may let it go.
    pub fn collect(&mut self, epoch: u64, lost: &[NodeId]) -> Vec<Claim> {
        if let Some(elastic) = &mut self.elastic {
            elastic.lost.extend(lost);
            let Elastic { lost, orders, .. } = &mut **elastic;
            // What left for one of them now would be claimed by nobody.
            for orders in orders.values_mut() {
                orders.retain(|order| !lost.contains(&order.owner));
            }
            if epoch > elastic.epoch {
                elastic.collecting = elastic.collecting.max(Some(epoch));
            }
        }
        let claims = self.list_claims(true);
        if let Some(elastic) = &mut self.elastic {
            elastic.changes.clear();
            if claims.is_empty() && elastic.collecting.is_some() {
                elastic.unsaid.get_or_insert_default();
            }
        }
        self.look_at_all();
        claims
    }

    /// What it holds, but for keys whose first push is not answered yet: those may still turn out
    /// never to have been.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        self.list_claims(false)
    }

    /// [`Self::claims`] of one key.
    #[must_use]
    pub fn claims_of(&self, key: Key) -> Vec<Claim> {
        let mut claims = Vec::new();
        self.list_of(key, false, &mut claims);
        claims
    }

    /// The newest policy that it knows.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.elastic.as_ref().map_or(0, |elastic| elastic.epoch)
    }

    /// True if it owns nothing and keeps nothing for others: a drained server may go.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.tensors.is_empty()
            && self.elastic.as_ref().is_none_or(|e| e.leaving.is_empty() && e.copies.is_empty())
    }

    fn list_claims(&self, all: bool) -> Vec<Claim> {
        let Some(elastic) = &self.elastic else { return Vec::new() };
        let own = self.tensors.keys().chain(elastic.leaving.keys());
        let keys: BTreeSet<Key> =
            own.copied().chain(elastic.copies.keys().map(|(key, _)| *key)).collect();
        let mut claims = Vec::new();
        for key in keys {
            self.list_of(key, all, &mut claims);
        }
        claims
    }

    /// What it holds of one key.
    fn list_of(&self, key: Key, all: bool, claims: &mut Vec<Claim>) {
        let Some(elastic) = &self.elastic else { return };
        let optimizer = self.mode(key).optimizer.as_deref();
        let waits = elastic.waiting.contains_key(&key);
        if let Some(tensor) = self.tensors.get(&key) {
            // Of a key that is cut the first push is answered.
            let is_safe = all || !waits || tensor.whole_piece().is_none();
            let said = tensor.pieces.iter().filter(|piece| is_safe || piece.version > 0);
            claims.extend(said.map(|piece| Claim {
                holding: Holding::Owner.into(),
                safe: piece.is_safe(),
                ..claim(key, tensor.length, piece, optimizer)
            }));
        }
        let leaving = elastic.leaving.get(&key).into_iter().flatten();
        claims.extend(leaving.map(|leaving| claim_leaving(leaving, optimizer)));
        for (peer, copies) in elastic.copies_of(key) {
            claims.extend(copies.iter().map(|copy| Claim {
                holding: Holding::Replica.into(),
                peer,
                ..claim(key, copy.length, &copy.piece, optimizer)
            }));
        }
    }

    /// A new policy: who lives, where new keys go, where pieces are. Takes over what is this
    /// server's now, chooses another replica if the former one is gone, and serves what waited for
    /// the policy. One that is older than what is known is ignored.
    pub fn policy(&mut self, RoutedPolicy { policy, routes }: &RoutedPolicy, out: &mut Outbound) {
        if let Some(spec) = &policy.exchange {
            // If it cannot be done, each push says why.
            let _ = self.exchange(spec);
        }
        let Some(elastic) = &mut self.elastic else { return };
        let former = (elastic.servers.clone(), elastic.replica);
        if !elastic.obey(policy, self.view.ranks()) {
            return;
        }
        elastic.choose_replica();
        for ((server, ..), confirmed) in elastic.unsaid.take().unwrap_or_default() {
            self.send(server, confirmed, Vec::new(), out);
        }
        let mut promoted = BTreeSet::new();
        for KeyRoute { key, route } in routes {
            self.promote(*key, route, &mut promoted);
            if let Some(elastic) = &mut self.elastic {
                elastic.learn(*key, *route);
            }
        }
        self.forget_lost(&promoted, out);
        self.change_replica(former.1, out);
        self.policy_for_joiners(&former.0, out);
        let keys: Vec<Key> = self.tensors.keys().copied().collect();
        for key in keys {
            self.release_settled(key, out);
            self.settle(key, out);
        }
        self.close_rounds(out);
        self.unpark_all(out);
        self.look_at_all();
    }

    /// Takes over a piece, or a part of it, of which there is a copy here of a server that is gone.
    fn promote(&mut self, key: Key, route: &Route, promoted: &mut BTreeSet<(Key, u64)>) {
        let Some(elastic) = &self.elastic else { return };
        let within = |from: u64, to: u64| from <= route.from && route.to <= to;
        let owned = self.tensors.get(&key).is_some_and(|tensor| {
            tensor.pieces.iter().any(|own| own.from < route.to && route.from < own.to)
        });
        // Only who wins without being the owner gets this term; other routes may be older than what
        // is known.
        let mine = route.owner == elastic.me && route.term == elastic.epoch << 32;
        if !mine || owned || route.from >= route.to {
            return;
        }
        let copies = elastic.copies_of(key).filter(|(peer, _)| elastic.is_gone(*peer));
        let best = copies
            .flat_map(|(_, copies)| copies)
            .filter(|copy| within(copy.piece.from, copy.piece.to))
            .max_by_key(|copy| (copy.piece.term, copy.piece.version));
        let leaving = elastic.leaving.get(&key).into_iter().flatten().filter(|leaving| {
            elastic.is_gone(leaving.to) && within(leaving.piece().from, leaving.piece().to)
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
        let generation = self.generation(written.piece.key);
        let mut piece = self.read_piece(written, frames, generation).ok()?;
        piece.term = *term;
        Some((piece, written.length))
    }

    fn copy_of(&self, key: Key, copy: &Copy) -> (Piece, u64) {
        let piece = &copy.piece;
        let mut piece = piece.part(piece.from, piece.to, self.memory.as_deref());
        if copy.generation != self.generation(key) {
            piece.state = None;
        }
        (piece, copy.length)
    }

    fn take_over(&mut self, key: Key, length: u64, piece: Piece, route: &Route) {
        let whole = (piece.from, piece.to) == (route.from, route.to);
        if !whole && piece.layout != Layout::Dense {
            return;
        }
        let mut piece =
            if whole { piece } else { piece.part(route.from, route.to, self.memory.as_deref()) };
        piece.term = route.term;
        (piece.copied, piece.former_copy, piece.source) = (Copied::Not, None, None);
        if self.mode(key).widens(piece.dtype) {
            piece.make_master();
        }
        self.withhold_ticket(&mut piece);
        self.insert(key, length, piece);
    }

    /// Forgets what is kept of, or for, servers that are gone.
    fn forget_lost(&mut self, promoted: &BTreeSet<(Key, u64)>, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let Elastic { lost, copies, leaving, orders, .. } = &mut **elastic;
        copies.retain(|(_, peer), _| !lost.contains(peer));
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
        for piece in self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces) {
            piece.source = piece.source.filter(|source| !lost.contains(&source.server));
        }
        elastic.changes.of_all();
        for (key, leaving) in gone {
            // The replica's copy of what was taken back is replaced by the next seed.
            let replica = self.elastic.as_ref().and_then(|elastic| elastic.replica);
            if leaving.copy != replica || !promoted.contains(&(key, leaving.piece().from)) {
                self.drop_copy(&leaving, out);
            }
        }
    }

    /// Sends the replica what it has not got: all that was at one that is gone, and, piece by
    /// piece, what is at one that is being emptied. What is at one that stays goes there with its
    /// next round: it costs no bytes more than that.
    fn change_replica(&mut self, former: Option<NodeId>, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        if elastic.replica != former {
            elastic.seeds.clear();
        }
        self.forget_copies(out);
        self.give_up_former_copies(out);
        let mut first = Vec::new();
        let Some(elastic) = &mut self.elastic else { return };
        elastic.seeds.begin();
        for (key, leaving) in &elastic.leaving {
            for leaving in leaving.iter().filter(|leaving| leaving.copy.is_none()) {
                let PieceName { from, to, .. } = leaving.piece();
                elastic.seeds.push(KeyPart { key: *key, from, to });
            }
        }
        for (&key, tensor) in &self.tensors {
            let pieces = tensor.pieces.iter().enumerate();
            for (index, piece) in pieces.filter(|(_, piece)| piece.copied.at() != elastic.replica) {
                match piece.source {
                    // Nobody is answered for it before it is safe.
                    Some(_) if piece.copied == Copied::Not => first.push(At { key, index }),
                    _ if elastic.has_time(piece) => {}
                    _ => elastic.seeds.push(piece.of_key(key)),
                }
            }
        }
        for at in first {
            self.seed(at, out);
        }
        self.send_seeds(out);
    }

    /// Copies at servers that are gone are none any more: those confirm nothing, so answers do not
    /// wait for them.
    fn forget_copies(&mut self, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let lost = elastic.lost.clone();
        for leaving in elastic.leaving.values_mut().flatten() {
            leaving.copy = leaving.copy.filter(|at| !lost.contains(at));
        }
        for piece in self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces) {
            if piece.copied.at().is_some_and(|at| lost.contains(&at)) {
                piece.copied = Copied::Not;
            }
            piece.former_copy = piece.former_copy.filter(|former| !lost.contains(&former.at));
        }
        for key in elastic.waiting.keys().copied().collect::<Vec<_>>() {
            self.release_settled(key, out);
        }
    }

    /// The worker is gone, or another process has its id: its pushes are no duplicates.
    pub(in crate::store) fn forget_worker(&mut self, worker: NodeId) {
        let Some(elastic) = &mut self.elastic else { return };
        elastic.parked.forget(worker);
        elastic.left.retain(|(left, _)| *left != worker);
        let copies = elastic.copies.values_mut().flatten().map(|copy| &mut copy.piece);
        let pieces = self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces);
        pieces.chain(copies).for_each(|piece| piece.marks.forget(worker));
        for leaving in elastic.leaving.values_mut().flatten() {
            leaving.written.marks.retain(|mark| mark.worker != worker);
        }
    }
}

fn claim(key: Key, length: u64, piece: &Piece, optimizer: Option<&Optimizer>) -> Claim {
    let values = piece.value.buffer().len();
    let cut = may_be_cut(piece) && optimizer.is_none_or(Optimizer::is_elementwise);
    Claim {
        key,
        from: piece.from,
        to: piece.to,
        term: piece.term,
        version: piece.version,
        length,
        bytes: values as u64,
        state_bytes: (piece.bytes() - values + piece.state_bytes()) as u64,
        align: if cut { ALIGN } else { 0 },
        ..Claim::default()
    }
}

fn claim_leaving(leaving: &Leaving, optimizer: Option<&Optimizer>) -> Claim {
    let PieceName { key, from, to, term } = leaving.piece();
    let WrittenPiece { version, length, row_len, .. } = leaving.written;
    let bytes = |frames: &[Bytes]| frames.iter().map(Bytes::len).sum::<usize>() as u64;
    let cut = row_len == 0 && version > 0 && optimizer.is_none_or(Optimizer::is_elementwise);
    Claim {
        key,
        from,
        to,
        term,
        version,
        length,
        holding: Holding::Leaving.into(),
        bytes: bytes(leaving.frames.get(1..2).unwrap_or_default()),
        state_bytes: bytes(leaving.frames.get(2..).unwrap_or_default()),
        align: if cut { ALIGN } else { 0 },
        peer: leaving.to,
        ..Claim::default()
    }
}

impl Claimant for Store {
    fn changes(&self) -> usize {
        self.elastic.as_ref().map_or(0, |elastic| elastic.changes.count(self.held()))
    }

    fn held(&self) -> usize {
        self.tensors.len() + self.elastic.as_ref().map_or(0, |elastic| elastic.copies.len())
    }

    fn news(&mut self) -> News {
        let Some(elastic) = &mut self.elastic else { return News::default() };
        match elastic.changes.take() {
            Some(keys) => News::of(keys, |key, claims| self.list_of(key, false, claims)),
            None => News::all(self.claims()),
        }
    }
}
