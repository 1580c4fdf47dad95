//! Memory that messages are received into. It is used again once the last reader of a message is
//! done. Fresh memory costs a page fault for every 4 KB, which takes as long as receiving does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// The smallest piece of memory in bytes.
const SMALLEST_BYTES: usize = 256;
/// Unused pieces of one size that are kept.
const PIECES_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    unused: Mutex<Unused>,
    /// Bytes of unused memory that are kept at most.
    kept_max: usize,
}

#[derive(Debug, Default)]
struct Unused {
    by_size: BTreeMap<usize, Vec<Vec<u64>>>,
    bytes: usize,
}

/// Aligned memory of at least the length asked for; goes back to the pool when dropped. Its content
/// is what the last user left there.
#[derive(Debug)]
pub(super) struct Pooled {
    words: Vec<u64>,
    len: usize,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(kept_max: usize) -> Arc<Self> {
        Arc::new(Self { unused: Mutex::default(), kept_max })
    }

    /// Memory of that many bytes.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Pooled {
        let size = size_class(len);
        let unused = {
            let mut unused = lock(&self.unused);
            let words = unused.by_size.get_mut(&size).and_then(Vec::pop);
            if words.is_some() {
                unused.bytes -= size;
            }
            words
        };
        let words = unused.unwrap_or_else(|| vec![0; size / 8]);
        Pooled { words, len, pool: Arc::clone(self) }
    }
}

/// Sizes in steps of a quarter, so that a piece fits many messages and little is wasted.
fn size_class(len: usize) -> usize {
    if len <= SMALLEST_BYTES {
        return SMALLEST_BYTES;
    }
    let step = ((len - 1).ilog2() - 2).min(usize::BITS - 4);
    len.checked_next_multiple_of(1 << step).unwrap_or(len & !7).max(SMALLEST_BYTES)
}

impl Pooled {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        let size = words.len() * 8;
        let mut unused = lock(&self.pool.unused);
        if unused.bytes + size <= self.pool.kept_max {
            let pieces = unused.by_size.entry(size).or_default();
            if pieces.len() < PIECES_MAX {
                pieces.push(words);
                unused.bytes += size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_is_asked_and_waste_little() {
        for len in (0..5000).chain([65_537, 1 << 20, (4 << 20) + 16, (1 << 31) + 1]) {
            let size = size_class(len);
            assert!(size >= len && size.is_multiple_of(8), "{len} {size}");
            assert!(size <= SMALLEST_BYTES || size <= len + len / 4, "{len} {size}");
            assert_eq!(size_class(size), size);
        }
    }

    #[test]
    fn memory_is_used_again_within_the_limit() {
        let pool = Pool::new(3 * SMALLEST_BYTES);
        let mut first = pool.take(10);
        first.bytes_mut()[9] = 7;
        let address = first.as_ref().as_ptr();
        drop(first);
        let again = pool.take(200);
        assert_eq!((again.as_ref().as_ptr(), again.as_ref()[9]), (address, 7));
        assert_eq!(again.as_ref().len(), 200);
        drop((0..5).map(|_| pool.take(1)).collect::<Vec<_>>());
        drop(again);
        drop(pool.take(5000));
        assert_eq!(lock(&pool.unused).bytes, 3 * SMALLEST_BYTES);
    }
}
