//! What a new replica gets, piece by piece, and the copies that a server which is being emptied
//! forgets (docs/elastic.md, "Replicas"). May touch what a `Mover` may.

use bytes::Bytes;

use super::mover::Mover;
use crate::store::holdings::At;
use crate::store::pieces::tensor::{Copied, FormerCopy, Piece};
use crate::values::KeyPart;
use crate::wire::NodeId;
use crate::wire::transfer::{PieceName, Transfer, WrittenPiece};

impl Mover<'_> {
    /// A server has forgotten its copy of a piece: it cannot claim it any more, so what was done
    /// since may be answered.
    pub(super) fn copy_gone(&mut self, server: NodeId, gone: &PieceName) {
        let &PieceName { key, from, to, .. } = gone;
        let tensor = self.held.tensors.get_mut(&key);
        let pieces = tensor.into_iter().flat_map(|tensor| &mut tensor.pieces);
        let its = |former: FormerCopy| former.dropped && former.at == server;
        let mut any = false;
        for piece in pieces.filter(|piece| from <= piece.from && piece.to <= to) {
            if piece.former_copy.is_some_and(its) {
                piece.former_copy = None;
                any = true;
                if piece.copied.at() != self.known.replica.at {
                    self.known.replica.seeds.push(piece.of_key(key));
                }
            }
        }
        if any {
            self.release_settled(key);
            self.carry_out_all(key);
            self.send_seeds();
        }
    }

    /// There is no other server that could have a copy of the piece: the one that is being emptied
    /// forgets it.
    fn give_up_copy(&mut self, at: At) {
        let Ok(piece) = self.held.piece_mut(at) else { return };
        let Some(replica) = piece.copied.at() else { return };
        piece.former_copy = piece.former(true);
        piece.copied = Copied::Not;
        let dropped = piece.name(at.key);
        self.send(replica, Transfer::Drop(dropped), Vec::new());
    }

    /// The replica that was to have the pieces instead is gone, and there is no other: nothing will
    /// take the place of what a server that is being emptied still has.
    pub(super) fn give_up_former_copies(&mut self) {
        if self.known.replica.at.is_some() {
            return;
        }
        let mut drops = Vec::new();
        for (&key, tensor) in &mut self.held.tensors {
            for piece in tensor.pieces.iter_mut().filter(|piece| piece.copied == Copied::Not) {
                if let Some(former) = piece.former_copy.as_mut().filter(|former| !former.dropped) {
                    former.dropped = true;
                    drops.push((former.at, piece.name(key)));
                }
            }
        }
        for (former, dropped) in drops {
            self.send(former, Transfer::Drop(dropped), Vec::new());
        }
    }

    /// Sends pieces to a new replica, as many as may be on their way. One that was sent away from a
    /// former one waits until that has forgotten it.
    pub(super) fn send_seeds(&mut self) {
        loop {
            let replica = self.known.replica.at;
            let Some(part) = self.known.replica.seeds.next() else { return };
            let KeyPart { key, from, to } = part;
            let may_go = |piece: &Piece| piece.copied == Copied::Not || piece.former_copy.is_none();
            let mut sent = self.seed_leaving(part);
            let pieces = self.held.pieces_of(key);
            let due: Vec<_> = pieces
                .iter()
                .enumerate()
                .filter(|(_, piece)| from <= piece.from && piece.to <= to)
                .filter(|(_, piece)| piece.copied.at() != replica && may_go(piece))
                .map(|(index, piece)| (At { key, index }, piece.of_key(key)))
                .collect();
            for (at, piece) in due {
                if replica.is_none() {
                    self.give_up_copy(at);
                }
                let bytes = self.seed(at);
                sent.extend((bytes > 0).then_some((piece, bytes)));
            }
            sent.into_iter().for_each(|(what, bytes)| self.known.replica.seeds.sent(what, bytes));
        }
    }

    /// What has left and is not safe there yet is copied too.
    fn seed_leaving(&mut self, part: KeyPart) -> Vec<(KeyPart, usize)> {
        let KeyPart { key, from, to } = part;
        let Some(replica) = self.known.replica.at else { return Vec::new() };
        let leaving = self.known.leaving.get_mut(&key).into_iter().flatten();
        let due = leaving.filter(|leaving| {
            leaving.copy.is_none() && from <= leaving.piece().from && leaving.piece().to <= to
        });
        let seeds: Vec<_> = due
            .map(|leaving| {
                leaving.copy = Some(replica);
                let seed = WrittenPiece { piece: leaving.piece(), ..leaving.written.clone() };
                (seed, leaving.frames.clone())
            })
            .collect();
        let mut sent = Vec::new();
        for (seed, frames) in seeds {
            let bytes = frames.iter().map(Bytes::len).sum();
            let PieceName { from, to, .. } = seed.piece;
            sent.push((KeyPart { key, from, to }, bytes));
            self.send(replica, Transfer::Seed(seed), frames);
        }
        sent
    }
}
