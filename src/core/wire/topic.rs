//! Topics: what nodes and the scheduler tell each other, and the membership only passes on. What
//! is told of a topic is bytes, in an encoding that belongs to the topic's owner; here is which
//! kind of [`SchedulerMessage`] carries them, and in which of its fields. May name the encodings of
//! topics whose messages had fields of their own before there were topics; knows nothing of what
//! they mean.

use bytes::Bytes;

use super::elastic::{SchedulerMessage, SchedulerMessageKind, StalledRound};
use super::message::NodeId;

/// Kinds of messages from here on are topics of later versions.
const LATER: i32 = 64;

/// What a node and the scheduler tell each other of. A new topic is a kind of message here, and an
/// owner at each end; it needs no further event, action or field.
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
    /// for long ([`StalledRound`]); no bytes: none does any more.
    Stall,
    /// One that this version does not know: it is passed on, and nobody listens. The number counts
    /// those from the first kind that is left to them.
    Later(u8),
}

impl Topic {
    /// The kind of message that tells something of it.
    const fn kind(self) -> i32 {
        match self {
            Self::Batches => SchedulerMessageKind::Balance as i32,
            Self::Exchange => SchedulerMessageKind::Exchange as i32,
            Self::Measure => SchedulerMessageKind::Report as i32,
            Self::Probe => SchedulerMessageKind::Probe as i32,
            Self::Stall => SchedulerMessageKind::Stalled as i32,
            Self::Later(number) => LATER + number as i32,
        }
    }

    /// The message that tells this. `epoch`: the policy that the sender knows, which the messages
    /// of some topics say.
    #[must_use]
    pub fn message(self, bytes: Bytes, epoch: u64) -> SchedulerMessage {
        let message = SchedulerMessage { kind: self.kind(), ..SchedulerMessage::default() };
        match self {
            Self::Batches | Self::Exchange | Self::Later(_) => {
                SchedulerMessage { told: bytes, ..message }
            }
            Self::Measure => SchedulerMessage { report: bytes, epoch, ..message },
            Self::Probe => {
                let node = ProbeRequest::read(&bytes).unwrap_or_default().to;
                SchedulerMessage { node, epoch, ..message }
            }
            Self::Stall => {
                let stalled = StalledRound::read(&bytes).filter(|_| !bytes.is_empty());
                SchedulerMessage { stalled, ..message }
            }
        }
    }

    /// What a message tells of a topic, if it does.
    #[must_use]
    pub fn told(message: &SchedulerMessage) -> Option<(Self, Bytes)> {
        let later = || u8::try_from(message.kind.checked_sub(LATER)?).ok();
        Some(match SchedulerMessageKind::try_from(message.kind) {
            Ok(SchedulerMessageKind::Balance) => (Self::Batches, message.told.clone()),
            Ok(SchedulerMessageKind::Exchange) => (Self::Exchange, message.told.clone()),
            // Without one it is a sign of life.
            Ok(SchedulerMessageKind::Report) if message.report.is_empty() => return None,
            Ok(SchedulerMessageKind::Report) => (Self::Measure, message.report.clone()),
            Ok(SchedulerMessageKind::Probe) => {
                (Self::Probe, ProbeRequest { to: message.node }.bytes())
            }
            Ok(SchedulerMessageKind::Stalled) => {
                let stalled = message.stalled.as_ref();
                (Self::Stall, stalled.map_or_else(Bytes::new, StalledRound::bytes))
            }
            Ok(_) => return None,
            Err(_) => (Self::Later(later()?), message.told.clone()),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 7;

    /// What is told comes back, in the fields that its message had before there were topics.
    #[test]
    fn each_topic_travels_in_the_fields_of_its_message() {
        let bytes = Bytes::from_static(b"more");
        let probe = ProbeRequest { to: 8 };
        let stalled = StalledRound { key: 3, round: 1, pushed: vec![9], ..Default::default() };
        let of = |kind: SchedulerMessageKind| SchedulerMessage {
            kind: kind as i32,
            ..SchedulerMessage::default()
        };
        let told = bytes.clone();
        let cases = [
            (
                (Topic::Batches, bytes.clone()),
                SchedulerMessage { told: told.clone(), ..of(SchedulerMessageKind::Balance) },
            ),
            (
                (Topic::Exchange, bytes.clone()),
                SchedulerMessage { told: told.clone(), ..of(SchedulerMessageKind::Exchange) },
            ),
            (
                (Topic::Measure, bytes.clone()),
                SchedulerMessage {
                    report: bytes.clone(),
                    epoch: EPOCH,
                    ..of(SchedulerMessageKind::Report)
                },
            ),
            (
                (Topic::Probe, probe.bytes()),
                SchedulerMessage { node: 8, epoch: EPOCH, ..of(SchedulerMessageKind::Probe) },
            ),
            (
                (Topic::Stall, stalled.bytes()),
                SchedulerMessage { stalled: Some(stalled), ..of(SchedulerMessageKind::Stalled) },
            ),
            ((Topic::Stall, Bytes::new()), of(SchedulerMessageKind::Stalled)),
            (
                (Topic::Later(5), bytes),
                SchedulerMessage { kind: 69, told, ..SchedulerMessage::default() },
            ),
        ];
        for ((topic, bytes), message) in cases {
            assert_eq!(topic.message(bytes.clone(), EPOCH), message);
            assert_eq!(Topic::told(&message), Some((topic, bytes)));
        }
    }

    #[test]
    fn no_other_message_is_of_a_topic() {
        for kind in (i32::MIN..=i32::MIN + 9).chain(-9..LATER).chain(LATER + 256..LATER + 300) {
            let message = SchedulerMessage { kind, ..SchedulerMessage::default() };
            let kind = SchedulerMessageKind::try_from(kind);
            let of_topic = matches!(
                kind,
                Ok(SchedulerMessageKind::Balance
                    | SchedulerMessageKind::Exchange
                    | SchedulerMessageKind::Probe
                    | SchedulerMessageKind::Stalled)
            );
            assert_eq!(Topic::told(&message).is_some(), of_topic, "{kind:?}");
        }
    }
}
