//! Why a call of a node failed. Every text names the peer, the setting or the address, and what to
//! do about it where that is known.

use thiserror::Error;

use pslite_transport::fork;

/// The error of every fallible call of this room.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NodeError {
    /// The environment lacks a variable or holds nonsense.
    #[error("{0}")]
    Config(String),
    /// A name does not resolve, a port is busy, there is no interface.
    #[error("{0}")]
    Address(String),
    /// The call needs a started node.
    #[error("{0}")]
    NotStarted(String),
    /// A node that the call depends on is gone.
    #[error("{0}")]
    PeerLost(String),
    /// A limit that the user set has passed.
    #[error("{0}")]
    Timeout(String),
    /// The peer answered that the request failed.
    #[error("{0}")]
    Remote(String),
    /// The node was finalized meanwhile.
    #[error("{0}")]
    Stopped(String),
    /// An answer does not fit the request.
    #[error("{0}")]
    Protocol(String),
    /// The caller's arguments cannot be served.
    #[error("{0}")]
    Invalid(String),
}

/// The result of every fallible call of this room.
pub type Result<T> = std::result::Result<T, NodeError>;

/// Fails in a process that was forked from a node: the node's threads are not here.
///
/// # Errors
/// This is such a process; the text says which node's.
pub fn refuse_forked() -> Result<()> {
    if fork::is_forked() { Err(NodeError::Invalid(fork::text())) } else { Ok(()) }
}
