//! Wakes a thread of this process, or the other end of a ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::fork::Marked;

/// Wakes the other end: an eventfd.
#[derive(Debug)]
pub(crate) struct Bell(Marked<OwnedFd>);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        use nix::sys::eventfd::{EfdFlags, EventFd};
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self::of(OwnedFd::from(EventFd::from_flags(flags)?)))
    }

    /// One that another process sent. If it is something else, ringing it has no effect.
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self(Marked::new(fd))
    }

    pub(crate) fn ring(&self) {
        // A full counter is as good as one more.
        let _ = nix::unistd::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Forgets that it rang.
    pub(crate) fn silence(&self) {
        let _ = nix::unistd::read(&*self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
