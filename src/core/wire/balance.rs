//! What a worker and the scheduler say to each other of batch sizes: rides in a
//! [`SchedulerMessage`](super::elastic::SchedulerMessage) of the kind `Balance`. Bytes to types and
//! back; what it means is in `training/balance` and `docs/lbbsp.md`.
//!
//! Each of them may be lost with its connection, and each may come twice: both sides repeat what
//! is not answered, and take nothing twice.

use serde::{Deserialize, Serialize};

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BalanceKind {
    /// Nothing: a kind that this version does not know.
    Unknown = 0,
    /// Worker: it takes part, as `open` says.
    Open = 1,
    /// Worker: it has computed the batches before `iteration`; `reports` are those that may be new.
    Report = 2,
    /// Worker: it takes no batch any more.
    Close = 3,
    /// Worker, where batches are dealt: it wants one more, the one after `iteration` others.
    Ask = 4,
    /// Scheduler: the worker takes part from `iteration` on.
    Opened = 5,
    /// Scheduler: the worker does not take part, or not any more; `text` says why.
    Refused = 6,
    /// Scheduler: the worker may begin the iterations before `iteration`, with `shares`.
    Grant = 7,
    /// Scheduler: the batch after `iteration` others of this worker is `dealt`.
    Deal = 8,
    /// Scheduler: the worker has closed this session and opens it again. It has to wait until the
    /// others have closed it too; `text` says who they are.
    Wait = 9,
}

/// Which rule sets the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BalanceRule {
    /// None: all workers have equal batches, as BSP has.
    Fixed = 0,
    /// In proportion to each worker's speed, predicted by a regression on its last speeds and on
    /// the processor and memory that it had.
    Cpu = 1,
    /// In proportion to the last speed.
    CpuLast = 2,
    /// In proportion to an exponential average of the last speeds.
    CpuMean = 3,
    /// Steps from the slowest worker to the fastest one that has memory left.
    Gpu = 4,
    /// Whoever asks gets the next batch; no iterations.
    Dealt = 5,
}

/// What a worker opens a session with.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BalanceOpen {
    /// Samples of an epoch.
    #[prost(uint64, tag = "1")]
    pub length: u64,
    /// Samples of an iteration, all workers together; of one batch where batches are dealt.
    #[prost(uint32, tag = "2")]
    pub total: u32,
    /// Workers that take part.
    #[prost(uint32, tag = "3")]
    pub members: u32,
    /// Sizes are multiples of it, but for what is left over.
    #[prost(uint32, tag = "4")]
    pub quantum: u32,
    /// The rule.
    #[prost(enumeration = "BalanceRule", tag = "5")]
    pub rule: i32,
    /// Iterations that a worker may begin before the slowest one has computed the first of them.
    #[prost(uint32, tag = "6")]
    pub lookahead: u32,
    /// Of the order of samples.
    #[prost(uint64, tag = "7")]
    pub seed: u64,
    /// Where batches are dealt: after that many epochs there are no more; 0: no end.
    #[prost(uint64, tag = "8")]
    pub epochs: u64,
    /// The fewest samples that this worker takes.
    #[prost(uint32, tag = "9")]
    pub min: u32,
    /// The most, as its memory allows; 0: no limit.
    #[prost(uint32, tag = "10")]
    pub max: u32,
    /// The worker's place among the members: the order in which they share an iteration.
    #[prost(uint32, tag = "11")]
    pub rank: u32,
    /// Another number for each opening, never 0.
    #[prost(uint64, tag = "12")]
    pub instance: u64,
    /// True: what does not fill the last iteration of an epoch is filled up from its beginning.
    /// False: it is left out.
    #[prost(bool, tag = "13")]
    pub wraps: bool,
}

/// What a worker says of one batch.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct BalanceReport {
    /// Seconds that its samples took to compute, without waiting for others; 0: not known.
    #[prost(double, tag = "1")]
    pub seconds: f64,
    /// The share of its processors that it could have, from 0 to 1 or more; 0: not known.
    #[prost(double, tag = "2")]
    pub cpu: f64,
    /// The share of its memory that is free, likewise.
    #[prost(double, tag = "3")]
    pub memory: f64,
}

/// A worker's part of all iterations from `from` on, until another one takes its place.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BalanceShare {
    /// The first iteration.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The first sample, counted within the iteration.
    #[prost(uint32, tag = "2")]
    pub start: u32,
    /// How many.
    #[prost(uint32, tag = "3")]
    pub size: u32,
    /// How many workers share the iteration. 0: an older scheduler does not say so.
    #[prost(uint32, tag = "4")]
    pub workers: u32,
}

/// A batch that was dealt.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BalanceDealt {
    /// The epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// The first sample, counted within the epoch.
    #[prost(uint64, tag = "2")]
    pub place: u64,
    /// How many; 0: there are no more.
    #[prost(uint32, tag = "3")]
    pub size: u32,
}

/// One word.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BalanceMessage {
    /// What it says.
    #[prost(enumeration = "BalanceKind", tag = "1")]
    pub kind: i32,
    /// The session's name.
    #[prost(string, tag = "2")]
    pub session: String,
    /// The sender's, or receiver's, place among the members.
    #[prost(uint32, tag = "3")]
    pub rank: u32,
    /// Which opening of the session it belongs to.
    #[prost(uint64, tag = "4")]
    pub instance: u64,
    /// See [`BalanceKind`].
    #[prost(uint64, tag = "5")]
    pub iteration: u64,
    /// `Open`.
    #[prost(message, optional, tag = "6")]
    pub open: Option<BalanceOpen>,
    /// `Report`: of the batches just before `iteration`, the oldest first.
    #[prost(message, repeated, tag = "7")]
    pub reports: Vec<BalanceReport>,
    /// `Grant`: ascending.
    #[prost(message, repeated, tag = "8")]
    pub shares: Vec<BalanceShare>,
    /// `Deal`.
    #[prost(message, optional, tag = "9")]
    pub dealt: Option<BalanceDealt>,
    /// For people.
    #[prost(string, tag = "10")]
    pub text: String,
    /// `Report`: the worker waits, and wants to hear what it may do.
    #[prost(bool, tag = "11")]
    pub asks: bool,
}

impl BalanceMessage {
    /// Reads one; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        prost::Message::decode(bytes).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> bytes::Bytes {
        prost::Message::encode_to_vec(self).into()
    }
}

/// What `pslite status` shows of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its name.
    pub name: String,
    /// Its rule: `fixed`, `cpu`, `cpu-last`, `cpu-mean`, `gpu` or `dealt`.
    pub rule: String,
    /// Workers that it is for.
    pub members: usize,
    /// Workers that take part.
    pub present: usize,
    /// The iteration of the slowest worker.
    pub iteration: u64,
    /// The smallest batch.
    pub smallest: u32,
    /// The largest batch.
    pub largest: u32,
    /// How far the last seconds of computing lie apart: largest less smallest, by their mean.
    pub spread: Option<f64>,
    /// How much longer the slowest worker would take with a batch as large as all others', by the
    /// last seconds and in proportion.
    pub gain: Option<f64>,
    /// Where batches are dealt: the epoch.
    pub epoch: u64,
    /// Where batches are dealt: the part of the epoch that was dealt.
    pub dealt: f64,
}
