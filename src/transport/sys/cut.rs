//! Ends a connection whose descriptor another library has: libzmq's.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, shutdown};

use super::fork::Marked;

/// Shuts down the connection behind that number, if it leads to somebody of whom `is_peer` is true.
/// False if it does not: the number may be another descriptor's by now.
pub(crate) fn cut(number: RawFd, is_peer: impl Fn(&SockaddrStorage) -> bool) -> bool {
    if number < 0 {
        return false;
    }
    // SAFETY: one that was closed since then is refused by fcntl, which is all that the borrow is
    // used for.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let Ok(copy) = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(0)) else { return false };
    // SAFETY: the kernel just made it for us. From here on it is one connection, whatever becomes
    // of the number.
    let copy = Marked::new(unsafe { OwnedFd::from_raw_fd(copy) });
    let connection = copy.as_fd().as_raw_fd();
    getpeername::<SockaddrStorage>(connection).is_ok_and(|peer| is_peer(&peer))
        && shutdown(connection, Shutdown::Both).is_ok()
}
