//! Messages to customers that come before this node knows its job: its own id and, where keys may
//! move, the first policy. Other nodes may know it earlier, and send at once over connections of
//! their own. A customer that handled such a message would take the job for one whose keys stay,
//! and itself for nobody. So these messages wait here, in order.
//!
//! So do those of a process that has taken the place of a dead one, and asks this node before the
//! scheduler's word of that is here: until then its id is that of a lost node, to which nothing can
//! be answered. May touch messages only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sync::lock;
use pslite_core::wire::{Message, NodeId};

/// Messages that wait here at most. One more ends the job: nobody would send it again.
const EARLY_MAX: usize = 65_536;
/// The scheduler's word of a successor comes within that time. Older messages are not the
/// successor's: a process sent them that was taken for dead.
const SUCCESSOR_WITHIN: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages {
    /// The job is known, and nothing waits any more. So most messages take no lock.
    over: AtomicBool,
    waiting: Mutex<Vec<EarlyMessage>>,
    /// Those of lost nodes, with the times at which they came.
    of_lost: Mutex<Vec<(Duration, EarlyMessage)>>,
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

    /// A message of a lost node, which may be of its successor. False: too many wait.
    pub(super) fn keep_of_lost(&self, now: Duration, early: EarlyMessage) -> bool {
        let mut of_lost = lock(&self.of_lost);
        of_lost.retain(|(at, _)| now.saturating_sub(*at) < SUCCESSOR_WITHIN);
        let has_room = of_lost.len() < EARLY_MAX;
        if has_room {
            of_lost.push((now, early));
        }
        has_room
    }

    /// Another process has that id now: what it has sent, in order.
    pub(super) fn take_of(&self, now: Duration, successor: NodeId) -> Vec<EarlyMessage> {
        let is_its = |(_, early): &(Duration, EarlyMessage)| early.message.meta.sender == successor;
        let mut of_lost = lock(&self.of_lost);
        let all = std::mem::take(&mut *of_lost);
        let (its, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_its);
        *of_lost = others;
        drop(of_lost);
        let is_new = |at: Duration| now.saturating_sub(at) < SUCCESSOR_WITHIN;
        its.into_iter().filter(|(at, _)| is_new(*at)).map(|(_, early)| early).collect()
    }

    /// That node is gone, and its id may be another's: what it sent is nothing to anybody.
    pub(super) fn forget(&self, sender: NodeId) {
        lock(&self.waiting).retain(|early| early.message.meta.sender != sender);
        lock(&self.of_lost).retain(|(_, early)| early.message.meta.sender != sender);
    }

    /// The job has failed.
    pub(super) fn clear(&self) {
        lock(&self.waiting).clear();
        lock(&self.of_lost).clear();
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.waiting).len() + lock(&self.of_lost).len()
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
    fn what_a_successor_sends_before_it_is_known_waits_for_that() {
        let early = EarlyMessages::default();
        let second = Duration::from_secs(1);
        let keep = |now: u32, sender, timestamp| {
            let meta = Meta { sender, timestamp, ..Meta::default() };
            let message = Message { meta, ..Message::default() };
            assert!(early.keep_of_lost(second * now, EarlyMessage { message, may_repeat: true }));
        };
        let taken = |now: u32, sender| -> Vec<i32> {
            let taken = early.take_of(second * now, sender).into_iter();
            taken.map(|early| early.message.meta.timestamp).collect()
        };
        // The first one is of a process that was taken for dead.
        for (now, sender, timestamp) in [(1, 11, 9), (7, 11, 0), (8, 13, 5), (8, 11, 1)] {
            keep(now, sender, timestamp);
        }
        assert_eq!(taken(9, 11), [0, 1]);
        assert!(taken(9, 11).is_empty() && early.waiting() == 1);
        assert!(taken(13, 13).is_empty(), "the word is too late");
        keep(20, 11, 3);
        early.forget(11);
        assert_eq!(early.waiting(), 0);
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
