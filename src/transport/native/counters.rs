//! What the transport counts about each peer, in each direction. Cheap enough to be always on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a histogram: powers of two of a microsecond, up to about half an hour.
pub const BUCKETS: usize = 32;

/// What was counted about one direction of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// The key of the connection, or the id of the sender; `None` for a sender without one.
    pub peer: Option<i32>,
    /// True for what was sent to it, false for what came from it.
    pub outgoing: bool,
    /// What carries the bytes: `tcp`, `shm`, or `none` while there is no connection.
    pub carrier: &'static str,
    /// Data messages.
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
    /// Messages that wait to be sent.
    pub waiting: u64,
    /// Messages that are not confirmed yet, those that wait included.
    pub unconfirmed: u64,
    /// The most that waited.
    pub waiting_max: u64,
    /// Time from the call of `send` to the last byte's leaving: bucket n counts those that took less
    /// than 2^n microseconds and not less than half of it. Outgoing only.
    pub latency: [u64; BUCKETS],
}

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
    pub(super) waiting_max: AtomicU64,
    latency: [AtomicU64; BUCKETS],
}

/// Adds to a counter that only the holder of a lock, or one thread, writes: no locked instruction.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(number), Relaxed);
}

impl Counters {
    pub(super) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        add(&self.latency[bucket.min(BUCKETS - 1)], 1);
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
            waiting: 0,
            unconfirmed: 0,
            waiting_max: self.waiting_max.load(Relaxed),
            latency: std::array::from_fn(|n| self.latency[n].load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        let counters = Counters::default();
        for micros in [0, 1, 2, 3, 4, 1000, u64::MAX] {
            counters.took(Duration::from_micros(micros));
        }
        let mut expected = [0; BUCKETS];
        for (bucket, count) in [(0, 1), (1, 1), (2, 2), (3, 1), (10, 1), (BUCKETS - 1, 1)] {
            expected[bucket] = count;
        }
        assert_eq!(counters.read(None, true).latency, expected);
    }
}
