//! The gate between rounds (`kv::gate`), in front of an application's handler. Requests pass the
//! gate before the handler gets them. Values of answers carry a mark; when it is dropped nobody
//! reads those values any more, however they travelled. May touch the customer; the rules are the
//! gate's.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Weak};

use bytes::Bytes;

use super::ServerCustomer;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::keys::KeyName;
use pslite_core::kv::gate::{Answer, Gate, GaveUp, PATIENCE};
use pslite_core::text;
use pslite_core::values::KvPairs;
use pslite_core::wire::{Message, Meta, NodeId};
use pslite_observe::log::{self, Level};
use pslite_transport::native::LEND_MIN;

/// Ticks of the clock between two looks at what is held back: about a second.
const HELD_LOOK_TICKS: u32 = 20;

/// The gate of one customer. Customers that are no servers do not use it.
#[derive(Default)]
pub(super) struct Gating {
    gate: Mutex<Gate>,
    /// Something is held back.
    holds: AtomicBool,
    ticks: AtomicU32,
}

impl Gating {
    /// The job is over: what was held back goes nowhere.
    pub(super) fn clear(&self) {
        *lock(&self.gate) = Gate::default();
        self.holds.store(false, Ordering::Relaxed);
    }

    /// Called by the clock: true now and then while something is held back.
    pub(super) fn is_due(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
            && self.ticks.fetch_add(1, Ordering::Relaxed) % HELD_LOOK_TICKS == HELD_LOOK_TICKS - 1
    }

    fn with<T>(&self, step: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gate = lock(&self.gate);
        let result = step(&mut gate);
        self.holds.store(gate.holds(), Ordering::Relaxed);
        result
    }
}

/// Values on their way to a worker; dropped when nobody reads them any more.
struct Unread {
    values: Bytes,
    answer: Answer,
    customer: Weak<ServerCustomer>,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.values
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // On any thread, perhaps one of libzmq's: the application's code runs on the customer's.
        if let Some(customer) = self.customer.upgrade() {
            customer.queue(customer.gating.with(|gate| gate.flushed(self.answer)));
        }
    }
}

impl ServerCustomer {
    /// A request is the application's handler's, now or once the round before is over.
    pub(super) fn give(&self, node: &Result<NodeRef>, message: Message) {
        let passed = match node {
            Ok(node) if !message.meta.simple_app && self.holds_pushes(node) => {
                self.gating.with(|gate| gate.take(node.now(), message))
            }
            _ => Some(message),
        };
        if let Some(message) = passed {
            (self.base.handler)(message);
        }
    }

    fn holds_pushes(&self, node: &NodeRef) -> bool {
        let settings = node.settings();
        let stateless = || {
            settings.stateless || self.movable().is_some_and(super::movable::Movable::is_stateless)
        };
        self.store_server.get().is_none() && settings.holds_pushes.unwrap_or_else(stateless)
    }

    /// The values of an answer, watched if the gate wants to know when they are out of our memory.
    /// `request`: as the application was given it.
    pub(super) fn watch_answer(
        &self,
        node: &Result<NodeRef>,
        request: &Meta,
        kv: KvPairs,
    ) -> KvPairs {
        let answer =
            if request.pull { self.gating.with(|gate| gate.answered(request)) } else { None };
        let Some(answer) = answer else { return kv };
        let customer = Weak::clone(&self.me);
        let unread = Unread { values: kv.vals, answer, customer };
        let vals = match node {
            // The application's memory would be read again if the connection broke: they get their
            // own, and it is over with.
            Ok(node) if node.keeps_sent(request.sender) => own_copy(node, &unread.values),
            _ => Bytes::from_owner(unread),
        };
        KvPairs { vals, ..kv }
    }

    /// The application answers this request with a message of its own, whose memory is its own
    /// affair.
    pub(super) fn gate_answered(&self, request: &Meta) {
        self.queue(self.gating.with(|gate| match gate.answered(request) {
            Some(answer) => gate.flushed(answer),
            None => Vec::new(),
        }));
    }

    pub(super) fn gate_forget(&self, node: NodeId) {
        self.queue(self.gating.with(|gate| gate.forget_node(node)));
    }

    pub(super) fn gate_customer_left(&self, node: NodeId, customer_id: i32) {
        self.queue(self.gating.with(|gate| gate.customer_left(node, customer_id)));
    }

    pub(crate) fn gate_tick(&self) {
        let Ok(node) = self.node() else { return };
        let (released, gave_up) = self.gating.with(|gate| gate.tick(node.now()));
        gave_up.iter().for_each(|key| say(&node, key));
        self.queue(released);
    }

    /// Queues released messages in order, however full the queue is: they belong to no connection
    /// that could be held back.
    fn queue(&self, released: Vec<Message>) {
        for message in released {
            let item = Delivery::Released(message);
            self.base.queue.push(item.priority(), item);
        }
    }
}

/// In memory that peers of this host may read, where there is such: then it is the only copy.
fn own_copy(node: &NodeRef, values: &[u8]) -> Bytes {
    let block = node.lent_memory().filter(|_| values.len() >= LEND_MIN);
    match block.and_then(|memory| memory.take(values.len())) {
        Some(mut block) => {
            block.bytes_mut().copy_from_slice(values);
            Bytes::from_owner(block)
        }
        None => Bytes::copy_from_slice(values),
    }
}

fn say(node: &NodeRef, GaveUp { key, awaited }: &GaveUp) {
    let who =
        text::few(awaited.iter().map(|id| node.with_cluster(|cluster, _| cluster.describe(*id))));
    let text = format!(
        "a push of key {} waited {} s for pulls of {}: pushes of it are not held back any more \
         (PSLITE_HOLD_PUSHES)",
        KeyName::of_handler(*key, node.settings().server_groups()),
        PATIENCE.as_secs(),
        who
    );
    log::write(Level::Warning, &text);
}
