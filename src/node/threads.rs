//! Reads the kernel's counts for the threads of this process: how long each ran, and how long it
//! waited for a processor. Reads `/proc` and nothing else. There are no counts where the kernel
//! does not keep them.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use pslite_core::placement::links::Ran;

/// Threads that are looked at, at most.
const THREADS_MAX: usize = 1024;

/// All threads, by the kernel's number.
pub(super) fn ran() -> BTreeMap<u32, Ran> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let thread = |task: fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        // Fails for one that has just ended.
        Some((number, parse(&fs::read_to_string(task.path().join("schedstat")).ok()?)?))
    };
    tasks.take(THREADS_MAX).filter_map(thread).collect()
}

/// For how long all threads of this process have run together, those that have ended too.
pub(super) fn process_ran() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Nanoseconds run, nanoseconds waited, and how often it ran
/// (Documentation/scheduler/sched-stats.rst of the kernel).
fn parse(text: &str) -> Option<Ran> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
    let mut next = || fields.next().flatten().map(Duration::from_nanos);
    Some(Ran { ran: next()?, waited: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn reads_what_the_kernel_writes() {
        let ran = Ran { ran: Duration::from_nanos(499_551), waited: Duration::from_nanos(12) };
        assert_eq!(parse("499551 12 3\n"), Some(ran));
        assert_eq!((parse(""), parse("1"), parse("a b c")), (None, None, None));
    }

    #[test]
    fn a_thread_that_works_has_run() {
        let all = || ran().values().map(|thread| thread.ran).sum::<Duration>();
        if ran().is_empty() {
            return; // The kernel does not count it.
        }
        let (before, begin) = (all(), Instant::now());
        let process = process_ran();
        // Each clock is asked for itself: the kernel counts the threads' only at its ticks, so the
        // first may show what the second had counted before the begin.
        let work = Duration::from_millis(20);
        while all() < before + work || process_ran() < process + work {
            assert!(begin.elapsed() < Duration::from_secs(60), "it never ran");
        }
    }
}
