//! What is kept until another server says that it need not be: what has left, copies of what others
//! own, answers that wait for a copy. Pure.

use bytes::Bytes;

use crate::store::outbound::Answer;
use crate::store::pieces::tensor::Piece;
use crate::wire::NodeId;
use crate::wire::transfer::{PieceName, WrittenPiece};

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

/// Answers to pushes that are safe when the replica has that version of that part of the key.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) version: u64,
    pub(super) answers: Vec<Answer>,
}
