//! The side of a customer that serves. Requests of others go to the application's handler (whose
//! keys may move) or to the library's own store. Every customer has this side; if it was not told
//! to serve, all requests go to its handler. Must not name the side that asks.
//!
//! Whoever serves is handed the `front`: the node, the handler and what is owed to those who asked.
//! It names nobody who serves, and none of these names another.

mod answers;
mod front;
mod gating;
mod lending;
mod movable;
mod store_server;
mod stuck;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use self::front::{Front, Owner};
pub use self::movable::KeyState;
use self::movable::Movable;
pub(crate) use self::store_server::StoreServer;
use crate::base::Base;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use pslite_core::values::KvPairs;
use pslite_core::wire::elastic::Order;
use pslite_core::wire::save::{SaveAsked, SaveTold};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{Message, Meta, NodeId, Payload};
use pslite_observe::log::{self, Level};

/// See the module.
pub(crate) struct ServerCustomer {
    front: Front,
    /// Some worker's customer has left.
    left: AtomicBool,
    /// Serves requests in place of the handler, if this is a server with a store.
    store_server: OnceLock<StoreServer>,
    /// If this is a server without a store: lets its keys move. See [`ServerCustomer::movable`].
    movable: OnceLock<Movable>,
}

impl ServerCustomer {
    /// A side that serves nothing yet.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self {
            front: Front::new(base),
            left: AtomicBool::new(false),
            store_server: OnceLock::new(),
            movable: OnceLock::new(),
        }
    }

    // ---- what it is -----------------------------------------------------------------------------

    /// From now on this side serves requests; each is watched until it is answered.
    pub(crate) fn attach(&self) {
        self.front.attach();
        self.decide_movable();
    }

    /// True for a KVServer's.
    pub(crate) fn is_attached(&self) -> bool {
        self.front.is_attached()
    }

    /// As [`Self::attach`]. In a job whose keys move, this server's keys move too, with the help of
    /// the application.
    ///
    /// # Errors
    /// This was called before.
    pub(crate) fn attach_movable(&self, state: Box<dyn KeyState>) -> Result<()> {
        let set = self.movable.set(Movable::new(state));
        set.map_err(|_| NodeError::Invalid("this customer's keys move already".to_owned()))?;
        self.attach();
        Ok(())
    }

    /// From now on a store serves the requests.
    pub(crate) fn attach_store_server(&self, store: StoreServer) {
        let _ = self.store_server.set(store);
    }

    /// What lets the keys of the application's handler move, if they may.
    fn movable(&self) -> Option<&Movable> {
        self.movable.get().filter(|_| self.store_server.get().is_none())
    }

    /// True for a server whose keys may move.
    pub(crate) fn serves_by_itself(&self) -> bool {
        self.store_server.get().is_some() || self.movable.get().is_some()
    }

    /// Lets keys move at a server whose application does not know of it, if
    /// `PSLITE_SERVER_STATELESS` says so. Called before anything else when the scheduler says
    /// something, and before each request: requests overtake a policy in the customer's queue. The
    /// application would be given such a request, and its answer would be nobody's.
    pub(crate) fn decide_movable(&self) {
        self.decide_movable_in(&self.front.node());
    }

    /// The same, where the caller has asked for the node already.
    fn decide_movable_in(&self, node: &Result<NodeRef>) {
        if self.movable.get().is_none()
            && node.as_ref().is_ok_and(|node| node.settings().stateless)
            && self.is_attached()
        {
            let _ = self.movable.set(Movable::unaware());
        }
    }

    /// True now and then while requests are held back.
    pub(crate) fn wants_gate_tick(&self) -> bool {
        self.front.gating.is_due()
    }

    /// How long requests have taken at the store. `None`: there is no store.
    pub(crate) fn busy(&self) -> Option<Duration> {
        self.store_server.get().map(StoreServer::busy)
    }

    /// What an operator asks of the store's values, if that serves.
    pub(crate) fn saved(&self, asked: SaveAsked) -> Option<SaveTold> {
        self.store_server.get().and_then(|store| store.saved(asked))
    }

    /// True if there is a store, and that serves: alone, or `in_front` of an application.
    pub(crate) fn keeps_keys_apart(&self, in_front: bool) -> bool {
        self.store_server.get().is_some_and(|store| in_front || store.is_alone())
    }

    /// Logs which round of the store has waited for long. False if there is no store.
    pub(crate) fn report_stalls(&self) -> bool {
        let store = self.store_server.get();
        if let Some(store) = store {
            store.report_stalls(&self.front);
        }
        store.is_some()
    }

    // ---- what comes: the caller has the turn ----------------------------------------------------

    /// Handles a request of another node.
    pub(crate) fn request(&self, message: Message) {
        let node = self.front.node();
        self.decide_movable_in(&node);
        if let Some(movable) = self.movable()
            && movable.take(&self.front, &message) == Owner::Store
        {
            return;
        }
        let of_worker = matches!(message.meta.payload, Payload::Plain | Payload::Ask(_));
        if !message.meta.simple_app && of_worker {
            self.front.note_request(&node, &message);
        }
        if let Some(store) = self.store_server.get()
            && store.take(&self.front, &node, &message) == Owner::Store
        {
            return;
        }
        if message.meta.push && message.meta.ask().is_some_and(|ask| ask.asks) {
            return self.knows_no_tree(&node, message.meta);
        }
        if self.store_server.get().is_some() {
            return self.front.pass(message);
        }
        let stateless = self.movable().is_some_and(Movable::is_stateless);
        self.front.give(&node, message, stateless);
    }

    /// A worker asks how to push, and nobody here sums along trees: it pushes alone.
    fn knows_no_tree(&self, node: &Result<NodeRef>, mut request: Meta) {
        request.answering().into_iter().for_each(|reply| reply.again = true);
        if let Err(error) = self.respond_over(node, &request, KvPairs::default()) {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// Handles a request that was held back.
    pub(crate) fn released(&self, message: Message) {
        self.front.pass(message);
    }

    /// A worker's customer sends no more.
    pub(crate) fn customer_left(&self, id: NodeId, customer_id: i32) {
        // Nobody here waits for those who push to other nodes of this process.
        let awaited = self.front.node().is_ok_and(|node| node.deals_with(id));
        if awaited && self.front.note_left(id, customer_id) {
            self.left.store(true, Ordering::Relaxed);
        }
        self.front.gating.customer_left(id, customer_id);
        self.with_store_server(|store| store.customer_left(&self.front, id, customer_id));
    }

    /// A node is gone.
    pub(crate) fn node_lost(&self, id: NodeId) {
        self.with_store_server(|store| store.forget_node(id));
        self.with_movable(|movable| movable.forget_node(id));
        self.front.gating.forget(id);
        self.front.forget(id);
    }

    /// A new policy: where pieces are.
    pub(crate) fn policy(&self, policy: &RoutedPolicy) {
        self.with_store_server(|store| store.policy(&self.front, policy));
        self.decide_movable();
        self.with_movable(|movable| movable.policy(&self.front, policy));
    }

    /// These trees are in force.
    pub(crate) fn overlay(&self, overlay: &Overlay) {
        self.with_store_server(|store| store.overlay(&self.front, overlay));
    }

    /// The scheduler asks what is here.
    pub(crate) fn collect(&self, epoch: u64, lost: &[NodeId]) {
        self.with_store_server(|store| store.collect(&self.front, epoch, lost));
        self.with_movable(|movable| movable.collect(&self.front, epoch, lost));
    }

    /// The scheduler orders moves.
    pub(crate) fn orders(&self, orders: &[Order]) {
        self.with_store_server(|store| store.orders(&self.front, orders));
        self.with_movable(|movable| movable.orders(&self.front, orders));
    }

    /// The scheduler lets this server go.
    pub(crate) fn leave(&self) {
        self.stop();
        self.with_movable(Movable::leave);
    }

    /// All workers are done.
    pub(crate) fn stop(&self) {
        self.with_store_server(|store| store.stop(&self.front));
    }

    /// Time has passed, or something was answered: claims may have changed.
    pub(crate) fn advance(&self) {
        self.with_store_server(|store| store.tick(&self.front));
        self.with_movable(|movable| movable.advance(&self.front));
    }

    /// The clock says so now and then while requests are held back.
    pub(crate) fn gate_tick(&self) {
        if let Ok(node) = self.front.node() {
            self.front.gating.tick(&node);
        }
    }

    /// The job is over: drops what was held back.
    pub(crate) fn all_lost(&self) {
        self.front.gating.clear();
    }

    // ---- what is answered -----------------------------------------------------------------------

    /// Answers a push or pull of somebody that the application was given, as [`Front::respond`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn respond(&self, request: &Meta, kv: KvPairs) -> Result<()> {
        self.respond_over(&self.front.node(), request, kv)
    }

    /// As [`Self::respond`], where the caller has asked for the node already.
    fn respond_over(&self, node: &Result<NodeRef>, request: &Meta, kv: KvPairs) -> Result<()> {
        let Some(movable) = self.movable() else { return self.front.respond(node, request, kv) };
        let (node, kv) = self.front.settled(node, request, kv)?;
        match movable.answered(&self.front, node, request, kv) {
            None => Ok(()),
            Some((known, kv)) => self.front.send_response(node, &known, request, kv),
        }
    }

    /// The application sends an answer by itself.
    pub(crate) fn note_answer(&self, answer: &Meta) {
        self.front.note_answer(answer);
    }

    /// Answers a command, as [`Front::simple_respond`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn simple_respond(&self, request: &Meta, body: Bytes, error: &str) -> Result<()> {
        self.front.simple_respond(request, body, error)
    }

    fn with_store_server(&self, step: impl FnOnce(&StoreServer)) {
        if let Some(store) = self.store_server.get() {
            step(store);
        }
    }

    fn with_movable(&self, step: impl FnOnce(&Movable)) {
        if let Some(movable) = self.movable() {
            step(movable);
        }
    }
}
