//! Samples of how fast data came in over TCP, one for each fragment of a message. The planner
//! estimates from them what links can carry. Only the receiver's clock counts. Concludes nothing.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use crate::sync::lock;
use pslite_core::wire::NodeId;

/// Samples that wait to be fetched; the oldest go first.
const SAMPLES_MAX: usize = 8192;
/// Fragments with less data say nothing alone.
pub(super) const BYTES_MIN: u64 = 4096;

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleOf {
    /// A fragment of a message.
    Message,
    /// A frame of padding.
    Padding,
    /// The timed part of a whole probe: a sample in itself.
    Probe,
}

/// One fragment of a message.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Who sent it.
    pub peer: NodeId,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that had arrived by `first`.
    pub head: u64,
    /// When it was seen first.
    pub first: Instant,
    /// When all of it was there.
    pub last: Instant,
    /// The sender had more for this node when it sent this.
    pub more: bool,
    /// It came right after what came before it on its connection.
    pub follows: bool,
    /// What it is.
    pub of: SampleOf,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReceivedRates {
    samples: Mutex<VecDeque<RateSample>>,
}

impl ReceivedRates {
    pub(super) fn add(&self, sample: RateSample) {
        let mut samples = lock(&self.samples);
        if samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// All since the last time.
    pub(super) fn take(&self) -> VecDeque<RateSample> {
        std::mem::take(&mut lock(&self.samples))
    }
}
