//! What a server says that it holds (docs/elastic.md, "Claims"): what it owns, what leaves it, and
//! the copies that it keeps. Looks only.

use std::collections::BTreeSet;

use bytes::Bytes;
use pslite_optimizers::Optimizer;

use super::kept::Leaving;
use super::mover::Whereabouts;
use super::moves::may_be_cut;
use crate::store::pieces::tensor::{ALIGN, Piece};
use crate::wire::Key;
use crate::wire::elastic::{Claim, Holding};
use crate::wire::transfer::{PieceName, WrittenPiece};

impl Whereabouts<'_> {
    /// Keys of which it holds something; those of which it holds two things may count twice.
    pub(in crate::store) fn held(self) -> usize {
        self.held.tensors.len() + self.known.copies.of.len()
    }

    /// What it holds. But for `all`, without keys whose first push is not answered yet: those may
    /// still turn out never to have been.
    pub(in crate::store) fn claims(self, all: bool) -> Vec<Claim> {
        let own = self.held.tensors.keys().chain(self.known.leaving.keys());
        let keys: BTreeSet<Key> =
            own.copied().chain(self.known.copies.of.keys().map(|(key, _)| *key)).collect();
        let mut claims = Vec::new();
        for key in keys {
            self.list_of(key, all, &mut claims);
        }
        claims
    }

    /// What it holds of one key.
    pub(in crate::store) fn list_of(self, key: Key, all: bool, claims: &mut Vec<Claim>) {
        if !self.held.config.elastic {
            return;
        }
        let optimizer = self.held.mode(key).optimizer.as_deref();
        let waits = self.known.waiting.contains_key(&key);
        if let Some(tensor) = self.held.tensors.get(&key) {
            // Of a key that is cut the first push is answered.
            let is_safe = all || !waits || tensor.whole_piece().is_none();
            let said = tensor.pieces.iter().filter(|piece| is_safe || piece.version > 0);
            claims.extend(said.map(|piece| Claim {
                holding: Holding::Owner.into(),
                safe: piece.is_safe(),
                ..claim(key, tensor.length, piece, optimizer)
            }));
        }
        let leaving = self.known.leaving.get(&key).into_iter().flatten();
        claims.extend(leaving.map(|leaving| claim_leaving(leaving, optimizer)));
        for (peer, copies) in self.known.copies.of_key(key) {
            claims.extend(copies.iter().map(|copy| Claim {
                holding: Holding::Replica.into(),
                peer,
                ..claim(key, copy.length, &copy.piece, optimizer)
            }));
        }
    }

    /// True if it owns nothing and keeps nothing for others: a drained server may go.
    pub(in crate::store) fn is_drained(self) -> bool {
        let Self { held, known } = self;
        held.tensors.is_empty() && known.leaving.is_empty() && known.copies.of.is_empty()
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
