//! The gate between rounds (`kv::gate`), in front of an application's handler. Requests pass the
//! gate before the handler gets them. Values of answers carry a mark; when it is dropped nobody
//! reads those values any more, however they travelled. May touch the node and the customer's
//! queue; the rules are the gate's.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;

use crate::base::Base;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::keys::KeyName;
use pslite_core::kv::gate::{Gate, GatedAnswer, GaveUp, PATIENCE};
use pslite_core::text;
use pslite_core::values::KvPairs;
use pslite_core::wire::{Message, Meta, NodeId};
use pslite_observe::log::{self, Level};
use pslite_transport::native::LEND_MIN;

/// Ticks of the clock between two looks at what is held back: about a second.
const HELD_LOOK_TICKS: u32 = 20;

/// The gate of one customer. Customers that are no servers do not use it.
pub(super) struct Gating {
    gate: Mutex<Gate>,
    /// Something is held back.
    holds: AtomicBool,
    ticks: AtomicU32,
    /// Its queue gets what is released.
    base: Arc<Base>,
    /// This gate, for values on their way.
    me: Weak<Self>,
}

/// Values on their way to a worker; dropped when nobody reads them any more.
struct Unread {
    values: Bytes,
    answer: GatedAnswer,
    gating: Weak<Gating>,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.values
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // On any thread, perhaps one of libzmq's: the application's code runs on the customer's.
        if let Some(gating) = self.gating.upgrade() {
            gating.queue(gating.with(|gate| gate.flushed(self.answer)));
        }
    }
}

impl Gating {
    pub(super) fn new(base: Arc<Base>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            gate: Mutex::default(),
            holds: AtomicBool::new(false),
            ticks: AtomicU32::new(0),
            base,
            me: Weak::clone(me),
        })
    }

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

    /// A request for the handler, if it may have it now; else it is held back.
    pub(super) fn take(&self, node: &NodeRef, request: Message) -> Option<Message> {
        self.with(|gate| gate.take(node.now(), request))
    }

    /// The values of an answer, watched if the gate wants to know when they are out of our memory.
    /// `request`: as the application was given it.
    pub(super) fn watch(&self, node: &Result<NodeRef>, request: &Meta, kv: KvPairs) -> KvPairs {
        let answer = if request.pull { self.with(|gate| gate.answered(request)) } else { None };
        let Some(answer) = answer else { return kv };
        let unread = Unread { values: kv.vals, answer, gating: Weak::clone(&self.me) };
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
    pub(super) fn answered(&self, request: &Meta) {
        self.queue(self.with(|gate| match gate.answered(request) {
            Some(answer) => gate.flushed(answer),
            None => Vec::new(),
        }));
    }

    /// A node is gone.
    pub(super) fn forget(&self, node: NodeId) {
        self.queue(self.with(|gate| gate.forget_node(node)));
    }

    /// A worker's customer sends no more.
    pub(super) fn customer_left(&self, node: NodeId, customer_id: i32) {
        self.queue(self.with(|gate| gate.customer_left(node, customer_id)));
    }

    /// Time has passed: nothing is held back for ever.
    pub(super) fn tick(&self, node: &NodeRef) {
        let (released, gave_up) = self.with(|gate| gate.tick(node.now()));
        gave_up.iter().for_each(|key| say(node, key));
        self.queue(released);
    }

    fn with<T>(&self, step: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gate = lock(&self.gate);
        let result = step(&mut gate);
        self.holds.store(gate.holds(), Ordering::Relaxed);
        result
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
