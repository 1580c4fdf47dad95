//! Memory that the caller lends: `pslite_buffer` as [`Bytes`], released exactly once.

use std::ffi::c_void;

use bytes::Bytes;
use pslite_core::wire::Frames;
use smallvec::SmallVec;

use crate::types::{CBuffer, CFrame, CKv, CPart};

/// The owner of one lent buffer.
struct LentOwner {
    data: *const u8,
    size: usize,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    release_arg: *mut c_void,
}

// SAFETY: the header says that the memory is unchanged until release and that release may be
// called from any thread; the caller keeps both.
unsafe impl Send for LentOwner {}

impl AsRef<[u8]> for LentOwner {
    fn as_ref(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: `data` points to `size` readable bytes until release (header, conventions); the
        // caller keeps it. Not null: `bytes_of` checks.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for LentOwner {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: called once, here, with the argument that came with it.
            unsafe { release(self.release_arg) };
        }
    }
}

/// Takes over the lent memory; a null address counts as empty.
pub(crate) fn bytes_of(buffer: &CBuffer) -> Bytes {
    let size = if buffer.data.is_null() { 0 } else { buffer.size };
    let lent = LentOwner {
        data: buffer.data.cast(),
        size,
        release: buffer.release,
        release_arg: buffer.release_arg,
    };
    if size == 0 {
        // Dropped here: released.
        return Bytes::new();
    }
    // Keys and lens of a few entries: a copy is cheaper than an owner that must be counted.
    if size <= COPY_MAX {
        return Bytes::copy_from_slice(lent.as_ref());
    }
    Bytes::from_owner(lent)
}

/// Up to here a copy costs less than keeping track.
const COPY_MAX: usize = 256;

/// The three buffers of a message.
pub(crate) fn pairs_of(kv: &CKv) -> pslite_core::values::KvPairs {
    pslite_core::values::KvPairs {
        keys: bytes_of(&kv.keys),
        vals: bytes_of(&kv.vals),
        lens: bytes_of(&kv.lens),
    }
}

/// What the caller gives as an array of `count` items.
fn items<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if items.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the header says that there are `count` items, and that they stay during the call.
    unsafe { std::slice::from_raw_parts(items, count) }
}

/// The frames of a message and their types.
pub(crate) fn frames_of(frames: *const CFrame, count: usize) -> (Frames, SmallVec<[i32; 4]>) {
    let frames = items(frames, count);
    let types = frames.iter().map(|frame| frame.data_type).collect();
    (frames.iter().map(|frame| bytes_of(&frame.buffer)).collect(), types)
}

/// What each server gets. A rank that is none is past every server's.
pub(crate) fn parts_of(
    parts: *const CPart,
    count: usize,
) -> Vec<(usize, pslite_core::values::KvPairs)> {
    let rank = |part: &CPart| usize::try_from(part.rank).unwrap_or(usize::MAX);
    items(parts, count).iter().map(|part| (rank(part), pairs_of(&part.kv))).collect()
}
