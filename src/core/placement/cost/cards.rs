//! What is known of the cards of nodes, and of the path between two of them.

use crate::wire::NodeId;

/// A worker's card.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// The node.
    pub id: NodeId,
    /// Bytes per second that it can send.
    pub up: f64,
    /// Bytes per second that it can receive.
    pub down: f64,
    /// Nodes of one host share a card (the fastest that any of them names), and what they send each
    /// other takes none of it. None: a host of its own.
    pub host: Option<u32>,
}

/// A server's card, and what else limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The node.
    pub id: NodeId,
    /// Bytes per second that it can send.
    pub up: f64,
    /// Bytes per second that it can receive.
    pub down: f64,
    /// As [`Worker::host`].
    pub host: Option<u32>,
    /// False: it shall hold nothing (it is drained).
    pub usable: bool,
    /// Seconds that it takes for each second that its card explains; 1 if nothing else is known.
    pub slowdown: f64,
    /// Seconds of a round that it takes whatever it holds.
    pub fixed: f64,
}

impl Server {
    /// A server of which only the card is known.
    #[must_use]
    pub const fn new(id: NodeId, up: f64, down: f64) -> Self {
        Self { id, up, down, host: None, usable: true, slowdown: 1.0, fixed: 0.0 }
    }
}

/// The path between two nodes is narrower than their cards.
#[derive(Clone, Debug, PartialEq)]
pub struct PairCap {
    /// The worker.
    pub worker: NodeId,
    /// The server.
    pub server: NodeId,
    /// Bytes per second from the worker to the server.
    pub push: f64,
    /// Bytes per second from the server to the worker.
    pub pull: f64,
}
