//! The frames of keys, values and lens that travel, and how they are read.
//!
//! They stay the bytes that travelled: received buffers may be unaligned (libzmq hands out pointers
//! into its read buffer), so nothing here casts them to `&[u64]`.

use bytes::Bytes;

use crate::wire::Key;

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
pub fn iter_lens(lens: &[u8]) -> impl Iterator<Item = i32> + '_ {
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
