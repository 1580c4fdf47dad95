//! Calls that make requests. A request does not end before the call that sends it has returned,
//! however fast its answer is: MXNet's P3 pushes all slices of an array in one loop, and the end of
//! the last slice frees what the loop reads next (p3store_dist.h, `PushDefault`). With stock the
//! way over the network hides that nearly always; through shared memory an answer is often there
//! before the calling thread has the processor again.
//!
//! The end of such a request waits in the queue of its customer, whose thread looks from time to
//! time whether the call has returned. The calling thread wakes nobody: who is woken may run in
//! its place, just before it leaves the call. This file only keeps the account; it runs no end and
//! sends nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::sync::lock;
use pslite_core::kv::Finished;

/// See the module. `D`: what a request leaves for its end.
pub(super) struct Calls<D> {
    /// How many are under way: mostly none, and then nobody locks.
    count: AtomicUsize,
    state: Mutex<CallsState<D>>,
}

struct CallsState<D> {
    /// The requests whose calls are under way.
    open: SmallVec<[i32; 8]>,
    /// Of those, the ones that await nothing else.
    early: BTreeMap<i32, Finished<D>>,
}

/// A call is under way as long as this lives.
pub(super) struct Call<'a, D> {
    calls: &'a Calls<D>,
    timestamp: i32,
}

impl<D> Default for Calls<D> {
    fn default() -> Self {
        let state = CallsState { open: SmallVec::new(), early: BTreeMap::new() };
        Self { count: AtomicUsize::new(0), state: Mutex::new(state) }
    }
}

impl<D> Calls<D> {
    /// The call that sends this request begins.
    pub(super) fn begin(&self, timestamp: i32) -> Call<'_, D> {
        let mut state = lock(&self.state);
        state.open.push(timestamp);
        self.count.store(state.open.len(), Ordering::SeqCst);
        Call { calls: self, timestamp }
    }

    /// Gives the request back, unless its call is under way: then it is kept.
    pub(super) fn keep_early(&self, finished: Finished<D>) -> Option<Finished<D>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Some(finished);
        }
        let mut state = lock(&self.state);
        if !state.open.contains(&finished.ts) {
            return Some(finished);
        }
        state.early.insert(finished.ts, finished);
        None
    }

    /// What was kept of a request, if its call has returned, or `anyway`.
    pub(super) fn take(&self, timestamp: i32, anyway: bool) -> Option<Finished<D>> {
        let mut state = lock(&self.state);
        let over = anyway || !state.open.contains(&timestamp);
        if over { state.early.remove(&timestamp) } else { None }
    }
}

impl<D> Drop for Call<'_, D> {
    fn drop(&mut self) {
        let mut state = lock(&self.calls.state);
        if let Some(at) = state.open.iter().position(|open| *open == self.timestamp) {
            state.open.swap_remove(at);
        }
        self.calls.count.store(state.open.len(), Ordering::SeqCst);
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
        let first = calls.begin(1);
        let second = calls.begin(2);
        assert_eq!(calls.keep_early(finished(3)), Some(finished(3)), "not in its call");
        assert_eq!(calls.keep_early(finished(1)), None);
        assert_eq!(calls.take(1, false), None, "its call is under way");
        drop(second);
        assert_eq!(calls.take(1, false), None);
        drop(first);
        assert_eq!(calls.take(1, false), Some(finished(1)));
        assert_eq!(calls.take(1, true), None, "once");
        let third = calls.begin(1);
        assert_eq!(calls.keep_early(finished(1)), None);
        assert_eq!(calls.take(1, true), Some(finished(1)));
        drop(third);
        assert_eq!(calls.keep_early(finished(1)), Some(finished(1)));
    }
}
