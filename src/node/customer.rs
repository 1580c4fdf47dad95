//! Customers: who sends requests and gets messages (customer.cc, simple_app.h, kv_app.h).
//!
//! The application's code runs one piece at a time for each customer: the handler of its messages
//! and the ends of its requests (`service`). Requests may be made and waited for from any thread.
//! What is counted and put together is decided in `kv`; here are the locks.

mod landed;
mod oldest;
mod parts;
mod serving;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::JoinHandle;

use bytes::Bytes;
use smallvec::SmallVec;

use self::oldest::OldestWatch;
pub(crate) use self::parts::check_frames;
use super::customers::Customers;
use super::delivery::Delivery;
use super::error::{NodeError, Result};
use super::gating::Gating;
use super::landing::{Landings, PullSink};
use super::line::Line;
use super::movable::Movable;
use super::recipient::Recipient;
use super::running::{NodeRef, NodeSlot, running};
use super::shell::{HAND_OVER, Shell};
use super::sync::lock;
use super::waiting::Waiters;
use pslite_core::kv::commands::Commands;
use pslite_core::kv::flights::Flights;
use pslite_core::kv::rounds::{Round, Rounds};
use pslite_core::kv::worker::Response;
use pslite_core::kv::{Finished, Pending, RequestError, Slices, Unanswered, WorkerRequests, slice};
use pslite_core::values::{KeyRange, KvPairs, server_key_ranges};
use pslite_core::wire::{DataType, Devices, Frames, Message, Meta, NodeId, SERVER_GROUP};
use pslite_observe::{MessageKind, Traffic};
use pslite_transport::fork::{self, Life};

/// Gets the messages of a customer, on the customer's thread, one after the other.
pub type Handler = Box<dyn Fn(Message) + Send + Sync>;

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

// ---- one customer -------------------------------------------------------------------------------

/// The state that a customer's thread, its callers and the node share.
pub(crate) struct Shared {
    pub(crate) app_id: i32,
    pub(super) customer_id: i32,
    pub(crate) handler: Handler,
    pub(crate) line: Line<Delivery>,
    pub(crate) requests: Mutex<Requests>,
    /// Where the answers of pulls are received. Locked after `requests`, if both are.
    pub(crate) landings: Landings,
    /// For those who wait for the end of a request.
    pub(crate) answered: Condvar,
    /// Some worker's customer has left.
    pub(crate) left: AtomicBool,
    /// Parts of requests wait to be sent.
    pub(crate) waits: AtomicBool,
    /// Serves requests in place of the handler, if this is a server with a store.
    pub(crate) shell: OnceLock<Shell>,
    /// Stands between keys that move and the handler, if this is a server without a store. See
    /// [`Shared::movable`].
    movable: OnceLock<Movable>,
    /// Of a worker: when to say for whom its oldest request waits.
    oldest: Mutex<OldestWatch>,
    /// Keeps the rounds of such a server apart.
    pub(super) gating: Gating,
    /// This, for what outlives a call.
    pub(super) me: Weak<Self>,
    node: NodeSlot,
}

pub(crate) struct Requests {
    pub(crate) requests: WorkerRequests<Payload>,
    /// Bytes of one value, if this is a KVWorker.
    pub(crate) value_size: Option<usize>,
    /// What the application owes answers to, if this is a KVServer.
    pub(crate) ledger: Option<Unanswered>,
    pub(crate) waiters: Waiters,
    pub(super) ranges: Vec<KeyRange>,
    /// Where the times of responses are counted.
    traffic: Option<Arc<Traffic>>,
    /// Which parts of requests are where, if keys may move in this job.
    pub(crate) flights: Option<Flights>,
    /// What was commanded, if servers may come and go in this job.
    pub(super) commands: Commands,
    pub(super) rounds: Rounds,
    /// Rounds that are over and not reported yet.
    pub(super) measured: Vec<Round>,
}

impl Requests {
    /// A request is about to be sent.
    pub(super) fn asked(&mut self, traffic: &Arc<Traffic>, timestamp: i32) {
        if !self.traffic.as_ref().is_some_and(|known| Arc::ptr_eq(known, traffic)) {
            self.traffic = Some(Arc::clone(traffic));
        }
        self.requests.note_asked(timestamp, traffic.now());
    }

    /// Takes an answer to a request; the end of the request, if it was the last one.
    pub(crate) fn answered(
        &mut self,
        (timestamp, sender, kind): (i32, NodeId, MessageKind),
        response: Response<'_>,
    ) -> Option<Finished<Payload>> {
        if let Some(traffic) = &self.traffic
            && let Some(asked) = self.requests.tracker().asked(timestamp, sender)
        {
            traffic.answered(sender, kind, asked);
        }
        self.requests.on_response(timestamp, sender, response)
    }
}

/// What a KVWorker's request leaves for its end.
pub(crate) struct Payload {
    sink: Option<Box<dyn PullSink>>,
    done: Done,
}

impl Shared {
    pub(crate) fn node(&self) -> Result<NodeRef> {
        running(&self.node)
    }

    pub(crate) fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let node = self.node()?;
        let told = if node.is_ours(request.sender) { error } else { "" };
        let meta = Meta {
            head: request.head,
            body,
            simple_app: true,
            app_id: self.app_id,
            customer_id: request.customer_id,
            timestamp: request.timestamp,
            recver: request.sender,
            error: told.to_owned(),
            ..Meta::default()
        };
        node.send(Message { meta, data: Frames::new() })
    }

    /// Runs the end of a request, then lets those go on who wait for it (kv_app.h:616).
    pub(crate) fn finish(&self, finished: Finished<Payload>) {
        let Finished { ts, payload, outcome } = finished;
        // From here on the memory is the caller's again.
        self.landings.close(ts);
        let result = match outcome {
            Ok(Some(assembled)) => match payload.sink {
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
        let refused = result.as_ref().err().map(ToString::to_string);
        (payload.done)(result);
        let mut state = lock(&self.requests);
        if let Some(flights) = &mut state.flights {
            flights.forget(ts); // Some of a request that failed may be under way.
        }
        if let Some(text) = refused {
            state.requests.fail(ts, text);
        }
        state.requests.complete(ts);
        self.tell_waiters(state);
    }
}

fn request_error(error: &RequestError) -> NodeError {
    match error {
        RequestError::Answer { source, .. } => NodeError::Protocol(source.to_string()),
        RequestError::Remote { reason, .. } => NodeError::Remote(reason.to_string()),
        RequestError::Unanswered { reason, .. } => NodeError::PeerLost(reason.to_string()),
    }
}

/// The owner of a customer: ends its thread when dropped.
pub struct Customer {
    handle: CustomerHandle,
    registry: Arc<Customers>,
    thread: Option<JoinHandle<()>>,
    _life: Life,
}

/// A customer as everybody but its owner sees it; cheap to clone.
#[derive(Clone)]
pub struct CustomerHandle {
    shared: Arc<Shared>,
}

impl Customer {
    pub(crate) fn new(
        registry: Arc<Customers>,
        node: NodeSlot,
        app_id: i32,
        customer_id: i32,
        handler: Handler,
    ) -> Result<Self> {
        let shared = Arc::new_cyclic(|me| Shared {
            me: Weak::clone(me),
            oldest: Mutex::default(),
            gating: Gating::default(),
            app_id,
            customer_id,
            handler,
            line: Line::new(),
            requests: Mutex::new(Requests {
                requests: WorkerRequests::new(),
                value_size: None,
                ledger: None,
                waiters: Waiters::default(),
                ranges: Vec::new(),
                traffic: None,
                flights: None,
                commands: Commands::default(),
                rounds: Rounds::default(),
                measured: Vec::new(),
            }),
            landings: Landings::default(),
            answered: Condvar::new(),
            left: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            shell: OnceLock::new(),
            movable: OnceLock::new(),
            node,
        });
        let recipient: Arc<dyn Recipient> = Arc::clone(&shared) as _;
        registry.add((app_id, customer_id), &recipient)?;
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("pslite-c{app_id}.{customer_id}"))
            .spawn(move || served.serve())
            .map_err(|error| NodeError::Config(format!("cannot start a thread: {error}")))?;
        let handle = CustomerHandle { shared };
        Ok(Self { handle, registry, thread: Some(thread), _life: Life::begin() })
    }

    /// What others use to work with this customer.
    #[must_use]
    pub const fn handle(&self) -> &CustomerHandle {
        &self.handle
    }
}

impl Drop for Customer {
    fn drop(&mut self) {
        // A child has no thread of the customer to wait for.
        if fork::is_forked() {
            return;
        }
        let shared = &self.handle.shared;
        self.registry.remove((shared.app_id, shared.customer_id));
        shared.line.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        shared.line.wait_until_idle();
        // Of requests that never end, the memory goes with the customer.
        shared.landings.close_all();
    }
}

impl CustomerHandle {
    /// The application.
    #[must_use]
    pub fn app_id(&self) -> i32 {
        self.shared.app_id
    }

    /// The customer within the application.
    #[must_use]
    pub fn customer_id(&self) -> i32 {
        self.shared.customer_id
    }

    // ---- requests in general (customer.cc) ------------------------------------------------------

    /// A new request to a node or group; its number.
    ///
    /// # Errors
    /// The node is not started, or there is no such node or group.
    pub fn new_request(&self, recver: i32) -> Result<i32> {
        let ids = self.ids_of(recver)?;
        Ok(lock(&self.shared.requests).requests.new_request(&ids))
    }

    /// Blocks until the request is over.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait(&self, timestamp: i32) -> Result<()> {
        self.shared.wait(timestamp)
    }

    /// How many responses to the request have arrived.
    #[must_use]
    pub fn num_response(&self, timestamp: i32) -> i32 {
        lock(&self.shared.requests).requests.tracker().num_response(timestamp)
    }

    /// Counts responses that will not come (customer.cc:45).
    pub fn add_response(&self, timestamp: i32, count: i32) {
        let finished = lock(&self.shared.requests).requests.add_response(timestamp, count);
        if let Some(finished) = finished {
            self.shared.finish(finished);
        }
        self.shared.tell_waiters(lock(&self.shared.requests));
    }

    fn ids_of(&self, recver: i32) -> Result<Vec<NodeId>> {
        self.shared.node()?.with_cluster(|cluster, _| cluster.ids_of(recver)).ok_or_else(|| {
            NodeError::Invalid(format!("{recver} is neither a node of this job nor a group"))
        })
    }

    // ---- SimpleApp ------------------------------------------------------------------------------

    /// Sends a command to every node behind `recver` (simple_app.h:104).
    ///
    /// # Errors
    /// A receiver is lost, or the node is not started.
    pub fn simple_request(&self, head: i32, body: &Bytes, recver: i32) -> Result<i32> {
        if recver == SERVER_GROUP && self.shared.follows_pieces() {
            return self.shared.command(head, body);
        }
        let ids = self.ids_of(recver)?;
        let node = self.shared.node()?;
        let timestamp = {
            let mut state = lock(&self.shared.requests);
            let timestamp = state.requests.new_request(&ids);
            state.asked(node.traffic(), timestamp);
            timestamp
        };
        for id in ids {
            let meta = Meta {
                head,
                body: body.clone(),
                simple_app: true,
                request: true,
                app_id: self.shared.app_id,
                customer_id: self.shared.customer_id,
                timestamp,
                recver: id,
                ..Meta::default()
            };
            let sent = node.send(Message { meta, data: Frames::new() });
            if let Err(error) = sent {
                lock(&self.shared.requests).requests.fail(timestamp, error.to_string());
                return Err(error);
            }
        }
        Ok(timestamp)
    }

    /// Answers a command; an `error` makes it fail at a sender of ours.
    ///
    /// # Errors
    /// The asker is lost, or the node is not started.
    pub fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        self.shared.simple_respond(request, body, error)
    }

    // ---- KVWorker -------------------------------------------------------------------------------

    /// From now on responses are put together here and do not reach the handler.
    pub fn attach_worker(&self, value_size: usize) {
        lock(&self.shared.requests).value_size = Some(value_size.max(1));
    }

    /// Registers a pull whose messages follow by [`Self::send`].
    ///
    /// # Errors
    /// The node is not started.
    pub fn expect_pull(&self, keys: Bytes, sink: Box<dyn PullSink>, done: Done) -> Result<i32> {
        self.begin(keys, Some(sink), done)
    }

    /// Pushes, pulls or both; the number of the request.
    ///
    /// # Errors
    /// The keys do not fit the servers' ranges, a server is lost, the node is not started. Then
    /// `done` was not and will not be called.
    pub fn request(
        &self,
        request: &Request,
        sink: Option<Box<dyn PullSink>>,
        done: Done,
    ) -> Result<i32> {
        let timestamp = self.begin(request.kv.keys.clone(), sink, done)?;
        self.send(timestamp, request)?;
        Ok(timestamp)
    }

    fn begin(&self, keys: Bytes, sink: Option<Box<dyn PullSink>>, done: Done) -> Result<i32> {
        let node = self.shared.node()?;
        let mut state = lock(&self.shared.requests);
        if state.value_size.is_none() {
            return Err(NodeError::Invalid("this customer is no KVWorker".to_owned()));
        }
        let servers = node.settings().server_groups();
        if servers == 0 {
            return Err(NodeError::Invalid("this job has no servers to ask".to_owned()));
        }
        if state.ranges.len() != servers {
            state.ranges = server_key_ranges(servers);
        }
        let ids: SmallVec<[NodeId; 16]> = (0..servers).map(|range| node.server_of(range)).collect();
        let timestamp = state.requests.new_request(&ids);
        let want_lens = sink.as_ref().map(|sink| sink.wants_lens());
        let destination =
            sink.as_ref().filter(|_| node.native().is_some() && node.settings().group_size == 1);
        let destination = destination.and_then(|sink| sink.destination());
        let payload = Payload { sink, done };
        let pending = match want_lens {
            Some(want_lens) => Pending::pull(keys, want_lens, payload),
            None => Pending::push(payload),
        };
        state
            .requests
            .expect(timestamp, pending)
            .map_err(|_| NodeError::PeerLost("the request failed before it was sent".to_owned()))?;
        if let Some(destination) = destination {
            self.shared.landings.open(timestamp, destination);
        }
        Ok(timestamp)
    }

    /// Cuts the pairs by server and sends them (kv_app.h:574).
    ///
    /// # Errors
    /// As [`Self::request`]; the request has failed then.
    pub fn send(&self, timestamp: i32, request: &Request) -> Result<()> {
        self.failing(timestamp, self.try_send(timestamp, request))
    }

    /// If a request could not be sent, it has failed.
    fn failing(&self, timestamp: i32, sent: Result<()>) -> Result<()> {
        sent.inspect_err(|error| {
            self.shared.landings.close(timestamp);
            let mut state = lock(&self.shared.requests);
            // The caller has the error: the end of the request is dropped, not run.
            drop(state.requests.fail(timestamp, error.to_string()));
            state.requests.complete(timestamp);
            self.shared.tell_waiters(state);
        })
    }

    fn try_send(&self, timestamp: i32, request: &Request) -> Result<()> {
        let node = self.shared.node()?;
        let state = lock(&self.shared.requests);
        let value_size = state.value_size.unwrap_or(1);
        let slices = slice(&request.kv, value_size, &state.ranges)
            .map_err(|error| NodeError::Invalid(error.to_string()))?;
        self.send_slices(&node, state, (timestamp, request), slices)
    }

    /// Sends what each server is to get; the others are not asked.
    fn send_slices(
        &self,
        node: &NodeRef,
        mut state: MutexGuard<'_, Requests>,
        (timestamp, request): (i32, &Request),
        slices: Slices,
    ) -> Result<()> {
        if request.push && request.pull && node.settings().dialect.is_byteps() {
            let text = "a push that pulls too: PSLITE_WIRE has no such message";
            return Err(NodeError::Invalid(text.to_owned()));
        }
        state.asked(node.traffic(), timestamp);
        if state.requests.tracker().waiting_count() > 1 {
            node.need_receiver();
        }
        state.follow_pieces(node, self.shared.customer_id);
        let mut nobody_asked = None;
        for (rank, _) in slices.iter().enumerate().filter(|(_, slice)| slice.is_none()) {
            nobody_asked = state.requests.skip(timestamp, node.server_of(rank)).or(nobody_asked);
        }
        if let Some(finished) = nobody_asked {
            drop(state);
            // Nothing was asked for, so nothing is missing (kv_app.h:590).
            self.shared.finish(Finished { outcome: Ok(None), ..finished });
            return Ok(());
        }
        let meta = self.request_meta(timestamp, request);
        if request.pull {
            state.cut_landing(&self.shared.landings, &meta, &slices);
        }
        let slices = slices.into_iter().enumerate();
        let slices = slices.filter_map(|(rank, slice)| slice.map(|kv| (rank, kv)));
        if state.flights.is_some() {
            let messages = state.begin_flights(node.now(), &meta, slices)?;
            self.shared.note_waits(&state);
            drop(state);
            return self.shared.send_parts(node, messages);
        }
        drop(state);
        for (rank, kv) in slices {
            let meta = Meta { recver: node.server_of(rank), ..meta.clone() };
            node.send(with_data(meta, kv))?;
        }
        Ok(())
    }

    fn request_meta(&self, timestamp: i32, request: &Request) -> Meta {
        Meta {
            head: request.cmd,
            app_id: self.shared.app_id,
            customer_id: self.shared.customer_id,
            timestamp,
            request: true,
            push: request.push,
            pull: request.pull,
            priority: request.priority,
            value_type: request.values.data_type,
            devices: request.values.devices,
            ..Meta::default()
        }
    }
}

/// Adds the frames: with keys there is always a frame of values, if only an empty one
/// (kv_app.h:604).
pub(super) fn with_data(mut meta: Meta, kv: KvPairs) -> Message {
    let mut data = Frames::new();
    if !kv.keys.is_empty() {
        let lens = (!kv.lens.is_empty()).then_some(kv.lens);
        meta.data_type.push(DataType::UInt64 as i32);
        meta.data_type.push(meta.value_type);
        data.push(kv.keys);
        data.push(kv.vals);
        if let Some(lens) = lens {
            meta.data_type.push(DataType::Int32 as i32);
            data.push(lens);
        }
    }
    Message { meta, data }
}
