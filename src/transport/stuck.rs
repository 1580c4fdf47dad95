//! Whether what a TCP connection sends still gets through. Asks the kernel; touches nothing else.
//!
//! Where a way is cut, the kernel alone sends again for a quarter of an hour before it gives up. A
//! way through tunnels can be replaced by another one, so those look themselves.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys::tcp::tcp_info;

/// How often to look.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks in a row that see nothing confirmed, after which the way is taken for cut.
const LOOKS_MAX: u32 = 4;

/// What the looks at one connection saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    confirmed: u64,
    looks: u32,
}

impl Progress {
    /// One more look, to be taken each [`LOOK_EVERY`]: true if the connection is cut off. (A peer
    /// that does not read confirms all the same that it has no room.)
    pub(crate) fn is_stuck(&mut self, socket: BorrowedFd<'_>) -> bool {
        let Some(info) = tcp_info(socket) else { return false };
        self.look(info.unconfirmed, info.confirmed)
    }

    /// Segments that are under way, and bytes that were confirmed so far.
    const fn look(&mut self, under_way: u32, confirmed: u64) -> bool {
        let moves = under_way == 0 || confirmed != self.confirmed;
        self.confirmed = confirmed;
        self.looks = if moves { 0 } else { self.looks + 1 };
        self.looks >= LOOKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_under_way_and_never_confirmed_is_stuck() {
        let mut progress = Progress::default();
        assert!((0..99).all(|_| !progress.look(0, 7)), "it has nothing to send");
        assert!((8..99).all(|bytes| !progress.look(5, bytes)), "it is slow");
        assert!((1..LOOKS_MAX).all(|_| !progress.look(5, 98)) && progress.look(5, 98));
        assert!(progress.look(5, 98), "it stays so");
        assert!(!progress.look(5, 99), "until something is confirmed");
    }
}
