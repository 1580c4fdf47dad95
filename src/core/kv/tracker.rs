//! The requests of one customer that are in flight: who still has to answer, which are done, which
//! failed (customer.cc:11-64).
//!
//! Pure bookkeeping; the caller turns a change of [`State`] into a wake-up. Unlike stock's vector
//! it forgets what is finished, knows *who* answered (so a duplicate counts once and a lost node
//! fails its requests), and is done when enough have answered instead of when exactly as many.

use crate::invariant::{Valid, require};
use crate::wire::NodeId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How many runs of failed requests are remembered for those who wait late. Neighbours with the
/// same reason form one run, so a lost node costs few of them. The oldest go first; a request of
/// theirs would then count as done, which only a waiter 4096 failures too late can see.
pub const FAILED_RUNS_KEPT: usize = 4096;

/// For how many of the last requests [`Tracker::num_response`] answers after they are done.
pub const RESPONSES_KEPT: usize = 1024;

/// Requests are numbered 0, 1, 2 …, below the "not set" of the wire.
const LAST_TIMESTAMP: i32 = i32::MAX - 1;

/// What a response meant to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was awaited.
    Counted,
    /// That node has answered already.
    Duplicate,
    /// No such request is in flight, or that node was not asked.
    Unknown,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureKind {
    /// It will not be answered: a node is lost, or this one is closing.
    #[default]
    Unanswered,
    /// A server refused it.
    Refused,
    /// The answers do not fit the request.
    Unfit,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is said of it.
    pub text: Arc<str>,
    /// What kind it is.
    pub kind: FailureKind,
}

impl Failure {
    /// Of that kind.
    #[must_use]
    pub fn new(kind: FailureKind, text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), kind }
    }
}

impl From<Arc<str>> for Failure {
    fn from(text: Arc<str>) -> Self {
        Self::new(FailureKind::Unanswered, text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::new(FailureKind::Unanswered, text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::new(FailureKind::Unanswered, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Where a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not all have answered, or the callback has not run yet.
    Waiting,
    /// Answered.
    Done,
    /// It will not be answered, for this reason.
    Failed(Failure),
    /// There has never been such a request.
    Unknown,
}

/// One node that was asked.
#[derive(Clone, Copy, Debug)]
struct Responder {
    node: NodeId,
    answered: bool,
}

/// A request in flight.
#[derive(Clone, Debug)]
struct TrackedRequest {
    /// Ordered by node: each answer, and each server that is left out, is looked up here.
    responders: SmallVec<[Responder; 4]>,
    /// Answers, skipped servers and stock's anonymous `AddResponse` together.
    received: i32,
    /// Not done before [`Tracker::complete`]: a callback runs first (kv_app.h:616-640).
    held: bool,
    /// Held, and nothing more is awaited; the reason if it failed.
    settled: Option<Result<(), Failure>>,
    /// When it was sent, on the caller's clock.
    asked: Option<Duration>,
}

impl TrackedRequest {
    fn expected(&self) -> i32 {
        i32::try_from(self.responders.len()).unwrap_or(i32::MAX)
    }

    /// Enough have answered.
    fn is_answered(&self) -> bool {
        self.received >= self.expected()
    }

    fn mark(&mut self, node: NodeId) -> Received {
        let first = self.first(node);
        // The same node may have been asked twice: look for an open place first.
        let mut places =
            self.responders.iter_mut().skip(first).take_while(|r| r.node == node).peekable();
        if places.peek().is_none() {
            return Received::Unknown;
        }
        let Some(responder) = places.find(|r| !r.answered) else { return Received::Duplicate };
        responder.answered = true;
        self.received = self.received.saturating_add(1);
        Received::Counted
    }

    fn waits_for(&self, node: NodeId) -> bool {
        let mut places =
            self.responders.iter().skip(self.first(node)).take_while(|r| r.node == node);
        self.settled.is_none() && places.any(|r| !r.answered)
    }

    /// Where the places of a node begin, if it has any.
    fn first(&self, node: NodeId) -> usize {
        self.responders.partition_point(|responder| responder.node < node)
    }

    /// These are asked too.
    fn ask(&mut self, nodes: &[NodeId]) {
        self.responders.extend(nodes.iter().map(|&node| Responder { node, answered: false }));
        self.responders.sort_by_key(|responder| responder.node);
    }
}

/// A run of neighbouring requests that failed for one reason.
#[derive(Clone, Debug)]
struct FailedRun {
    last: i32,
    reason: Failure,
}

/// The requests of one customer.
#[derive(Clone, Debug)]
pub struct Tracker {
    next: i32,
    /// The numbers have started again from 0.
    lapped: bool,
    in_flight: BTreeMap<i32, TrackedRequest>,
    /// Failed runs by their first request.
    failed: BTreeMap<i32, FailedRun>,
    /// `(timestamp, responses)` at `timestamp % RESPONSES_KEPT`.
    responses: Vec<(i32, i32)>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracker {
    /// No requests yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next: 0,
            lapped: false,
            in_flight: BTreeMap::new(),
            failed: BTreeMap::new(),
            responses: Vec::new(),
        }
    }

    /// Starts a request to these nodes and returns its timestamp: 0, 1, 2 …
    pub fn new_request(&mut self, responders: &[NodeId]) -> i32 {
        while self.in_flight.contains_key(&self.next) {
            self.advance(); // Only after 2^31 requests.
        }
        let timestamp = self.next;
        self.advance();
        let mut request = TrackedRequest {
            responders: SmallVec::new(),
            received: 0,
            held: false,
            settled: None,
            asked: None,
        };
        request.ask(responders);
        if request.is_answered() {
            self.remember_responses(timestamp, 0);
        } else {
            self.in_flight.insert(timestamp, request);
        }
        if self.lapped {
            self.forget_failure(timestamp);
        }
        timestamp
    }

    fn advance(&mut self) {
        if self.next == LAST_TIMESTAMP {
            self.next = 0;
            self.lapped = true;
        } else {
            self.next += 1;
        }
    }

    /// Keeps a request from being done before [`Self::complete`], so that its callback finishes
    /// before anybody's wait returns. True if the request is in flight.
    pub fn hold(&mut self, ts: i32) -> bool {
        let Some(request) = self.in_flight.get_mut(&ts) else { return false };
        request.held = true;
        true
    }

    /// Notes when a request in flight is sent.
    pub fn note_asked(&mut self, ts: i32, now: Duration) {
        if let Some(request) = self.in_flight.get_mut(&ts) {
            request.asked = Some(now);
        }
    }

    /// True if the request is in flight and still awaits that node.
    #[must_use]
    pub fn awaits(&self, ts: i32, node: NodeId) -> bool {
        self.in_flight.get(&ts).is_some_and(|request| request.waits_for(node))
    }

    /// When the request was sent, if it is in flight and still awaits that node.
    #[must_use]
    pub fn asked(&self, ts: i32, node: NodeId) -> Option<Duration> {
        self.in_flight.get(&ts).filter(|request| request.waits_for(node))?.asked
    }

    /// The oldest request of these that was sent and waits for somebody, and when it was sent.
    #[must_use]
    pub fn oldest_asked(&self, of: impl Fn(i32) -> bool) -> Option<(i32, Duration)> {
        let waiting = self.in_flight.iter().filter(|(_, request)| request.settled.is_none());
        let mut waiting = waiting.filter(|(ts, _)| of(**ts));
        waiting.find_map(|(ts, request)| Some((*ts, request.asked?)))
    }

    /// The server gets no message for this request: nothing is awaited from it.
    pub fn skip(&mut self, ts: i32, node: NodeId) -> Received {
        self.response(ts, node)
    }

    /// Those who have not answered are gone, and the request goes to these nodes instead. Nothing
    /// happens if it is not in flight.
    pub fn redirect(&mut self, ts: i32, to: &[NodeId]) {
        let Some(request) = self.in_flight.get_mut(&ts).filter(|r| r.settled.is_none()) else {
            return;
        };
        request.responders.retain(|responder| responder.answered);
        request.ask(to);
        self.settle_if_answered(ts);
    }

    /// Stock's `AddResponse` (customer.cc:39): `n` answers from nobody in particular.
    pub fn add_response(&mut self, ts: i32, n: i32) {
        let Some(request) = self.in_flight.get_mut(&ts) else { return };
        request.received = request.received.saturating_add(n);
        self.settle_if_answered(ts);
    }

    /// Counts an answer.
    pub fn response(&mut self, ts: i32, from: NodeId) -> Received {
        let Some(request) = self.in_flight.get_mut(&ts) else { return Received::Unknown };
        if request.settled.is_some() {
            return Received::Duplicate;
        }
        let received = request.mark(from);
        if received == Received::Counted {
            self.settle_if_answered(ts);
        }
        received
    }

    fn settle_if_answered(&mut self, ts: i32) {
        let Some(request) = self.in_flight.get_mut(&ts) else { return };
        if !request.is_answered() || request.settled.is_some() {
            return;
        }
        if request.held {
            request.settled = Some(Ok(()));
        } else {
            self.close(ts, Ok(()));
        }
    }

    /// True if a held request awaits nothing but [`Self::complete`].
    #[must_use]
    pub fn is_settled(&self, ts: i32) -> bool {
        self.in_flight.get(&ts).is_some_and(|request| request.settled.is_some())
    }

    /// True if the request is in flight and has no callback.
    #[must_use]
    pub fn is_bare(&self, ts: i32) -> bool {
        self.in_flight.get(&ts).is_some_and(|request| !request.held)
    }

    /// The callback of a held request has run: those who wait may go on.
    pub fn complete(&mut self, ts: i32) {
        if let Some(outcome) = self.in_flight.get_mut(&ts).and_then(|r| r.settled.take()) {
            self.close(ts, outcome);
        }
    }

    /// A held request is to end in failure once its callback has run, whatever it was before.
    pub(super) fn resettle_failed(&mut self, ts: i32, reason: Failure) {
        if let Some(request) = self.in_flight.get_mut(&ts) {
            request.settled = Some(Err(reason));
        }
    }

    /// Ends a request in failure now, held or not; nothing happens if it is not in flight.
    pub fn fail(&mut self, ts: i32, reason: impl Into<Failure>) {
        self.close(ts, Err(reason.into()));
    }

    /// A node is lost: fails the requests that still wait for it, and returns them in order. A
    /// held request that awaits its callback only is left alone.
    pub fn fail_node(&mut self, node: NodeId, reason: impl Into<Failure>) -> Vec<i32> {
        self.fail_those(&reason.into(), |request| request.waits_for(node))
    }

    /// Nothing will be answered any more: fails all that still wait, and returns them in order.
    pub fn fail_all(&mut self, reason: impl Into<Failure>) -> Vec<i32> {
        self.fail_those(&reason.into(), |request| request.settled.is_none())
    }

    /// The requests that still wait for this node, in order.
    #[must_use]
    pub fn waiting_for(&self, node: NodeId) -> Vec<i32> {
        self.select(|request| request.waits_for(node))
    }

    /// The requests that still wait for anybody, in order.
    #[must_use]
    pub fn waiting(&self) -> Vec<i32> {
        self.select(|request| request.settled.is_none())
    }

    fn select(&self, which: impl Fn(&TrackedRequest) -> bool) -> Vec<i32> {
        self.in_flight.iter().filter(|(_, request)| which(request)).map(|(ts, _)| *ts).collect()
    }

    fn fail_those(
        &mut self,
        reason: &Failure,
        which: impl Fn(&TrackedRequest) -> bool,
    ) -> Vec<i32> {
        let failed = self.select(which);
        for ts in &failed {
            self.close(*ts, Err(reason.clone()));
        }
        failed
    }

    /// Takes a request out of flight.
    fn close(&mut self, ts: i32, outcome: Result<(), Failure>) {
        let Some(request) = self.in_flight.remove(&ts) else { return };
        match outcome {
            // The waiter may look later: it sees as many answers as were awaited, as in stock.
            Ok(()) => self.remember_responses(ts, request.received.max(request.expected())),
            Err(reason) => {
                self.remember_responses(ts, request.received);
                self.remember_failure(ts, reason);
            }
        }
    }

    /// How many have answered (customer.cc:34); 0 if that is not known any more.
    #[must_use]
    pub fn num_response(&self, ts: i32) -> i32 {
        if let Some(request) = self.in_flight.get(&ts) {
            return request.received;
        }
        let kept = slot(ts).and_then(|slot| self.responses.get(slot));
        kept.filter(|(kept, _)| *kept == ts).map_or(0, |(_, responses)| *responses)
    }

    /// Where the request stands.
    #[must_use]
    pub fn state(&self, ts: i32) -> State {
        if self.in_flight.contains_key(&ts) {
            State::Waiting
        } else if let Some(reason) = self.failure(ts) {
            State::Failed(reason)
        } else if (0..self.next).contains(&ts) || (self.lapped && ts >= 0) {
            State::Done
        } else {
            State::Unknown
        }
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.in_flight.len()
    }

    /// How many answers a request still waits for; 0 if it is not in flight.
    #[must_use]
    pub fn awaited(&self, ts: i32) -> usize {
        let missing =
            |request: &TrackedRequest| request.expected().saturating_sub(request.received);
        usize::try_from(self.in_flight.get(&ts).map_or(0, missing)).unwrap_or(0)
    }

    /// Which nodes a request still waits for.
    #[must_use]
    pub fn missing(&self, ts: i32) -> Vec<NodeId> {
        let responders = self.in_flight.get(&ts).map(|request| request.responders.as_slice());
        let open = responders.unwrap_or_default().iter().filter(|r| !r.answered);
        open.map(|r| r.node).collect()
    }

    /// What is in flight waits for somebody, or for its callback; answers are counted once; of each
    /// request one failure is known.
    ///
    /// # Errors
    /// The first request of which that does not hold.
    pub fn validate(&self) -> Valid {
        for (timestamp, request) in &self.in_flight {
            let named = |broken: &str| format!("request {timestamp}: {broken}: {request:?}");
            let answered = request.responders.iter().filter(|r| r.answered).count();
            require(answered as i32 <= request.received, || {
                named("fewer answers are counted than came")
            })?;
            require(request.responders.is_sorted_by_key(|responder| responder.node), || {
                named("those that were asked are not in order")
            })?;
            require(!request.is_answered() || request.settled.is_some(), || {
                named("nothing is awaited, and it is in flight")
            })?;
            require(request.settled.is_none() || request.held, || {
                named("it awaits a callback that it has not")
            })?;
        }
        let apart = self.failed.iter().zip(self.failed.iter().skip(1));
        for ((first, run), (next, _)) in apart {
            require(first <= &run.last && run.last < *next, || {
                format!("the failures {first}..={} and {next} overlap", run.last)
            })?;
        }
        let kept = (self.failed.len(), self.responses.len());
        require(kept.0 <= FAILED_RUNS_KEPT && kept.1 <= RESPONSES_KEPT, || {
            format!("more failures and counts are kept than may be: {kept:?}")
        })
    }

    fn remember_responses(&mut self, ts: i32, responses: i32) {
        let Some(slot) = slot(ts) else { return };
        if self.responses.len() <= slot {
            self.responses.resize(slot + 1, (-1, 0));
        }
        if let Some(kept) = self.responses.get_mut(slot) {
            *kept = (ts, responses);
        }
    }

    fn failure(&self, ts: i32) -> Option<Failure> {
        let (_, run) = self.failed.range(..=ts).next_back()?;
        (ts <= run.last).then(|| run.reason.clone())
    }

    fn remember_failure(&mut self, ts: i32, reason: Failure) {
        if let Some((_, run)) = self.failed.range_mut(..ts).next_back()
            && run.last.checked_add(1) == Some(ts)
            && run.reason == reason
        {
            run.last = ts;
            return;
        }
        self.failed.insert(ts, FailedRun { last: ts, reason });
        if self.failed.len() > FAILED_RUNS_KEPT {
            self.failed.pop_first();
        }
    }

    /// A number is used again: its former failure is not its own.
    fn forget_failure(&mut self, ts: i32) {
        let Some((&first, run)) = self.failed.range(..=ts).next_back() else { return };
        if ts > run.last {
            return;
        }
        let (last, reason) = (run.last, run.reason.clone());
        self.failed.remove(&first);
        if first < ts {
            self.failed.insert(first, FailedRun { last: ts - 1, reason: reason.clone() });
        }
        if ts < last {
            self.failed.insert(ts + 1, FailedRun { last, reason });
        }
    }
}

/// Where the number of responses of a finished request is kept.
fn slot(ts: i32) -> Option<usize> {
    usize::try_from(ts).ok().map(|ts| ts % RESPONSES_KEPT)
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
