//! What is measured of a message that came in. Must not know what is concluded from it.

use std::time::Duration;

use crate::wire::NodeId;

/// A message, or a fragment of one, that came in. Each fragment of a large message should be
/// reported as it comes, not the whole message at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its sender.
    pub peer: NodeId,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that were there at `first`: they took no time on this clock.
    pub head: u64,
    /// When its first byte was read.
    pub first: Duration,
    /// When its last byte was read.
    pub last: Duration,
    /// The sender had more for this node when it sent this. Otherwise the link may have waited for
    /// the application, and nothing is learnt.
    pub backlogged: bool,
}
