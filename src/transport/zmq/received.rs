//! The receiving end: its socket, and counts of what each peer sent. Only the receiving thread
//! counts, so it finds peers in a table of its own. Other threads only read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::super::counters::PeerCounters;
use super::super::sys::Socket;
use crate::sync::lock;

/// What carries everything here, in counters.
pub(super) const CARRIER: &str = "zmq";
/// Peers that are counted by themselves; names come from strangers. The rest counts as one.
const PEERS_MAX: usize = 1 << 17;

/// What came from one peer.
#[derive(Debug, Default)]
struct ReceivedCounts {
    messages: AtomicU64,
    bytes: AtomicU64,
}

type PeerTable = BTreeMap<Option<i32>, Arc<ReceivedCounts>>;

/// What came from all peers, for threads that read.
#[derive(Debug, Default)]
pub(super) struct Received(Mutex<PeerTable>);

impl Received {
    pub(super) fn read(&self) -> Vec<PeerCounters> {
        let one = |(peer, counts): (&Option<i32>, &Arc<ReceivedCounts>)| PeerCounters {
            peer: *peer,
            carrier: CARRIER,
            data_messages: counts.messages.load(Relaxed),
            bytes: counts.bytes.load(Relaxed),
            ..PeerCounters::default()
        };
        lock(&self.0).iter().map(one).collect()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) socket: Socket,
    known: PeerTable,
    shared: Arc<Received>,
}

impl Receiver {
    pub(super) fn new(socket: Socket, shared: Arc<Received>) -> Self {
        Self { socket, known: PeerTable::new(), shared }
    }

    /// Notes a message.
    pub(super) fn count(&mut self, from: Option<i32>, bytes: usize) {
        let from = if self.known.len() < PEERS_MAX || self.known.contains_key(&from) {
            from
        } else {
            None
        };
        let counts = self.known.entry(from).or_insert_with(|| {
            let counts = Arc::new(ReceivedCounts::default());
            lock(&self.shared.0).insert(from, Arc::clone(&counts));
            counts
        });
        counts.messages.fetch_add(1, Relaxed);
        counts.bytes.fetch_add(bytes as u64, Relaxed);
    }
}
