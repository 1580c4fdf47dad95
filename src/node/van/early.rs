//! Messages to customers that come before this node knows its job: its own id and, where keys may
//! move, the first policy. Other nodes may know it earlier, and send at once over connections of
//! their own. A customer that handled such a message would take the job for one whose keys stay,
//! and itself for nobody. So these messages wait here, in order. May touch messages only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::lock;
use pslite_core::wire::Message;

/// Messages that wait here at most: more than all nodes of a job send before they get answers.
const EARLY_MAX: usize = 65_536;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages {
    /// The job is known, and nothing waits any more. So most messages take no lock.
    over: AtomicBool,
    waiting: Mutex<Vec<Message>>,
}

/// What became of a message that came early.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// It waits.
    Waits,
    /// Too many wait: it is dropped.
    NoRoom,
}

impl EarlyMessages {
    /// A message came. It is given back if the job is known: it goes to its customer now.
    ///
    /// # Errors
    /// It came early.
    pub(super) fn take(&self, message: Message) -> Result<Message, Early> {
        if self.over.load(Ordering::Acquire) {
            return Ok(message);
        }
        let mut waiting = lock(&self.waiting);
        // It may have ended between the two looks.
        if self.over.load(Ordering::Relaxed) {
            return Ok(message);
        }
        if waiting.len() >= EARLY_MAX {
            return Err(Early::NoRoom);
        }
        waiting.push(message);
        Err(Early::Waits)
    }

    /// The job is known: gives all that waits to `deliver`, in order, before any later message
    /// passes. `deliver` must not send.
    pub(super) fn end(&self, deliver: impl FnMut(Message)) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        std::mem::take(&mut *waiting).into_iter().for_each(deliver);
        self.over.store(true, Ordering::Release);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::Meta;
    use std::sync::Arc;
    use std::thread;

    fn message(timestamp: i32) -> Message {
        Message { meta: Meta { timestamp, ..Meta::default() }, ..Message::default() }
    }

    #[test]
    fn what_came_early_goes_first_and_once() {
        let early = EarlyMessages::default();
        assert_eq!(early.take(message(1)).unwrap_err(), Early::Waits);
        assert_eq!(early.take(message(2)).unwrap_err(), Early::Waits);
        let mut given = Vec::new();
        early.end(|message| given.push(message.meta.timestamp));
        early.end(|message| given.push(message.meta.timestamp));
        assert_eq!((given, early.waiting()), (vec![1, 2], 0));
        assert_eq!(early.take(message(3)).unwrap().meta.timestamp, 3);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let early = EarlyMessages::default();
        (0..EARLY_MAX).for_each(|_| assert_eq!(early.take(message(0)).unwrap_err(), Early::Waits));
        assert_eq!(early.take(message(0)).unwrap_err(), Early::NoRoom);
    }

    /// While one thread ends it, messages of another keep their order.
    #[test]
    fn nothing_overtakes_what_waits() {
        for _ in 0..50 {
            let early = Arc::new(EarlyMessages::default());
            let given = Arc::new(Mutex::new(Vec::new()));
            let receives = {
                let (early, given) = (Arc::clone(&early), Arc::clone(&given));
                thread::spawn(move || {
                    for number in 0..200 {
                        if let Ok(message) = early.take(message(number)) {
                            lock(&given).push(message.meta.timestamp);
                        }
                    }
                })
            };
            early.end(|message| lock(&given).push(message.meta.timestamp));
            receives.join().unwrap();
            assert_eq!(*lock(&given), (0..200).collect::<Vec<_>>());
        }
    }
}
