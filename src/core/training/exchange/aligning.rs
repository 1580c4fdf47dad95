//! One worker that aligns with the others: what it says to the scheduler, and how it rests
//! ([`super::rest`]) until all are equal. [`super::coordinator`] is the other end.
//!
//! Each word is about a *meeting*, which the scheduler numbers. The worker says in which one it was
//! last, and how many rounds each has sent at its end. So a scheduler that has forgotten all, or a
//! worker that has not heard a word, can go on.

use super::rest::{Rest, Resting};
use crate::wire::exchange::word::{ExchangeReport, ExchangeWord, Stage};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligning {
    stage: Stage,
    /// It is at an alignment, and goes on with what it owes. It is [`Stage::Here`] when it owes
    /// nothing.
    wants: bool,
    /// The last meeting that it heard of.
    meeting: u64,
    /// How many rounds each has sent at its end, once that is known.
    until: u64,
}

impl Default for Aligning {
    fn default() -> Self {
        Self { stage: Stage::Trains, wants: false, meeting: 0, until: 0 }
    }
}

impl Aligning {
    /// The program has come to where all align. Nothing changes if it is there.
    pub const fn begin(&mut self) {
        self.wants = true;
    }

    /// How the worker rests now; `None`: it trains.
    #[must_use]
    pub const fn rest(&self) -> Option<Rest> {
        if !self.wants {
            return None;
        }
        Some(match self.stage {
            Stage::Trains | Stage::Here => Rest::Open,
            Stage::Stopped | Stage::Left => Rest::Stopped,
            Stage::Goes => Rest::Until(self.until),
        })
    }

    /// The worker has rested so. True if it is aligned: the program may go on.
    pub const fn rested(&mut self, resting: &Resting) -> bool {
        match self.stage {
            Stage::Trains if resting.is_here => self.stage = Stage::Here,
            Stage::Goes if resting.is_done => {
                self.stage = Stage::Trains;
                self.wants = false;
                return true;
            }
            _ => {}
        }
        false
    }

    /// The worker pushes no more.
    pub const fn leave(&mut self) {
        self.stage = Stage::Left;
        self.wants = false;
    }

    /// The scheduler says something.
    pub const fn told(&mut self, word: &ExchangeWord) {
        match self.stage {
            Stage::Here if word.meeting > self.meeting && !word.goes => {
                self.stage = Stage::Stopped;
                self.meeting = word.meeting;
            }
            Stage::Stopped if word.meeting == self.meeting && word.goes => {
                self.stage = Stage::Goes;
                self.until = word.until;
            }
            _ => {}
        }
    }

    /// Where the worker is.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Adds what the scheduler has to know.
    #[must_use]
    pub fn report(&self, report: ExchangeReport) -> ExchangeReport {
        let Self { stage, meeting, until, .. } = *self;
        ExchangeReport { stage: stage as i32, meeting, until, ..report }
    }
}
