//! What both sides of a customer have: its name, the application's handler, the queue in front of
//! it, and the node that it is in. Names neither side.

use std::sync::Arc;

use crate::delivery::Delivery;
use crate::error::Result;
use crate::running::{NodeRef, NodeSlot, running};
use crate::work_queue::WorkQueue;
use pslite_core::wire::Message;

/// Gets the messages of a customer, on the customer's thread, one after the other.
pub type Handler = Box<dyn Fn(Message) + Send + Sync>;

/// See the module.
pub(crate) struct Base {
    pub(crate) app_id: i32,
    pub(crate) customer_id: i32,
    pub(crate) handler: Handler,
    pub(crate) queue: Arc<WorkQueue<Delivery>>,
    node: NodeSlot,
}

impl Base {
    pub(crate) fn new(app_id: i32, customer_id: i32, handler: Handler, node: NodeSlot) -> Self {
        Self { app_id, customer_id, handler, queue: Arc::new(WorkQueue::new()), node }
    }

    /// The node, if it runs.
    pub(crate) fn node(&self) -> Result<NodeRef> {
        running(&self.node)
    }
}
