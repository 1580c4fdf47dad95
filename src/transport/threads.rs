//! Whether this process may start some threads more. Starts them, and ends them again.
//!
//! libzmq ends the process if the system gives it no thread (`thread.cpp`), so it is asked before.

use std::io;
use std::sync::{Arc, RwLock};
use std::thread::Builder;

/// Returns if so many threads can be there at the same time, beside those that there are.
///
/// # Errors
/// The system gave one less; the text says what to do.
pub(crate) fn make_sure_of(count: usize) -> io::Result<()> {
    // While it is held, all of them are there.
    let gate = Arc::new(RwLock::new(()));
    let held = gate.write();
    let start = |_| {
        let gate = Arc::clone(&gate);
        let work = move || drop(gate.read());
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
    for thread in threads {
        // It does nothing that could panic.
        let _ = thread.join();
    }
    error.map_or(Ok(()), |why| Err(refused(count, &why)))
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

    #[test]
    fn a_few_threads_are_there_and_go_again() {
        make_sure_of(0).unwrap();
        make_sure_of(4).unwrap();
        let text = refused(2, &io::Error::from_raw_os_error(11)).to_string();
        assert!(text.contains("cannot start 2 threads") && text.contains("ulimit -u"), "{text}");
    }
}
