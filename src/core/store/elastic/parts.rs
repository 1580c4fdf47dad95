//! How long a piece should be (docs/elastic.md, "Parts"). May touch what the store may.

use crate::store::mxnet::Store;
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

impl Store {
    /// Bytes of value of a part, at most.
    pub(super) fn part_bytes(&mut self) -> usize {
        let Some(elastic) = &mut self.elastic else { return self.config.part_bytes };
        let longest = self.config.part_bytes.max(1);
        let (count, shortest) = match elastic.overlay() {
            0 => (PARTS, longest.div_ceil(SHORTEST_PART)),
            _ => (trees::PARTS, trees::SHORTEST_PART.min(longest)),
        };
        let parts = &mut elastic.parts;
        if parts.bytes == 0 || elastic.changes.number() - parts.counted > parts.lasts {
            let pieces = self.tensors.values().flat_map(|tensor| &tensor.pieces);
            let bytes = pieces.clone().map(|piece| piece.value.buffer().len());
            *parts = Parts {
                bytes: (bytes.sum::<usize>() / count).clamp(shortest, longest),
                counted: elastic.changes.number(),
                lasts: pieces.count() as u64 / COUNT_AGAIN,
            };
        }
        parts.bytes
    }
}
