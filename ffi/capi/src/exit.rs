//! The exit code of a process that finds out too late that it has failed: its program has chosen
//! one already. May register a function for the end of the process, and end it there.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static CODE: AtomicI32 = AtomicI32::new(0);
/// The process that said so. A child of fork inherits the function.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// From now on this process ends with that code.
pub(crate) fn with(code: i32) -> Result<(), ()> {
    CODE.store(code, Ordering::Relaxed);
    let process = std::process::id();
    if PROCESS.swap(process, Ordering::AcqRel) == process {
        return Ok(());
    }
    // SAFETY: `end` is a function of this library, which is never unloaded while Rust's threads or
    // its own handlers may run.
    let registered = unsafe { libc::atexit(end) };
    if registered == 0 { Ok(()) } else { Err(()) }
}

extern "C" fn end() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    // SAFETY: null flushes all streams, as exit() would after this function.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // SAFETY: ends the process; nothing of it runs any more.
    unsafe { libc::_exit(CODE.load(Ordering::Relaxed)) };
}
