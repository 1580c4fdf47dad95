//! What a worker and the scheduler say to each other while deltas travel: the topic
//! [`Exchange`](crate::wire::topic::Topic::Exchange). `training/exchange` and `docs/nbsync.md`
//! say what it means.
//!
//! A message may be lost with its connection, and it may come twice. So each says all that its
//! sender knows, and is said again once a second.

use bytes::Bytes;

use crate::wire::NodeId;

/// Where a worker is that aligns with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Stage {
    /// It trains.
    Trains = 0,
    /// All that it has changed is in rounds that are over. It goes on with rounds in which it has
    /// changed nothing, for those that are behind.
    Here = 1,
    /// It begins no more rounds.
    Stopped = 2,
    /// It goes on until it has sent as many rounds as everybody.
    Goes = 3,
    /// It pushes no more.
    Left = 4,
}

/// The exchange of one customer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct ExchangeId {
    /// The application.
    #[prost(sint32, tag = "1")]
    pub app: i32,
    /// The customer.
    #[prost(sint32, tag = "2")]
    pub customer: i32,
}

/// How a worker is: to the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExchangeReport {
    /// Which customer of it: each kvstore has an exchange of its own.
    #[prost(message, required, tag = "1")]
    pub of: ExchangeId,
    /// Where it is.
    #[prost(enumeration = "Stage", tag = "2")]
    pub stage: i32,
    /// The last meeting that it heard of ([`ExchangeWord::meeting`]); 0: none yet.
    #[prost(uint64, tag = "3")]
    pub meeting: u64,
    /// How many rounds it has sent.
    #[prost(uint64, tag = "4")]
    pub sent: u64,
    /// In stage [`Stage::Goes`] and later: how many each has sent at the end of that meeting.
    #[prost(uint64, tag = "5")]
    pub until: u64,
    /// Iterations that have begun.
    #[prost(uint64, tag = "6")]
    pub iterations: u64,
    /// Rounds whose values it has taken.
    #[prost(uint64, tag = "7")]
    pub rounds: u64,
    /// Into how many sections it has cut its tensors.
    #[prost(uint32, tag = "8")]
    pub sections: u32,
    /// The median of how long a step takes it, in microseconds; 0: not known yet.
    #[prost(uint64, tag = "9")]
    pub step: u64,
    /// How long an exchange of all its tensors takes, in microseconds; 0: not known yet.
    #[prost(uint64, tag = "10")]
    pub exchange: u64,
    /// Microseconds that it has computed.
    #[prost(uint64, tag = "11")]
    pub computed: u64,
    /// Microseconds in which it was held.
    #[prost(uint64, tag = "12")]
    pub held: u64,
    /// Microseconds in which rounds of it were in flight.
    #[prost(uint64, tag = "13")]
    pub busy: u64,
    /// Microseconds since its first push.
    #[prost(uint64, tag = "14")]
    pub since: u64,
    /// How many rounds may be in flight.
    #[prost(uint32, tag = "15")]
    pub window: u32,
    /// How many steps a stretch has at least.
    #[prost(uint32, tag = "16")]
    pub steps: u32,
}

/// What a worker is to do: from the scheduler.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExchangeWord {
    /// Which customer of it.
    #[prost(message, required, tag = "1")]
    pub of: ExchangeId,
    /// The meeting that this word is about, counted from 1; 0: nothing is said of one.
    #[prost(uint64, tag = "2")]
    pub meeting: u64,
    /// All have stopped: each goes on until it has sent [`Self::until`] rounds. Else it is to stop.
    #[prost(bool, tag = "3")]
    pub goes: bool,
    /// See [`Self::goes`].
    #[prost(uint64, tag = "4")]
    pub until: u64,
    /// How many rounds may be in flight; 0: nothing is said of it.
    #[prost(uint32, tag = "5")]
    pub window: u32,
    /// How many steps a stretch has; 0: nothing is said of it.
    #[prost(uint32, tag = "6")]
    pub steps: u32,
    /// Some of those that a worker waits for who is [`Stage::Here`].
    #[prost(int32, repeated, tag = "7")]
    pub missing: Vec<NodeId>,
}

impl ExchangeReport {
    /// Reads one; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        prost::Message::decode(bytes).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        prost::Message::encode_to_vec(self).into()
    }
}

impl ExchangeWord {
    /// Reads one; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        prost::Message::decode(bytes).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        prost::Message::encode_to_vec(self).into()
    }
}
