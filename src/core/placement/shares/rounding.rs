//! From loads to pieces: whoever has too much gives it up, and whoever has too little gets it, the
//! largest first (docs/algorithms.md 2.4, minimal-movement rounding and best-fit decreasing). Large
//! pieces are cut where whole ones do not fit.
//!
//! What a server gives up, and what it keeps, is spread over the round ([`super::spread`]): a
//! tensor can be pulled when all of it was pushed, so a server that holds a lot of one tensor and
//! nothing of the others first receives and then sends, where it could do both at once.

use std::collections::BTreeMap;

use super::ShareParameters;
use super::spread::Spread;
use crate::placement::cost::{Model, bytes};
use crate::placement::layout::{Move, PieceLoad};
use crate::placement::tuning::{GIVEN_UP_CHUNK, LOAD_TOLERANCE, SMALL_MODEL_LOAD};
use crate::wire::{Key, NodeId};

/// A layout in the making: pieces in order of key and element, and what all servers hold.
struct LayoutDraft<'a> {
    model: &'a Model,
    parameters: &'a ShareParameters,
    target: &'a [f64],
    /// A server with a target below it gets nothing: it would have to be given more than it should.
    least: f64,
    pieces: Vec<PieceLoad>,
    loads: Vec<f64>,
    /// How many pieces each key has.
    counts: BTreeMap<Key, usize>,
}

/// The layout whose loads come near the target, with as little moved as possible. The pieces must
/// be sorted.
pub(super) fn round(
    pieces: &[PieceLoad],
    model: &Model,
    target: &[f64],
    parameters: &ShareParameters,
) -> Vec<PieceLoad> {
    let (loads, _) = model.loads_of(pieces);
    let mut counts = BTreeMap::new();
    for piece in pieces {
        *counts.entry(piece.key).or_default() += 1;
    }
    let total: f64 = pieces.iter().map(|piece| bytes(piece.bytes)).sum();
    #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
    let even = total / model.servers().iter().filter(|server| server.usable).count().max(1) as f64;
    let least = bytes(parameters.min_piece).min(even / SMALL_MODEL_LOAD);
    let mut draft =
        LayoutDraft { model, parameters, target, least, pieces: Vec::new(), loads, counts };
    let released = draft.release(pieces);
    draft.place(released);
    draft.pieces
}

/// What changed between two layouts of the same elements, both sorted or not.
pub(super) fn moves(before: &[PieceLoad], after: &[PieceLoad]) -> Vec<Move> {
    let mut moves: Vec<Move> = Vec::new();
    for piece in after {
        let at = before.partition_point(|old| (old.key, old.to) <= (piece.key, piece.from));
        let Some(old) = before.get(at).filter(|old| old.owner != piece.owner) else { continue };
        let (key, from, to) = (piece.key, piece.from, piece.to);
        moves.push(Move { key, from, to, owner: old.owner, to_server: piece.owner });
    }
    moves.sort();
    // Two parts of one piece that go the same way are one.
    moves.dedup_by(|next, last| {
        let same = next.key == last.key && next.from == last.to && next.to_server == last.to_server;
        let piece =
            |step: &Move| before.partition_point(|old| (old.key, old.to) <= (step.key, step.from));
        let joined = same && piece(next) == piece(last);
        if joined {
            last.to = next.to;
        }
        joined
    });
    moves
}

impl LayoutDraft<'_> {
    fn target_of(&self, index: usize) -> f64 {
        let usable = self.model.servers().get(index).is_some_and(|server| server.usable);
        let target = self.target.get(index).copied().unwrap_or(0.0);
        if usable && target >= self.least { target } else { 0.0 }
    }

    fn load_of(&self, index: usize) -> f64 {
        self.loads.get(index).copied().unwrap_or(0.0)
    }

    fn add(&mut self, index: usize, amount: f64) {
        if let Some(load) = self.loads.get_mut(index) {
            *load += amount;
        }
    }

    /// Takes what is too much from everybody; all else is kept. What nobody may keep is taken
    /// whole.
    fn release(&mut self, pieces: &[PieceLoad]) -> Vec<PieceLoad> {
        let mut by_owner = BTreeMap::<NodeId, Vec<&PieceLoad>>::new();
        for piece in pieces {
            by_owner.entry(piece.owner).or_default().push(piece);
        }
        let mut released = Vec::new();
        let spread = Spread::new(pieces);
        for (owner, mut own) in by_owner {
            own.sort_by_key(|piece| (piece.position, piece.key, piece.from));
            match self.model.index_of(owner) {
                Some(index) => self.release_from(index, &own, &spread, &mut released),
                None => released.extend(own.into_iter().cloned()),
            }
        }
        released
    }

    /// Takes from one server, whose pieces come in the order of the round, what is above its
    /// target.
    fn release_from(
        &mut self,
        index: usize,
        own: &[&PieceLoad],
        spread: &Spread,
        released: &mut Vec<PieceLoad>,
    ) {
        let target = self.target_of(index);
        let slack = target * LOAD_TOLERANCE;
        if target <= 0.0 {
            // A server that shall hold nothing gives up pieces without bytes, too.
            own.iter().for_each(|piece| self.let_go(index, (*piece).clone(), released));
            return;
        }
        let mut kept: Vec<PieceLoad> = own.iter().map(|piece| (*piece).clone()).collect();
        if self.load_of(index) - target > slack {
            kept = self.release_evenly(index, kept, spread, released);
            kept.sort_by_key(|piece| (std::cmp::Reverse(piece.bytes), piece.key, piece.from));
            kept = self.release_whole(index, kept, released);
        }
        let excess = self.load_of(index) - target;
        if excess > slack {
            self.cut_off(index, excess, &mut kept, released);
        }
        self.pieces.extend(kept);
    }

    fn let_go(&mut self, index: usize, piece: PieceLoad, released: &mut Vec<PieceLoad>) {
        self.add(index, -bytes(piece.bytes));
        released.push(piece);
    }

    /// Takes about as much as is too much, from the parts of the round up to which it holds more
    /// than its due; returns what is kept. It goes through the pieces and sums up what is to be
    /// kept, or given up, whichever is less, until that is worth a piece.
    fn release_evenly(
        &mut self,
        index: usize,
        own: Vec<PieceLoad>,
        spread: &Spread,
        released: &mut Vec<PieceLoad>,
    ) -> Vec<PieceLoad> {
        let (load, target) = (self.load_of(index), self.target_of(index));
        let least_is_kept = target < load - target;
        let even = target.min(load - target) * GIVEN_UP_CHUNK;
        let chunk = even.max(bytes(self.parameters.min_piece).min(self.least));
        let given_up = spread.given_up(&own, load - target);
        let mut due = 0.0;
        let mut kept = Vec::with_capacity(own.len());
        for (piece, given_up) in own.into_iter().zip(given_up) {
            due += if least_is_kept { bytes(piece.bytes) - given_up } else { given_up };
            let (taken, left) =
                if due < chunk { (None, Some(piece)) } else { self.take(piece, due) };
            due -= taken.as_ref().map_or(0.0, |piece| bytes(piece.bytes));
            let (keeps, goes) = if least_is_kept { (taken, left) } else { (left, taken) };
            kept.extend(keeps);
            if let Some(piece) = goes {
                self.let_go(index, piece, released);
            }
        }
        kept
    }

    /// About that many bytes of a piece, and what is left: all or none of one that cannot be cut
    /// so, whatever is nearer.
    fn take(&mut self, piece: PieceLoad, amount: f64) -> (Option<PieceLoad>, Option<PieceLoad>) {
        let size = bytes(piece.bytes);
        if size <= amount {
            return (Some(piece), None);
        }
        if let Some(cut) = self.cut_at(&piece, amount) {
            self.count_cut(piece.key);
            let (stays, goes) = parts(&piece, cut);
            return (Some(goes), Some(stays));
        }
        if size <= 2.0 * amount { (Some(piece), None) } else { (None, Some(piece)) }
    }

    /// Takes whole pieces, which come in descending order of size, while there is too much; returns
    /// what is kept.
    fn release_whole(
        &mut self,
        index: usize,
        own: Vec<PieceLoad>,
        released: &mut Vec<PieceLoad>,
    ) -> Vec<PieceLoad> {
        let target = self.target_of(index);
        let slack = target * LOAD_TOLERANCE;
        let mut kept = Vec::with_capacity(own.len());
        for piece in own {
            let excess = self.load_of(index) - target;
            let size = bytes(piece.bytes);
            if excess > slack && size > 0.0 && size <= excess + slack {
                self.let_go(index, piece, released);
            } else {
                kept.push(piece);
            }
        }
        kept
    }

    /// Cuts what is still too much off the largest piece that can be cut.
    fn cut_off(
        &mut self,
        index: usize,
        excess: f64,
        kept: &mut Vec<PieceLoad>,
        released: &mut Vec<PieceLoad>,
    ) {
        let at = kept.iter().position(|piece| self.cut_at(piece, excess).is_some());
        let Some((position, cut)) =
            at.and_then(|at| Some((at, self.cut_at(kept.get(at)?, excess)?)))
        else {
            return;
        };
        let piece = kept.remove(position);
        self.count_cut(piece.key);
        let (stays, goes) = parts(&piece, cut);
        self.add(index, -bytes(goes.bytes));
        kept.push(stays);
        released.push(goes);
    }

    fn count_cut(&mut self, key: Key) {
        *self.counts.entry(key).or_default() += 1;
    }

    /// Where to cut a piece so that about that many bytes lie behind the cut, and neither part is a
    /// sliver. None: it cannot be cut so.
    fn cut_at(&self, piece: &PieceLoad, amount: f64) -> Option<u64> {
        let least = self.parameters.min_piece;
        let pieces = self.counts.get(&piece.key).copied().unwrap_or(0);
        if !piece.divisible
            || piece.bytes < least.saturating_mul(2)
            || pieces >= self.parameters.max_pieces
        {
            return None;
        }
        let align = piece.align.max(1);
        let amount = amount.clamp(bytes(least), bytes(piece.bytes - least));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction of a u64"
        )]
        let behind = (amount / bytes(piece.bytes) * bytes(piece.elements())).round() as u64;
        let wanted = piece.to.saturating_sub(behind);
        let (below, above) = (wanted / align * align, wanted.div_ceil(align) * align);
        let fits = |cut: &u64| {
            *cut > piece.from
                && *cut < piece.to
                && piece.bytes_of(piece.from, *cut) >= least
                && piece.bytes_of(*cut, piece.to) >= least
        };
        let nearest =
            if wanted - below <= above - wanted { [below, above] } else { [above, below] };
        nearest.into_iter().find(fits)
    }

    /// Gives away what was taken, in the order of the round: to whoever lacks most of what should
    /// be his up to there; cut if that is less.
    fn place(&mut self, released: Vec<PieceLoad>) {
        let mut rest = in_order(released);
        let mut reached = Reached::new(&self.pieces, &rest, self.loads.len());
        while let Some(piece) = rest.pop() {
            reached.advance(piece.position, self.model);
            let share = reached.fraction_with(&piece);
            let lacks = |draft: &Self, index: usize| {
                let room = draft.target_of(index) - draft.load_of(index);
                room.min(draft.target_of(index) * share - reached.held(index))
            };
            let Some(index) = self.most(|index| lacks(self, index)) else {
                // Nobody may hold anything: it stays where it is.
                self.pieces.push(piece);
                continue;
            };
            let (size, lacking) = (bytes(piece.bytes), lacks(self, index));
            let slack = self.target_of(index) * LOAD_TOLERANCE;
            let part = (size > lacking + slack && lacking >= bytes(self.parameters.min_piece))
                .then(|| self.cut_at(&piece, lacking))
                .flatten();
            if let Some(cut) = part {
                self.count_cut(piece.key);
                let (left, fits) = parts(&piece, cut);
                rest.push(left);
                reached.give(index, &fits);
                self.give(index, fits);
                continue;
            }
            let fits = size <= self.target_of(index) - self.load_of(index) + slack;
            let index = if fits { index } else { self.best_for(&piece).unwrap_or(index) };
            reached.give(index, &piece);
            self.give(index, piece);
        }
    }

    fn give(&mut self, index: usize, mut piece: PieceLoad) {
        let Some(owner) = self.model.servers().get(index).map(|server| server.id) else { return };
        self.add(index, bytes(piece.bytes));
        piece.owner = owner;
        self.pieces.push(piece);
    }

    fn usable(&self) -> impl Iterator<Item = usize> {
        let servers = self.model.servers().iter().enumerate();
        servers.filter(|(_, server)| server.usable).map(|(index, _)| index)
    }

    /// The usable server with the most of something.
    fn most(&self, of: impl Fn(usize) -> f64) -> Option<usize> {
        self.usable().reduce(|best, index| if of(index) > of(best) { index } else { best })
    }

    /// Who is, with the piece, furthest below his target, or least above it, as a fraction of it:
    /// the former owner if he is as good as any.
    fn best_for(&self, piece: &PieceLoad) -> Option<usize> {
        let home = self.model.index_of(piece.owner);
        let filled = |index: usize| {
            (self.load_of(index) + bytes(piece.bytes))
                / self.target_of(index).max(self.least).max(1.0)
        };
        let fits = |index: &usize| filled(*index) <= 1.0 + LOAD_TOLERANCE;
        let lacks = |index: usize| self.target_of(index) - self.load_of(index);
        // Largest room among those that it fits; otherwise whoever is harmed least.
        let room = self.usable().filter(fits);
        let best = room.reduce(|a, b| if lacks(b) > lacks(a) { b } else { a });
        best.or_else(|| self.usable().reduce(|a, b| if filled(b) < filled(a) { b } else { a })).map(
            |best| match home
                .filter(|home| self.model.servers().get(*home).is_some_and(|s| s.usable))
            {
                Some(home) if filled(home) <= filled(best) => home,
                _ => best,
            },
        )
    }
}

/// The last one comes first in the round.
fn in_order(mut pieces: Vec<PieceLoad>) -> Vec<PieceLoad> {
    pieces.sort_by_key(|piece| std::cmp::Reverse((piece.position, piece.key, piece.from)));
    pieces
}

/// What servers hold of a round up to some place in it.
struct Reached {
    /// What nobody gave up and is behind that place; the next one is the last.
    kept: Vec<PieceLoad>,
    held: Vec<f64>,
    /// Bytes up to there, and in all.
    before: f64,
    total: f64,
}

impl Reached {
    fn new(kept: &[PieceLoad], released: &[PieceLoad], servers: usize) -> Self {
        let total = kept.iter().chain(released).map(|piece| bytes(piece.bytes)).sum();
        Self { kept: in_order(kept.to_vec()), held: vec![0.0; servers], before: 0.0, total }
    }

    /// Goes on to a place that is no earlier.
    fn advance(&mut self, position: u64, model: &Model) {
        while let Some(piece) = self.kept.pop_if(|piece| piece.position <= position) {
            self.before += bytes(piece.bytes);
            if let Some(index) = model.index_of(piece.owner) {
                self.add(index, &piece);
            }
        }
    }

    /// The fraction of the round that is over with that piece, the next one to be given away.
    fn fraction_with(&self, piece: &PieceLoad) -> f64 {
        (self.before + bytes(piece.bytes)) / self.total.max(1.0)
    }

    fn held(&self, index: usize) -> f64 {
        self.held.get(index).copied().unwrap_or(0.0)
    }

    fn add(&mut self, index: usize, piece: &PieceLoad) {
        if let Some(held) = self.held.get_mut(index) {
            *held += bytes(piece.bytes);
        }
    }

    /// That piece is given to a server.
    fn give(&mut self, index: usize, piece: &PieceLoad) {
        self.before += bytes(piece.bytes);
        self.add(index, piece);
    }
}

/// The parts before and behind a cut.
fn parts(piece: &PieceLoad, cut: u64) -> (PieceLoad, PieceLoad) {
    (piece.cut(piece.from, cut, piece.owner), piece.cut(cut, piece.to, piece.owner))
}
