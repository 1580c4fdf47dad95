//! The side of a customer that asks: its requests, where their answers go, and the threads that
//! wait for their ends. Every customer has this side; only a KVWorker's assembles values.
//! `core::worker` decides ([`WorkerSide`]); here are the locks, and what it says is done. Must not
//! name the side that serves.

mod ahead;
mod asking;
mod calls;
mod commands;
mod exchange;
mod landed;
mod moving;
mod oldest;
mod outputs;
mod own_keys;
mod parts;
mod program;
mod responses;

mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use self::calls::Calls;
use self::exchange::Here;
use self::oldest::OldestWatch;
use self::waiting::Waiters;
use crate::base::Base;
use crate::error::{NodeError, Result};
use crate::landing::{Landings, PullSink};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::rounds::Round;
use pslite_core::kv::{Failure, FailureKind, Finished, RequestError};
use pslite_core::values::{KeySpace, KvPairs};
use pslite_core::wire::{DataType, Devices, Key};
use pslite_core::worker::WorkerSide;
use pslite_observe::Traffic;

/// The end of a request.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// What a worker asks of the servers.
pub struct Request {
    /// Keys, and for a push values and perhaps lens.
    pub kv: KvPairs,
    /// The application's command.
    pub cmd: i32,
    /// Higher goes first.
    pub priority: i32,
    /// Values go to the servers.
    pub push: bool,
    /// Values come back.
    pub pull: bool,
    /// What the values are.
    pub values: Values,
}

/// What is said of values besides their bytes. For the other end: nothing here depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// A number of [`DataType`].
    pub data_type: i32,
    /// Where they lie, if that is anywhere but at CPU 0.
    pub devices: Option<Devices>,
}

impl Default for Values {
    fn default() -> Self {
        Self { data_type: DataType::Other as i32, devices: None }
    }
}

/// See the module.
pub(crate) struct WorkerCustomer {
    base: Arc<Base>,
    requests: Mutex<Requests>,
    /// Never held while `requests` is locked.
    calls: Calls<RequestEnd>,
    /// Where the answers of pulls are received. Locked after `requests`, if both are.
    landings: Arc<Landings>,
    /// For the threads that wait for the end of a request.
    answered: Condvar,
    /// Parts of requests wait to be sent.
    waits: AtomicBool,
    /// Where its keys lie, if they are its own.
    own_keys: OnceLock<KeySpace>,
    /// When to log for which servers the oldest request waits.
    oldest: Mutex<OldestWatch>,
}

struct Requests {
    side: WorkerSide<RequestEnd>,
    /// Bytes of one value, if this is a KVWorker.
    value_size: Option<usize>,
    waiters: Waiters,
    /// Where the times of responses are counted.
    traffic: Option<Arc<Traffic>>,
    /// The local model, if it answers.
    here: Here,
    /// Pulls go to the servers, also where the local model answers.
    global: bool,
}

impl Requests {
    /// A request is about to be sent.
    fn asked(&mut self, traffic: &Arc<Traffic>, timestamp: i32) {
        if !self.traffic.as_ref().is_some_and(|known| Arc::ptr_eq(known, traffic)) {
            self.traffic = Some(Arc::clone(traffic));
        }
        self.side.note_asked(timestamp, traffic.now());
    }
}

/// What a KVWorker's request leaves for its end.
enum RequestEnd {
    /// A request of the program.
    Program { sink: Option<Box<dyn PullSink>>, done: Done },
    /// One of this worker's own, about that wire key (`exchange`).
    Own(Key),
}

impl WorkerCustomer {
    /// A side that has asked nothing yet.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self {
            base,
            requests: Mutex::new(Requests {
                side: WorkerSide::default(),
                value_size: None,
                waiters: Waiters::default(),
                traffic: None,
                here: Here::default(),
                global: false,
            }),
            calls: Calls::default(),
            landings: Arc::default(),
            answered: Condvar::new(),
            waits: AtomicBool::new(false),
            own_keys: OnceLock::new(),
            oldest: Mutex::default(),
        }
    }

    /// From now on responses are assembled here and do not reach the handler.
    pub(crate) fn attach(&self, value_size: usize) {
        lock(&self.requests).value_size = Some(value_size.max(1));
    }

    /// True for a KVWorker's.
    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.requests).value_size.is_some()
    }

    /// Where the answers of pulls may be received.
    pub(crate) const fn landings(&self) -> &Arc<Landings> {
        &self.landings
    }

    /// The rounds finished since the last call.
    pub(crate) fn take_rounds(&self) -> Vec<Round> {
        lock(&self.requests).side.take_rounds()
    }

    /// True if parts of requests wait to be sent. True once for each time that they began to wait.
    pub(crate) fn take_waits(&self) -> bool {
        self.waits.swap(false, Ordering::Relaxed)
    }

    /// The customer ends: withdraws the memory of requests that have not ended.
    pub(crate) fn close(&self) {
        self.landings.close_all();
    }

    fn node(&self) -> Result<NodeRef> {
        self.base.node()
    }

    /// Counts bytes of pulled values that did not land where they were wanted.
    fn note_copied(&self, bytes: usize) {
        if let Ok(node) = self.node() {
            node.traffic().copied(bytes);
        }
    }

    /// Runs the end of a request, then wakes the threads that wait for it (kv_app.h:616).
    fn end(&self, finished: Finished<RequestEnd>) {
        let Finished { ts, payload, outcome } = finished;
        let (sink, done) = match payload {
            RequestEnd::Program { sink, done } => (sink, done),
            RequestEnd::Own(key) => return self.own_over(ts, key, outcome),
        };
        // From here on the memory is the caller's again.
        self.landings.close(ts);
        let result = match outcome {
            Ok(Some(assembled)) => match sink {
                Some(mut sink) => match sink.take(&assembled) {
                    Ok(copied) => {
                        self.note_copied(copied);
                        Ok(())
                    }
                    Err(text) => Err(NodeError::Protocol(text)),
                },
                None => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(request_error(&error)),
        };
        let failure = result.as_ref().err().map(failure_of);
        if let Ok(node) = self.node() {
            node.training().answered(|| node.now());
        }
        done(result);
        let mut state = lock(&self.requests);
        if let Some(failure) = failure {
            state.side.requests_mut().fail(ts, failure);
        }
        state.side.complete(ts);
        self.tell_waiters(state);
    }
}

/// What who waits is told.
fn failure_of(error: &NodeError) -> Failure {
    let kind = match error {
        NodeError::Remote(_) => FailureKind::Refused,
        NodeError::Protocol(_) => FailureKind::Unfit,
        _ => FailureKind::Unanswered,
    };
    Failure::new(kind, error.to_string())
}

fn request_error(error: &RequestError) -> NodeError {
    match error {
        RequestError::Answer { source, .. } => NodeError::Protocol(source.to_string()),
        RequestError::Remote { reason, .. } | RequestError::Refused { reason, .. } => {
            NodeError::Remote(reason.to_string())
        }
        RequestError::Unanswered { reason, .. } => NodeError::PeerLost(reason.to_string()),
    }
}
