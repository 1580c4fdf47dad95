//! Messages that the application makes itself: what applications of ps-lite do past KVWorker,
//! KVServer and SimpleApp (`Van::Send`, `Customer::Accept`). May touch the customer.

use super::{CustomerHandle, CustomerShared};
use crate::delivery::Delivery;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use pslite_core::wire::{Message, Payload};
use pslite_observe::log::{self, Level};

/// Data frames of one message; the wires carry no more.
pub(super) const FRAMES_MAX: usize = 15;

impl CustomerHandle {
    /// Puts a message into this customer's queue, as if its sender had sent it.
    ///
    /// # Errors
    /// It has more than [`FRAMES_MAX`] frames.
    pub fn accept(&self, message: Message) -> Result<()> {
        check_frames(&message)?;
        self.shared().base.queue.push(message.meta.priority, Delivery::Message(message));
        Ok(())
    }
}

impl CustomerShared {
    /// True if this message of a KVWorker's or KVServer's has neither keys with values nor nothing;
    /// it is told then.
    pub(crate) fn is_odd(&self, message: &Message) -> bool {
        let meta = &message.meta;
        let is_transfer = matches!(meta.payload, Payload::Transfer(_));
        if meta.simple_app || is_transfer || matches!(message.data.len(), 0 | 2 | 3) {
            return false;
        }
        let is_kv = self.worker.is_attached() || self.server.is_attached();
        if is_kv && let Ok(node) = self.base.node() {
            note_odd(&node, message);
        }
        is_kv
    }
}

fn note_odd(node: &NodeRef, message: &Message) {
    if let Some(total) = node.state().garbage.hit() {
        let text = format!(
            "dropped a message from node {}: keys and values have 2 or 3 frames, and it has \
             {} ({total} so far)",
            message.meta.sender,
            message.data.len()
        );
        log::write(Level::Warning, &text);
    }
}

/// # Errors
/// There are more frames than the wires carry.
pub(crate) fn check_frames(message: &Message) -> Result<()> {
    let frames = message.data.len();
    if frames > FRAMES_MAX {
        let text = format!("a message has at most {FRAMES_MAX} arrays, not {frames}");
        return Err(NodeError::Invalid(text));
    }
    Ok(())
}
