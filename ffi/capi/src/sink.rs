//! Pulled values on their way to the caller's memory (`pslite_destination`).

use std::ffi::c_void;

use bytes::Bytes;
use pslite::kv::assembly::Assembled;
use pslite::node::landing::LANDS_MIN;
use pslite::node::{CallersMemory, Destination as Wanted, PullSink};

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

    fn destination(&self) -> Option<Wanted> {
        let CDestination { vals, vals_bytes, lens, lens_count, .. } = self.0;
        if vals.is_null() || vals_bytes < LANDS_MIN || vals_bytes > isize::MAX as usize {
            return None;
        }
        // SAFETY: the header's contract: the library may write there until the request has ended, and nobody else does;
        // the node withdraws it before.
        let memory = unsafe { CallersMemory::new(vals.cast(), vals_bytes) };
        let lens = if lens.is_null() || lens_count > vals_bytes {
            Bytes::new()
        } else {
            // SAFETY: the caller gave so many numbers, which stay during the call.
            let lens = unsafe { std::slice::from_raw_parts(lens, lens_count) };
            lens.iter().flat_map(|len| len.to_ne_bytes()).collect()
        };
        Some(Wanted { memory, lens })
    }

    fn take(&mut self, assembled: &Assembled) -> Result<usize, String> {
        let CDestination { place_vals, place_lens, arg, .. } = self.0;
        let copied = copy(place_vals, arg, assembled.total_vals, &assembled.vals, "values")?;
        if self.wants_lens() {
            copy(place_lens, arg, assembled.total_lens, &assembled.lens, "lens")?;
        }
        Ok(copied)
    }
}

/// Puts the parts where the caller wants them, one behind the other; how many bytes were copied.
fn copy(
    place: PlaceFn,
    arg: *mut c_void,
    total: usize,
    parts: &[Bytes],
    what: &str,
) -> Result<usize, String> {
    let Some(place) = place else { return Ok(0) };
    // SAFETY: the header's contract of pslite_place_fn; called once per destination.
    let target = unsafe { place(arg, total) }.cast::<u8>();
    if target.is_null() && total > 0 {
        return Err(format!(
            "{total} bytes of {what} arrived, which do not fit the caller's array"
        ));
    }
    if parts.iter().map(Bytes::len).sum::<usize>() != total {
        return Err(format!("more {what} arrived than announced"));
    }
    let mut at = 0;
    let mut elsewhere = Vec::new();
    for part in parts {
        // What was received there is where it belongs, or was expected to belong elsewhere in the same array.
        let is_inside =
            (target as usize..target as usize + total).contains(&(part.as_ptr() as usize));
        if part.as_ptr() as usize != target as usize + at {
            let part = if is_inside { Bytes::copy_from_slice(part) } else { part.clone() };
            elsewhere.push((at, part));
        }
        at += part.len();
    }
    let mut copied = 0;
    for (at, part) in elsewhere {
        // SAFETY: the caller gave `total` writable bytes at `target`, `at + part.len() <= total`
        // was checked, and the part is memory of ours that cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target.add(at), part.len()) };
        copied += part.len();
    }
    Ok(copied)
}
