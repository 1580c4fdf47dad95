//! What a node counts about the messages of each peer, by kind. Written by every thread that sends,
//! receives or serves: relaxed atomics, no lock; memory is taken once for each peer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::awake;
use super::events::{Counted, Label};
use super::histogram::Histogram;
use super::snapshot::{Snapshot, Value, peer_name};
use pslite_core::wire::{Meta, NodeId, Payload};

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A request with values.
    Push,
    /// A request for values.
    Pull,
    /// Both in one.
    PushPull,
    /// A command of an application to another node (ps-lite's SimpleApp).
    Command,
    /// The answer to any of these.
    Response,
    /// Membership: registrations, barriers, signs of life, acknowledgements.
    Control,
}

/// All kinds, in the order of their numbers. Requests come first.
const KINDS: [MessageKind; 6] = [
    MessageKind::Push,
    MessageKind::Pull,
    MessageKind::PushPull,
    MessageKind::Command,
    MessageKind::Response,
    MessageKind::Control,
];
/// How many of them are requests.
const REQUESTS: usize = 4;

impl MessageKind {
    /// The kind of a message.
    #[must_use]
    pub const fn of(meta: &Meta) -> Self {
        if matches!(meta.payload, Payload::Control(_)) {
            Self::Control
        } else if meta.request {
            Self::of_request(meta)
        } else {
            Self::Response
        }
    }

    /// The kind of a request, or of the one that a response belongs to.
    #[must_use]
    pub const fn of_request(meta: &Meta) -> Self {
        Self::of_flags(meta.simple_app, meta.push, meta.pull)
    }

    /// Of a request that is a command, or brings values there, or back.
    #[must_use]
    pub const fn of_flags(command: bool, push: bool, pull: bool) -> Self {
        match (command, push, pull) {
            (true, _, _) => Self::Command,
            (false, true, true) => Self::PushPull,
            (false, true, false) => Self::Push,
            (false, false, _) => Self::Pull,
        }
    }

    /// Its name in snapshots.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::PushPull => "push-pull",
            Self::Command => "command",
            Self::Response => "response",
            Self::Control => "control",
        }
    }
}

/// Servers that may join a job and are counted each by itself; further ones together.
const JOINERS: usize = 256;

/// Messages of one kind in one direction.
#[derive(Debug, Default)]
struct Flow {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Flow {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

#[derive(Debug, Default)]
struct Peer {
    sent: [Flow; KINDS.len()],
    received: [Flow; KINDS.len()],
    request_time: [Histogram; REQUESTS],
    store_time: [Histogram; REQUESTS],
}

/// See the module.
#[derive(Debug)]
pub struct Traffic {
    started: Instant,
    /// By node id. Whoever has no id of this job is at 0, which is nobody's.
    peers: Box<[OnceLock<Box<Peer>>]>,
    /// Bytes of pulled values that were copied to where they were wanted.
    pulls_copied: AtomicU64,
}

impl Traffic {
    /// Nothing counted yet, for a job of that many workers and servers.
    #[must_use]
    pub fn new(num_workers: usize, num_servers: usize) -> Self {
        let nodes = num_workers.max(num_servers) + JOINERS;
        let ids = pslite_core::wire::worker_id(nodes) as usize + 1;
        Self {
            started: awake::now(),
            peers: (0..ids).map(|_| OnceLock::new()).collect(),
            pulls_copied: AtomicU64::new(0),
        }
    }

    /// The clock of the times that are counted here.
    #[must_use]
    pub fn now(&self) -> Duration {
        awake::since(self.started)
    }

    fn peer(&self, id: NodeId) -> Option<&Peer> {
        let index = usize::try_from(id).ok().filter(|id| *id < self.peers.len()).unwrap_or(0);
        self.peers.get(index).map(|peer| &**peer.get_or_init(Box::default))
    }

    /// Pulled values were copied to where they were wanted.
    pub fn copied(&self, bytes: usize) {
        self.pulls_copied.fetch_add(bytes as u64, Relaxed);
    }

    /// A message was sent.
    pub fn sent(&self, to: NodeId, kind: MessageKind, bytes: usize) {
        if let Some(peer) = self.peer(to) {
            peer.sent[kind as usize].add(bytes);
        }
    }

    /// A message arrived.
    pub fn received(&self, from: NodeId, kind: MessageKind, bytes: usize) {
        if let Some(peer) = self.peer(from) {
            peer.received[kind as usize].add(bytes);
        }
    }

    /// A request was answered that was made then.
    pub fn answered(&self, by: NodeId, kind: MessageKind, asked: Duration) {
        let took = self.now().saturating_sub(asked);
        if let Some(times) = self.peer(by).and_then(|peer| peer.request_time.get(kind as usize)) {
            times.add(took);
        }
    }

    /// The store has dealt with a request.
    pub fn served(&self, from: NodeId, kind: MessageKind, took: Duration) {
        if let Some(times) = self.peer(from).and_then(|peer| peer.store_time.get(kind as usize)) {
            times.add(took);
        }
    }

    /// Adds what was counted to a snapshot.
    pub fn read(&self, snapshot: &mut Snapshot) {
        let copied = Value::Number(self.pulls_copied.load(Relaxed));
        snapshot.add(Counted::PullsCopied, &[], copied);
        for (id, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer.get() else { continue };
            let name = peer_name((id != 0).then_some(id as NodeId));
            for kind in KINDS {
                for (direction, flows) in [("sent", &peer.sent), ("received", &peer.received)] {
                    let flow = &flows[kind as usize];
                    let labels = [
                        (Label::Peer, &*name),
                        (Label::Direction, direction),
                        (Label::Kind, kind.name()),
                    ];
                    let (messages, bytes) = (flow.messages.load(Relaxed), flow.bytes.load(Relaxed));
                    snapshot.add(Counted::Messages, &labels, Value::Number(messages));
                    snapshot.add(Counted::Bytes, &labels, Value::Number(bytes));
                }
            }
            for kind in &KINDS[..REQUESTS] {
                let labels = [(Label::Peer, &*name), (Label::Kind, kind.name())];
                let both = [
                    (Counted::RequestTime, &peer.request_time),
                    (Counted::StoreTime, &peer.store_time),
                ];
                for (event, times) in both {
                    let times = times[*kind as usize].read();
                    snapshot.add(event, &labels, Value::Times(Box::new(times)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_flags() {
        let of = |request, simple_app, push, pull| {
            MessageKind::of(&Meta { request, simple_app, push, pull, ..Meta::default() })
        };
        assert_eq!(of(true, false, true, false), MessageKind::Push);
        assert_eq!(of(true, false, false, true), MessageKind::Pull);
        assert_eq!(of(true, false, true, true), MessageKind::PushPull);
        assert_eq!(of(true, true, false, false), MessageKind::Command);
        assert_eq!(of(false, false, true, false), MessageKind::Response);
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn counts_are_kept_by_peer_kind_and_direction() {
        let traffic = Traffic::new(2, 1);
        traffic.sent(8, MessageKind::Push, 100);
        traffic.sent(8, MessageKind::Push, 50);
        traffic.received(11, MessageKind::Response, 7);
        traffic.received(pslite_core::wire::EMPTY, MessageKind::Control, 1);
        traffic.received(-5, MessageKind::Control, 1);
        traffic.served(11, MessageKind::Pull, Duration::from_micros(3));
        let mut snapshot = Snapshot::default();
        traffic.read(&mut snapshot);
        let text = snapshot.json();
        for part in [
            r#"{"name":"messages","peer":"server0","direction":"sent","kind":"push","value":2}"#,
            r#"{"name":"bytes","peer":"server0","direction":"sent","kind":"push","value":150}"#,
            concat!(
                r#"{"name":"bytes","peer":"worker1","direction":"received","#,
                r#""kind":"response","value":7}"#,
            ),
            concat!(
                r#"{"name":"messages","peer":"unnamed","direction":"received","#,
                r#""kind":"control","value":2}"#,
            ),
            concat!(
                r#"{"name":"store_time","peer":"worker1","kind":"pull","count":1,"#,
                r#""sum":3,"buckets":[0,0,1]}"#,
            ),
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("{\"name\"").count(), 7, "{text}");
    }
}
