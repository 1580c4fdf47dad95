//! What is kept until another server says that it need not be: what has left, copies of what others
//! own, answers that wait for a copy. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::invariant::{Valid, disjoint, require};
use crate::store::error::StoreError;
use crate::store::outbound::Answer;
use crate::store::pieces::limits::TENSORS_MAX;
use crate::store::pieces::tensor::Piece;
use crate::wire::transfer::{PieceName, Transfer, WrittenPiece};
use crate::wire::{Key, NodeId};

/// A piece that has left and is kept until it is safe where it went.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The new owner.
    pub(super) to: NodeId,
    /// The term that it had here.
    pub(super) term: u64,
    /// Which replica has a copy of it.
    pub(super) copy: Option<NodeId>,
    /// As it was sent.
    pub(super) written: WrittenPiece,
    pub(super) frames: Vec<Bytes>,
}

impl Leaving {
    /// As it was here.
    pub(super) const fn piece(&self) -> PieceName {
        PieceName { term: self.term, ..self.written.piece }
    }
}

/// A copy of what another server owns.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) piece: Piece,
    /// Elements, or rows, of the whole key.
    pub(super) length: u64,
    /// Which optimizer updates it.
    pub(super) generation: u64,
}

/// A confirmation that waits: to whom, and of which elements of which key.
type Unsaid = (NodeId, Key, u64, u64);

/// Copies of what other servers own.
#[derive(Debug, Default)]
pub(super) struct KeptCopies {
    /// By key and owner.
    pub(super) of: BTreeMap<(Key, NodeId), Vec<Copy>>,
    /// This server has said that it holds nothing, so the next policy may let it go: confirmations
    /// that wait for it.
    pub(super) unsaid: Option<BTreeMap<Unsaid, Transfer>>,
}

impl KeptCopies {
    /// Those of a key, by their owners.
    pub(super) fn of_key(&self, key: Key) -> impl Iterator<Item = (NodeId, &[Copy])> {
        let of_key = self.of.range((key, NodeId::MIN)..=(key, NodeId::MAX));
        of_key.map(|((_, owner), copies)| (*owner, &copies[..]))
    }

    /// That of this piece of that owner.
    pub(super) fn find(
        &mut self,
        owner: NodeId,
        name: &PieceName,
    ) -> Result<&mut Copy, StoreError> {
        let mut copies = self.of.get_mut(&(name.key, owner)).into_iter().flatten();
        let its = |copy: &&mut Copy| name.spans(copy.piece.from, copy.piece.to);
        let copy = copies.find(its);
        copy.ok_or(StoreError::Transfer("there is no copy of that piece here"))
    }

    /// Keeps one, in the place of what it overlaps.
    pub(super) fn keep(&mut self, owner: NodeId, key: Key, copy: Copy) -> Result<(), StoreError> {
        if self.of.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        // Nearly all keys are one piece, and there may be very many of them.
        let copies = self.of.entry((key, owner)).or_insert_with(|| Vec::with_capacity(1));
        let (from, to) = (copy.piece.from, copy.piece.to);
        copies.retain(|copy| copy.piece.to <= from || to <= copy.piece.from);
        copies.push(copy);
        Ok(())
    }

    /// The owner needs its copy no more. True if it had one of that key.
    pub(super) fn forget(&mut self, owner: NodeId, dropped: &PieceName) -> bool {
        let place = (dropped.key, owner);
        let Some(copies) = self.of.get_mut(&place) else { return false };
        // The piece may have come back to its owner meanwhile: that copy has a higher term.
        copies.retain(|copy| {
            copy.piece.term > dropped.term || !dropped.spans(copy.piece.from, copy.piece.to)
        });
        if copies.is_empty() {
            self.of.remove(&place);
        }
        true
    }

    /// Those of a key are disjoint, and of others.
    pub(super) fn validate_key(&self, key: Key, me: NodeId) -> Valid {
        self.of_key(key).try_for_each(|(owner, copies)| {
            let named = |broken: String| format!("its copies for {owner}: {broken}");
            Self::validate_of(owner, copies, me).map_err(named)
        })
    }

    fn validate_of(owner: NodeId, copies: &[Copy], me: NodeId) -> Valid {
        require(!copies.is_empty(), || "there are none, and they are listed".to_owned())?;
        require(owner != me, || "it is its own replica".to_owned())?;
        let length = copies.first().map_or(0, |copy| copy.length);
        let mut ranges: Vec<(u64, u64)> =
            copies.iter().map(|copy| (copy.piece.from, copy.piece.to)).collect();
        ranges.sort_unstable();
        disjoint(ranges, length)?;
        copies.iter().try_for_each(|copy| copy.piece.validate())
    }
}

/// Answers to pushes that are safe when the replica has that version of that part of the key.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) version: u64,
    pub(super) answers: Vec<Answer>,
}
