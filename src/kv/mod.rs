//! Keys and values between workers and servers, as pure state machines: who owns which key, how a
//! request is cut into one message per server, which requests are in flight, how the answers of a
//! pull are put together, which requests a server still owes an answer, and which pushes it holds back (`gate`).
//!
//! May touch `wire` types and bytes; must not do I/O, read a clock, start threads or know sockets.
//! Keys, values and lens stay the bytes that travelled: received buffers may be unaligned
//! (libzmq hands out pointers into its read buffer), so nothing here casts them to `&[u64]`.

pub mod assembly;
pub mod commands;
pub mod flights;
pub mod gate;
pub mod ranges;
pub mod rounds;
pub mod routes;
pub mod slicer;
pub mod tracker;
pub mod unanswered;
pub mod worker;

pub use assembly::{Assembled, PullAssembly};
pub use ranges::{KeyRange, server_key_ranges};
pub use slicer::{Slices, slice};
pub use tracker::{Received, State, Tracker};
pub use unanswered::{Stuck, Unanswered};
pub use worker::{Finished, Pending, RequestError, WorkerRequests};

use crate::wire::Key;
use bytes::Bytes;

/// Bytes of one key on the wire (base.h:10).
pub const KEY_SIZE: usize = size_of::<u64>();

/// Bytes of one entry of `lens` on the wire (kv_app.h:33, `SArray<int>`).
pub const LEN_SIZE: usize = size_of::<i32>();

/// Keys with their values: the content of one push, or of one server's answer to a pull
/// (kv_app.h:25-38). Cloning shares the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvPairs {
    /// `u64` keys, native byte order, [`KEY_SIZE`] bytes each.
    pub keys: Bytes,
    /// The values of all keys, one after the other; empty in the request of a pull.
    pub vals: Bytes,
    /// `i32` number of values of each key; empty if all keys have equally many.
    pub lens: Bytes,
}

impl KvPairs {
    /// The number of whole keys.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len() / KEY_SIZE
    }
}

/// The key at an index of a keys frame; `None` past the end.
#[must_use]
pub fn key_at(keys: &[u8], index: usize) -> Option<Key> {
    let start = index.checked_mul(KEY_SIZE)?;
    let bytes = keys.get(start..start.checked_add(KEY_SIZE)?)?;
    Some(Key::from_ne_bytes(bytes.try_into().ok()?))
}

/// All whole keys of a keys frame, in order.
pub(crate) fn iter_keys(keys: &[u8]) -> impl Iterator<Item = Key> + '_ {
    let (whole, _) = keys.as_chunks::<KEY_SIZE>();
    whole.iter().map(|bytes| Key::from_ne_bytes(*bytes))
}

/// All whole entries of a lens frame, in order.
pub(crate) fn iter_lens(lens: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let (whole, _) = lens.as_chunks::<LEN_SIZE>();
    whole.iter().map(|bytes| i32::from_ne_bytes(*bytes))
}

/// The first index whose key is not below `bound`, by the steps of `std::lower_bound`: on unsorted
/// keys the result is the one stock computes.
pub(crate) fn lower_bound(keys: &[u8], bound: Key) -> usize {
    let (whole, _) = keys.as_chunks::<KEY_SIZE>();
    let (mut first, mut len) = (0, whole.len());
    while len > 0 {
        let half = len / 2;
        let below = whole.get(first + half).is_some_and(|bytes| Key::from_ne_bytes(*bytes) < bound);
        if below {
            first += half + 1;
            len -= half + 1;
        } else {
            len = half;
        }
    }
    first
}

/// Why keys and values cannot be sent, or an answer cannot be used. Where stock aborts the
/// process, these come back to the caller.
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
    #[error("key {key} has {expected} bytes of values, and {got} were pushed")]
    PieceMismatch {
        /// The key.
        key: Key,
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
