//! What finds no room in its connection, and whose sender must not wait: what goes along trees, and
//! a worker's own requests where it trains on a local model (`van::mode_of` says why). It must not
//! be lost: the round would wait for it. So it waits here, and the clock sends it. A round of each
//! piece is under way at a time, so that is at most two models. May touch the van.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Van;
use crate::sync::lock;
use pslite_core::wire::{Message, NodeId};
use pslite_observe::log::{self, Level};
use pslite_transport::carrier::SendError;
use pslite_transport::zmq::Flushed;

/// Messages that wait here at most. More are refused: what they were for is said to be lost.
const HELD_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldMessages {
    /// By their receivers, in order. Who has an entry gets nothing past it.
    of: Mutex<BTreeMap<NodeId, VecDeque<Message>>>,
    /// Receivers with an entry. So most messages need not look at it.
    receivers: AtomicUsize,
}

impl HeldMessages {
    /// True if others wait for that receiver; then the message waits behind them.
    fn goes_behind(&self, to: NodeId, message: &Message) -> bool {
        if self.receivers.load(Ordering::Acquire) == 0 {
            return false;
        }
        match lock(&self.of).get_mut(&to) {
            Some(held) if held.len() < HELD_MAX => {
                held.push_back(message.clone());
                true
            }
            Some(_) | None => false,
        }
    }

    /// A message found no room. False if too many wait.
    fn hold(&self, to: NodeId, message: Message) -> bool {
        let mut of = lock(&self.of);
        let held = of.entry(to).or_default();
        let has_room = held.len() < HELD_MAX;
        if has_room {
            held.push_back(message);
        }
        self.receivers.store(of.len(), Ordering::Release);
        has_room
    }

    /// What waits for each receiver. Others go behind it still.
    fn take(&self) -> Vec<(NodeId, VecDeque<Message>)> {
        if self.receivers.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut of = lock(&self.of);
        of.iter_mut().map(|(to, held)| (*to, std::mem::take(held))).collect()
    }

    /// What of it found no room again goes before what has come since.
    fn put_back(&self, to: NodeId, mut left: VecDeque<Message>) {
        let mut of = lock(&self.of);
        let held = of.entry(to).or_default();
        left.append(held);
        *held = left;
        if held.is_empty() {
            of.remove(&to);
        }
        self.receivers.store(of.len(), Ordering::Release);
    }
}

impl Van {
    /// Sends a message whose sender does not wait. If it finds no room it is sent later.
    pub(super) fn send_or_hold(&self, to: NodeId, message: Message) -> Result<(), SendError> {
        if self.held.goes_behind(to, &message) {
            return Ok(());
        }
        match self.try_send(to, &message) {
            Err(SendError::QueueFull) if self.held.hold(to, message) => Ok(()),
            sent => sent,
        }
    }

    /// Sends what has room by now. Called by the clock.
    pub(super) fn send_held(&self) -> Flushed {
        let mut flushed = Flushed::default();
        for (to, mut held) in self.held.take() {
            let lost = loop {
                let Some(message) = held.front() else { break None };
                match self.try_send(to, message) {
                    Ok(()) => {
                        held.pop_front();
                        flushed.sent = true;
                    }
                    Err(SendError::QueueFull) => break None,
                    Err(error) => break Some(error),
                }
            };
            if let Some(error) = lost {
                // The scheduler says what follows from that.
                let text = format!("{} messages to node {to} are lost: {error}", held.len());
                log::write(Level::Verbose, &text);
                held.clear();
            }
            flushed.left |= !held.is_empty();
            self.held.put_back(to, held);
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::van::mode_of;
    use pslite_core::wire::elastic::PartAsk;
    use pslite_core::wire::{Meta, Payload};
    use pslite_transport::carrier::SendMode;

    fn message(timestamp: i32) -> Message {
        Message { meta: Meta { timestamp, ..Meta::default() }, ..Message::default() }
    }

    fn numbers(held: &VecDeque<Message>) -> Vec<i32> {
        held.iter().map(|message| message.meta.timestamp).collect()
    }

    #[test]
    fn messages_along_trees_and_requests_of_a_worker_that_trains_here_do_not_wait() {
        let [program, mut along_a_tree, mut own] = [1, 2, 3].map(message);
        along_a_tree.meta.payload = Payload::Up(PartAsk::default(), Box::default());
        own.meta.background = true;
        let modes = [program, along_a_tree, own].map(|message| mode_of(&message));
        assert_eq!(modes, [SendMode::Block, SendMode::Queue, SendMode::Queue]);
    }

    #[test]
    fn what_waits_keeps_its_order_and_nothing_goes_past_it() {
        let held = HeldMessages::default();
        assert!(!held.goes_behind(9, &message(1)), "nothing waits");
        assert!(held.hold(9, message(1)));
        assert!(held.goes_behind(9, &message(2)) && !held.goes_behind(11, &message(3)));
        let mut taken = held.take();
        let (to, mut waiting) = taken.remove(0);
        assert!(taken.is_empty() && held.goes_behind(9, &message(4)), "it is being sent");
        assert_eq!((to, numbers(&waiting)), (9, vec![1, 2]));
        waiting.pop_front();
        held.put_back(9, waiting);
        let (_, waiting) = held.take().remove(0);
        assert_eq!(numbers(&waiting), [2, 4]);
        held.put_back(9, VecDeque::new());
        assert!(!held.goes_behind(9, &message(5)) && held.take().is_empty());
    }
}
