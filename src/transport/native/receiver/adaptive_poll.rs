//! Waits without sleeping for the next small message from the peer that sent the last one
//! (`adaptive_poll`). Reads sockets; sends nothing.

#![allow(
    clippy::disallowed_methods,
    reason = "microseconds, compared within a call: no pause is a limit"
)]

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::epoll::EpollTimeout;

use super::{Receiver, WaitResult};
use crate::native::ring::RingReader;
use crate::native::shared::Shared;

/// After so many messages of one connection, it alone is looked at.
const IN_A_ROW: u32 = 8;
/// After so many looks at it alone, all have their turn.
const TURN: u32 = 64;

/// A look that comes so much later than at twice its time had to wait for others that keep the
/// core.
const CORE_TAKEN_AFTER: Duration = Duration::from_micros(20);

/// Whose small message came last.
#[derive(Debug, Default)]
pub(super) struct Partner {
    token: u64,
    /// Nothing else came since.
    is_last: bool,
    /// Its messages without one of another connection between them.
    in_a_row: u32,
    /// Looks at it alone since all had their turn.
    looks: u32,
}

impl Receiver {
    /// Something was read: one small message, or anything else.
    pub(super) const fn note_partner(&mut self, token: u64, is_small: bool) {
        let partner = &mut self.partner;
        partner.is_last = is_small;
        if partner.token != token {
            (partner.token, partner.in_a_row) = (token, 0);
        }
        partner.in_a_row = if is_small { partner.in_a_row.saturating_add(1) } else { 0 };
    }

    /// Waits for a small message for as long as one took lately.
    pub(super) fn stay_awake(&mut self, shared: &Shared) -> io::Result<WaitResult> {
        if !self.partner.is_last || !self.can_stay_awake {
            return Ok(WaitResult::Nothing);
        }
        let mut tried = false;
        let began = Instant::now();
        for (number, look) in self.poll.looks().enumerate() {
            tried = true;
            self.let_others_run(shared);
            if !self.idle_until(began + look, shared) {
                return Ok(WaitResult::Something);
            }
            let seen = self.look(shared)?;
            if seen != WaitResult::Nothing {
                // Others may have run for so long that being woken would have been sooner.
                if began.elapsed() <= 2 * look + CORE_TAKEN_AFTER {
                    self.poll.came(number);
                } else {
                    self.poll.in_vain();
                }
                return Ok(seen);
            }
        }
        if tried {
            self.poll.in_vain();
        }
        Ok(WaitResult::Nothing)
    }

    /// The system likes to put who is woken on the core of who woke him: there the partner runs
    /// now, if he waits for it. Else that is nothing.
    fn let_others_run(&self, shared: &Shared) {
        if self.partner.in_a_row >= IN_A_ROW {
            shared.receive_syscalls.fetch_add(1, Relaxed);
            std::thread::yield_now();
        }
    }

    /// Does nothing until then; false if there is something to do that shows without a look.
    fn idle_until(&self, until: Instant, shared: &Shared) -> bool {
        let rings =
            || self.rings.iter().filter_map(|token| self.connections.get(token)?.pipe.ring());
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            if shared.is_stopping() || rings().any(RingReader::has_bytes) {
                return false;
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// Reads what has come, from the partner alone if it has sent all of late.
    fn look(&mut self, shared: &Shared) -> io::Result<WaitResult> {
        let Partner { token, in_a_row, looks, .. } = self.partner;
        if in_a_row < IN_A_ROW || looks >= TURN {
            self.partner.looks = 0;
            return self.poll(EpollTimeout::ZERO, shared);
        }
        self.partner.looks += 1;
        let came = self.read(token, shared);
        Ok(if came { WaitResult::Something } else { WaitResult::Nothing })
    }

    /// When the sleep begins, if its length is to be known.
    pub(super) fn falls_asleep(&mut self) -> Option<Instant> {
        std::mem::take(&mut self.partner.is_last).then(Instant::now)
    }

    /// A sleep has ended that began then.
    pub(super) fn has_slept(&mut self, began: Option<Instant>) {
        match began {
            Some(began) if self.partner.is_last => self.poll.slept(began.elapsed()),
            _ => self.poll.disturbed(),
        }
    }
}
