//! The types of the stock transport's interface: options, messages, what becomes of connections.
//! What it shares with the native plane is in `carrier`.

use bytes::Bytes;
use smallvec::SmallVec;

use super::super::sys::Frame;

/// How the sockets behave.
#[derive(Clone, Debug)]
pub struct ZmqOptions {
    /// Messages that may wait in one connection (ZMQ_SNDHWM).
    pub send_queue: i32,
    /// The same for receiving.
    pub recv_queue: i32,
    /// Messages go in order of priority (the p3 van).
    pub priority_mode: bool,
    /// The largest frame that is accepted, in bytes.
    pub max_frame: usize,
    /// A random number of this process, for the names of its connections.
    pub name_seed: u64,
    /// Which way answers take.
    pub answers: Answers,
}

/// Which way answers to requests for values take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// As all messages: over a connection that the answering node made.
    #[default]
    OwnWay,
    /// BytePS: back over the connection that the request came by (`super::two_way`).
    Back {
        /// This node asks: what comes back over its connections is received.
        asks: bool,
    },
}

/// A message as it came.
#[derive(Debug)]
pub struct ZmqIncoming {
    /// The sender, if its connection is named `ps<id>`.
    pub from: Option<i32>,
    /// Metadata first, then data.
    pub frames: SmallVec<[Bytes; 4]>,
    /// True if it had more frames than a message may have.
    pub oversized: bool,
    pub(super) named: Frame,
}

impl ZmqIncoming {
    /// The network address of the sender, for warnings.
    #[must_use]
    pub fn address(&self) -> String {
        self.named.peer_address().unwrap_or_else(|| "an unknown address".to_owned())
    }
}

/// Likewise, for a connection that may have another key since, or be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedEvent {
    /// The connection, as long as it lives.
    pub number: u64,
    /// It stands.
    pub up: bool,
}

/// What became of messages that waited for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// There was room for some.
    pub sent: bool,
    /// Some wait still.
    pub left: bool,
}
