//! Requests that the application cuts itself, and messages that it makes itself: what applications
//! of ps-lite do past KVWorker and SimpleApp (a slicer of their own, `Van::Send`,
//! `Customer::Accept`). May touch the customer.

use super::{CustomerHandle, Done, Request, Shared};
use crate::delivery::Delivery;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Slices;
use pslite_core::values::{KEY_SIZE, KvPairs};
use pslite_core::wire::Message;
use pslite_observe::log::{self, Level};

/// Data frames of one message; the wires carry no more.
pub(super) const FRAMES_MAX: usize = 15;

impl CustomerHandle {
    /// Registers a request that brings nothing back, whose messages follow by [`Self::send`] or
    /// [`Self::send_parts`].
    ///
    /// # Errors
    /// The node is not started, or this customer is no KVWorker.
    pub fn expect_push(&self, done: Done) -> Result<i32> {
        self.begin(bytes::Bytes::new(), None, done)
    }

    /// As [`Self::send`], with what each server is to get: its rank, keys and values. Others are
    /// not asked. The pairs of `request` itself are not looked at.
    ///
    /// # Errors
    /// A rank is no server's or comes twice, keys are not whole, a server is lost, the node is not
    /// started; the request has failed then.
    pub fn send_parts(
        &self,
        timestamp: i32,
        request: &Request,
        parts: Vec<(usize, KvPairs)>,
    ) -> Result<()> {
        self.failing(timestamp, self.try_send_parts(timestamp, request, parts))
    }

    fn try_send_parts(
        &self,
        timestamp: i32,
        request: &Request,
        parts: Vec<(usize, KvPairs)>,
    ) -> Result<()> {
        let node = self.shared.node()?;
        let slices = slices_of(node.settings().server_groups(), parts)?;
        self.send_slices(&node, lock(&self.shared.requests), (timestamp, request), slices)
    }

    /// Puts a message into this customer's queue, as if its sender had sent it.
    ///
    /// # Errors
    /// It has more than [`FRAMES_MAX`] frames.
    pub fn accept(&self, message: Message) -> Result<()> {
        check_frames(&message)?;
        self.shared.line.push(message.meta.priority, Delivery::Message(message));
        Ok(())
    }
}

impl Shared {
    /// True if this message of a KVWorker's or KVServer's has neither keys with values nor nothing;
    /// it is told then.
    pub(crate) fn is_odd(&self, message: &Message) -> bool {
        let meta = &message.meta;
        if meta.simple_app || meta.transfer.is_some() || matches!(message.data.len(), 0 | 2 | 3) {
            return false;
        }
        let state = lock(&self.requests);
        let is_kv = state.value_size.is_some() || state.ledger.is_some();
        drop(state);
        if is_kv && let Ok(node) = self.node() {
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

/// The parts by rank.
fn slices_of(servers: usize, parts: Vec<(usize, KvPairs)>) -> Result<Slices> {
    let mut slices = Slices::new();
    slices.resize(servers, None);
    for (rank, kv) in parts {
        let Some(slot) = slices.get_mut(rank) else {
            return Err(NodeError::Invalid(format!("a part for server {rank} of {servers}")));
        };
        if !kv.keys.len().is_multiple_of(KEY_SIZE) {
            let text = format!("{} bytes are not whole keys", kv.keys.len());
            return Err(NodeError::Invalid(text));
        }
        if slot.replace(kv).is_some() {
            return Err(NodeError::Invalid(format!("two parts for server {rank}")));
        }
    }
    Ok(slices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn keys(bytes: usize) -> KvPairs {
        KvPairs { keys: Bytes::from(vec![0; bytes]), ..KvPairs::default() }
    }

    #[test]
    fn parts_are_put_by_rank() {
        let slices = slices_of(3, vec![(2, keys(8)), (0, keys(0))]).unwrap();
        assert_eq!(slices[..], [Some(keys(0)), None, Some(keys(8))]);
    }

    #[test]
    fn parts_that_nobody_can_get_are_refused() {
        for (parts, text) in [
            (vec![(2, keys(8))], "server 2 of 2"),
            (vec![(1, keys(8)), (1, keys(8))], "two parts for server 1"),
            (vec![(0, keys(7))], "7 bytes"),
        ] {
            let error = slices_of(2, parts).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
