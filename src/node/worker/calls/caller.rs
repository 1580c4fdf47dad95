//! Where a thread is when a call of it returns, and whether it has moved on since. Reads the
//! kernel's counts for one thread, and nothing else.

use std::fs;
use std::time::Duration;

use nix::libc::clockid_t;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};

/// A thread that has run for so long since its call returned has left that call. The way out takes
/// some microseconds, but where the thread loses the processor on it, the kernel counts 20 to 70
/// for it. Mostly it blocks long before.
const LEFT: Duration = Duration::from_micros(500);

/// A thread at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    thread: Pid,
    /// How long it had run.
    ran: Duration,
    /// How often it had blocked.
    blocked: u64,
}

impl Caller {
    /// The calling thread, now.
    pub(super) fn now() -> Self {
        let thread = gettid();
        let usage = getrusage(UsageWho::RUSAGE_THREAD);
        let blocked = usage.map_or(0, |usage| usage.voluntary_context_switches());
        // Last: what it takes to ask is not counted as having moved on.
        let ran = ran(thread).unwrap_or_default();
        Self { thread, ran, blocked: u64::try_from(blocked).unwrap_or_default() }
    }

    /// True if both are moments of one thread.
    pub(super) fn is_thread(&self, thread: Pid) -> bool {
        self.thread == thread
    }

    /// True if the thread has run for a while since that moment, has blocked, or has ended. False
    /// while it waits for a processor, however long that takes.
    pub(super) fn has_moved_on(&self) -> bool {
        let Some(ran) = ran(self.thread) else { return true };
        // A younger thread with the same number has run for less.
        if ran < self.ran || ran - self.ran >= LEFT {
            return true;
        }
        blocked(self.thread).is_none_or(|blocked| blocked != self.blocked)
    }
}

/// For how long a thread of this process has run. None: it has ended.
fn ran(thread: Pid) -> Option<Duration> {
    clock_gettime(clock_of(thread)).ok().map(Duration::from)
}

/// The clock of one thread's run time: the complement of its number above three bits, which say
/// that it is a thread's and counts what the scheduler counts (`CPUCLOCK_PERTHREAD_MASK` and
/// `CPUCLOCK_SCHED` in include/linux/posix-timers.h of the kernel).
const fn clock_of(thread: Pid) -> ClockId {
    let number: clockid_t = !thread.as_raw();
    ClockId::from_raw((number << 3) | 4 | 2)
}

/// How often a thread of this process has blocked. None: it has ended.
fn blocked(thread: Pid) -> Option<u64> {
    let status = status(thread)?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

fn status(thread: Pid) -> Option<String> {
    fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    /// A thread that says where it is, then does `rest`.
    fn caller(rest: impl FnOnce() + Send + 'static) -> (Caller, thread::JoinHandle<()>) {
        let (said, hears): (Sender<Caller>, Receiver<Caller>) = channel();
        let thread = thread::spawn(move || {
            let here = Caller::now();
            said.send(here).unwrap();
            rest();
        });
        (hears.recv().unwrap(), thread)
    }

    /// Looks until it has moved on. A test that fails waits for ever: the runner ends it.
    fn moves_on(caller: &Caller) {
        while !caller.has_moved_on() {
            thread::yield_now();
        }
    }

    #[test]
    fn who_runs_blocks_or_ends_moves_on() {
        let (stop, stops) = channel::<()>();
        let (runs, running) = caller(move || while stops.try_recv().is_err() {});
        moves_on(&runs);
        stop.send(()).unwrap();
        let (stop, stops) = channel::<()>();
        let (waits, waiting) = caller(move || stops.recv().unwrap());
        moves_on(&waits);
        stop.send(()).unwrap();
        let (ends, ended) = caller(|| ());
        for thread in [running, waiting, ended] {
            thread.join().unwrap();
        }
        moves_on(&ends);
        assert!(Caller { ran: Duration::from_secs(3600), ..Caller::now() }.has_moved_on());
    }

    /// From inside and from outside.
    #[test]
    fn both_counts_of_blocking_are_one() {
        let (here, outside) = (Caller::now(), blocked(gettid()).unwrap());
        thread::sleep(Duration::from_millis(1));
        let (after, outside_after) = (Caller::now(), blocked(gettid()).unwrap());
        assert!(after.blocked > here.blocked && outside_after > here.blocked);
        assert!(outside >= here.blocked && after.blocked >= outside);
    }

    #[test]
    fn who_only_waits_for_a_processor_does_not() {
        let (stop, stops) = channel::<()>();
        let (waits, waiting) = caller(move || stops.recv().unwrap());
        while !status(waits.thread).unwrap().contains("\nState:\tS") {
            thread::yield_now();
        }
        // It has blocked for good, so nothing of it moves, as of one that waits for a processor.
        let (ran, blocked) = (ran(waits.thread).unwrap(), blocked(waits.thread).unwrap());
        let here = Caller { ran, blocked, ..waits };
        for _ in 0..100 {
            assert!(!here.has_moved_on(), "it does nothing");
        }
        stop.send(()).unwrap();
        waiting.join().unwrap();
    }
}
