//! Decides which thread receives, and hands that over. Normally one thread does nothing else, and a
//! thread that waits for an answer sleeps until it has come: each answer has to wake one more
//! thread. When a thread waits for one answer right after the other, the receiving thread steps
//! aside, and the waiting thread receives by itself. The thread that receives has the *seat*.
//!
//! A waiter that leaves the seat tells nobody, since it is expected back at once: that saves a
//! system call for each answer. The receiving thread looks every millisecond, and takes the seat
//! again if nobody has come since; at once if it is needed. Knows no message and no connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::lock;
use pslite_observe::awake;

/// So many waits, one soon after the other, make the receiving thread step aside.
const WAITS: u32 = 8;
/// The most that it may take. Each visit that the receiving thread had better not made possible
/// doubles the number: the waiter got nothing for himself, or others slept meanwhile.
const WAITS_MAX: u32 = 4096;
/// A wait comes soon after another one if no more time than that is between them.
const SOON: Duration = Duration::from_micros(500);
/// How often the receiving thread looks whether anybody came to its seat since.
const SEAT_LOOK_EVERY: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReceiverHandoff {
    state: Mutex<HandoffState>,
    /// For the receiving thread when it is aside.
    called: Condvar,
    /// The receiving thread is to step aside: a copy, to be looked at for each message.
    wanted: AtomicBool,
    /// It has: another copy, to be looked at for each request.
    aside: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReceiverHolder {
    /// The thread that does nothing else.
    #[default]
    Receiver,
    /// That thread is aside.
    Nobody,
    Waiter,
}

/// What the receiving thread does when it is aside and has looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterLook {
    Sits,
    /// Looks again after a while.
    Naps,
    /// Until it is called.
    Sleeps,
}

#[derive(Debug)]
struct HandoffState {
    holder: ReceiverHolder,
    /// The receiving thread is to sit down as soon as the seat is free.
    needed: bool,
    /// It sleeps until it is called.
    sleeps: bool,
    /// How often a waiter took the seat; the same when the receiving thread looked last.
    visits: u64,
    seen: u64,
    /// Waits one soon after the other, and how many of them it takes.
    waits: u32,
    enough: u32,
    /// When the last wait ended.
    last: Option<Instant>,
    /// Threads that sleep until the receiving thread has brought what they wait for.
    asleep: u32,
    /// How many waits have begun; and how many had when the receiving thread got its last message.
    begun: u64,
    begun_before: u64,
}

impl Default for HandoffState {
    fn default() -> Self {
        Self {
            holder: ReceiverHolder::Receiver,
            needed: false,
            sleeps: false,
            visits: 0,
            seen: 0,
            waits: 0,
            enough: WAITS,
            last: None,
            asleep: 0,
            begun: 0,
            begun_before: 0,
        }
    }
}

impl HandoffState {
    /// The receiving thread gets up; false if it is to stay. One may sleep who did so before the
    /// last message came: he has got his answer then, most likely, but has not been awake since.
    fn make_way(&mut self) -> bool {
        let answered = self.begun == self.begun_before;
        let goes = self.asleep == 0 || self.asleep == 1 && answered;
        if goes {
            (self.holder, self.needed) = (ReceiverHolder::Nobody, false);
            self.seen = self.visits.wrapping_sub(1);
        }
        goes
    }

    /// The receiving thread is aside and looks.
    fn look(&mut self, stopping: bool) -> AfterLook {
        let came = std::mem::replace(&mut self.seen, self.visits) != self.visits;
        let stays_away = came && !self.needed && !stopping;
        self.sleeps = self.holder == ReceiverHolder::Waiter && !stays_away;
        if self.sleeps {
            AfterLook::Sleeps
        } else if stays_away {
            AfterLook::Naps
        } else {
            self.holder = ReceiverHolder::Receiver;
            AfterLook::Sits
        }
    }

    /// A thread begins to wait; true if it has the seat. `alone`: for the only answer that is under
    /// way.
    fn begin(&mut self, now: Instant, alone: bool) -> bool {
        self.begun = self.begun.wrapping_add(1);
        if self.holder == ReceiverHolder::Nobody && alone && self.asleep == 0 && !self.needed {
            self.holder = ReceiverHolder::Waiter;
            self.visits += 1;
            return true;
        }
        self.asleep += 1;
        self.needed |= self.holder == ReceiverHolder::Nobody;
        let soon = |last| now.saturating_duration_since(last) < SOON;
        let counts = alone && self.asleep == 1 && self.last.is_some_and(soon);
        self.waits = if counts { self.waits + 1 } else { 0 };
        false
    }

    /// The receiving thread has got a message.
    const fn note_message(&mut self) {
        self.begun_before = self.begun;
    }

    /// True if there were enough waits for the receiving thread to step aside.
    const fn is_wanted(&self) -> bool {
        self.waits >= self.enough
    }

    /// The waiter leaves the seat. `got`: something that it waited for. `more`: something else is
    /// there.
    fn leave(&mut self, now: Instant, got: bool, more: bool) {
        self.holder = ReceiverHolder::Nobody;
        self.last = Some(now);
        self.waits = 0;
        let paid = got && self.asleep == 0;
        self.enough = if paid { WAITS } else { (self.enough * 2).min(WAITS_MAX) };
        self.needed |= !paid || more;
    }

    /// Who slept is awake.
    fn wake(&mut self, now: Instant) {
        self.asleep -= 1;
        self.last = Some(now);
    }
}

impl ReceiverHandoff {
    /// Steps aside if that is wanted, until it is needed or `stopping`. For the receiving thread,
    /// when it is about to receive.
    pub(super) fn make_way(&self, stopping: impl Fn() -> bool) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut state = lock(&self.state);
        if !state.make_way() {
            return;
        }
        self.wanted.store(false, Ordering::Relaxed);
        self.aside.store(true, Ordering::Relaxed);
        loop {
            match state.look(stopping()) {
                AfterLook::Sits => {
                    self.aside.store(false, Ordering::Relaxed);
                    return;
                }
                AfterLook::Naps => {
                    let napped = self.called.wait_timeout(state, SEAT_LOOK_EVERY);
                    state = napped.unwrap_or_else(PoisonError::into_inner).0;
                }
                AfterLook::Sleeps => {
                    state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The receiving thread has got a message.
    pub(super) fn note_message(&self) {
        if self.wanted.load(Ordering::Relaxed) {
            lock(&self.state).note_message();
        }
    }

    /// The receiving thread is to look whether it must stop.
    pub(super) fn call(&self) {
        let _state = lock(&self.state);
        self.called.notify_all();
    }

    /// Somebody begins to wait for an answer. `alone`: for the only one that is under way.
    pub(super) fn begin(&self, alone: bool) -> Stay<'_> {
        let mut state = lock(&self.state);
        let sits = state.begin(awake::now(), alone);
        self.wanted.store(state.is_wanted(), Ordering::Relaxed);
        self.call_if_needed(&state);
        Stay { handoff: self, sits, got: false, more: false, until: None }
    }

    /// Answers are under way that nobody waits for, or more than one: the receiving thread is to
    /// sit down.
    pub(super) fn need_receiver(&self) {
        if self.aside.load(Ordering::Relaxed) {
            let mut state = lock(&self.state);
            state.needed = true;
            self.call_if_needed(&state);
        }
    }

    fn call_if_needed(&self, state: &HandoffState) {
        let is_free = state.holder == ReceiverHolder::Nobody;
        if is_free && (state.needed || state.sleeps) {
            self.called.notify_all();
        }
    }
}

/// That a thread waits. Ends when dropped.
#[derive(Debug)]
pub struct Stay<'a> {
    handoff: &'a ReceiverHandoff,
    sits: bool,
    /// What it waits for was received by itself.
    pub got: bool,
    /// There is more to be received.
    pub(super) more: bool,
    /// When the thread has to have something else to do, though nothing came.
    pub until: Option<Instant>,
}

impl Stay<'_> {
    /// True if the thread has the seat and must receive by itself.
    #[must_use]
    pub const fn sits(&self) -> bool {
        self.sits
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let now = awake::now();
        let mut state = lock(&self.handoff.state);
        if self.sits {
            state.leave(now, self.got, self.more);
            self.handoff.call_if_needed(&state);
        } else {
            state.wake(now);
        }
    }
}

#[cfg(test)]
#[path = "receiver_handoff_tests.rs"]
mod tests;
