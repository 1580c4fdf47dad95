//! How long a piece should be (docs/elastic.md, "Parts"). Pure.

use crate::store::pieces::tensor::Piece;
use crate::trees;

/// What a server holds is in so many parts, if it can be.
const PARTS: usize = 64;
/// But none of fewer bytes than that part of the longest that it may have: each is a message of its
/// own.
const SHORTEST_PART: usize = 16;
/// What is held is counted again when that part of its pieces may be others.
const COUNT_AGAIN: u64 = 8;

/// How long parts are now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    bytes: usize,
    /// The number of changes of claims at which that was counted, and how many more it may be.
    counted: u64,
    lasts: u64,
}

impl Parts {
    /// Bytes of value of a part, at most. `longest`: what it may be, in bytes; `by_trees`: rounds
    /// may go by trees; `changes`: how many changes of claims there were; `pieces`: all that are
    /// here.
    pub(super) fn bytes<'a>(
        &mut self,
        longest: usize,
        by_trees: bool,
        changes: u64,
        pieces: impl Iterator<Item = &'a Piece> + Clone,
    ) -> usize {
        let longest = longest.max(1);
        let (count, shortest) = if by_trees {
            (trees::PARTS, trees::SHORTEST_PART.min(longest))
        } else {
            (PARTS, longest.div_ceil(SHORTEST_PART))
        };
        if self.bytes == 0 || changes - self.counted > self.lasts {
            let bytes = pieces.clone().map(|piece| piece.value.buffer().len());
            *self = Self {
                bytes: (bytes.sum::<usize>() / count).clamp(shortest, longest),
                counted: changes,
                lasts: pieces.count() as u64 / COUNT_AGAIN,
            };
        }
        self.bytes
    }
}
