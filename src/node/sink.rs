//! Tells the transport where an answer's values belong. The transport asks once the head of the
//! answer is there; this finds the customer whose pull it answers and asks it. May name customers
//! as recipients only.

use std::sync::Arc;

use crate::customers::{CustomerKey, Customers};
use crate::landing::VALS;
use pslite_core::wire::{self, NodeId, Payload};
use pslite_transport::native::{Place, Sink};

/// Asks the customers of this process.
pub(super) struct PullLanding {
    pub(super) customers: Arc<Customers>,
    /// Its messages name the customer that they are for.
    pub(super) is_worker: bool,
}

impl Sink for PullLanding {
    fn place(&self, from: Option<NodeId>, meta: &[u8], lengths: &[u64]) -> Option<Place> {
        let (from, len) = (from?, *lengths.get(VALS)?);
        let meta = wire::decode_meta(meta).ok()?;
        let of_server = matches!(meta.payload, Payload::Plain | Payload::Reply(_));
        if !of_server || meta.request || meta.simple_app || !meta.error.is_empty() {
            return None;
        }
        let customer_id = if self.is_worker { meta.customer_id } else { meta.app_id };
        let mailbox = self.customers.get(CustomerKey { app_id: meta.app_id, customer_id })?;
        let memory = mailbox.landings.place(from, &meta, len)?;
        Some(Place { frame: VALS, memory: Box::new(memory) })
    }
}
