//! What both sides of a customer have: its name, the application's handler, the queue in front of
//! it, and the node that it is in. Names neither side.

use std::sync::Arc;

use crate::delivery::Delivery;
use crate::error::Result;
use crate::running::{NodeRef, NodeSlot, running};
use crate::work_queue::WorkQueue;
use pslite_core::values::KvPairs;
use pslite_core::wire::{DataType, Frames, Message, Meta};

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
    pub(crate) fn new((app_id, customer_id): (i32, i32), handler: Handler, node: NodeSlot) -> Self {
        Self { app_id, customer_id, handler, queue: Arc::new(WorkQueue::new()), node }
    }

    /// The node, if it runs.
    pub(crate) fn node(&self) -> Result<NodeRef> {
        running(&self.node)
    }
}

/// Adds the frames: with keys there is always a frame of values, if only an empty one
/// (kv_app.h:604).
pub(crate) fn with_data(mut meta: Meta, kv: KvPairs) -> Message {
    let mut data = Frames::new();
    if !kv.keys.is_empty() {
        let lens = (!kv.lens.is_empty()).then_some(kv.lens);
        meta.data_type.push(DataType::UInt64 as i32);
        meta.data_type.push(meta.value_type);
        data.push(kv.keys);
        data.push(kv.vals);
        if let Some(lens) = lens {
            meta.data_type.push(DataType::Int32 as i32);
            data.push(lens);
        }
    }
    Message { meta, data }
}

/// The other way round: keys, values and lengths, or nothing.
pub(crate) fn pairs_of(data: Frames) -> KvPairs {
    let mut frames = data.into_iter();
    match (frames.next(), frames.next(), frames.next()) {
        (Some(keys), Some(vals), lens) => KvPairs { keys, vals, lens: lens.unwrap_or_default() },
        _ => KvPairs::default(),
    }
}
