//! What servers and workers tell the scheduler of what they have counted, if it shows that
//! ([`Topic::Counters`](super::topic::Topic)): totals over all peers. With one number for each peer
//! 1,000 workers and 100 servers would be two million.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The totals of one node, from its start. Where something is not known it is 0.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeTotals {
    /// Messages sent, whatever carried them.
    #[prost(uint64, tag = "1")]
    pub messages_sent: u64,
    /// Messages received.
    #[prost(uint64, tag = "2")]
    pub messages_received: u64,
    /// Bytes of those that were sent: metadata and data.
    #[prost(uint64, tag = "3")]
    pub bytes_sent: u64,
    /// Bytes of those that were received.
    #[prost(uint64, tag = "4")]
    pub bytes_received: u64,
    /// Requests of this node that were answered.
    #[prost(uint64, tag = "5")]
    pub requests: u64,
    /// Microseconds from these requests to their answers.
    #[prost(uint64, tag = "6")]
    pub request_micros: u64,
    /// Requests that this node's store has dealt with.
    #[prost(uint64, tag = "7")]
    pub stored: u64,
    /// Microseconds that it worked for them.
    #[prost(uint64, tag = "8")]
    pub store_micros: u64,
    /// Messages that were dropped because they made no sense.
    #[prost(uint64, tag = "9")]
    pub dropped: u64,
    /// Messages that came twice after a connection broke.
    #[prost(uint64, tag = "10")]
    pub duplicates: u64,
    /// How often connections were made.
    #[prost(uint64, tag = "11")]
    pub connections: u64,
    /// Messages that have arrived and wait for the code of the process.
    #[prost(uint64, tag = "12")]
    pub queued: u64,
    /// Messages that wait to be sent.
    #[prost(uint64, tag = "13")]
    pub waiting: u64,
    /// Microseconds of processor time of its process.
    #[prost(uint64, tag = "14")]
    pub cpu_micros: u64,
    /// Bytes of memory that its process has.
    #[prost(uint64, tag = "15")]
    pub resident_bytes: u64,
    /// Descriptors that its process has open.
    #[prost(uint64, tag = "16")]
    pub open_fds: u64,
}

impl NodeTotals {
    /// Reads them; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        prost::Message::decode(bytes).ok()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        prost::Message::encode_to_vec(self).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_back_and_are_short() {
        let totals = NodeTotals {
            messages_sent: 1_000_000,
            messages_received: 1_000_000,
            bytes_sent: 1 << 40,
            bytes_received: 1 << 40,
            requests: 1_000_000,
            request_micros: 1 << 36,
            stored: 1_000_000,
            store_micros: 1 << 36,
            dropped: 3,
            duplicates: 4,
            connections: 110,
            queued: 12,
            waiting: 13,
            cpu_micros: 1 << 36,
            resident_bytes: 1 << 34,
            open_fds: 300,
        };
        let bytes = totals.bytes();
        assert_eq!(NodeTotals::read(&bytes), Some(totals));
        // A thousand nodes that tell it every 5 s are 16 KB/s.
        assert!(bytes.len() <= 80, "{}", bytes.len());
        assert_eq!(NodeTotals::read(b""), Some(NodeTotals::default()));
        assert_eq!(NodeTotals::read(b"\x08"), None);
    }
}
