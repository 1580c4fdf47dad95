//! A server of `docs/elastic.md` in miniature: pieces of one array of counters, moves, replicas, takeovers. A
//! push adds one to each counter of a piece; it is answered once it is safe. No rounds: each push is one.

use std::collections::BTreeMap;

use crate::cluster::Policy;
use crate::cluster::claims::takeover_term;
use crate::wire::NodeId;
use crate::wire::elastic::{Claim, Holding, KeyRoute, Order};

pub(super) const KEY: u64 = 3;
pub(super) const LENGTH: u64 = 10;

/// What one server says to another.
#[derive(Clone, Debug)]
pub(super) enum Transfer {
    Move(Piece),
    Moved {
        from: u64,
        term: u64,
    },
    /// Each copy has a number, which its parts keep.
    Seed {
        number: u64,
        piece: Piece,
        sealed: bool,
    },
    Seal {
        number: u64,
        from: u64,
    },
    Round {
        number: u64,
        from: u64,
        version: u64,
    },
    /// Of `[from, to)`, which may have been cut since.
    Confirmed {
        number: u64,
        from: u64,
        to: u64,
        version: u64,
    },
    /// The part `[from, to)` of the copy that begins at `at` leaves and keeps its term; the rest gets `term`.
    Cut {
        number: u64,
        at: u64,
        from: u64,
        to: u64,
        term: u64,
    },
    Drop {
        number: u64,
        from: u64,
    },
}

/// The copy of a piece at another server.
#[derive(Clone, Copy, Debug)]
struct Copied {
    number: u64,
    /// Up to which version it is confirmed; 0: not at all.
    confirmed: u64,
    /// The version from which on answers wait for it.
    sealed_at: Option<u64>,
}

impl Copied {
    /// It has all that was answered.
    fn is_safe(&self) -> bool {
        self.sealed_at.is_some_and(|version| self.confirmed >= version)
    }
}

type Copies = BTreeMap<NodeId, Copied>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) term: u64,
    pub(super) version: u64,
    pub(super) values: Vec<u64>,
}

impl Piece {
    fn part(&self, from: u64, to: u64, term: u64) -> Self {
        let values = self.values[(from - self.from) as usize..(to - self.from) as usize].to_vec();
        Self { from, to, term, version: self.version, values }
    }

    fn add_one(&mut self) {
        self.version += 1;
        self.values.iter_mut().for_each(|value| *value += 1);
    }
}

#[derive(Clone, Debug)]
struct Owned {
    piece: Piece,
    copies: Copies,
    /// Versions at which pushes wait to be answered.
    waiting: Vec<u64>,
    /// Its old owner has not heard that it arrived.
    arrived_from: Option<NodeId>,
    /// It has never been anywhere else.
    is_new: bool,
}

impl Owned {
    /// Another copy counts if this server dies, and must not be behind; or there is none at all.
    fn must_wait(&self) -> bool {
        self.arrived_from.is_some() || self.is_new
    }

    fn is_safe(&self) -> bool {
        self.copies.values().any(Copied::is_safe)
    }
}

/// A copy of another server's piece.
#[derive(Clone, Debug)]
struct Kept {
    of: NodeId,
    number: u64,
    piece: Piece,
    sealed: bool,
}

impl Kept {
    fn is(&self, of: NodeId, number: u64, from: u64) -> bool {
        (self.of, self.number, self.piece.from) == (of, number, from)
    }
}

#[derive(Clone, Debug)]
struct Leaving {
    piece: Piece,
    to: NodeId,
    copies: Copies,
    waiting: Vec<u64>,
}

/// What a server wants done.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) transfers: Vec<(NodeId, Transfer)>,
    /// Elements whose push was answered.
    pub(super) answered: Vec<(u64, u64)>,
    /// What it holds has changed.
    pub(super) claims: bool,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) me: NodeId,
    pub(super) policy: Policy,
    owned: Vec<Owned>,
    leaving: Vec<Leaving>,
    copies: Vec<Kept>,
    last_number: u64,
    orders: Vec<Order>,
    /// Claims are given, and no policy has come since.
    frozen: bool,
    parked: Vec<(NodeId, Transfer)>,
    /// The planted mistake, if any: what `docs/elastic.md` forbids.
    pub(super) says_moved_at_once: bool,
}

impl Store {
    /// The whole array, made here.
    pub(super) fn make(&mut self, out: &mut Out) {
        let term = takeover_term(self.policy.epoch) + 1;
        let values = vec![0; LENGTH as usize];
        let piece = Piece { from: 0, to: LENGTH, term, version: 1, values };
        self.own(piece, None, true, out);
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.owned.iter().map(|owned| &owned.piece)
    }

    /// Each piece is here for good, and has a copy elsewhere, if there is to be one.
    pub(super) fn is_settled(&self) -> bool {
        let settled = |owned: &Owned| {
            (owned.is_safe() || owned.copies.is_empty()) && owned.arrived_from.is_none()
        };
        self.owned.iter().all(settled)
    }

    /// All that is owned here has a copy elsewhere.
    pub(super) fn is_copied(&self) -> bool {
        self.owned.iter().all(Owned::is_safe) && self.leaving.is_empty()
    }

    /// Adds one to each element of a piece that is owned here.
    pub(super) fn push(&mut self, index: usize, out: &mut Out) {
        if self.owned.is_empty() {
            return;
        }
        let index = index % self.owned.len();
        let owned = &mut self.owned[index];
        owned.piece.add_one();
        let (from, version) = (owned.piece.from, owned.piece.version);
        for (server, copy) in &owned.copies {
            out.transfers.push((*server, Transfer::Round { number: copy.number, from, version }));
        }
        owned.waiting.push(version);
        Self::answer(&self.policy, owned, out);
    }

    /// Answers what is safe: confirmed by a copy, or there is none to be had. What has just arrived waits.
    fn answer(policy: &Policy, owned: &mut Owned, out: &mut Out) {
        let sealed = owned.copies.values().filter(|copy| copy.sealed_at.is_some());
        let confirmed = sealed.map(|copy| copy.confirmed).min();
        let must_wait = owned.must_wait() && policy.replicas > 0 && !owned.copies.is_empty();
        let piece = &owned.piece;
        owned.waiting.retain(|version| {
            let safe = confirmed.map_or(!must_wait, |confirmed| *version <= confirmed);
            if safe {
                out.answered.push((piece.from, piece.to));
            }
            !safe
        });
    }

    fn replica(&self) -> Option<NodeId> {
        let able = |id: &&NodeId| **id != self.me && !self.policy.draining.contains(*id);
        let servers = || self.policy.servers.iter().filter(able);
        let next = servers().find(|id| **id > self.me).or_else(|| servers().next());
        next.copied().filter(|_| self.policy.replicas > 0)
    }

    fn own(&mut self, piece: Piece, arrived_from: Option<NodeId>, is_new: bool, out: &mut Out) {
        let mut copies = Copies::new();
        if let Some(replica) = self.replica() {
            let sealed = arrived_from.is_some() || is_new;
            copies.insert(replica, self.seed(replica, &piece, sealed, out));
        }
        self.owned.push(Owned { piece, copies, waiting: Vec::new(), arrived_from, is_new });
        self.settle(out);
    }

    fn seed(&mut self, to: NodeId, piece: &Piece, sealed: bool, out: &mut Out) -> Copied {
        self.last_number += 1;
        let number = self.last_number;
        out.transfers.push((to, Transfer::Seed { number, piece: piece.clone(), sealed }));
        Copied { number, confirmed: 0, sealed_at: sealed.then_some(piece.version) }
    }

    /// Says that pieces arrived, once they are safe, and answers what can be.
    fn settle(&mut self, out: &mut Out) {
        let frozen = self.frozen && !self.says_moved_at_once;
        for owned in &mut self.owned {
            let safe = owned.copies.is_empty() || owned.is_safe();
            owned.is_new &= !safe;
            if (safe || self.says_moved_at_once)
                && !frozen
                && let Some(from) = owned.arrived_from.take()
            {
                let piece = &owned.piece;
                let moved = Transfer::Moved { from: piece.from, term: piece.term };
                out.transfers.push((from, moved));
            }
            Self::answer(&self.policy, owned, out);
        }
        self.drop_old_copies(out);
        out.claims = true;
    }

    pub(super) fn ordered(&mut self, moves: &[Order], out: &mut Out) {
        for order in moves {
            self.orders.retain(|open| open.to <= order.from || order.to <= open.from);
            if order.owner != self.me {
                self.orders.push(*order);
            }
        }
        self.begin_moves(out);
    }

    fn begin_moves(&mut self, out: &mut Out) {
        for order in std::mem::take(&mut self.orders) {
            if !self.policy.servers.contains(&order.owner) {
                continue;
            }
            let inside = |owned: &Owned| owned.piece.from < order.to && order.from < owned.piece.to;
            while let Some(index) =
                self.owned.iter().position(|owned| inside(owned) && owned.arrived_from.is_none())
            {
                let owned = self.owned.swap_remove(index);
                self.give_away(owned, &order, out);
            }
            if self.owned.iter().any(inside) {
                self.orders.push(order); // It has only just come.
            }
        }
    }

    fn give_away(&mut self, owned: Owned, order: &Order, out: &mut Out) {
        let Owned { piece, copies, waiting, is_new, .. } = owned;
        let (from, to) = (order.from.max(piece.from), order.to.min(piece.to));
        let term = piece.term + 1;
        for (server, copy) in &copies {
            let cut = Transfer::Cut { number: copy.number, at: piece.from, from, to, term };
            out.transfers.push((*server, cut));
        }
        let parts = [(piece.from, from), (to, piece.to)];
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            let piece = piece.part(from, to, term);
            let (copies, waiting) = (copies.clone(), waiting.clone());
            self.owned.push(Owned { piece, copies, waiting, arrived_from: None, is_new });
        }
        out.transfers.push((order.owner, Transfer::Move(piece.part(from, to, term))));
        let piece = piece.part(from, to, piece.term);
        self.leaving.push(Leaving { piece, to: order.owner, copies, waiting });
        out.claims = true;
    }

    pub(super) fn transfer(&mut self, from: NodeId, transfer: Transfer, out: &mut Out) {
        if self.frozen && matches!(transfer, Transfer::Move(_)) && !self.says_moved_at_once {
            return self.parked.push((from, transfer));
        }
        match transfer {
            Transfer::Move(piece) => self.own(piece, Some(from), false, out),
            Transfer::Moved { from: begin, term } => self.moved(begin, term, out),
            Transfer::Seed { number, piece, sealed } => {
                let (begin, to, version) = (piece.from, piece.to, piece.version);
                let apart = |p: &Piece| p.to <= piece.from || piece.to <= p.from;
                self.copies.retain(|kept| kept.of != from || apart(&kept.piece));
                self.copies.push(Kept { of: from, number, piece, sealed });
                let confirmed = Transfer::Confirmed { number, from: begin, to, version };
                out.transfers.push((from, confirmed));
            }
            Transfer::Seal { number, from: begin } => {
                if let Some(kept) = self.copies.iter_mut().find(|k| k.is(from, number, begin)) {
                    kept.sealed = true;
                }
            }
            Transfer::Round { number, from: begin, version } => {
                if let Some(kept) = self.copies.iter_mut().find(|k| k.is(from, number, begin)) {
                    kept.piece.add_one();
                    assert_eq!(kept.piece.version, version, "a round of another version");
                    let to = kept.piece.to;
                    let confirmed = Transfer::Confirmed { number, from: begin, to, version };
                    out.transfers.push((from, confirmed));
                }
            }
            Transfer::Confirmed { number, from: begin, to, version } => {
                let owned = self.owned.iter_mut().map(|o| (&o.piece, &mut o.copies));
                let leaving = self.leaving.iter_mut().map(|l| (&l.piece, &mut l.copies));
                let within = |piece: &Piece| begin <= piece.from && piece.to <= to;
                for (_, copies) in owned.chain(leaving).filter(|(piece, _)| within(piece)) {
                    if let Some(copy) = copies.get_mut(&from).filter(|copy| copy.number == number) {
                        copy.confirmed = copy.confirmed.max(version);
                    }
                }
                self.seal(out);
                self.settle(out);
                self.begin_moves(out);
            }
            Transfer::Cut { number, at, from: begin, to, term } => {
                let cut = |kept: &Kept| kept.is(from, number, at);
                let Some(index) = self.copies.iter().position(cut) else { return };
                let kept = self.copies.swap_remove(index);
                let whole = kept.piece.clone();
                let parts =
                    [(whole.from, begin, term), (begin, to, whole.term), (to, whole.to, term)];
                for (begin, to, term) in parts.into_iter().filter(|(begin, to, _)| begin < to) {
                    self.copies.push(Kept { piece: whole.part(begin, to, term), ..kept });
                }
            }
            Transfer::Drop { number, from: begin } => {
                self.copies.retain(|kept| !kept.is(from, number, begin));
                out.claims = true;
            }
        }
    }

    /// Copies that have come as far as the seed count from now on.
    fn seal(&mut self, out: &mut Out) {
        for owned in &mut self.owned {
            for (server, copy) in &mut owned.copies {
                if copy.confirmed > 0 && copy.sealed_at.is_none() {
                    copy.sealed_at = Some(owned.piece.version);
                    let (number, from) = (copy.number, owned.piece.from);
                    out.transfers.push((*server, Transfer::Seal { number, from }));
                }
            }
        }
    }

    fn moved(&mut self, from: u64, term: u64, out: &mut Out) {
        let same = |leaving: &Leaving| leaving.piece.from == from && leaving.piece.term + 1 == term;
        let Some(index) = self.leaving.iter().position(same) else { return };
        let leaving = self.leaving.swap_remove(index);
        for (server, copy) in &leaving.copies {
            out.transfers.push((*server, Transfer::Drop { number: copy.number, from }));
        }
        // All that it had applied went along and is safe there.
        let elements = (leaving.piece.from, leaving.piece.to);
        out.answered.extend(leaving.waiting.iter().map(|_| elements));
        out.claims = true;
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |piece: &Piece, holding: Holding, peer: NodeId, safe: bool| Claim {
            key: KEY,
            from: piece.from,
            to: piece.to,
            term: piece.term,
            version: piece.version,
            holding: holding as i32,
            length: LENGTH,
            bytes: piece.to - piece.from,
            state_bytes: 0,
            align: 1,
            safe,
            peer,
        };
        let owned =
            self.owned.iter().map(|owned| claim(&owned.piece, Holding::Owner, 0, owned.is_safe()));
        let leaving = self
            .leaving
            .iter()
            .map(|leaving| claim(&leaving.piece, Holding::Leaving, leaving.to, false));
        let copies = self.copies.iter().map(|k| claim(&k.piece, Holding::Replica, k.of, k.sealed));
        owned.chain(leaving).chain(copies).collect()
    }

    /// The answer to a collection.
    pub(super) fn collected(&mut self) -> Vec<Claim> {
        self.frozen = true;
        self.claims()
    }

    pub(super) fn policy(&mut self, policy: &Policy, routes: &[KeyRoute], out: &mut Out) {
        self.policy = policy.clone();
        self.frozen = false;
        let mut taken: Vec<Piece> = Vec::new();
        for route in routes.iter().map(|route| route.route) {
            let has = self.owned.iter().any(|owned| {
                owned.piece.from <= route.from
                    && route.to <= owned.piece.to
                    && owned.piece.term >= route.term
            });
            let elsewhere = self.leaving.iter().any(|leaving| {
                leaving.piece.from <= route.from
                    && route.to <= leaving.piece.to
                    && leaving.piece.term >= route.term
            });
            if route.owner == self.me
                && !has
                && !elsewhere
                && route.term == takeover_term(policy.epoch)
            {
                taken.push(
                    self.best_copy(route.from, route.to).part(route.from, route.to, route.term),
                );
            }
        }
        let lost = |id: &NodeId| policy.lost.contains(id);
        self.leaving.retain(|leaving| !lost(&leaving.to));
        self.copies.retain(|kept| !lost(&kept.of));
        self.reseed(out);
        for piece in taken {
            self.own(piece, None, false, out);
        }
        for (from, transfer) in std::mem::take(&mut self.parked) {
            if !lost(&from) {
                self.transfer(from, transfer, out);
            }
        }
        self.begin_moves(out);
        self.settle(out);
    }

    fn best_copy(&self, from: u64, to: u64) -> Piece {
        let leaving = self.leaving.iter().map(|leaving| (1, &leaving.piece));
        let copies = self.copies.iter().filter(|k| k.sealed).map(|kept| (0, &kept.piece));
        let all = leaving.chain(copies).filter(|(_, p)| p.from <= from && to <= p.to);
        let best = all.max_by_key(|(holding, p)| (p.term, *holding, p.version));
        best.unwrap_or_else(|| panic!("{} has no copy of {from}..{to}: {self:?}", self.me))
            .1
            .clone()
    }

    /// Copies go where the policy has room for them; what is at a server that is being emptied stays until
    /// there is another.
    fn reseed(&mut self, out: &mut Out) {
        let replica = self.replica();
        let policy = self.policy.clone();
        for mut owned in std::mem::take(&mut self.owned) {
            if owned.arrived_from.is_some_and(|from| policy.lost.contains(&from)) {
                owned.arrived_from = None;
            }
            owned.copies.retain(|id, _| policy.servers.contains(id));
            let stays = owned.copies.keys().any(|id| !policy.draining.contains(id));
            if let Some(replica) = replica.filter(|_| !stays) {
                let copy = self.seed(replica, &owned.piece, owned.must_wait(), out);
                owned.copies.insert(replica, copy);
            } else if replica.is_none() {
                for (id, copy) in std::mem::take(&mut owned.copies) {
                    let (number, from) = (copy.number, owned.piece.from);
                    out.transfers.push((id, Transfer::Drop { number, from }));
                }
            }
            self.owned.push(owned);
        }
        for leaving in &mut self.leaving {
            leaving.copies.retain(|id, _| policy.servers.contains(id));
        }
        self.drop_old_copies(out);
    }

    /// Once the new copy is confirmed, the one at a server that is being emptied is not needed.
    fn drop_old_copies(&mut self, out: &mut Out) {
        for owned in &mut self.owned {
            let draining = |id: &NodeId| self.policy.draining.contains(id);
            let from = owned.piece.from;
            let elsewhere = owned.copies.iter().any(|(id, copy)| !draining(id) && copy.is_safe());
            owned.copies.retain(|id, copy| {
                let over = elsewhere && draining(id);
                if over {
                    out.transfers.push((*id, Transfer::Drop { number: copy.number, from }));
                }
                !over
            });
        }
    }
}
