//! Why keys and values cannot be sent, or an answer cannot be used.

use crate::keys::KeyName;
use crate::values::Misfit;
use crate::wire::Key;

/// Why keys and values cannot be sent, or an answer cannot be used. Where stock aborts the
/// process, these come back to the caller. A key that the caller has given wrongly is named by the
/// number that it was given with, and otherwise as its application counts it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// A frame is not a whole number of elements.
    #[error(
        "the {frame} starting with key {key} have {bytes} bytes, which is not a multiple of \
         {element}"
    )]
    ShapeMismatch {
        /// `keys`, `vals` or `lens`.
        frame: &'static str,
        /// The first key, 0 if there is none.
        key: Key,
        /// The size found.
        bytes: usize,
        /// The size of one element.
        element: usize,
    },
    /// The key ranges do not follow each other, or there are none.
    #[error("the servers' key ranges leave a gap or overlap at {boundary}; key {key} is homeless")]
    BadRanges {
        /// Where a range should have started.
        boundary: u64,
        /// The first key to be sent.
        key: Key,
    },
    /// Keys of different servers are mixed: sort them (kv_app.h:64, "keys must be sorted").
    #[error("the keys are not sorted by server: key {key} at position {index} is out of order")]
    NotSorted {
        /// The key that does not belong where it stands.
        key: Key,
        /// Its position in the request.
        index: usize,
    },
    /// No server owns the key: the largest keys belong to nobody (postoffice.cc:169-180).
    #[error("key {key} at position {index} is in no server's range (the last one ends at {end})")]
    OutsideEveryRange {
        /// The key.
        key: Key,
        /// Its position in the request.
        index: usize,
        /// The end of the last range.
        end: u64,
    },
    /// As many lens as keys are needed.
    #[error("{lens} lens for {keys} keys starting with key {key}")]
    LensMismatch {
        /// The first key.
        key: Key,
        /// The number of keys.
        keys: usize,
        /// The number of lens.
        lens: usize,
    },
    /// A length is negative.
    #[error("key {key} has the negative length {len}")]
    NegativeLen {
        /// The key.
        key: Key,
        /// What its entry in lens says.
        len: i32,
    },
    /// The lens promise more values than there are.
    #[error("the lens up to key {key} ask for {needed} bytes of values, but there are {have}")]
    MissingVals {
        /// The key whose values are cut off.
        key: Key,
        /// Bytes needed so far.
        needed: usize,
        /// Bytes there.
        have: usize,
    },
    /// The values are not those of a key that is cut into pieces.
    #[error(
        "key {key} has {expected} bytes of values, and {got} were pushed: all workers need arrays \
         of one shape, and the same MXNET_KVSTORE_BIGARRAY_BOUND"
    )]
    PieceMismatch {
        /// The key.
        key: KeyName,
        /// Bytes of all of its pieces.
        expected: u64,
        /// Bytes pushed.
        got: usize,
    },
    /// Without lens every key must have equally many values.
    #[error(
        "{vals} values cannot be divided equally among {keys} keys starting with key {key}; pass \
         lens"
    )]
    Indivisible {
        /// The first key.
        key: Key,
        /// The number of keys.
        keys: usize,
        /// The number of values.
        vals: usize,
    },
    /// A server answered a pull without keys (its handler forgot to set them).
    #[error("a server answered the pull of {keys} keys starting with key {key} without any key")]
    EmptyPart {
        /// The first key that was asked for.
        key: Key,
        /// The number of keys that were asked for.
        keys: usize,
    },
    /// A server's answer does not have the keys it was asked for.
    #[error(
        "a server answered a pull with {found} keys starting with key {key}, where {expected} were \
         asked for"
    )]
    UnmatchedKeys {
        /// The first key of the answer.
        key: Key,
        /// Keys in the answer.
        found: usize,
        /// Keys of the request in that span.
        expected: usize,
    },
    /// The answers together do not cover the request ("lost some servers?" in stock).
    #[error(
        "the answers hold {found} of the {expected} keys that were asked for, starting with key \
         {key}"
    )]
    MissingKeys {
        /// The first key of the request.
        key: Key,
        /// Keys in all answers.
        found: usize,
        /// Keys in the request.
        expected: usize,
    },
}

impl KvError {
    /// The values of a slice do not fit the pieces of its key, in a job of so many ranks.
    pub(super) fn misfit(misfit: Misfit, ranks: usize) -> Self {
        match misfit {
            Misfit::Pieces { key, expected, got } => {
                Self::PieceMismatch { key: KeyName::of(key, ranks), expected, got }
            }
            Misfit::Vals { key, needed, have } => Self::MissingVals { key, needed, have },
        }
    }
}
