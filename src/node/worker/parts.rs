//! Requests that the application cuts itself (a slicer of its own). May touch the customer.

use super::asking::is_p3;
use super::{Request, WorkerCustomer};
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Slices;
use pslite_core::values::{KEY_SIZE, KvPairs};

impl WorkerCustomer {
    /// As [`Self::send`], with what each server is to get: its rank, keys and values. Others are
    /// not asked. The pairs of `request` itself are not looked at.
    ///
    /// # Errors
    /// A rank is no server's or comes twice, keys are not whole, a server is lost, the node is not
    /// started; the request has failed then.
    pub(crate) fn send_parts(
        &self,
        timestamp: i32,
        request: &Request,
        parts: Vec<(usize, KvPairs)>,
    ) -> Result<()> {
        let node = self.node();
        let _call = self.calls.begin(timestamp, is_p3(&node));
        let sent = node.and_then(|node| self.try_send_parts(&node, timestamp, request, parts));
        self.failing(timestamp, sent)
    }

    fn try_send_parts(
        &self,
        node: &NodeRef,
        timestamp: i32,
        request: &Request,
        mut parts: Vec<(usize, KvPairs)>,
    ) -> Result<()> {
        for (_, kv) in &mut parts {
            if let Some(keys) = self.placed(&kv.keys)? {
                kv.keys = keys;
            }
        }
        if let Some((_, kv)) = parts.first() {
            self.note_push(node, request, &kv.keys);
        }
        let slices = slices_of(node.settings().server_groups(), parts)?;
        self.send_slices(node, lock(&self.requests), timestamp, request, slices)
    }
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
