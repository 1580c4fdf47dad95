//! Lets the receiving thread run a customer's code itself. If the code takes long, another thread
//! takes over receiving. This decides, once for each run of such code, which of the two threads
//! goes on receiving. Knows nothing of what is received.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::sync::lock;
use pslite_observe::awake;

/// For how long a customer's code may keep the receiving thread from receiving.
const HANDLER_LATE_AFTER: Duration = Duration::from_millis(50);

/// The number of the run of a customer's code on the receiving thread now; 0: none. The thread that
/// sets it back to 0 goes on receiving: the same one when the code is done, or another one before.
#[derive(Default)]
pub(super) struct InlineHandler {
    now: AtomicU64,
    last: AtomicU64,
    receiver: Mutex<Option<ThreadId>>,
}

impl InlineHandler {
    /// From now on the calling thread receives.
    pub(super) fn begin(&self) {
        *lock(&self.receiver) = Some(thread::current().id());
    }

    /// Runs `code`. Returns true if the calling thread is to go on receiving.
    pub(super) fn run(&self, code: impl FnOnce()) -> bool {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.now.store(number, Ordering::Release);
        code();
        self.end(number)
    }

    /// At the end of the node: if the receiving thread runs a customer's code, it will not go on
    /// receiving afterwards. Returns that thread.
    pub(super) fn interrupt(&self) -> Option<ThreadId> {
        let number = self.now.load(Ordering::Acquire);
        (number != 0 && self.end(number)).then(|| *lock(&self.receiver)).flatten()
    }

    /// Takes the right to go on receiving from that run. Returns true if the run still had it.
    pub(super) fn end(&self, number: u64) -> bool {
        self.now.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// What the clock last saw of an [`InlineHandler`].
#[derive(Default)]
pub(super) struct Watch {
    number: u64,
    since: Option<Instant>,
}

impl Watch {
    /// The number of the run that has kept the receiving thread for too long, if there is one. The
    /// caller takes over then.
    pub(super) fn is_late(&mut self, handler: &InlineHandler) -> Option<u64> {
        let number = handler.now.load(Ordering::Acquire);
        let now = awake::now();
        if number == 0 || number != self.number {
            *self = Self { number, since: (number != 0).then_some(now) };
            return None;
        }
        if self.since.is_none_or(|since| now - since < HANDLER_LATE_AFTER) {
            return None;
        }
        *self = Self::default();
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    #[test]
    fn the_thread_goes_on_unless_another_took_its_place() {
        let handler = InlineHandler::default();
        assert!(handler.run(|| {}));
        let number = 2;
        assert!(!handler.run(|| assert!(handler.end(number), "it runs now")));
        assert!(!handler.end(number), "taken once only");
        assert!(handler.run(|| assert!(!handler.end(number), "an earlier one is over")));
    }

    /// However the end of the code and the takeover meet, exactly one thread goes on.
    #[test]
    fn exactly_one_goes_on() {
        for round in 1..=2000 {
            let handler = Arc::new(InlineHandler::default());
            handler.last.store(round - 1, Ordering::Relaxed);
            let meet = Arc::new(Barrier::new(2));
            let other = {
                let (handler, meet) = (Arc::clone(&handler), Arc::clone(&meet));
                thread::spawn(move || {
                    meet.wait();
                    handler.end(round)
                })
            };
            let mine = handler.run(|| {
                meet.wait();
            });
            assert_ne!(mine, other.join().unwrap());
        }
    }

    #[test]
    fn code_is_late_once_after_a_while() {
        let (handler, mut watch) = (InlineHandler::default(), Watch::default());
        assert_eq!(watch.is_late(&handler), None, "none runs");
        assert!(!handler.run(|| {
            assert_eq!(watch.is_late(&handler), None, "seen for the first time");
            thread::sleep(HANDLER_LATE_AFTER);
            assert_eq!(watch.is_late(&handler), Some(1));
            assert_eq!(watch.is_late(&handler), None, "said once");
            assert!(handler.end(1));
        }));
        assert!(handler.run(|| assert_eq!(watch.is_late(&handler), None, "another one")));
    }
}
