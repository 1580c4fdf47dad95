//! The requests of one worker customer, and what happens when they are answered: the pure half of
//! `KVWorker` (kv_app.h:574-717). Joins the tracker and the assembly of pulls.
//!
//! Runs no callback itself. A request whose last answer came is returned as [`Finished`]. The
//! caller runs the callback and then calls [`WorkerRequests::complete`]; only then is the request
//! done. So a callback completes before a wait returns, as in stock.
//!
//! The request says whether it pulls; the flags of the answer are not trusted.

use super::flights::{AheadSlice, Brought};
use super::{Assembled, Failure, FailureKind, KvError, PullAssembly, Received, State, Tracker};
use crate::invariant::{Valid, require};
use crate::values::KvPairs;
use crate::wire::{NodeId, server_id};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the caller expects of a request.
#[derive(Clone, Debug)]
pub struct Pending<D> {
    /// For a pull: which keys, and whether lens are wanted.
    pub pull: Option<PullWish>,
    /// The caller's own: callback, destination.
    pub payload: D,
}

/// What a pull asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullWish {
    /// The keys of the whole request.
    pub keys: Bytes,
    /// Every server must send lens.
    pub want_lens: bool,
}

impl<D> Pending<D> {
    /// A request that brings no values back.
    pub const fn push(payload: D) -> Self {
        Self { pull: None, payload }
    }

    /// A request that brings the values of these keys back (a pull, or a push-pull).
    pub const fn pull(keys: Bytes, want_lens: bool, payload: D) -> Self {
        Self { pull: Some(PullWish { keys, want_lens }), payload }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The answers do not fit the request.
    #[error("request {timestamp}: {source}")]
    Answer {
        /// The request.
        timestamp: i32,
        /// What does not fit.
        source: KvError,
    },
    /// A server refused it, with this reason.
    #[error("request {timestamp} failed at node {node}: {reason}")]
    Remote {
        /// The request.
        timestamp: i32,
        /// The server.
        node: NodeId,
        /// What it says.
        reason: Arc<str>,
    },
    /// This worker refuses it.
    #[error("request {timestamp}: {reason}")]
    Refused {
        /// The request.
        timestamp: i32,
        /// Why.
        reason: Arc<str>,
    },
    /// It will not be answered: a node is lost, or this one is closing.
    #[error("request {timestamp}: {reason}")]
    Unanswered {
        /// The request.
        timestamp: i32,
        /// Why not.
        reason: Arc<str>,
    },
}

/// A request that awaits nothing but its callback and [`WorkerRequests::complete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<D> {
    /// The request.
    pub ts: i32,
    /// What the caller left here.
    pub payload: D,
    /// The values, if it was a pull; or why it failed.
    pub outcome: Result<Option<Assembled>, RequestError>,
}

/// The answer of one server.
#[derive(Clone, Debug, Default)]
pub struct Response<'a> {
    /// What the server sent; empty for a push.
    pub pairs: KvPairs,
    /// Further values, behind those of `pairs`: they came in several messages.
    pub more: Vec<Bytes>,
    /// The reason if the request failed there (`Meta::error`); empty if it did not.
    pub error: &'a str,
}

/// What is kept of a request in flight.
#[derive(Clone, Debug)]
struct OpenRequest<D> {
    payload: D,
    pull: Option<(PullAssembly, bool)>,
}

/// The requests of one worker customer.
#[derive(Clone, Debug)]
pub struct WorkerRequests<D> {
    tracker: Tracker,
    open: BTreeMap<i32, OpenRequest<D>>,
    ignored: u64,
}

impl<D> Default for WorkerRequests<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D> WorkerRequests<D> {
    /// No requests yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { tracker: Tracker::new(), open: BTreeMap::new(), ignored: 0 }
    }

    /// The tracker, to look at.
    #[must_use]
    pub const fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// What has a callback is in flight and awaits somebody, and a pull has no more parts than came
    /// as answers.
    ///
    /// # Errors
    /// The first request of which that does not hold.
    pub fn validate(&self) -> Valid {
        self.tracker.validate()?;
        for (ts, open) in &self.open {
            require(
                self.tracker.state(*ts) == State::Waiting && !self.tracker.is_settled(*ts),
                || format!("request {ts} awaits nobody, and its callback is kept"),
            )?;
            let parts = open.pull.as_ref().map_or(0, |(assembly, _)| assembly.parts());
            let came = self.tracker.num_response(*ts);
            require(parts as i64 <= i64::from(came), || {
                format!("pull {ts} has {parts} parts of {came} answers")
            })?;
        }
        Ok(())
    }

    /// What a request in flight is, for people.
    #[must_use]
    pub fn what(&self, ts: i32) -> &'static str {
        match self.open.get(&ts) {
            None => "a command",
            Some(OpenRequest { pull: None, .. }) => "a push",
            Some(_) => "a pull",
        }
    }

    /// The caller's own of a request in flight.
    #[must_use]
    pub fn payload(&self, ts: i32) -> Option<&D> {
        self.open.get(&ts).map(|open| &open.payload)
    }

    /// Late, unknown and repeated answers so far.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Starts a request to these nodes and returns its timestamp.
    pub fn new_request(&mut self, responders: &[NodeId]) -> i32 {
        self.tracker.new_request(responders)
    }

    /// Says what is to happen when the request is answered. Gives the payload back if the request
    /// is not in flight (nobody was asked, or it failed already): the caller then runs the
    /// callback at once.
    ///
    /// # Errors
    /// The payload, if there is no such request in flight.
    pub fn open(&mut self, ts: i32, pending: Pending<D>) -> Result<(), D> {
        if self.tracker.is_settled(ts) || !self.tracker.hold(ts) {
            return Err(pending.payload);
        }
        let pull = pending.pull.map(|wish| (PullAssembly::new(wish.keys), wish.want_lens));
        self.open.insert(ts, OpenRequest { payload: pending.payload, pull });
        Ok(())
    }

    /// Notes when a request is sent.
    pub fn note_asked(&mut self, ts: i32, now: Duration) {
        self.tracker.note_asked(ts, now);
    }

    /// Those who have not answered are gone, and these servers are asked instead.
    pub fn redirect(&mut self, ts: i32, to: &[NodeId]) -> Option<Finished<D>> {
        self.tracker.redirect(ts, to);
        self.finish_if_settled(ts)
    }

    /// The slicer left this server out (kv_app.h:580-590). `Some` if no other is awaited.
    pub fn skip(&mut self, ts: i32, node: NodeId) -> Option<Finished<D>> {
        self.tracker.skip(ts, node);
        self.finish_if_settled(ts)
    }

    /// Stock's `AddResponse`; `Some` if nothing more is awaited.
    pub fn add_response(&mut self, ts: i32, n: i32) -> Option<Finished<D>> {
        self.tracker.add_response(ts, n);
        self.finish_if_settled(ts)
    }

    /// Takes one server's answer. `Some` if it was the last one, or ends the request in failure.
    /// Answers nobody waits for are counted and ignored.
    pub fn on_response(
        &mut self,
        ts: i32,
        from: NodeId,
        response: Response<'_>,
    ) -> Option<Finished<D>> {
        if !response.error.is_empty()
            && !self.open.contains_key(&ts)
            && self.tracker.awaits(ts, from)
        {
            // A bare request: counted as the last answer, this one would end it as a success.
            return self.refuse(ts, from, response.error);
        }
        if self.tracker.response(ts, from) != Received::Counted {
            self.ignored = self.ignored.saturating_add(1);
            return None;
        }
        if !response.error.is_empty() {
            return self.refuse(ts, from, response.error);
        }
        if let Some((assembly, _)) = self.open.get_mut(&ts).and_then(|open| open.pull.as_mut()) {
            assembly.add(response.pairs, response.more);
        }
        self.finish_if_settled(ts)
    }

    /// Takes the values of a pull that came ahead, as the answers of their servers.
    pub fn on_ahead(&mut self, ts: i32, all: Vec<AheadSlice>) -> Option<Finished<D>> {
        let mut finished = None;
        for AheadSlice { rank, brought: Brought { pairs, more }, .. } in all {
            let response = Response { pairs, more, ..Response::default() };
            finished = self.on_response(ts, server_id(rank as usize), response).or(finished);
        }
        finished
    }

    /// A server said no: the request as a whole has failed, whoever else answers.
    fn refuse(&mut self, ts: i32, node: NodeId, reason: &str) -> Option<Finished<D>> {
        let reason: Arc<str> = reason.into();
        let error = RequestError::Remote { timestamp: ts, node, reason };
        let finished = self.finish_failed(ts, error.clone());
        if finished.is_none() {
            self.tracker.fail(ts, failure_of(&error)); // Nothing was expected: a bare request.
        }
        finished
    }

    fn finish_if_settled(&mut self, ts: i32) -> Option<Finished<D>> {
        if !self.tracker.is_settled(ts) {
            return None;
        }
        let OpenRequest { payload, pull } = self.open.remove(&ts)?;
        let assembled = pull.map(|(assembly, want_lens)| assembly.finish(want_lens)).transpose();
        let outcome = assembled.map_err(|source| RequestError::Answer { timestamp: ts, source });
        if let Err(error) = &outcome {
            self.tracker.resettle_failed(ts, failure_of(error));
        }
        Some(Finished { ts, payload, outcome })
    }

    fn finish_failed(&mut self, ts: i32, error: RequestError) -> Option<Finished<D>> {
        let open = self.open.remove(&ts)?;
        self.tracker.resettle_failed(ts, failure_of(&error));
        Some(Finished { ts, payload: open.payload, outcome: Err(error) })
    }

    /// The callback of a finished request has run: the request is done, or failed, and those who
    /// wait for it may go on.
    pub fn complete(&mut self, ts: i32) {
        self.tracker.complete(ts);
    }

    /// Ends a request in failure; `Some` if it has a callback, which the caller then runs before
    /// [`Self::complete`]. A request without one fails at once. If the callback itself failed,
    /// this takes the place of `complete`.
    pub fn fail(&mut self, ts: i32, reason: impl Into<Failure>) -> Option<Finished<D>> {
        let failure = reason.into();
        let (timestamp, reason) = (ts, failure.text.clone());
        let error = match failure.kind {
            FailureKind::Refused => RequestError::Refused { timestamp, reason },
            _ => RequestError::Unanswered { timestamp, reason },
        };
        let finished = self.finish_failed(ts, error);
        if finished.is_none() {
            self.tracker.fail(ts, failure);
        }
        finished
    }

    /// A request could not be sent: it has failed, and its callback is dropped. False if somebody
    /// else ends it, or has: who has [`Finished`] runs its callback, and who waits is told.
    #[must_use]
    pub fn withdraw(&mut self, ts: i32, reason: impl Into<Failure>) -> bool {
        let was_open = self.open.remove(&ts).is_some();
        if was_open || self.tracker.is_bare(ts) {
            self.tracker.fail(ts, reason);
            return true;
        }
        self.tracker.state(ts) == State::Unknown
    }

    /// A node is lost: ends every request that still waits for it. Those with a callback are
    /// returned, to be run and completed; the others have failed at once.
    pub fn fail_node(&mut self, node: NodeId, reason: impl Into<Arc<str>>) -> Vec<Finished<D>> {
        let waiting = self.tracker.waiting_for(node);
        self.fail_each(&waiting, &reason.into())
    }

    /// Nothing will be answered any more: as [`Self::fail_node`] for every request in flight.
    pub fn fail_all(&mut self, reason: impl Into<Arc<str>>) -> Vec<Finished<D>> {
        let waiting = self.tracker.waiting();
        self.fail_each(&waiting, &reason.into())
    }

    fn fail_each(&mut self, waiting: &[i32], reason: &Arc<str>) -> Vec<Finished<D>> {
        waiting.iter().filter_map(|ts| self.fail(*ts, reason.clone())).collect()
    }

    /// Where the request stands.
    #[must_use]
    pub fn state(&self, ts: i32) -> State {
        self.tracker.state(ts)
    }
}

/// What who waits is told.
fn failure_of(error: &RequestError) -> Failure {
    let kind = match error {
        RequestError::Answer { .. } => FailureKind::Unfit,
        RequestError::Remote { .. } | RequestError::Refused { .. } => FailureKind::Refused,
        RequestError::Unanswered { .. } => FailureKind::Unanswered,
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
