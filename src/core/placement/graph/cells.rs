//! Lists that are read and written by a number that is known to be in range: what is not there
//! reads as 0, and is not written. So a mistake gives a wrong number, which the checks of
//! [`Scheme`](super::Scheme) and the tests see, and never a panic.

use std::ops::AddAssign;

/// What is there; else the zero of its type.
pub(super) fn at<T: Copy + Default>(list: &[T], index: usize) -> T {
    list.get(index).copied().unwrap_or_default()
}

/// Puts a value there.
pub(super) fn put<T>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}

/// Adds to what is there.
pub(super) fn add<T: AddAssign>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot += value;
    }
}
