//! Moves: cutting, a piece that leaves and one that comes (docs/elastic.md, "A move"). May touch
//! what a `Mover` may.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::kept::Leaving;
use super::mover::Mover;
use super::orders::{Segment, is_busy, segments, shortened};
use super::state::Elsewhere;
use crate::store::error::StoreError;
use crate::store::holdings::At;
use crate::store::outbound::refused;
use crate::store::pieces::limits::{PIECES_MAX, TENSORS_MAX};
use crate::store::pieces::tensor::{ALIGN, Copied, Layout, Piece, Source};
use crate::trees::Void;
use crate::values::KeyPart;
use crate::wire::elastic::{Order, PartAsk, Route};
use crate::wire::transfer::{PieceCut, PieceName, Transfer, WrittenPiece};
use crate::wire::{Key, NodeId};

/// What stays is cut if it is longer than so many parts.
const LONG: u64 = 2;

impl Mover<'_> {
    /// See `Store::orders`.
    pub(in crate::store) fn orders(&mut self, orders: &[Order]) {
        let Elsewhere { servers, orders: waiting, .. } = &mut *self.known;
        for order in orders.iter().filter(|order| order.from < order.to) {
            if order.owner == servers.me {
                waiting.take_back(order);
            } else if servers.has(order.owner) && self.held.tensors.contains_key(&order.key) {
                waiting.add(*order);
            }
        }
        let keys: BTreeSet<Key> = orders.iter().map(|order| order.key).collect();
        for key in keys {
            self.carry_out_all(key);
        }
    }

    /// Moves what was ordered of a key and can go now.
    pub(in crate::store) fn carry_out_all(&mut self, key: Key) {
        let Some(tensor) = self.held.tensors.get(&key) else { return };
        for from in tensor.pieces.iter().map(|piece| piece.from).collect::<Vec<_>>() {
            if let Some(at) = self.held.begins_at(key, from) {
                self.carry_out_one(at);
            }
        }
        self.forget_orders(key);
    }

    /// Forgets orders that no piece waits to follow.
    pub(super) fn forget_orders(&mut self, key: Key) {
        self.known.orders.forget_idle(key, self.held.pieces_of(key));
    }

    /// Cuts and moves a piece as it was ordered, and cuts what is longer than it should be
    /// (`parts`). True if it is not here any more as it was.
    pub(super) fn carry_out(&mut self, at: At) -> bool {
        let went = self.carry_out_one(at);
        if went {
            self.forget_orders(at.key);
        }
        went
    }

    /// The same, but keeps the orders: those about other pieces may not have been looked at.
    pub(super) fn carry_out_one(&mut self, at: At) -> bool {
        self.carry_out_if(at, may_be_cut)
    }

    /// The same for a piece that somebody is about to push to, even if nobody has yet: whoever
    /// pushes has told the servers of the optimizer.
    pub(super) fn carry_out_asked(&mut self, at: At) -> bool {
        self.carry_out_if(at, |piece| piece.layout == Layout::Dense)
    }

    fn carry_out_if(&mut self, at: At, may_be_cut: impl Fn(&Piece) -> bool) -> bool {
        let by_trees = self.known.overlay() > 0;
        let all = self.held.pieces();
        let (longest, changes) = (self.held.config.part_bytes, self.known.changes.number());
        let part_bytes = self.known.parts.bytes(longest, by_trees, changes, all);
        let orders = self.known.orders.of(at.key);
        let Some(tensor) = self.held.tensors.get_mut(&at.key) else { return false };
        let Some(piece) = tensor.pieces.get(at.index).filter(|piece| !is_busy(piece)) else {
            return false;
        };
        let optimizer = self.held.modes.of(self.held.view.space(at.key)).optimizer.as_ref();
        let elementwise = optimizer.is_none_or(|optimizer| optimizer.is_elementwise());
        let divisible = elementwise && may_be_cut(piece);
        let longest = if divisible { part_bytes / piece.dtype.size() } else { usize::MAX } as u64;
        let parts = segments(piece.from, piece.to, orders, divisible);
        let leaves = parts.iter().any(|(.., owner)| owner.is_some());
        // Not worth it without a copy or trees, nor for a little.
        let is_long = (piece.copied != Copied::Not || by_trees)
            && parts.iter().any(|(from, to, _)| (to - from) / LONG > longest);
        if !leaves && !is_long {
            return false;
        }
        let place = PIECES_MAX.saturating_sub(tensor.pieces.len());
        let short = shortened(&parts, longest);
        // Rather long parts than a move that is not made.
        let fits = [short, parts].into_iter().find(|parts| parts.len() <= place);
        let Some(parts) = fits.filter(|parts| leaves || parts.len() > 1) else { return false };
        self.divide(at, &parts);
        true
    }

    /// A worker asks for a part of a piece: an owner that died had cut it and told workers so, and
    /// nobody else. Cuts it alike, even before its first round. False if it cannot be cut like
    /// that.
    pub(super) fn cut_alike(&mut self, at: At, from: u64, to: u64) -> bool {
        let Some(tensor) = self.held.tensors.get(&at.key) else { return false };
        let Some(piece) = tensor.pieces.get(at.index) else { return false };
        let aligned = |border: u64| border.is_multiple_of(ALIGN) || border == piece.to;
        let inside = piece.from <= from && from < to && to <= piece.to;
        let possible = inside && aligned(from) && aligned(to) && piece.layout == Layout::Dense;
        if !possible || tensor.pieces.len() + 2 > PIECES_MAX {
            return false;
        }
        let parts = [(piece.from, from, None), (from, to, None), (to, piece.to, None)];
        let parts: Vec<Segment> = parts.into_iter().filter(|(from, to, _)| from < to).collect();
        self.divide(at, &parts);
        true
    }

    /// Cuts a piece, and sends away what is to go. Whoever has pushed to its open round, or for the
    /// next one, shall send that again.
    fn divide(&mut self, at: At, parts: &[Segment]) {
        let Some(tensor) = self.held.tensors.get_mut(&at.key) else { return };
        let length = tensor.length;
        let mut piece = tensor.pieces.remove(at.index);
        if tensor.pieces.is_empty() {
            self.held.tensors.remove(&at.key);
        }
        self.held.stalls.end(piece.round.number());
        let pushes: Vec<_> = piece.round.give_up().collect();
        let (from, to, term) = (piece.from, piece.to, piece.term);
        let (ticket, customer) = (piece.ticket(), piece.ticket_customer());
        self.tell_cut(at.key, &piece, parts);
        self.split(at.key, length, piece, parts);
        if let Some(ticket) = ticket {
            let ask = PartAsk { from, to, term, ..PartAsk::default() };
            self.tell_void(at.key, customer, ask, Void::of(ticket));
        }
        for request in pushes.into_iter().filter(|request| request.hop().is_none()) {
            match request.span() {
                Some(span) => {
                    let (from, to) = (span.start, span.end);
                    let routes = self.look().routes(KeyPart { key: at.key, from, to });
                    self.answer_again(request, routes);
                }
                None => {
                    let key = self.held.view.name(at.key);
                    self.out.answers.push(refused(request, &StoreError::Elsewhere { key }));
                }
            }
        }
    }

    /// Whoever has a copy cuts it alike.
    fn tell_cut(&mut self, key: Key, piece: &Piece, parts: &[Segment]) {
        if parts.len() < 2 {
            return;
        }
        let former = piece.former_copy.filter(|former| !former.dropped);
        let copies = [piece.copied.at(), former.map(|former| former.at)];
        let gone = parts.iter().filter(|(.., owner)| owner.is_some());
        let cut = PieceCut {
            piece: PieceName { term: piece.term + 1, ..piece.name(key) },
            cuts: parts.iter().skip(1).map(|(from, ..)| *from).collect(),
            gone: gone.map(|(from, ..)| *from).collect(),
        };
        for server in copies.into_iter().flatten() {
            self.send(server, Transfer::Cut(cut.clone()), Vec::new());
        }
    }

    fn split(&mut self, key: Key, length: u64, piece: Piece, parts: &[Segment]) {
        let cuts: Vec<u64> = parts.iter().skip(1).map(|(from, ..)| *from).collect();
        let pieces = if cuts.is_empty() {
            vec![piece]
        } else {
            piece.cut(&cuts, self.held.memory.as_deref())
        };
        for (mut piece, (.., owner)) in pieces.into_iter().zip(parts) {
            piece.term += 1;
            match owner {
                Some(owner) => self.leave(key, length, piece, *owner),
                None => self.insert(key, length, piece),
            }
        }
    }

    /// Sends a piece to its new owner, and keeps it until it is safe there.
    fn leave(&mut self, key: Key, length: u64, piece: Piece, to: NodeId) {
        let route = Route { from: piece.from, to: piece.to, term: piece.term, owner: to };
        let copy = piece.copied.at();
        let (written, frames) = self.held.write_gone(key, length, piece);
        self.known.changes.of(key);
        self.known.learn(key, route);
        self.known.leaving.entry(key).or_default().push(Leaving {
            to,
            term: route.term - 1,
            copy,
            written: written.clone(),
            frames: frames.clone(),
        });
        self.send(to, Transfer::Move(written), frames);
    }

    /// A piece comes.
    pub(super) fn take_move(
        &mut self,
        from: NodeId,
        written: &WrittenPiece,
        frames: &[Bytes],
    ) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        let PieceName { key, from: begin, to, .. } = written.piece;
        let generation = self.held.generation(key);
        if written.generation > generation {
            return Err(malformed("it names an optimizer that did not come"));
        }
        let mut piece = self.held.read_piece(written, frames, generation)?;
        if self.held.mode(key).widens(piece.dtype) {
            piece.make_master();
        }
        piece.source = Some(Source { server: from, told: false });
        self.check_place(key, written.length, &piece)?;
        self.look().withhold_ticket(&mut piece);
        self.insert(key, written.length, piece);
        let tensor = self.held.tensors.get(&key);
        let index = tensor.and_then(|tensor| tensor.exactly(begin, to)).unwrap_or(0);
        self.seed(At { key, index });
        self.settle(key);
        self.known.due.insert(key);
        Ok(())
    }

    /// Refuses a piece for which there is no place here.
    fn check_place(&self, key: Key, length: u64, piece: &Piece) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        let Some(tensor) = self.held.tensors.get(&key) else {
            let full = self.held.tensors.len() >= TENSORS_MAX;
            return if full { Err(StoreError::Full(TENSORS_MAX)) } else { Ok(()) };
        };
        if tensor.length != length || tensor.pieces.len() >= PIECES_MAX {
            return Err(malformed("its key is of another length, or in too many pieces"));
        }
        if tensor.pieces.iter().any(|own| own.from < piece.to && piece.from < own.to) {
            return Err(malformed("this server owns a part of it already"));
        }
        Ok(())
    }

    /// A piece is this server's from now on. It overlaps no other one.
    pub(super) fn insert(&mut self, key: Key, length: u64, piece: Piece) {
        let tensor = self.held.tensors.entry(key).or_default();
        tensor.length = length;
        tensor.insert(piece);
        self.known.changes.of(key);
    }

    /// Tells former owners that pieces are safe here; where there is no replica, at once. Between
    /// claims and policy nobody is told: the former owner must still claim what this server's
    /// claims may not have had.
    pub(super) fn settle(&mut self, key: Key) {
        if self.known.servers.collecting.is_some() {
            return;
        }
        let alone = self.known.replica.at.is_none();
        let pieces = self.held.pieces_of_mut(key);
        let due = pieces.iter_mut().filter(|p| alone || p.is_safe());
        let settled: Vec<_> = due
            .filter_map(|piece| {
                let source = piece.source.filter(|source| !source.told)?;
                piece.source = Some(Source { told: true, ..source });
                Some((source.server, piece.name(key)))
            })
            .collect();
        for (source, piece) in settled {
            self.send(source, Transfer::Moved(piece), Vec::new());
        }
    }

    /// A former owner has forgotten what is here now: what was done to it since may be answered,
    /// and it may be moved on.
    pub(super) fn settled(&mut self, from: NodeId, forgotten: &PieceName) {
        let key = forgotten.key;
        let pieces = self.held.pieces_of_mut(key);
        for piece in pieces.iter_mut() {
            let same = forgotten.spans(piece.from, piece.to);
            if same && piece.source == Some(Source { server: from, told: true }) {
                piece.source = None;
            }
        }
        // First the answers: they are about what is here, and may go.
        self.release_settled(key);
        self.carry_out_all(key);
        self.known.due.insert(key);
    }

    /// What had left is safe where it went, which waits for the word that nothing of it is kept
    /// here.
    pub(super) fn take_moved(&mut self, from: NodeId, moved: PieceName) {
        self.forget_leaving(from, &moved);
        self.send(from, Transfer::Forgotten(moved), Vec::new());
    }

    fn forget_leaving(&mut self, from: NodeId, moved: &PieceName) {
        let Some(leaving) = self.known.leaving.get_mut(&moved.key) else { return };
        let place = leaving.iter().position(|leaving| leaving.written.piece == *moved);
        let Some(place) = place.filter(|place| leaving[*place].to == from) else { return };
        let gone = leaving.swap_remove(place);
        if leaving.is_empty() {
            self.known.leaving.remove(&moved.key);
        }
        self.known.changes.of(moved.key);
        self.drop_copy(&gone);
        // What was pushed to it before it left is safe there too, whatever the replica here has of
        // it.
        self.release_settled(moved.key);
    }

    /// The replica needs its copy of what had left no more.
    pub(super) fn drop_copy(&mut self, gone: &Leaving) {
        if let Some(replica) = gone.copy {
            self.send(replica, Transfer::Drop(gone.piece()), Vec::new());
        }
    }
}

/// True if a piece can be cut. Before its first round nobody knows what optimizer will come, and it
/// may need the whole; unless a worker asks how to push.
pub(super) fn may_be_cut(piece: &Piece) -> bool {
    piece.layout == Layout::Dense && piece.version > 0
}
