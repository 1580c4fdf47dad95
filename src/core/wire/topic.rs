//! Topics: what nodes and the scheduler tell each other, and the membership only passes on. What is
//! told of a topic is bytes, in an encoding that belongs to the topic's owner; `flat_word` says
//! which kind of word carries them, and in which of its fields.

use bytes::Bytes;

use super::ids::NodeId;

/// What a node and the scheduler tell each other of. A new topic is a kind of word, and an owner at
/// each end; it needs no further event, action or field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Batch sizes: between workers and the scheduler ([`super::balance`]).
    Batches,
    /// Training while deltas travel: likewise ([`super::exchange::word`]).
    Exchange,
    /// Any node tells the scheduler what it measured (`placement::measured`). Nothing is told by no
    /// bytes.
    Measure,
    /// The scheduler asks a node to probe an idle link ([`ProbeRequest`]).
    Probe,
    /// A server, or a worker of what goes along a tree, tells the scheduler which round has waited
    /// for long ([`StalledRound`](super::elastic::StalledRound)); no bytes: none does any more.
    Stall,
    /// A server or worker tells the scheduler what it has counted
    /// ([`NodeTotals`](super::counters::NodeTotals)), if that says that it shows it
    /// ([`ability::SHOWS_METRICS`](super::ability::SHOWS_METRICS)).
    Counters,
    /// One that this version does not know: it is passed on, and nobody listens. The number counts
    /// those from the first kind that is left to them.
    Later(u8),
}

/// [`Topic::Probe`]: the node that gets it is to send padding if the link is idle.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProbeRequest {
    /// Who measures the link: to it goes the padding.
    #[prost(int32, tag = "1")]
    pub to: NodeId,
}

impl ProbeRequest {
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
