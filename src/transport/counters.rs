//! What the transports count about each peer, in each direction. Cheap enough to be always on.

use pslite_observe::histogram::HistogramCounts;

/// What was counted about one direction of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// The key of the connection, or the id of the sender; `None` for a sender without one.
    pub peer: Option<i32>,
    /// True for what was sent to it, false for what came from it.
    pub outgoing: bool,
    /// What carries the bytes: `tcp`, `shm`, `zmq`, or `none` if there was no connection yet. The
    /// last one.
    pub carrier: &'static str,
    /// Data messages; over the stock wire, all.
    pub data_messages: u64,
    /// Control messages. A receiver cannot tell: there all are data messages.
    pub control_messages: u64,
    /// Bytes of messages, frames included.
    pub bytes: u64,
    /// Messages whose data was copied within this process.
    pub copies: u64,
    /// Bytes of those.
    pub copied_bytes: u64,
    /// System calls.
    pub syscalls: u64,
    /// How often the connection was made.
    pub connections: u64,
    /// Messages that came again after a broken connection and were dropped.
    pub duplicates: u64,
    /// Probes: sent, or received, to the end.
    pub probes: u64,
    /// Messages that wait to be sent.
    pub waiting: u64,
    /// Messages that are not confirmed yet, those that wait included.
    pub unconfirmed: u64,
    /// The most that waited.
    pub waiting_max: u64,
    /// Time from the call of `send` to the last byte's leaving. Outgoing only.
    pub latency: HistogramCounts,
}
