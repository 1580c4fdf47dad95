//! Pulled values on their way to the caller's memory (`pslite_destination`).

use std::ffi::c_void;

use bytes::Bytes;
use pslite_core::kv::assembly::Assembled;
use pslite_node::landing::LANDS_MIN;
use pslite_node::{CallersMemory, Destination, PullSink};

use crate::types::{CDestination, PlaceFn};

/// A destination that lives until the request is over.
pub(crate) struct CallerDestination(pub(crate) CDestination);

// SAFETY: the header says that the functions are called on the customer's thread; the caller
// keeps `arg` fit for that.
unsafe impl Send for CallerDestination {}

impl PullSink for CallerDestination {
    fn wants_lens(&self) -> bool {
        self.0.place_lens.is_some()
    }

    fn destination(&self) -> Option<Destination> {
        let CDestination { vals, vals_bytes, lens, lens_count, .. } = self.0;
        if vals.is_null() || vals_bytes < LANDS_MIN || vals_bytes > isize::MAX as usize {
            return None;
        }
        // SAFETY: the header's contract: the library may write there until the request has ended,
        // and nobody else does; the node withdraws it before.
        let memory = unsafe { CallersMemory::new(vals.cast(), vals_bytes) };
        let lens = if lens.is_null() || lens_count > vals_bytes {
            Bytes::new()
        } else {
            // SAFETY: the caller gave so many numbers, which stay during the call.
            let lens = unsafe { std::slice::from_raw_parts(lens, lens_count) };
            lens.iter().flat_map(|len| len.to_ne_bytes()).collect()
        };
        Some(Destination { memory, lens })
    }

    fn take(&mut self, assembled: &Assembled) -> Result<usize, String> {
        let CDestination { place_vals, place_lens, arg, vals, vals_bytes, .. } = self.0;
        let announced = (!vals.is_null()).then_some((vals, vals_bytes));
        let (total, parts) = (assembled.total_vals, &assembled.vals);
        let copied = copy(place_vals, arg, total, parts, "values", announced)?;
        if self.wants_lens() {
            copy(place_lens, arg, assembled.total_lens, &assembled.lens, "lens", None)?;
        }
        Ok(copied)
    }
}

/// Puts the parts where the caller wants them, one behind the other; how many bytes were copied. An
/// array that was announced is given, and filled: parts may lie in it already.
fn copy(
    place: PlaceFn,
    arg: *mut c_void,
    total: usize,
    parts: &[Bytes],
    what: &str,
    announced: Option<(*mut c_void, usize)>,
) -> Result<usize, String> {
    let Some(place) = place else { return Ok(0) };
    // SAFETY: the header's contract of pslite_place_fn; called once per destination.
    let target = unsafe { place(arg, total) }.cast::<u8>();
    if target.is_null() && total > 0 {
        return Err(format!(
            "{total} bytes of {what} arrived, which do not fit the caller's array: all workers \
             must make a key, push \
             to it and pull it with arrays of one shape and dtype"
        ));
    }
    if let Some((array, size)) = announced.filter(|_| total > 0) {
        if total > size {
            return Err(format!("{total} bytes of {what} arrived for an array of {size}"));
        }
        if target != array.cast() {
            return Err(format!("the caller gives another array for {what} than it announced"));
        }
    }
    if parts.iter().map(Bytes::len).sum::<usize>() != total {
        return Err(format!("more {what} arrived than announced"));
    }
    let mut at = 0;
    let mut elsewhere = Vec::new();
    for part in parts {
        // What was received there is where it belongs, or was expected to belong elsewhere in the
        // same array.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the address that it is asked with.
    unsafe extern "C" fn given(arg: *mut c_void, _: usize) -> *mut c_void {
        arg
    }

    /// What comes of it if the caller gives `target`, and had announced another array, or the same.
    fn take(target: *mut u8, announced: (*mut u8, usize), came: &[u8]) -> Result<usize, String> {
        let mut destination = CallerDestination(CDestination {
            place_vals: Some(given),
            place_lens: None,
            arg: target.cast(),
            vals: announced.0.cast(),
            vals_bytes: announced.1,
            lens: std::ptr::null(),
            lens_count: 0,
        });
        destination.take(&Assembled {
            vals: vec![Bytes::copy_from_slice(came)],
            total_vals: came.len(),
            ..Assembled::default()
        })
    }

    #[test]
    fn an_array_that_was_announced_is_the_one_that_is_filled() {
        let (mut array, mut other) = ([0_u8; 4], [0_u8; 4]);
        let (target, elsewhere) = (array.as_mut_ptr(), other.as_mut_ptr());
        assert_eq!(take(target, (target, 4), b"abcd"), Ok(4));
        let error = take(target, (target, 3), b"efgh").unwrap_err();
        assert!(error.contains("4 bytes of values arrived for an array of 3"), "{error}");
        let error = take(target, (elsewhere, 4), b"efgh").unwrap_err();
        assert!(error.contains("another array"), "{error}");
        assert_eq!((&array, &other), (b"abcd", &[0; 4]), "nothing is written then");
        assert_eq!(take(target, (target, 4), b"xy"), Ok(2), "the caller took it for an array of 4");
        assert_eq!(&array, b"xycd");
    }
}
