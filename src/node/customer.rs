//! A customer: one part of an application that sends requests and gets messages (customer.cc,
//! simple_app.h, kv_app.h).
//!
//! A customer has a side that asks (`worker`) and a side that serves (`server`), on one `base`. The
//! sides do not know each other. This module joins them: the application calls `CustomerHandle`,
//! and `handling` gives each message to the side that it concerns. May name both sides; must not
//! name the van.
//!
//! For each customer, the application's code (the handler of its messages, and what it wants called
//! at the ends of requests) runs one call at a time. Any thread may make requests and wait for
//! them.

mod handling;
mod made;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use self::made::check_frames;
use crate::base::Base;
pub use crate::base::Handler;
use crate::customers::{CustomerKey, Customers};
use crate::error::{NodeError, Result};
use crate::landing::PullSink;
use crate::recipient::{AnyMailbox, Mailbox};
use crate::running::NodeSlot;
use crate::server::{KeyState, ServerCustomer, StoreServer};
use crate::worker::WorkerCustomer;
pub use crate::worker::{Done, Request, Values};
use pslite_core::training::exchange::Counts;
use pslite_core::values::KvPairs;
use pslite_core::wire::Meta;
use pslite_observe::awake;
use pslite_transport::fork::{self, Life};

/// What a customer's thread, its callers and the van share.
struct CustomerShared {
    base: Arc<Base>,
    worker: WorkerCustomer,
    server: ServerCustomer,
}

/// The owner of a customer: ends its thread when dropped.
pub struct Customer {
    handle: CustomerHandle,
    registry: Arc<Customers>,
    thread: Option<JoinHandle<()>>,
    _life: Life,
}

/// A customer as all but its owner use it. Cheap to clone.
#[derive(Clone)]
pub struct CustomerHandle {
    mailbox: Arc<Mailbox<CustomerShared>>,
}

impl Customer {
    pub(crate) fn new(
        registry: Arc<Customers>,
        node: NodeSlot,
        app_id: i32,
        customer_id: i32,
        handler: Handler,
    ) -> Result<Self> {
        let key = CustomerKey { app_id, customer_id };
        let base = Arc::new(Base::new(app_id, customer_id, handler, node));
        let worker = WorkerCustomer::new(Arc::clone(&base));
        let server = ServerCustomer::new(Arc::clone(&base));
        let mailbox = Arc::new(Mailbox {
            queue: Arc::clone(&base.queue),
            landings: Arc::clone(worker.landings()),
            customer: CustomerShared { base, worker, server },
        });
        let known: Arc<AnyMailbox> = Arc::clone(&mailbox) as _;
        registry.add(key, &known)?;
        let served = Arc::clone(&mailbox);
        let thread = std::thread::Builder::new()
            .name(format!("pslite-c{app_id}.{customer_id}"))
            .spawn(move || served.customer.serve())
            .map_err(|error| {
                registry.remove(key);
                NodeError::Config(format!("cannot start a thread: {error}"))
            })?;
        let handle = CustomerHandle { mailbox };
        Ok(Self { handle, registry, thread: Some(thread), _life: Life::begin() })
    }

    /// The handle by which others use this customer.
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
        let shared = self.handle.shared();
        let (app_id, customer_id) = (shared.base.app_id, shared.base.customer_id);
        self.registry.remove(CustomerKey { app_id, customer_id });
        shared.base.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        shared.base.queue.wait_until_idle();
        shared.worker.close();
    }
}

impl CustomerHandle {
    fn shared(&self) -> &CustomerShared {
        &self.mailbox.customer
    }

    /// The number of the application.
    #[must_use]
    pub fn app_id(&self) -> i32 {
        self.shared().base.app_id
    }

    /// The number of the customer within the application.
    #[must_use]
    pub fn customer_id(&self) -> i32 {
        self.shared().base.customer_id
    }

    // ---- requests in general (customer.cc) ------------------------------------------------------

    /// Registers a new request to a node or group. Returns its number.
    ///
    /// # Errors
    /// The node is not started, or there is no such node or group.
    pub fn new_request(&self, recver: i32) -> Result<i32> {
        self.shared().worker.new_request(recver)
    }

    /// Blocks until the request is over.
    ///
    /// # Errors
    /// The request failed; the error says why.
    pub fn wait(&self, timestamp: i32) -> Result<()> {
        self.shared().worker.wait(timestamp, None, &*self.mailbox)
    }

    /// The same, for at most so long.
    ///
    /// # Errors
    /// As [`Self::wait`]; or [`NodeError::Timeout`]: the request is not over yet.
    pub fn wait_for(&self, timestamp: i32, limit: Duration) -> Result<()> {
        let until = awake::now().checked_add(limit);
        self.shared().worker.wait(timestamp, until, &*self.mailbox)
    }

    /// The number of responses to the request that have arrived.
    #[must_use]
    pub fn num_response(&self, timestamp: i32) -> i32 {
        self.shared().worker.num_response(timestamp)
    }

    /// Adds `count` responses that will not come to those that have (customer.cc:45).
    pub fn add_response(&self, timestamp: i32, count: i32) {
        self.shared().worker.add_response(timestamp, count);
    }

    // ---- SimpleApp ------------------------------------------------------------------------------

    /// Sends a command to the node or all nodes of the group `recver` (simple_app.h:104). Returns
    /// the request's number.
    ///
    /// # Errors
    /// A receiver is lost, or the node is not started.
    pub fn simple_request(&self, head: i32, body: &Bytes, recver: i32) -> Result<i32> {
        self.shared().worker.simple_request(head, body, recver)
    }

    /// Answers a command. With an `error` that is not empty, the command fails at a sender of ours.
    ///
    /// # Errors
    /// The asker is lost, or the node is not started.
    pub fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        self.shared().server.simple_respond(request, body, error)
    }

    // ---- KVWorker -------------------------------------------------------------------------------

    /// From now on responses are assembled here and do not reach the handler. `value_size`: bytes
    /// of one value.
    pub fn attach_worker(&self, value_size: usize) {
        self.shared().worker.attach(value_size);
    }

    /// Registers a pull. [`Self::send`] sends its messages afterwards. Returns its number.
    ///
    /// # Errors
    /// The node is not started.
    pub fn expect_pull(&self, keys: Bytes, sink: Box<dyn PullSink>, done: Done) -> Result<i32> {
        self.shared().worker.open_request(keys, Some(sink), done)
    }

    /// Pushes, pulls or both. Returns the number of the request.
    ///
    /// # Errors
    /// The keys do not fit the servers' ranges, a server is lost, or the node is not started. Then
    /// `done` is never called.
    pub fn request(
        &self,
        request: &Request,
        sink: Option<Box<dyn PullSink>>,
        done: Done,
    ) -> Result<i32> {
        self.shared().worker.request(request, sink, done)
    }

    /// Cuts the pairs of a registered request by server and sends them (kv_app.h:574).
    ///
    /// # Errors
    /// As [`Self::request`]; the request has failed then.
    pub fn send(&self, timestamp: i32, request: &Request) -> Result<()> {
        self.shared().worker.send(timestamp, request)
    }

    /// Registers a request that gets no values. [`Self::send`] or [`Self::send_parts`] sends its
    /// messages afterwards. Returns its number.
    ///
    /// # Errors
    /// The node is not started, or this customer is no KVWorker.
    pub fn expect_push(&self, done: Done) -> Result<i32> {
        self.shared().worker.open_request(Bytes::new(), None, done)
    }

    /// As [`Self::send`], but the caller has cut the pairs: `parts` has a server's rank, and the
    /// keys and values for it. Other servers get nothing. The pairs in `request` are ignored.
    ///
    /// # Errors
    /// A rank is no server's or comes twice, the keys are not a whole number of keys, a server is
    /// lost, or the node is not started. The request has failed then.
    pub fn send_parts(
        &self,
        timestamp: i32,
        request: &Request,
        parts: Vec<(usize, KvPairs)>,
    ) -> Result<()> {
        self.shared().worker.send_parts(timestamp, request, parts)
    }

    /// From now on the keys of this worker are its own, apart from those of the process's other
    /// customers; so are the optimizer and the mode of the servers for them. To be called before
    /// its first request, on a node that runs.
    ///
    /// # Errors
    /// A server cannot keep them apart, this is no worker, or the node is not started.
    pub fn take_own_keys(&self) -> Result<()> {
        self.shared().worker.take_own_keys()
    }

    /// From now on the program steps the values of this worker's keys itself: what it pushes of a
    /// key is the new value. To be called before its first request.
    ///
    /// # Errors
    /// The job exchanges nothing (`PSLITE_SYNC`), an optimizer was set, this is no worker, or the
    /// node is not started.
    pub fn step_by_program(&self) -> Result<()> {
        self.shared().worker.step_by_program()
    }

    /// What the exchange of this worker's values has done.
    ///
    /// # Errors
    /// The job exchanges nothing, or nothing was asked for yet.
    pub fn exchange_counts(&self) -> Result<Counts> {
        self.shared().worker.exchange_counts()
    }

    // ---- KVServer -------------------------------------------------------------------------------

    /// From now on this customer serves requests; each is watched until it is answered.
    pub fn attach_server(&self) {
        self.shared().server.attach();
    }

    /// As [`Self::attach_server`]. In a job whose keys move, this server's keys move too: the
    /// application gives and takes their states by `state`.
    ///
    /// # Errors
    /// This was called before.
    pub fn attach_movable(&self, state: Box<dyn KeyState>) -> Result<()> {
        self.shared().server.attach_movable(state)
    }

    /// From now on the library's own store serves the requests. The customer's handler gets the
    /// commands. If an optimizer comes that the store does not know, it gets the requests too.
    pub fn attach_store(&self) {
        self.shared().server.attach_store_server(StoreServer::with_application());
    }

    /// As [`Self::attach_store`], without an application behind the store.
    pub(crate) fn attach_store_server(&self, store: StoreServer) {
        self.shared().server.attach_store_server(store);
    }

    /// Answers a push or pull (kv_app.h:507). Data are sent only if `kv` has keys. An error in
    /// `request` says why the request could not be served.
    ///
    /// # Errors
    /// The asker is lost; or it is a stock node, which takes every answer for a success, and the
    /// request has an error; or the node is not started.
    pub fn respond(&self, request: &Meta, kv: KvPairs) -> Result<()> {
        self.shared().server.respond(request, kv)
    }
}

#[cfg(test)]
#[path = "customer/tests.rs"]
mod tests;
