//! Whether this process may start some threads more. Starts them, and ends them again.
//!
//! libzmq ends the process if the system gives it no thread (`thread.cpp`), so it is asked before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::thread::{Builder, sleep};
use std::time::Duration;

use nix::unistd::gettid;

/// How often, and how many times at most, a look at a thread that ended tells whether the system
/// still counts it: a second in all.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: usize = 1000;

/// Returns if so many threads can be there at the same time, beside those that there are. The
/// system counts none of those that were started to find out.
///
/// # Errors
/// The system gave one less; the text says what to do.
pub(crate) fn make_sure_of(count: usize) -> io::Result<()> {
    let Started { tasks, error } = start_and_end(count);
    tasks.iter().for_each(|task| wait_until_gone(task));
    error.map_or(Ok(()), |why| Err(refused(count, &why)))
}

/// What came of an attempt to start some threads at the same time.
struct Started {
    /// The entries in `/proc` of those that were started. They were joined.
    tasks: Vec<PathBuf>,
    /// The first refusal.
    error: Option<io::Error>,
}

fn start_and_end(count: usize) -> Started {
    // While it is held, all of them are there.
    let gate = Arc::new(RwLock::new(()));
    let held = gate.write();
    let start = |_| {
        let gate = Arc::clone(&gate);
        let work = move || {
            drop(gate.read());
            PathBuf::from(format!("/proc/self/task/{}", gettid()))
        };
        Builder::new().name("pslite-room".to_owned()).spawn(work)
    };
    let mut threads = Vec::with_capacity(count);
    let mut error = None;
    for number in 0..count {
        match start(number) {
            Ok(thread) => threads.push(thread),
            Err(why) => error = error.or(Some(why)),
        }
    }
    drop(held);
    // They do nothing that could panic.
    let tasks = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
    Started { tasks, error }
}

/// The system wakes who joins a thread before it takes the thread off what the limits count
/// (`release_task` of Linux). A thread that is started in between may be refused.
fn wait_until_gone(task: &Path) {
    for _ in 0..LOOKS {
        if !task.exists() {
            return;
        }
        sleep(LOOK);
    }
}

fn refused(count: usize, why: &io::Error) -> io::Error {
    io::Error::new(
        why.kind(),
        format!(
            "cannot start {count} threads: {why}; raise the limit on processes (ulimit -u, \
             TasksMax= of systemd, --pids-limit of Docker)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the wait, some of so many were still there.
    #[test]
    fn no_thread_that_was_started_to_find_out_is_there_afterwards() {
        for _ in 0..200 {
            let Started { tasks, error } = start_and_end(2);
            assert!(error.is_none() && tasks.len() == 2, "{error:?}, {tasks:?}");
            tasks.iter().for_each(|task| wait_until_gone(task));
            let there: Vec<_> = tasks.iter().filter(|task| task.exists()).collect();
            assert!(there.is_empty(), "{there:?}");
        }
    }

    #[test]
    fn a_few_threads_are_there_and_go_again() {
        make_sure_of(0).unwrap();
        make_sure_of(4).unwrap();
        let text = refused(2, &io::Error::from_raw_os_error(11)).to_string();
        assert!(text.contains("cannot start 2 threads") && text.contains("ulimit -u"), "{text}");
    }
}
