//! What arrived from each peer, kept for whoever sends to that peer next: acknowledgements travel
//! with messages of the other direction and cost nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::counters::Counters;
use crate::counters::PeerCounters;
use crate::sync::lock;

/// What arrived on one channel of one peer.
#[derive(Debug)]
pub(super) struct Receipt {
    /// The peer's life.
    pub(super) life: u64,
    /// The peer's number of the channel.
    pub(super) channel: u32,
    /// The peer's node id.
    pub(super) node: Option<i32>,
    pub(super) counters: Counters,
    received: AtomicU64,
    told: AtomicU64,
    /// What may be under way of what this connection brings, in bytes, if that is decided here
    /// (`receiver/windows`); else 0.
    window: AtomicU32,
    carrier: Mutex<&'static str>,
}

impl Receipt {
    pub(super) fn new(life: u64, channel: u32, node: Option<i32>) -> Self {
        Self {
            life,
            channel,
            node,
            counters: Counters::default(),
            received: AtomicU64::new(0),
            told: AtomicU64::new(0),
            window: AtomicU32::new(0),
            carrier: Mutex::new("none"),
        }
    }

    /// Notes what may be under way.
    pub(super) fn limits(&self, window: Option<u32>) {
        self.window.store(window.unwrap_or(0), Ordering::Relaxed);
    }

    /// What may be under way, if that is decided here.
    #[cfg(test)]
    pub(super) fn window(&self) -> Option<u32> {
        Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    /// Notes what carries the bytes.
    pub(super) fn carries(&self, carrier: &'static str) {
        *lock(&self.carrier) = carrier;
    }

    /// True if a connection stands and it is TCP.
    pub(super) fn is_over_tcp(&self) -> bool {
        *lock(&self.carrier) == "tcp"
    }

    pub(super) fn read_counters(&self) -> PeerCounters {
        let mut counters = self.counters.read(self.node, false);
        counters.carrier = *lock(&self.carrier);
        counters
    }

    /// All messages up to this one arrived.
    pub(super) fn note(&self, received: u64) {
        self.received.store(received, Ordering::Release);
    }

    /// Channel and number for an acknowledgement that is sent now.
    pub(super) fn tell(&self) -> (u32, u64) {
        let received = self.received.load(Ordering::Acquire);
        self.told.store(received, Ordering::Relaxed);
        (self.channel, received)
    }

    /// How many messages the peer has not been told of.
    pub(super) fn untold(&self) -> u64 {
        let told = self.told.load(Ordering::Relaxed);
        self.received.load(Ordering::Relaxed).saturating_sub(told)
    }
}

/// The receipts of all channels, the latest of each peer's life at hand.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    /// Changes with the list; never 0.
    version: AtomicU64,
    all: RwLock<BTreeMap<(u64, u32), Arc<Receipt>>>,
}

impl Receipts {
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire) + 1
    }

    pub(super) fn insert(&self, receipt: Arc<Receipt>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert((receipt.life, receipt.channel), receipt);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn remove(&self, life: u64, channel: u32) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&(life, channel));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The receipt of the last channel from that life of a peer.
    pub(super) fn of(&self, life: u64) -> Option<Arc<Receipt>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.range((life, 0)..=(life, u32::MAX)).next_back().map(|(_, receipt)| Arc::clone(receipt))
    }

    pub(super) fn all(&self) -> Vec<Arc<Receipt>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
