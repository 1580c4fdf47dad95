//! The process's heap: gives free memory back to the system.

/// Gives free memory of the heap back to the kernel, also where memory in use lies behind it, which
/// the allocator does not do by itself. It takes milliseconds for 100 MB, and who allocates
/// meanwhile may wait so long: for an idle process. Nothing where the C library is not glibc.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` may be called at any time by any thread: it takes the allocator's own
    // locks, and gives back only what nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}
