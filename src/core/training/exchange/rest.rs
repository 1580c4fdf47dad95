//! An exchange while the program computes nothing: at its end, and where all workers align.
//!
//! **The end.** Who leaves sends what it has not sent of each section, in the turns in which these
//! come, and waits until it is answered. Nobody waits for it after that.
//!
//! **Aligning** ([`super::aligning`] says it to the scheduler). The same, and then:
//!
//! 1. Others may be behind, and their rounds wait for this worker: it sends sections that it has
//!    not changed ([`Rest::Open`]). It says that it is here ([`Resting::is_here`]).
//! 2. When all are, each stops, and says how many rounds it has sent ([`Exchange::counts`]). The
//!    highest of these numbers is that of the last round.
//! 3. Each sends as many ([`Rest::Until`]), and waits for what is in flight. Then it has the values
//!    of the last round of each section, as everybody has at this point.
//! 4. [`Exchange::aligned`]: the next iteration may begin.
//!
//! That the workers which rounds wait for have sent equally often by then follows from their turns:
//! each sends each section in its turn.

use super::machine::{Act, Exchange};
use crate::wire::Key;

/// How far a worker goes that computes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It sends what it has not sent, and no more.
    Own,
    /// It goes on with what it has not changed: others are behind.
    Open,
    /// It sends no more.
    Stopped,
    /// It goes on until it has sent so many rounds.
    Until(u64),
}

/// What to do, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resting {
    /// To be done now, in this order.
    pub acts: Vec<(Key, Act)>,
    /// All that this worker has changed is in rounds that are over.
    pub is_here: bool,
    /// Nothing of it is under way, and there is nothing to do.
    pub is_done: bool,
}

impl Exchange {
    /// The program computes nothing. To be asked again after each answer, until [`Resting`] says
    /// what its caller waits for.
    pub fn rest(&mut self, how: Rest) -> Resting {
        let mut acts = self.close();
        loop {
            self.apply();
            let sends = self.goes_on(how) && self.has_room();
            if sends {
                self.send_section();
            }
            let due = self.close();
            if due.is_empty() && !sends {
                break;
            }
            acts.extend(due);
        }
        let is_here = !self.owes() && self.counts.done >= self.own_until;
        Resting { acts, is_here, is_done: self.flights.is_empty() && !self.goes_on(how) }
    }

    /// The workers are aligned: the next iteration may begin.
    pub const fn aligned(&mut self) {
        self.aligned = self.iteration + 1;
    }

    /// True if one more section is to be sent.
    fn goes_on(&self, how: Rest) -> bool {
        let sends = match how {
            Rest::Own => self.owes(),
            Rest::Open => true,
            Rest::Stopped => false,
            Rest::Until(sent) => self.counts.sent < sent,
        };
        sends && !self.keys.is_empty()
    }

    /// True if something was changed since it was sent: of the section whose turn is next, since
    /// all after it were sent later.
    fn owes(&self) -> bool {
        self.is_changed(self.next())
    }
}
