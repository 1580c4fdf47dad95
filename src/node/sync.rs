//! The one way in which this crate locks. Names nothing of the crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic of another holder leaves data that is still sound, because every update of it is
/// a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
