//! What is counted about one direction of one peer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::counters::PeerCounters;
use pslite_observe::histogram::{BUCKETS, HistogramCounts, bucket_of, micros};

/// The counters behind [`PeerCounters`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) data_messages: AtomicU64,
    pub(super) control_messages: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) copies: AtomicU64,
    pub(super) copied_bytes: AtomicU64,
    pub(super) syscalls: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) probes: AtomicU64,
    /// Bytes of probes that were sent, of those too that were ended.
    pub(super) padding: AtomicU64,
    pub(super) waiting_max: AtomicU64,
    latency: [AtomicU64; BUCKETS],
    latency_sum: AtomicU64,
}

/// Adds to a counter that only the holder of a lock, or one thread, writes: no locked instruction.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(number), Relaxed);
}

impl Counters {
    pub(super) fn took(&self, time: Duration) {
        add(&self.latency[bucket_of(time)], 1);
        add(&self.latency_sum, micros(time));
    }

    pub(super) fn waits(&self, messages: usize) {
        if messages as u64 > self.waiting_max.load(Relaxed) {
            self.waiting_max.store(messages as u64, Relaxed);
        }
    }

    /// What is counted so far.
    pub(super) fn read(&self, peer: Option<i32>, outgoing: bool) -> PeerCounters {
        PeerCounters {
            peer,
            outgoing,
            carrier: "none",
            data_messages: self.data_messages.load(Relaxed),
            control_messages: self.control_messages.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            copies: self.copies.load(Relaxed),
            copied_bytes: self.copied_bytes.load(Relaxed),
            syscalls: self.syscalls.load(Relaxed),
            connections: self.connections.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            probes: self.probes.load(Relaxed),
            waiting: 0,
            unconfirmed: 0,
            waiting_max: self.waiting_max.load(Relaxed),
            latency: HistogramCounts {
                buckets: std::array::from_fn(|n| self.latency[n].load(Relaxed)),
                sum: self.latency_sum.load(Relaxed),
            },
        }
    }
}
