//! Memory that the caller lends: `pslite_buffer` as [`Bytes`], released exactly once.

use std::ffi::c_void;

use bytes::Bytes;

use crate::types::{CBuffer, CKv};

/// The owner of one lent buffer.
struct Lent {
    data: *const u8,
    size: usize,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    release_arg: *mut c_void,
}

// SAFETY: the header says that the memory is unchanged until release and that release may be
// called from any thread; the caller keeps both.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: `data` points to `size` readable bytes until release (header, conventions); the
        // caller keeps it. Not null: `bytes_of` checks.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for Lent {
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
    let lent = Lent {
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
pub(crate) fn pairs_of(kv: &CKv) -> pslite::kv::KvPairs {
    pslite::kv::KvPairs {
        keys: bytes_of(&kv.keys),
        vals: bytes_of(&kv.vals),
        lens: bytes_of(&kv.lens),
    }
}
