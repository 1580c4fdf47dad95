//! What an owner sends to its replica, and which answers that lets go (docs/elastic.md,
//! "Replicas"). May touch what a `Mover` may.

use bytes::Bytes;

use super::kept::{Leaving, Waiting};
use super::mover::Mover;
use super::rounds::Shipped;
use super::travel::key_frame;
use crate::store::holdings::At;
use crate::store::outbound::Outgoing;
use crate::store::pieces::tensor::{Copied, Piece};
use crate::values::KeyPart;
use crate::wire::elastic::Mark;
use crate::wire::transfer::{PieceName, RoundSum, Transfer};
use crate::wire::{Key, NodeId};

impl Mover<'_> {
    /// Sends the answers about a key that need not wait any more. `is_safe` is given the pieces
    /// that are here of what was waited for.
    pub(super) fn release(&mut self, key: Key, is_safe: impl Fn(&[&Piece], &Waiting) -> bool) {
        let Some(waiting) = self.known.waiting.remove(&key) else { return };
        let pieces = self.held.pieces_of(key);
        let (safe, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|waiting| {
            let here = |piece: &&Piece| piece.from < waiting.to && waiting.from < piece.to;
            is_safe(&pieces.iter().filter(here).collect::<Vec<_>>(), waiting)
        });
        if !rest.is_empty() {
            self.known.waiting.insert(key, rest);
        }
        if safe.iter().any(|waiting| waiting.version == 0) {
            self.known.changes.of(key); // It is claimed now that its first push is answered.
        }
        for answer in safe.into_iter().flat_map(|waiting| waiting.answers) {
            self.deliver(key, answer);
        }
    }

    /// Sends the answers about a key for which nothing is to be waited any more. What has left and
    /// is copied waits for that copy: it would count if this server died.
    pub(super) fn release_settled(&mut self, key: Key) {
        let leaving = self.known.leaving.get(&key).into_iter().flatten();
        let copied = leaving.filter(|leaving| leaving.copy.is_some());
        let left: Vec<PieceName> = copied.map(Leaving::piece).collect();
        let is_safe = |pieces: &[&Piece], waiting: &Waiting| {
            !pieces.iter().any(|piece| piece.withholds(waiting.version))
                && !left.iter().any(|left| left.from < waiting.to && waiting.from < left.to)
        };
        self.release(key, is_safe);
    }

    /// Sends the whole piece to the replica, if there is one. A copy that is elsewhere gets no more
    /// rounds; it is forgotten once this one is confirmed.
    pub(super) fn seed(&mut self, at: At) -> usize {
        let Some(replica) = self.known.replica.at else { return 0 };
        let length = self.held.tensors.get(&at.key).map_or(0, |tensor| tensor.length);
        let Ok(piece) = self.held.piece(at) else { return 0 };
        let (seed, frames) = self.held.write_piece(at.key, length, piece);
        if let Ok(piece) = self.held.piece_mut(at) {
            // A former copy at that very server is overwritten.
            piece.former_copy = piece.former(false).filter(|former| former.at != replica);
            piece.copied = Copied::Sent { to: replica, since: piece.term, confirmed: None };
        }
        let bytes = frames.iter().map(Bytes::len).sum();
        self.send(replica, Transfer::Seed(seed), frames);
        bytes
    }

    /// True if its copy is at another server than it should be, and may go on to that one.
    pub(super) fn has_new_replica(&self, at: At) -> bool {
        let replica = self.known.replica.at;
        let moves = |piece: &Piece| {
            piece.copied.at().is_some_and(|former| replica.is_some_and(|new| new != former))
                && piece.former_copy.is_none()
        };
        self.held.piece(at).is_ok_and(moves)
    }

    pub(super) fn ship(&mut self, at: At, marks: Vec<Mark>, shipped: Shipped) {
        let Ok(piece) = self.held.piece(at) else { return };
        let Some(replica) = piece.copied.at() else { return };
        let sum = RoundSum {
            piece: piece.name(at.key),
            version: piece.version,
            dtype: shipped.dtype as i32,
            marks,
            rows: shipped.rows,
            generation: self.held.generation(at.key),
        };
        let frames = std::iter::once(key_frame(at.key)).chain(shipped.values).collect();
        self.send(replica, Transfer::Round(sum), frames);
    }

    /// Sends a transfer, and before it what it needs of the commands of workers. Nothing goes to
    /// who is gone.
    pub(super) fn send(&mut self, to: NodeId, transfer: Transfer, frames: Vec<Bytes>) {
        if self.known.servers.is_gone(to) {
            return;
        }
        self.tell(to);
        self.out.transfers.push(Outgoing { to, transfer, frames });
    }

    /// A replica has all up to a version.
    pub(super) fn confirmed(
        &mut self,
        replica: NodeId,
        &PieceName { key, from, to, term }: &PieceName,
        version: u64,
    ) {
        self.known.replica.seeds.arrived(KeyPart { key, from, to });
        let mut news = false;
        let mut old = Vec::new();
        let mut others = Vec::new();
        let pieces = self.held.pieces_of_mut(key);
        let here = |piece: &&mut Piece| piece.from < to && from < piece.to;
        for piece in pieces.iter_mut().filter(here) {
            let was_safe = piece.is_safe();
            let inside = from <= piece.from && piece.to <= to;
            if !inside || !piece.confirm(replica, term, version) {
                others.push(piece.from);
                continue;
            }
            news |= piece.is_safe() && !was_safe;
            if let Some(former) = piece.former_copy.as_mut()
                && former.at != replica
                && !std::mem::replace(&mut former.dropped, true)
            {
                old.push((former.at, piece.name(key)));
            }
        }
        if news {
            self.known.changes.of(key);
        }
        for (former, dropped) in old {
            self.send(former, Transfer::Drop(dropped), Vec::new());
        }
        let is_safe = |pieces: &[&Piece], waiting: &Waiting| {
            from <= waiting.from
                && waiting.to <= to
                && waiting.version <= version
                && !pieces.iter().any(|piece| {
                    others.contains(&piece.from) || piece.has_older_copy(waiting.version)
                })
        };
        self.release(key, is_safe);
        if news {
            self.settle(key);
            // What waited for a copy that is gone: parts of it may have come back since.
            self.release_settled(key);
        }
        self.send_seeds();
    }
}
