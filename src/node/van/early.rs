//! Messages to customers that come before this node knows its job: its own id and, where keys may
//! move, the first policy. Other nodes may know it earlier, and send at once over connections of
//! their own. A customer that handled such a message would take the job for one whose keys stay,
//! and itself for nobody. So these messages wait here, in order. May touch messages only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::lock;
use pslite_core::wire::{Message, NodeId};

/// Messages that wait here at most. One more ends the job: nobody would send it again.
const EARLY_MAX: usize = 65_536;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages {
    /// The job is known, and nothing waits any more. So most messages take no lock.
    over: AtomicBool,
    waiting: Mutex<Vec<EarlyMessage>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct EarlyMessage {
    pub(super) message: Message,
    /// It came on the stock wire, where it may come more than once.
    pub(super) may_repeat: bool,
}

/// What became of a message that came early.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// It waits.
    Waits,
    /// Too many wait.
    NoRoom,
}

impl EarlyMessages {
    /// A message came. It is given back if the job is known: it goes to its customer now.
    ///
    /// # Errors
    /// It came early.
    pub(super) fn take(&self, message: Message, may_repeat: bool) -> Result<Message, Early> {
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
        waiting.push(EarlyMessage { message, may_repeat });
        Err(Early::Waits)
    }

    /// The job is known: gives all that waits to `deliver`, in order, before any later message
    /// passes. `deliver` must not wait.
    pub(super) fn end(&self, deliver: impl FnMut(EarlyMessage)) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        std::mem::take(&mut *waiting).into_iter().for_each(deliver);
        self.over.store(true, Ordering::Release);
    }

    /// That node is gone, and its id may be another's: what it sent is nothing to anybody.
    pub(super) fn forget(&self, sender: NodeId) {
        lock(&self.waiting).retain(|early| early.message.meta.sender != sender);
    }

    /// The job has failed.
    pub(super) fn clear(&self) {
        lock(&self.waiting).clear();
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
        assert_eq!(early.take(message(1), true).unwrap_err(), Early::Waits);
        assert_eq!(early.take(message(2), true).unwrap_err(), Early::Waits);
        let mut given = Vec::new();
        early.end(|early| given.push(early.message.meta.timestamp));
        early.end(|early| given.push(early.message.meta.timestamp));
        assert_eq!((given, early.waiting()), (vec![1, 2], 0));
        assert_eq!(early.take(message(3), true).unwrap().meta.timestamp, 3);
    }

    #[test]
    fn what_the_dead_have_sent_is_forgotten() {
        let early = EarlyMessages::default();
        for sender in [9, 11, 9, 13] {
            let meta = Meta { sender, ..Meta::default() };
            assert!(early.take(Message { meta, ..Message::default() }, true).is_err());
        }
        early.forget(9);
        assert_eq!(early.waiting(), 2);
        early.clear();
        assert_eq!(early.waiting(), 0);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let early = EarlyMessages::default();
        (0..EARLY_MAX)
            .for_each(|_| assert_eq!(early.take(message(0), true).unwrap_err(), Early::Waits));
        assert_eq!(early.take(message(0), true).unwrap_err(), Early::NoRoom);
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
                        if let Ok(message) = early.take(message(number), true) {
                            lock(&given).push(message.meta.timestamp);
                        }
                    }
                })
            };
            early.end(|early| lock(&given).push(early.message.meta.timestamp));
            receives.join().unwrap();
            assert_eq!(*lock(&given), (0..200).collect::<Vec<_>>());
        }
    }
}
