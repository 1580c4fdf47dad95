//! Cuts one request into one piece per server, without copying: the default slicer of stock
//! (kv_app.h:517-572), with errors instead of aborts.
//!
//! Pure; knows ranges, not servers. Keys must be sorted *between* ranges only: MXNet's compressed
//! push has a dummy key in front of a smaller one inside the same range.

use super::KvError;
use crate::values::{KEY_SIZE, KeyRange, KvPairs, LEN_SIZE, iter_keys, iter_lens, key_at};
use crate::wire::Key;
use bytes::Bytes;
use smallvec::SmallVec;

/// One entry per server, by rank; `None` if the server gets no message.
pub type Slices = SmallVec<[Option<KvPairs>; 4]>;

/// Cuts `kv` by `ranges`; `value_size` is the size of one value in bytes (lens count values).
///
/// # Errors
/// Where stock aborts: keys that no range holds or that are mixed between ranges, lens that do
/// not fit keys or values, values that cannot be divided equally. Surplus values behind the lens
/// are ignored, as stock does.
pub fn slice(kv: &KvPairs, value_size: usize, ranges: &[KeyRange]) -> Result<Slices, KvError> {
    let mut slices = Slices::with_capacity(ranges.len());
    slices.resize(ranges.len(), None);
    check_shape(kv)?;
    let Some(first) = key_at(&kv.keys, 0) else { return Ok(slices) };
    check_ranges(ranges, first)?;
    let cut = Cut::new(kv, value_size.max(1), first)?;

    if let Some(owner) = sole_owner(&kv.keys, ranges, first) {
        if let Some(slot) = slices.get_mut(owner) {
            *slot = Some(cut.whole(kv)?);
        }
        return Ok(slices);
    }
    let mut rest = Unsliced { keys: kv.keys.clone(), vals: kv.vals.clone(), lens: kv.lens.clone() };
    let mut position = 0;
    for (range, slot) in ranges.iter().zip(&mut slices) {
        // Stock searches by halves and trusts the order; a walk sees every key that is misplaced.
        let count = iter_keys(&rest.keys).take_while(|key| range.contains(*key)).count();
        if count > 0 {
            *slot = Some(rest.take(count, &cut)?);
            position += count;
        }
    }
    match key_at(&rest.keys, 0) {
        None => Ok(slices),
        Some(key) => Err(misplaced(key, position, ranges)),
    }
}

/// Keys and lens must be whole elements.
fn check_shape(kv: &KvPairs) -> Result<(), KvError> {
    let key = key_at(&kv.keys, 0).unwrap_or(0);
    for (frame, bytes, element) in
        [("keys", kv.keys.len(), KEY_SIZE), ("lens", kv.lens.len(), LEN_SIZE)]
    {
        if !bytes.is_multiple_of(element) {
            return Err(KvError::ShapeMismatch { frame, key, bytes, element });
        }
    }
    Ok(())
}

/// Ranges must start at or below the first key and follow each other (kv_app.h:531).
fn check_ranges(ranges: &[KeyRange], key: Key) -> Result<(), KvError> {
    let Some(first) = ranges.first() else { return Err(KvError::BadRanges { boundary: 0, key }) };
    let mut boundary = first.begin;
    for range in ranges {
        if range.begin != boundary || range.end < range.begin {
            return Err(KvError::BadRanges { boundary, key });
        }
        boundary = range.end;
    }
    Ok(())
}

/// The one range that holds every key, if there is one: MXNet's usual request has a single key.
fn sole_owner(keys: &Bytes, ranges: &[KeyRange], first: Key) -> Option<usize> {
    let owner = ranges.partition_point(|range| range.end <= first);
    let range = ranges.get(owner)?;
    iter_keys(keys).all(|key| range.contains(key)).then_some(owner)
}

/// The error for a key that is not where its owner's keys are.
fn misplaced(key: Key, index: usize, ranges: &[KeyRange]) -> KvError {
    if ranges.iter().any(|range| range.contains(key)) {
        KvError::NotSorted { key, index }
    } else {
        let end = ranges.last().map_or(0, |range| range.end);
        KvError::OutsideEveryRange { key, index, end }
    }
}

/// How many bytes of values belong to some keys.
enum Cut {
    /// Equally many for each key.
    Equal { bytes_per_key: usize },
    /// As lens say, in values of that size.
    Lens { value_size: usize },
}

impl Cut {
    fn new(kv: &KvPairs, value_size: usize, key: Key) -> Result<Self, KvError> {
        let (keys, bytes) = (kv.key_count(), kv.vals.len());
        if !kv.lens.is_empty() {
            let lens = kv.lens.len() / LEN_SIZE;
            return if lens == keys {
                Ok(Self::Lens { value_size })
            } else {
                Err(KvError::LensMismatch { key, keys, lens })
            };
        }
        if !bytes.is_multiple_of(value_size) {
            return Err(KvError::ShapeMismatch { frame: "vals", key, bytes, element: value_size });
        }
        let vals = bytes / value_size;
        if !vals.is_multiple_of(keys) {
            return Err(KvError::Indivisible { key, keys, vals });
        }
        Ok(Self::Equal { bytes_per_key: bytes / keys })
    }

    /// The bytes of values that these keys take from the front of `have` bytes.
    fn bytes(&self, keys: &Bytes, lens: &Bytes, have: usize) -> Result<usize, KvError> {
        let value_size = match self {
            Self::Equal { bytes_per_key } => return Ok(keys.len() / KEY_SIZE * bytes_per_key),
            Self::Lens { value_size } => *value_size,
        };
        let mut needed = 0_usize;
        for (key, len) in iter_keys(keys).zip(iter_lens(lens)) {
            let Ok(count) = usize::try_from(len) else {
                return Err(KvError::NegativeLen { key, len });
            };
            needed = needed.saturating_add(count.saturating_mul(value_size));
            if needed > have {
                return Err(KvError::MissingVals { key, needed, have });
            }
        }
        Ok(needed)
    }

    /// The whole request for one server, without the surplus values.
    fn whole(&self, kv: &KvPairs) -> Result<KvPairs, KvError> {
        let bytes = self.bytes(&kv.keys, &kv.lens, kv.vals.len())?;
        let mut piece = kv.clone();
        piece.vals.truncate(bytes);
        Ok(piece)
    }
}

/// What is not handed out yet.
struct Unsliced {
    keys: Bytes,
    vals: Bytes,
    lens: Bytes,
}

impl Unsliced {
    /// Takes the first `count` keys and what belongs to them; `count` is at most what is there.
    fn take(&mut self, count: usize, cut: &Cut) -> Result<KvPairs, KvError> {
        let keys = take_front(&mut self.keys, count * KEY_SIZE);
        let lens = if self.lens.is_empty() {
            Bytes::new()
        } else {
            take_front(&mut self.lens, count * LEN_SIZE)
        };
        let bytes = cut.bytes(&keys, &lens, self.vals.len())?;
        Ok(KvPairs { keys, vals: take_front(&mut self.vals, bytes), lens })
    }
}

/// Splits the front off, or everything if there is less: never panics.
fn take_front(bytes: &mut Bytes, count: usize) -> Bytes {
    bytes.split_to(count.min(bytes.len()))
}

#[cfg(test)]
#[path = "slicer_tests.rs"]
pub(crate) mod tests;
