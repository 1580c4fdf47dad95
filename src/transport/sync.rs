//! How the threads of this crate, and of `node`, lock. Names nothing of either.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks; a panic of another holder leaves data that is still sound, because every update of it is
/// a single step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if nobody else holds it now.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
