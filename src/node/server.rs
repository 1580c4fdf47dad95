//! The side of a customer that serves. Requests of others go to the application's handler (whose
//! keys may move) or to the library's own store. Every customer has this side; if it was not told
//! to serve, all requests go to its handler. Must not name the side that asks.

mod answers;
mod gating;
mod lending;
mod movable;
mod store_server;
mod stuck;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use self::gating::Gating;
pub use self::movable::KeyState;
use self::movable::Movable;
pub(crate) use self::store_server::StoreServer;
use self::store_server::{HAND_OVER, Owner};
use crate::base::Base;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Unanswered;
use pslite_core::values::{KvPairs, key_at};
use pslite_core::wire::elastic::{Order, SchedulerMessage};
use pslite_core::wire::save::{SaveAsked, SaveTold};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::{Message, Meta, NodeId};
use pslite_observe::log::{self, Level};

/// See the module.
pub(crate) struct ServerCustomer {
    base: Arc<Base>,
    /// What the application owes answers to, if this is a KVServer.
    ledger: Mutex<Option<Unanswered>>,
    /// Some worker's customer has left.
    left: AtomicBool,
    /// Serves requests in place of the handler, if this is a server with a store.
    store_server: OnceLock<StoreServer>,
    /// If this is a server without a store: lets its keys move. See [`ServerCustomer::movable`].
    movable: OnceLock<Movable>,
    /// Keeps the rounds of such a server separate.
    gating: Gating,
    /// This customer, for what outlives a call.
    me: Weak<Self>,
}

impl ServerCustomer {
    /// A side that serves nothing yet.
    pub(crate) fn new(base: Arc<Base>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            base,
            ledger: Mutex::default(),
            left: AtomicBool::new(false),
            store_server: OnceLock::new(),
            movable: OnceLock::new(),
            gating: Gating::default(),
            me: Weak::clone(me),
        })
    }

    fn node(&self) -> Result<NodeRef> {
        self.base.node()
    }

    // ---- what it is -----------------------------------------------------------------------------

    /// From now on this side serves requests; each is watched until it is answered.
    pub(crate) fn attach(&self) {
        *lock(&self.ledger) = Some(Unanswered::new());
        self.decide_movable();
    }

    /// True for a KVServer's.
    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.ledger).is_some()
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
        self.decide_movable_in(&self.node());
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
        self.gating.is_due()
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
            store.report_stalls(self);
        }
        store.is_some()
    }

    // ---- what comes: the caller has the turn ----------------------------------------------------

    /// Handles a request of another node.
    pub(crate) fn request(&self, message: Message) {
        let node = self.node();
        self.decide_movable_in(&node);
        if let Some(movable) = self.movable()
            && movable.take(self, &message) == Owner::Store
        {
            return;
        }
        let of_worker = message.meta.transfer.is_none() && message.meta.hop.is_none();
        if !message.meta.simple_app && of_worker {
            self.note_request(&node, &message);
        }
        if let Some(store) = self.store_server.get()
            && store.take(self, &node, &message) == Owner::Store
        {
            return;
        }
        if message.meta.push && message.meta.placed.as_ref().is_some_and(|placed| placed.asks) {
            return self.knows_no_tree(&node, message.meta);
        }
        self.give(&node, message);
    }

    /// A worker asks how to push, and nobody here sums along trees: it pushes alone.
    fn knows_no_tree(&self, node: &Result<NodeRef>, mut request: Meta) {
        request.placed.iter_mut().for_each(|placed| placed.again = true);
        if let Err(error) = self.respond_over(node, &request, KvPairs::default()) {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// Gives a request to the application, or to the store in its place.
    fn note_request(&self, node: &Result<NodeRef>, message: &Message) {
        let Ok(node) = node else { return };
        if let Some(ledger) = &mut *lock(&self.ledger) {
            let keys = message.data.first().map_or(&[][..], |keys| keys);
            // The first of MXNet's two keys of a compressed push is a length (docs/mxnet.md).
            let key = key_at(keys, 1).or_else(|| key_at(keys, 0)).unwrap_or(0);
            ledger.received(&message.meta, key, node.now());
        }
    }

    /// Handles a request that was held back.
    pub(crate) fn released(&self, message: Message) {
        (self.base.handler)(message);
    }

    /// A worker's customer sends no more.
    pub(crate) fn customer_left(&self, id: NodeId, customer_id: i32) {
        // Nobody here waits for those who push to other nodes of this process.
        let awaited = self.node().is_ok_and(|node| node.deals_with(id));
        if awaited && let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.customer_left(id, customer_id);
            self.left.store(true, Ordering::Relaxed);
        }
        self.gate_customer_left(id, customer_id);
        self.with_store_server(|store| store.customer_left(self, id, customer_id));
    }

    /// A node is gone.
    pub(crate) fn node_lost(&self, id: NodeId) {
        self.with_store_server(|store| store.forget_node(id));
        self.with_movable(|movable| movable.forget_node(id));
        self.gate_forget(id);
        if let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.forget_node(id);
        }
    }

    /// A new policy: where pieces are.
    pub(crate) fn policy(&self, word: &SchedulerMessage) {
        self.with_store_server(|store| store.policy(self, word));
        self.decide_movable();
        self.with_movable(|movable| movable.policy(self, word));
    }

    /// These trees are in force.
    pub(crate) fn overlay(&self, overlay: &Overlay) {
        self.with_store_server(|store| store.overlay(self, overlay));
    }

    /// The scheduler asks what is here.
    pub(crate) fn collect(&self, word: &SchedulerMessage) {
        self.with_store_server(|store| store.collect(self, word));
        self.with_movable(|movable| movable.collect(self, word));
    }

    /// The scheduler orders moves.
    pub(crate) fn orders(&self, orders: &[Order]) {
        self.with_store_server(|store| store.orders(self, orders));
        self.with_movable(|movable| movable.orders(self, orders));
    }

    /// The scheduler lets this server go.
    pub(crate) fn leave(&self) {
        self.stop();
        self.with_movable(Movable::leave);
    }

    /// All workers are done.
    pub(crate) fn stop(&self) {
        self.with_store_server(|store| store.stop(self));
    }

    /// Time has passed, or something was answered: claims may have changed.
    pub(crate) fn advance(&self) {
        self.with_store_server(|store| store.claim_changes(self));
        self.with_movable(|movable| movable.advance(self));
    }

    /// The job is over: drops what was held back.
    pub(crate) fn all_lost(&self) {
        self.gating.clear();
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
