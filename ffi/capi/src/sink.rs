//! Pulled values on their way to the caller's memory (`pslite_destination`).

use std::ffi::c_void;

use bytes::Bytes;
use pslite::kv::assembly::Assembled;
use pslite::node::PullSink;

use crate::types::{CDestination, PlaceFn};

/// A destination that lives until the request is over.
pub(crate) struct Destination(pub(crate) CDestination);

// SAFETY: the header says that the functions are called on the customer's thread; the caller
// keeps `arg` fit for that.
unsafe impl Send for Destination {}

impl PullSink for Destination {
    fn wants_lens(&self) -> bool {
        self.0.place_lens.is_some()
    }

    fn take(&mut self, assembled: &Assembled) -> Result<(), String> {
        copy(self.0.place_vals, self.0.arg, assembled.total_vals, &assembled.vals, "values")?;
        if self.wants_lens() {
            copy(self.0.place_lens, self.0.arg, assembled.total_lens, &assembled.lens, "lens")?;
        }
        Ok(())
    }
}

fn copy(place: PlaceFn, arg: *mut c_void, total: usize, parts: &[Bytes], what: &str) -> Result<(), String> {
    let Some(place) = place else { return Ok(()) };
    // SAFETY: the header's contract of pslite_place_fn; called once per destination.
    let target = unsafe { place(arg, total) }.cast::<u8>();
    if target.is_null() && total > 0 {
        return Err(format!("{total} bytes of {what} arrived, which do not fit the caller's array"));
    }
    let mut at = 0;
    for part in parts {
        if part.len() > total - at {
            return Err(format!("more {what} arrived than announced"));
        }
        // SAFETY: the caller gave `total` writable bytes at `target`, `at + part.len() <= total`
        // was checked, and the parts are memory of ours that cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target.add(at), part.len()) };
        at += part.len();
    }
    Ok(())
}
