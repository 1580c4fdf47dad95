//! A server of `docs/elastic.md` in miniature: pieces of one array of counters, moves, copies,
//! takeovers. A push adds one to each counter of a piece; it is answered once it is safe. No
//! rounds: each push is one.

use std::collections::BTreeSet;

use crate::cluster::claims::takeover_term;
use crate::wire::NodeId;
use crate::wire::elastic::{Claim, Holding, KeyRoute, Order};
use crate::wire::word::Policy;

pub(super) const KEY: u64 = 3;
pub(super) const LENGTH: u64 = 10;
/// Of an element.
pub(super) const BYTES: u64 = 4096;

/// What one server says to another. Each copy has a number, which its parts keep.
#[derive(Clone, Debug)]
pub(super) enum Transfer {
    Move(Piece),
    /// The piece is safe, or there is no copy to be had.
    Moved {
        from: u64,
        term: u64,
    },
    /// Nothing of it is kept where it was.
    Known {
        from: u64,
        term: u64,
    },
    Seed {
        number: u64,
        piece: Piece,
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
    /// The part `[from, to)` of the copy that begins at `at` leaves and keeps its term; the rest
    /// gets `term`.
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
    Dropped {
        number: u64,
        from: u64,
    },
}

/// The copy of a piece at another server.
#[derive(Clone, Copy, Debug)]
struct Copied {
    at: NodeId,
    number: u64,
    /// Up to which version it is confirmed; 0: not at all.
    confirmed: u64,
    /// It is a former one, and to be forgotten.
    dropped: bool,
}

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
    copy: Option<Copied>,
    /// At a server that is being emptied: it gets no more rounds.
    former: Option<Copied>,
    /// Versions at which pushes wait to be answered.
    waiting: Vec<u64>,
    /// Its old owner keeps it as it was, and whether that was told.
    source: Option<(NodeId, bool)>,
}

impl Owned {
    fn is_safe(&self) -> bool {
        self.copy.is_some_and(|copy| copy.confirmed > 0)
    }

    fn is_busy(&self) -> bool {
        self.source.is_some() || self.former.is_some()
    }

    fn withholds(&self, version: u64) -> bool {
        let confirmed = self.copy.is_some_and(|copy| copy.confirmed >= version);
        let older = self.former.is_some_and(|former| former.confirmed < version);
        self.source.is_some() || (self.copy.is_some() && !confirmed) || older
    }
}

/// A copy of another server's piece.
#[derive(Clone, Debug)]
struct Kept {
    of: NodeId,
    number: u64,
    piece: Piece,
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
    copy: Option<Copied>,
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
    lost: BTreeSet<NodeId>,
    replica: Option<NodeId>,
    last_number: u64,
    orders: Vec<Order>,
    /// Claims are given, and no policy has come since.
    frozen: bool,
    /// They were empty: what waits until it is known that this server stays.
    unsaid: Option<Vec<(NodeId, Transfer)>>,
    /// The planted mistake, if any: what `docs/elastic.md` forbids.
    pub(super) says_moved_at_once: bool,
}

impl Store {
    /// The whole array, made here.
    pub(super) fn make(&mut self, out: &mut Out) {
        let term = takeover_term(self.policy.epoch) + 1;
        let values = vec![0; LENGTH as usize];
        let piece = Piece { from: 0, to: LENGTH, term, version: 1, values };
        self.own(piece, None, out);
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.owned.iter().map(|owned| &owned.piece)
    }

    /// Each piece is here for good, and has a copy elsewhere, if there is to be one.
    pub(super) fn is_settled(&self) -> bool {
        let settled = |owned: &Owned| (owned.is_safe() || owned.copy.is_none()) && !owned.is_busy();
        self.owned.iter().all(settled)
    }

    /// Nothing is here that anybody counts on.
    pub(super) fn may_go(&self) -> bool {
        self.owned.is_empty()
            && self.leaving.is_empty()
            && (self.copies.is_empty() || self.unsaid.is_some())
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
        if let Some(Copied { at, number, .. }) = owned.copy {
            out.transfers.push((at, Transfer::Round { number, from, version }));
        }
        owned.waiting.push(version);
        Self::answer(owned, out);
    }

    /// Answers what is safe.
    fn answer(owned: &mut Owned, out: &mut Out) {
        let elements = (owned.piece.from, owned.piece.to);
        let waiting = std::mem::take(&mut owned.waiting);
        let (rest, safe): (Vec<u64>, Vec<u64>) =
            waiting.into_iter().partition(|version| owned.withholds(*version));
        owned.waiting = rest;
        out.answered.extend(safe.iter().map(|_| elements));
    }

    fn choose_replica(&mut self) {
        let able = |id: &&NodeId| {
            self.policy.replicas > 0 && **id != self.me && !self.policy.draining.contains(*id)
        };
        let mut servers = self.policy.servers.iter().filter(able);
        if self.replica.is_some_and(|replica| servers.clone().any(|id| *id == replica)) {
            return;
        }
        let next = servers.clone().find(|id| **id > self.me);
        self.replica = next.or_else(|| servers.next()).copied();
    }

    fn own(&mut self, piece: Piece, source: Option<NodeId>, out: &mut Out) {
        let copy = self.replica.map(|replica| self.seed(replica, &piece, out));
        let source = source.map(|source| (source, false));
        self.owned.push(Owned { piece, copy, former: None, waiting: Vec::new(), source });
        self.settle(out);
    }

    fn seed(&mut self, at: NodeId, piece: &Piece, out: &mut Out) -> Copied {
        self.last_number += 1;
        let number = self.last_number;
        out.transfers.push((at, Transfer::Seed { number, piece: piece.clone() }));
        Copied { at, number, confirmed: 0, dropped: false }
    }

    /// Says that pieces arrived, once they are safe, and answers what can be.
    fn settle(&mut self, out: &mut Out) {
        let frozen = self.frozen && !self.says_moved_at_once;
        let alone = self.replica.is_none();
        for owned in &mut self.owned {
            let due = alone || owned.is_safe() || self.says_moved_at_once;
            if let Some((from, false)) = owned.source.filter(|_| due && !frozen) {
                let piece = &owned.piece;
                let moved = Transfer::Moved { from: piece.from, term: piece.term };
                out.transfers.push((from, moved));
                owned.source = Some((from, true));
            }
            Self::answer(owned, out);
        }
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
            if !self.policy.servers.contains(&order.owner) || self.lost.contains(&order.owner) {
                continue;
            }
            let inside = |owned: &Owned| owned.piece.from < order.to && order.from < owned.piece.to;
            while let Some(index) =
                self.owned.iter().position(|owned| inside(owned) && !owned.is_busy())
            {
                let owned = self.owned.swap_remove(index);
                self.give_away(owned, &order, out);
            }
            if self.owned.iter().any(inside) {
                self.orders.push(order); // It has only just come, or is copied elsewhere.
            }
        }
    }

    fn give_away(&mut self, owned: Owned, order: &Order, out: &mut Out) {
        let Owned { piece, copy, waiting, .. } = owned;
        let (from, to) = (order.from.max(piece.from), order.to.min(piece.to));
        let term = piece.term + 1;
        if let Some(Copied { at: server, number, .. }) = copy {
            let cut = Transfer::Cut { number, at: piece.from, from, to, term };
            out.transfers.push((server, cut));
        }
        let parts = [(piece.from, from), (to, piece.to)];
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            let piece = piece.part(from, to, term);
            let waiting = waiting.clone();
            self.owned.push(Owned { piece, copy, former: None, waiting, source: None });
        }
        out.transfers.push((order.owner, Transfer::Move(piece.part(from, to, term))));
        let piece = piece.part(from, to, piece.term);
        self.leaving.push(Leaving { piece, to: order.owner, copy, waiting });
        out.claims = true;
    }

    pub(super) fn transfer(&mut self, from: NodeId, transfer: Transfer, out: &mut Out) {
        match transfer {
            Transfer::Move(piece) => self.own(piece, Some(from), out),
            Transfer::Moved { from: begin, term } => {
                self.moved(begin, term, out);
                out.transfers.push((from, Transfer::Known { from: begin, term }));
            }
            Transfer::Known { from: begin, term } => {
                let same = |owned: &&mut Owned| {
                    (owned.piece.from, owned.piece.term) == (begin, term)
                        && owned.source == Some((from, true))
                };
                if let Some(owned) = self.owned.iter_mut().find(same) {
                    owned.source = None;
                }
                self.settle(out);
                self.begin_moves(out);
            }
            Transfer::Seed { number, piece } => {
                let (begin, to, version) = (piece.from, piece.to, piece.version);
                let apart = |p: &Piece| p.to <= piece.from || piece.to <= p.from;
                self.copies.retain(|kept| kept.of != from || apart(&kept.piece));
                self.copies.push(Kept { of: from, number, piece });
                let confirmed = Transfer::Confirmed { number, from: begin, to, version };
                self.confirm(from, confirmed, out);
            }
            Transfer::Round { number, from: begin, version } => {
                if let Some(kept) = self.copies.iter_mut().find(|k| k.is(from, number, begin)) {
                    kept.piece.add_one();
                    assert_eq!(kept.piece.version, version, "a round of another version");
                    let to = kept.piece.to;
                    let confirmed = Transfer::Confirmed { number, from: begin, to, version };
                    self.confirm(from, confirmed, out);
                }
            }
            Transfer::Confirmed { number, from: begin, to, version } => {
                self.confirmed(number, (begin, to), version, out);
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
                out.transfers.push((from, Transfer::Dropped { number, from: begin }));
                out.claims = true;
            }
            Transfer::Dropped { number, from: begin } => {
                let its = |owned: &&mut Owned| {
                    owned.piece.from == begin
                        && owned.former.is_some_and(|former| former.number == number)
                };
                if let Some(owned) = self.owned.iter_mut().find(its) {
                    owned.former = None;
                }
                self.copy_all(out);
                self.settle(out);
                self.begin_moves(out);
            }
        }
    }

    fn confirm(&mut self, owner: NodeId, confirmed: Transfer, out: &mut Out) {
        let now = &mut out.transfers;
        self.unsaid.as_mut().unwrap_or(now).push((owner, confirmed));
    }

    fn confirmed(&mut self, number: u64, (from, to): (u64, u64), version: u64, out: &mut Out) {
        for owned in &mut self.owned {
            if owned.piece.from < from || to < owned.piece.to {
                continue;
            }
            if let Some(copy) = owned.copy.as_mut().filter(|copy| copy.number == number) {
                copy.confirmed = copy.confirmed.max(version);
                if let Some(former) = owned.former.as_mut().filter(|former| !former.dropped) {
                    former.dropped = true;
                    let (number, from) = (former.number, owned.piece.from);
                    out.transfers.push((former.at, Transfer::Drop { number, from }));
                }
            } else if let Some(former) = owned.former.as_mut().filter(|f| f.number == number) {
                former.confirmed = former.confirmed.max(version);
            }
        }
        self.settle(out);
        self.begin_moves(out);
    }

    fn moved(&mut self, from: u64, term: u64, out: &mut Out) {
        let same = |leaving: &Leaving| leaving.piece.from == from && leaving.piece.term + 1 == term;
        let Some(index) = self.leaving.iter().position(same) else { return };
        let leaving = self.leaving.swap_remove(index);
        if let Some(Copied { at, number, .. }) = leaving.copy {
            out.transfers.push((at, Transfer::Drop { number, from }));
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
            bytes: BYTES * (piece.to - piece.from),
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
        let copies = self.copies.iter().map(|k| claim(&k.piece, Holding::Replica, k.of, false));
        owned.chain(leaving).chain(copies).collect()
    }

    /// The answer to a collection, if these servers are dead.
    pub(super) fn collected(&mut self, lost: impl IntoIterator<Item = NodeId>) -> Vec<Claim> {
        self.lost.extend(lost);
        self.frozen = true;
        let claims = self.claims();
        if claims.is_empty() {
            self.unsaid.get_or_insert_default();
        }
        claims
    }

    pub(super) fn policy(&mut self, policy: &Policy, routes: &[KeyRoute], out: &mut Out) {
        self.policy = policy.clone();
        self.frozen = false;
        out.transfers.extend(self.unsaid.take().unwrap_or_default());
        self.lost.extend(policy.lost.iter().chain(&policy.released));
        self.orders.clear();
        self.choose_replica();
        let mut taken: Vec<Piece> = Vec::new();
        for route in routes.iter().map(|route| route.route) {
            let owned = |o: &Owned| o.piece.from < route.to && route.from < o.piece.to;
            let mine = route.owner == self.me && route.term == takeover_term(policy.epoch);
            if mine && !self.owned.iter().any(owned) {
                let best = self.best_copy(route.from, route.to);
                taken.push(best.part(route.from, route.to, route.term));
            }
        }
        self.forget_lost(out);
        for piece in taken {
            self.own(piece, None, out);
        }
        self.copy_all(out);
        self.begin_moves(out);
        self.settle(out);
    }

    /// The best of what is kept of, or for, those that are gone.
    fn best_copy(&self, from: u64, to: u64) -> Piece {
        let gone = |id: NodeId| self.lost.contains(&id);
        let leaving = self.leaving.iter().filter(|leaving| gone(leaving.to));
        let leaving = leaving.map(|leaving| (1, &leaving.piece));
        let copies = self.copies.iter().filter(|kept| gone(kept.of)).map(|kept| (0, &kept.piece));
        let all = leaving.chain(copies).filter(|(_, p)| p.from <= from && to <= p.to);
        let best = all.max_by_key(|(holding, p)| (p.term, p.version, *holding));
        best.unwrap_or_else(|| panic!("{} has no copy of {from}..{to}: {self:?}", self.me))
            .1
            .clone()
    }

    fn forget_lost(&mut self, out: &mut Out) {
        let lost = &self.lost;
        self.copies.retain(|kept| !lost.contains(&kept.of));
        let (gone, kept) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition::<Vec<_>, _>(|leaving| lost.contains(&leaving.to));
        self.leaving = kept;
        for leaving in gone {
            if let Some(Copied { at, number, .. }) = leaving.copy {
                let from = leaving.piece.from;
                out.transfers.push((at, Transfer::Drop { number, from }));
            }
        }
        for leaving in &mut self.leaving {
            leaving.copy = leaving.copy.filter(|copy| !lost.contains(&copy.at));
        }
        for owned in &mut self.owned {
            owned.source = owned.source.filter(|(source, _)| !lost.contains(source));
            owned.copy = owned.copy.filter(|copy| !lost.contains(&copy.at));
            owned.former = owned.former.filter(|former| !lost.contains(&former.at));
            Self::answer(owned, out);
        }
    }

    /// Sends what the replica has not got. What is at a server that is being emptied is forgotten
    /// there after that.
    fn copy_all(&mut self, out: &mut Out) {
        let replica = self.replica;
        let all = std::mem::take(&mut self.owned);
        for mut owned in all {
            let may = owned.copy.is_none() || owned.former.is_none();
            if may && owned.copy.map(|copy| copy.at) != replica {
                owned.former = owned.former.or(owned.copy);
                owned.copy = replica.map(|replica| self.seed(replica, &owned.piece, out));
            }
            // Nothing will take its place.
            if let Some(former) = owned.former.as_mut().filter(|former| !former.dropped)
                && owned.copy.is_none()
            {
                former.dropped = true;
                let (number, from) = (former.number, owned.piece.from);
                out.transfers.push((former.at, Transfer::Drop { number, from }));
            }
            self.owned.push(owned);
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        for leaving in leaving.iter_mut().filter(|leaving| leaving.copy.is_none()) {
            leaving.copy = replica.map(|replica| self.seed(replica, &leaving.piece, out));
        }
        self.leaving.extend(leaving);
    }
}
