//! Requests that the local model answers, and those that it makes (docs/nbsync.md): what it says of
//! them is done here. May touch the side of the worker.

use std::time::Duration;

use super::{WorkerOutput, WorkerSide};
use crate::kv::flights::AheadSlice;
use crate::kv::{Failure, FailureKind, Pending, Slices};
use crate::wire::{Key, Meta, server_id};
use crate::worker::{LocalStep, Own};

/// What a step of the local model has sent to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalSent {
    /// Nothing.
    Nothing,
    /// A request of the program.
    Forwarded(i32),
    /// A request of the worker's own.
    Own(i32),
}

impl LocalSent {
    /// The request, if there is one.
    #[must_use]
    pub const fn request(self) -> Option<i32> {
        match self {
            Self::Nothing => None,
            Self::Forwarded(timestamp) | Self::Own(timestamp) => Some(timestamp),
        }
    }
}

impl<D> WorkerSide<D> {
    /// The local model has a request, and no server.
    pub fn keep_local(&mut self, timestamp: i32) {
        self.local.insert(timestamp);
    }

    /// True if the local model has that request.
    #[must_use]
    pub fn is_local(&self, timestamp: i32) -> bool {
        self.local.contains(&timestamp)
    }

    /// How many requests the local model has.
    #[must_use]
    pub fn local_count(&self) -> usize {
        self.local.len()
    }

    /// Does what the local model says. `own`: what a request of the worker's own, about that wire
    /// key, leaves for its end.
    pub fn do_local(
        &mut self,
        now: Duration,
        step: LocalStep,
        own: impl FnOnce(Key) -> D,
        out: &mut WorkerOutput<D>,
    ) -> LocalSent {
        match step {
            LocalStep::Answer(timestamp, all) => self.answer_local(timestamp, all, out),
            LocalStep::Refuse(timestamp, why) => self.refuse_local(timestamp, why, out),
            LocalStep::Forward(asked) => {
                let (meta, slices) = *asked;
                self.forward(now, &meta, slices, out);
                return LocalSent::Forwarded(meta.timestamp);
            }
            LocalStep::Send(request) => {
                let payload = own(request.key);
                let begun = self.begin_own(now, *request, payload, out);
                return begun.map_or(LocalSent::Nothing, LocalSent::Own);
            }
            LocalStep::Say(report) => out.reports.push(*report),
        }
        LocalSent::Nothing
    }

    /// The local model has answered a request: what each of its slices brought.
    fn answer_local(&mut self, timestamp: i32, all: Vec<AheadSlice>, out: &mut WorkerOutput<D>) {
        self.local.remove(&timestamp);
        out.over.extend(self.requests.on_ahead(timestamp, all));
    }

    /// The local model refuses a request.
    fn refuse_local(&mut self, timestamp: i32, why: String, out: &mut WorkerOutput<D>) {
        self.local.remove(&timestamp);
        out.has_failed = true;
        out.over.extend(self.requests.fail(timestamp, Failure::new(FailureKind::Refused, why)));
    }

    /// The local model leaves a request to the servers after all. It fails if it does not fit what
    /// is known of the pieces.
    fn forward(&mut self, now: Duration, meta: &Meta, slices: Slices, out: &mut WorkerOutput<D>) {
        self.local.remove(&meta.timestamp);
        let slices = slices.into_iter().enumerate();
        let slices = slices.filter_map(|(rank, slice)| slice.map(|kv| (rank, kv)));
        if let Err(error) = self.begin(now, meta, slices, out) {
            self.fail(meta.timestamp, &error.to_string(), out);
        }
    }

    /// The local model makes a request of its own. Its number; `None`: the job is over.
    fn begin_own(
        &mut self,
        now: Duration,
        own: Own,
        payload: D,
        out: &mut WorkerOutput<D>,
    ) -> Option<i32> {
        let Own { rank, meta, kv, .. } = own;
        let timestamp = self.requests.new_request(&[server_id(rank as usize)]);
        let pending = Pending::pull(kv.keys.clone(), false, payload);
        self.requests.open(timestamp, pending).ok()?;
        let meta = Meta { timestamp, ..meta };
        let slice = std::iter::once((rank as usize, kv));
        if let Err(error) = self.begin(now, &meta, slice, out) {
            self.fail(timestamp, &error.to_string(), out);
        }
        Some(timestamp)
    }

    /// A request cannot be sent, or answered.
    pub fn fail(&mut self, timestamp: i32, why: &str, out: &mut WorkerOutput<D>) {
        self.forget(timestamp);
        out.has_failed = true;
        out.over.extend(self.requests.fail(timestamp, why));
    }
}
