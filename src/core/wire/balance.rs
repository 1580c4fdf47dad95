//! What a worker and the scheduler say to each other about batch sizes: the topic
//! [`Batches`](super::topic::Topic::Batches). This module turns bytes into types and back;
//! `training/balance` and `docs/lbbsp.md` say what they mean.
//!
//! A message may be lost with its connection, and it may come twice. So both sides repeat what is
//! not answered, and count nothing twice.

use serde::{Deserialize, Serialize};

use super::ids::NodeId;

/// What a message says, and who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BalanceKind {
    /// This version does not know the kind.
    Unknown = 0,
    /// Worker: it wants to take part. `open` has its settings.
    Open = 1,
    /// Worker: it has computed all batches before `iteration`. `reports` are about the last of
    /// them; the scheduler may know some already.
    Report = 2,
    /// Worker: it takes no more batches.
    Close = 3,
    /// Worker, where batches are dealt: it wants one more batch. It has had `iteration` others.
    Ask = 4,
    /// Scheduler: the worker takes part. Its first iteration is `iteration`.
    Opened = 5,
    /// Scheduler: the worker does not take part, or not any more. `text` says why.
    Refused = 6,
    /// Scheduler: the worker may begin all iterations before `iteration`. `shares` are its parts.
    Grant = 7,
    /// Scheduler: the worker gets the batch `dealt`. It has had `iteration` others.
    Deal = 8,
    /// Scheduler: the worker has closed this session and opens it again. It has to wait until the
    /// others have closed it too; `text` says who they are.
    Wait = 9,
}

/// Which rule sets the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BalanceRule {
    /// All workers have equal batches, as in BSP.
    Fixed = 0,
    /// Sizes are in proportion to speeds. A regression predicts each worker's speed from its last
    /// speeds, and from the processor and memory that it could have.
    Cpu = 1,
    /// Sizes are in proportion to the last speeds.
    CpuLast = 2,
    /// Sizes are in proportion to exponential averages of the last speeds.
    CpuMean = 3,
    /// The slowest worker gives samples to the fastest one that has memory left, step by step.
    Gpu = 4,
    /// There are no iterations. Whoever asks gets the next batch.
    Dealt = 5,
}

/// In which order a worker takes the samples of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BalanceOrder {
    /// An older worker does not say it.
    Unsaid = 0,
    /// Another one in each epoch, which follows from the seed.
    Shuffled = 1,
    /// As they are stored.
    Stored = 2,
    /// The application gives it. Its hash is compared.
    Own = 3,
}

/// What a worker opens a session with.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BalanceOpen {
    /// How many samples an epoch has.
    #[prost(uint64, tag = "1")]
    pub length: u64,
    /// How many samples all workers together compute in an iteration. Where batches are dealt: how
    /// many a batch has.
    #[prost(uint32, tag = "2")]
    pub total: u32,
    /// How many workers take part.
    #[prost(uint32, tag = "3")]
    pub members: u32,
    /// Sizes are multiples of it. One worker takes what is left over besides.
    #[prost(uint32, tag = "4")]
    pub quantum: u32,
    /// The rule.
    #[prost(enumeration = "BalanceRule", tag = "5")]
    pub rule: i32,
    /// How many iterations a worker may have begun that the slowest worker has not reported.
    #[prost(uint32, tag = "6")]
    pub lookahead: u32,
    /// The order of samples follows from it.
    #[prost(uint64, tag = "7")]
    pub seed: u64,
    /// Where batches are dealt: how many epochs there are. 0: they never end.
    #[prost(uint64, tag = "8")]
    pub epochs: u64,
    /// The fewest samples that this worker takes.
    #[prost(uint32, tag = "9")]
    pub min: u32,
    /// The most samples that its memory allows. 0: there is no limit.
    #[prost(uint32, tag = "10")]
    pub max: u32,
    /// The worker's place among the members. Each takes the samples after those of lower ranks.
    #[prost(uint32, tag = "11")]
    pub rank: u32,
    /// The number of this opening. No other one has it, and it is never 0.
    #[prost(uint64, tag = "12")]
    pub instance: u64,
    /// What happens to samples at the end of an epoch that do not fill an iteration. True: the
    /// first samples of the epoch fill it up. False: they are left out.
    #[prost(bool, tag = "13")]
    pub wraps: bool,
    /// The session begins with this iteration; where batches are dealt, with this epoch.
    #[prost(uint64, tag = "14")]
    pub first: u64,
    /// The order of samples.
    #[prost(enumeration = "BalanceOrder", tag = "15")]
    pub order: i32,
    /// An order of the application's own: the hash of the first epoch's. 0: not said.
    #[prost(uint64, tag = "16")]
    pub order_hash: u64,
    /// The library measures how long batches take, and reports them. False: the application does,
    /// or an older worker does not say it.
    #[prost(bool, tag = "17")]
    pub measured: bool,
    /// The worker passes over iterations of which it has no samples. An older one would compute
    /// an empty batch.
    #[prost(bool, tag = "30")]
    pub passes: bool,
}

/// What a worker says about one batch.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct BalanceReport {
    /// How many seconds it computed, without waiting for others. 0: it does not know.
    #[prost(double, tag = "1")]
    pub seconds: f64,
    /// The share of its processors that it could have, from 0 to 1 or more. 0: it does not know.
    #[prost(double, tag = "2")]
    pub cpu: f64,
    /// The share of its memory that is free, from 0 to 1. 0: it does not know.
    #[prost(double, tag = "3")]
    pub memory: f64,
}

/// A worker's part of the iteration `from` and of those after it, until the next share begins.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BalanceShare {
    /// The first iteration.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The first sample, counted within the iteration.
    #[prost(uint32, tag = "2")]
    pub start: u32,
    /// How many samples.
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
    /// How many samples. 0: there are no more.
    #[prost(uint32, tag = "3")]
    pub size: u32,
}

/// The order in which a worker takes the samples of an epoch, if its application gives it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BalanceOrdered {
    /// The epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// The order's hash.
    #[prost(uint64, tag = "2")]
    pub hash: u64,
}

/// Iterations that a worker does not compute.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BalanceSkip {
    /// The first one.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The one after the last.
    #[prost(uint64, tag = "2")]
    pub to: u64,
}

/// One message. Which fields it has depends on its kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BalanceMessage {
    /// What it says.
    #[prost(enumeration = "BalanceKind", tag = "1")]
    pub kind: i32,
    /// The session's name.
    #[prost(string, tag = "2")]
    pub session: String,
    /// The worker's place among the members.
    #[prost(uint32, tag = "3")]
    pub rank: u32,
    /// The number of the worker's opening.
    #[prost(uint64, tag = "4")]
    pub instance: u64,
    /// A number of iterations, or of batches; [`BalanceKind`] says which.
    #[prost(uint64, tag = "5")]
    pub iteration: u64,
    /// `Open`: the settings.
    #[prost(message, optional, tag = "6")]
    pub open: Option<BalanceOpen>,
    /// `Report`: about the last batches before `iteration`, the oldest first.
    #[prost(message, repeated, tag = "7")]
    pub reports: Vec<BalanceReport>,
    /// `Grant`: the worker's parts, in the order of iterations.
    #[prost(message, repeated, tag = "8")]
    pub shares: Vec<BalanceShare>,
    /// `Deal`: the batch.
    #[prost(message, optional, tag = "9")]
    pub dealt: Option<BalanceDealt>,
    /// For people.
    #[prost(string, tag = "10")]
    pub text: String,
    /// `Report`: the worker waits. The scheduler answers even if nothing has changed.
    #[prost(bool, tag = "11")]
    pub asks: bool,
    /// `Report`: what the worker skipped last. It counts among the iterations before `iteration`.
    #[prost(message, optional, tag = "12")]
    pub skip: Option<BalanceSkip>,
    /// `Report`: the order of the newest epoch of which the worker has taken a batch.
    #[prost(message, optional, tag = "13")]
    pub ordered: Option<BalanceOrdered>,
    /// `Opened`: the scheduler knows [`BalanceOpen::first`]. An older one begins with 0.
    #[prost(bool, tag = "14")]
    pub knows_first: bool,
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
    /// How many workers it is for.
    pub members: usize,
    /// How many workers take part now.
    pub present: usize,
    /// The iteration of the slowest worker.
    pub iteration: u64,
    /// The smallest batch.
    pub smallest: u32,
    /// The largest batch.
    pub largest: u32,
    /// How far the last times of computing lie apart: the longest less the shortest, divided by
    /// their mean.
    pub spread: Option<f64>,
    /// How many times as long an iteration would take with equal batches, if times are in
    /// proportion to sizes.
    pub gain: Option<f64>,
    /// Where batches are dealt: the epoch.
    pub epoch: u64,
    /// Where batches are dealt: which part of the epoch was dealt, from 0 to 1.
    pub dealt: f64,
    /// How many samples each worker that takes part computes in an iteration. Where batches are
    /// dealt: how many a batch has.
    #[serde(default)]
    pub samples: Vec<WorkerSamples>,
}

/// The batch of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSamples {
    /// The worker.
    pub node: NodeId,
    /// How many samples it has.
    pub samples: u32,
}
