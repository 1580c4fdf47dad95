//! Whether what a TCP connection sends still gets through. Asks the kernel; touches nothing else.
//!
//! Where a way is cut, the kernel alone sends again for a quarter of an hour before it gives up. A
//! way through tunnels can be replaced by another one, so those look themselves.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys::tcp::{TcpInfo, tcp_info};

/// How often to look.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After so long without a confirmation the way is taken for cut, unless it is so long that TCP has
/// not sent three times again by then ([`TcpInfo::three_timeouts`]): what gets lost on a long way
/// is confirmed seconds later.
const CUT_AFTER: Duration = Duration::from_secs(2);

/// What the looks at one connection saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionProgress {
    confirmed: u64,
    looks: u32,
}

impl ConnectionProgress {
    /// One more look, to be taken each [`LOOK_EVERY`]: true if the connection is cut off. (A peer
    /// that does not read confirms all the same that it has no room.)
    pub(crate) fn is_stuck(&mut self, socket: BorrowedFd<'_>) -> bool {
        tcp_info(socket).is_some_and(|info| self.look(&info))
    }

    fn look(&mut self, info: &TcpInfo) -> bool {
        let moves = info.unconfirmed == 0 || info.confirmed != self.confirmed;
        self.confirmed = info.confirmed;
        self.looks = if moves { 0 } else { self.looks.saturating_add(1) };
        LOOK_EVERY.saturating_mul(self.looks) >= CUT_AFTER.max(info.three_timeouts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of a connection over that way.
    fn info(round_trip: Duration, unconfirmed: u32, confirmed: u64) -> TcpInfo {
        TcpInfo {
            confirmed,
            unconfirmed,
            // As a kernel has it where round trips hardly differ.
            timeout: round_trip + Duration::from_millis(200),
            ..TcpInfo::of(round_trip)
        }
    }

    #[test]
    fn only_what_is_under_way_and_never_confirmed_is_stuck() {
        let mut progress = ConnectionProgress::default();
        let mut look = |under_way, confirmed| {
            progress.look(&info(Duration::from_micros(100), under_way, confirmed))
        };
        assert!((0..99).all(|_| !look(0, 7)), "it has nothing to send");
        assert!((8..99).all(|bytes| !look(5, bytes)), "it is slow");
        assert!((1..4).all(|_| !look(5, 98)) && look(5, 98));
        assert!(look(5, 98), "it stays so");
        assert!(!look(5, 99), "until something is confirmed");
    }

    /// A cut of a short way is found after 2 s. What gets lost twice on a way of 300 ms is
    /// confirmed 1.8 s later at best, and its timer may be twice as long: a cut of that is found
    /// after 3.5 s.
    #[test]
    fn a_long_way_has_time_to_send_again() {
        for (round_trip, looks) in [(0, 4), (10, 4), (40, 4), (80, 4), (150, 5), (300, 7)] {
            let mut progress = ConnectionProgress::default();
            let info = info(Duration::from_millis(round_trip), 1, 0);
            let found = (1..99).find(|_| progress.look(&info));
            assert_eq!(found, Some(looks), "{round_trip} ms");
            // A queue on a short way changes nothing.
            let mut queue = ConnectionProgress::default();
            let late = TcpInfo { timeout: 2 * info.timeout, ..info };
            let found = (1..99).find(|_| queue.look(&late));
            assert!(round_trip > 10 || found == Some(looks), "{round_trip} ms: {found:?}");
            let sent_again_twice = info.timeout * (1 + 2) + info.round_trip;
            assert!(LOOK_EVERY * looks > sent_again_twice, "{round_trip} ms");
        }
    }
}
