//! The items that a customer handles, and their place in its queue. May name messages; must not
//! name a customer or the van.

use std::sync::Arc;

use crate::error::NodeError;
use pslite_core::wire::elastic::{KeyRoute, Order};
use pslite_core::wire::exchange::word::ExchangeWord;
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{Message, NodeId};

/// What reaches a customer.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are messages")]
pub(crate) enum Delivery {
    Message(Message),
    NodeLost {
        id: NodeId,
        reason: String,
    },
    CustomerLeft {
        id: NodeId,
        customer_id: i32,
    },
    /// A policy: where pieces are.
    Policy(Arc<RoutedPolicy>),
    /// Where pieces are that have moved.
    Routes(Arc<[KeyRoute]>),
    /// These trees are in force.
    Overlay(Arc<Overlay>),
    /// The scheduler asks a server what it holds.
    Collect {
        /// Under which policy it is to be said.
        epoch: u64,
        lost: Arc<[NodeId]>,
    },
    /// The scheduler orders moves.
    Orders(Arc<[Order]>),
    /// The scheduler lets a server go.
    Leave,
    /// All workers are done, and the one that would tell a server to stop is dead.
    Stop,
    /// The turn of a pull whose values came ahead.
    Ahead(i32),
    /// The turn of a request that was over before the call that sends it had returned.
    Early(i32),
    /// The turn of a request that the local model answers.
    Ask(i32),
    /// Somebody waits for what its local model has changed.
    Rest,
    /// The scheduler says something to its local model.
    Word(Box<ExchangeWord>),
    /// Time has passed, and its local model may have something to say.
    Beat,
    /// Parts of requests that wait may go.
    Retry,
    /// A request that was held back.
    Released(Message),
    /// Time has passed, and requests are held back.
    GateTick,
    Failed(NodeError),
}

impl Delivery {
    /// True for an answer to that request.
    pub(crate) const fn answers(&self, timestamp: i32) -> bool {
        match self {
            Self::Message(message) => !message.meta.request && message.meta.timestamp == timestamp,
            _ => false,
        }
    }

    /// Where it goes in the queue.
    pub(crate) const fn priority(&self) -> i32 {
        match self {
            Self::Message(message) | Self::Released(message) => message.meta.priority,
            // After everything that had arrived before: a response that is here counts.
            _ => i32::MIN,
        }
    }
}
