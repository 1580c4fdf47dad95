//! Calls that make requests. A request does not end before the call that sends it has returned,
//! however fast its answer is: MXNet's P3 pushes all slices of an array in one loop, and the end of
//! the last slice frees what the loop reads next (p3store_dist.h, `PushDefault`). With stock the
//! way over the network hides that nearly always; through shared memory an answer is often there
//! before the calling thread has the processor again.
//!
//! The end of such a request waits in the queue of its customer, whose thread looks from time to
//! time whether the call has returned. The calling thread wakes nobody: who is woken may run in
//! its place, just before it leaves the call. In p3 mode that is not enough: the calling thread may
//! lose the processor after the call has returned, and before its loop reads. There the end waits
//! until that thread has moved on ([`Caller`]) or makes its next call. This file only keeps the
//! account; it runs no end and sends nothing.

mod caller;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::unistd::gettid;
use smallvec::SmallVec;

use self::caller::Caller;
use crate::sync::lock;
use pslite_core::kv::Finished;

/// See the module. `D`: what a request leaves for its end.
pub(super) struct Calls<D> {
    /// How many requests have to be looked up: mostly none, and then nobody locks.
    count: AtomicUsize,
    state: Mutex<CallsState<D>>,
    /// Tells whether a thread has moved on.
    has_moved_on: fn(&Caller) -> bool,
}

struct CallsState<D> {
    /// The requests whose calls are under way.
    open: SmallVec<[i32; 8]>,
    /// The last call of each thread that has returned, where that is watched.
    returned: SmallVec<[Returned; 8]>,
    /// The requests of both that await nothing else.
    early: BTreeMap<i32, Finished<D>>,
}

/// A call has returned to its thread.
struct Returned {
    timestamp: i32,
    caller: Caller,
}

/// A call is under way as long as this lives.
pub(super) struct Call<'a, D> {
    calls: &'a Calls<D>,
    timestamp: i32,
    watched: bool,
}

impl<D> Default for Calls<D> {
    fn default() -> Self {
        let state =
            CallsState { open: SmallVec::new(), returned: SmallVec::new(), early: BTreeMap::new() };
        Self {
            count: AtomicUsize::new(0),
            state: Mutex::new(state),
            has_moved_on: Caller::has_moved_on,
        }
    }
}

impl<D> Calls<D> {
    /// The call that sends this request begins. `watched`: the request does not end before the
    /// calling thread has moved on from the return.
    pub(super) fn begin(&self, timestamp: i32, watched: bool) -> Call<'_, D> {
        let mut state = lock(&self.state);
        if watched {
            let thread = gettid();
            state.returned.retain(|returned| !returned.caller.is_thread(thread));
        }
        state.open.push(timestamp);
        self.count.store(state.count(), Ordering::SeqCst);
        Call { calls: self, timestamp, watched }
    }

    /// Gives the request back, unless its caller still needs it: then it is kept.
    pub(super) fn keep_early(&self, finished: Finished<D>) -> Option<Finished<D>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Some(finished);
        }
        let mut state = lock(&self.state);
        if !state.is_needed(finished.ts, self.has_moved_on) {
            self.count.store(state.count(), Ordering::SeqCst);
            return Some(finished);
        }
        state.early.insert(finished.ts, finished);
        None
    }

    /// What was kept of a request, if its caller does not need it any more, or `anyway`.
    pub(super) fn take(&self, timestamp: i32, anyway: bool) -> Option<Finished<D>> {
        let mut state = lock(&self.state);
        let over = anyway || !state.is_needed(timestamp, self.has_moved_on);
        self.count.store(state.count(), Ordering::SeqCst);
        if over { state.early.remove(&timestamp) } else { None }
    }
}

impl<D> CallsState<D> {
    fn count(&self) -> usize {
        self.open.len() + self.returned.len()
    }

    /// True while the request's call is under way, or its thread has not moved on from the return.
    fn is_needed(&mut self, timestamp: i32, has_moved_on: fn(&Caller) -> bool) -> bool {
        if self.open.contains(&timestamp) {
            return true;
        }
        let Some(at) = self.returned.iter().position(|call| call.timestamp == timestamp) else {
            return false;
        };
        let left = has_moved_on(&self.returned[at].caller);
        if left {
            self.returned.swap_remove(at);
        }
        !left
    }
}

impl<D> Drop for Call<'_, D> {
    fn drop(&mut self) {
        let mut state = lock(&self.calls.state);
        if let Some(at) = state.open.iter().position(|open| *open == self.timestamp) {
            state.open.swap_remove(at);
        }
        if self.watched {
            let timestamp = self.timestamp;
            state.returned.push(Returned { timestamp, caller: Caller::now() });
        }
        self.calls.count.store(state.count(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(ts: i32) -> Finished<&'static str> {
        Finished { ts, payload: "end", outcome: Ok(None) }
    }

    #[test]
    fn what_ends_in_its_call_is_kept_until_that_returns() {
        let calls = Calls::default();
        assert_eq!(calls.keep_early(finished(1)), Some(finished(1)), "no call is under way");
        let first = calls.begin(1, false);
        let second = calls.begin(2, false);
        assert_eq!(calls.keep_early(finished(3)), Some(finished(3)), "not in its call");
        assert_eq!(calls.keep_early(finished(1)), None);
        assert_eq!(calls.take(1, false), None, "its call is under way");
        drop(second);
        assert_eq!(calls.take(1, false), None);
        drop(first);
        assert_eq!(calls.take(1, false), Some(finished(1)));
        assert_eq!(calls.take(1, true), None, "once");
        let third = calls.begin(1, false);
        assert_eq!(calls.keep_early(finished(1)), None);
        assert_eq!(calls.take(1, true), Some(finished(1)));
        drop(third);
        assert_eq!(calls.keep_early(finished(1)), Some(finished(1)));
    }

    /// Whether a thread has moved on, is tested beside [`Caller`].
    #[test]
    fn what_is_watched_is_kept_until_its_thread_has_moved_on() {
        let mut calls = Calls { has_moved_on: |_| false, ..Calls::default() };
        drop(calls.begin(1, true));
        assert_eq!(calls.keep_early(finished(1)), None, "its thread has not moved on");
        assert_eq!(calls.take(1, false), None);
        assert_eq!(calls.keep_early(finished(2)), Some(finished(2)), "another's");
        drop(calls.begin(3, true));
        assert_eq!(calls.take(1, false), Some(finished(1)), "its thread has made another call");
        assert_eq!(calls.keep_early(finished(3)), None);
        assert_eq!(calls.take(3, true), Some(finished(3)));
        drop(calls.begin(4, true));
        assert_eq!(calls.keep_early(finished(4)), None);
        calls.has_moved_on = |_| true;
        assert_eq!(calls.take(4, false), Some(finished(4)));
        assert_eq!(calls.count.load(Ordering::SeqCst), 0, "nothing is left to look up");
    }
}
