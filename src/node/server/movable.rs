//! A server whose application has its own handler, in a job whose keys move. Gives requests to the
//! state machine (`store::opaque`), and passes on to the application what that decides. May touch
//! the front of its customer and the node; decides nothing.
//!
//! Everything but [`Movable::answered`] is called by the thread that has the customer's turn
//! (`work_queue`). So the application is never asked for a key's state while its handler runs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;

use super::front::{Front, Owner};
use crate::base::Base;
use crate::delivery::Delivery;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::cluster::Event;
use pslite_core::server::Claims;
use pslite_core::store::opaque::{Fetch, Opaque, OpaqueConfig, Step};
use pslite_core::values::KvPairs;
use pslite_core::wire::elastic::Order;
use pslite_core::wire::transfer::Transfer;
use pslite_core::wire::word::{ClaimWord, RoutedPolicy};
use pslite_core::wire::{Key, Message, Meta, NodeId, Payload};
use pslite_observe::log::{self, Level};

/// What an application does so that its keys can move. Keys are those of requests. Called on a
/// thread of the library while the handler of the customer does not run; all requests for the key
/// were answered before.
pub trait KeyState: Send + Sync {
    /// True if nothing is kept of a key between rounds: then its first pushes make it elsewhere,
    /// and it is neither exported nor imported.
    fn is_stateless(&self) -> bool;

    /// All that is kept of a key.
    ///
    /// # Errors
    /// Why it cannot be given: the key stays.
    fn export(&self, key: Key) -> Result<Bytes, String>;

    /// Takes what another server exported of a key.
    ///
    /// # Errors
    /// Why it cannot be taken: the key stays where it was.
    fn import(&self, key: Key, state: Bytes) -> Result<(), String>;

    /// True if [`Self::forget`] does something.
    fn can_forget(&self) -> bool;

    /// The key is another server's for good.
    fn forget(&self, key: Key);

    /// This server was emptied, or the job is over: its program is to end.
    fn released(&self);
}

/// An application that knows nothing of keys that move, and keeps nothing between rounds
/// (`PSLITE_SERVER_STATELESS`).
struct Unaware;

impl KeyState for Unaware {
    fn is_stateless(&self) -> bool {
        true
    }

    fn export(&self, _: Key) -> Result<Bytes, String> {
        Err("it keeps nothing".to_owned())
    }

    fn import(&self, _: Key, _: Bytes) -> Result<(), String> {
        Err("it keeps nothing".to_owned())
    }

    fn can_forget(&self) -> bool {
        false
    }

    fn forget(&self, _: Key) {}

    /// Its wait for the exit barrier is over.
    fn released(&self) {}
}

/// The keys of one server customer.
pub(crate) struct Movable {
    state: Box<dyn KeyState>,
    /// Made when the job is known.
    keys: OnceLock<Arc<Mutex<Opaque>>>,
    /// What the scheduler was told of what is here.
    claims: Mutex<Claims>,
}

/// The keys of an answer on its way: kept until the worker has confirmed it (over zmq, until it is
/// in the kernel's hands). The values say nothing of that: those that are lent are kept for longer.
struct Underway {
    keys: Bytes,
    fetch: Fetch,
    /// Hears that it has arrived.
    of: Weak<Mutex<Opaque>>,
    base: Weak<Base>,
}

impl AsRef<[u8]> for Underway {
    fn as_ref(&self) -> &[u8] {
        &self.keys
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        // On any thread, perhaps with a channel's lock: the state machine is never locked while
        // something is sent.
        if let (Some(keys), Some(base)) = (self.of.upgrade(), self.base.upgrade())
            && lock(&keys).fetched(self.fetch)
        {
            look_again(&base);
        }
    }
}

impl Movable {
    pub(crate) fn new(state: Box<dyn KeyState>) -> Self {
        Self { state, keys: OnceLock::new(), claims: Mutex::default() }
    }

    /// For an application that was made without knowing of this.
    pub(crate) fn unaware() -> Self {
        Self::new(Box::new(Unaware))
    }

    /// Nothing is kept between rounds.
    pub(crate) fn is_stateless(&self) -> bool {
        self.state.is_stateless()
    }

    fn keys(&self, front: &Front, node: &NodeRef) -> &Arc<Mutex<Opaque>> {
        self.keys.get_or_init(|| {
            let mut keys = Opaque::new(OpaqueConfig {
                id: node.my_id(),
                app_id: front.base.app_id,
                servers: node.settings().num_servers,
                stateless: self.state.is_stateless(),
                forgets: self.state.can_forget(),
            });
            if let Some(policy) = node.policy() {
                // It has nothing yet that could follow from it.
                keys.policy(node.now(), &policy, &mut Vec::new());
            }
            Arc::new(Mutex::new(keys))
        })
    }

    /// Deals with a request of a worker, or leaves it to the application's handler.
    pub(crate) fn take(&self, front: &Front, message: &Message) -> Owner {
        let Ok(node) = front.node() else { return self.owner_after_the_end() };
        match &message.meta.payload {
            _ if !node.is_elastic() => return Owner::Application,
            Payload::Transfer(transfer) => self.transfer(front, &node, message, transfer),
            _ if message.meta.simple_app => return Owner::Application,
            _ => {
                let meta = message.meta.clone();
                self.step(front, |keys, steps| keys.serve(node.now(), meta, &message.data, steps));
            }
        }
        Owner::Store
    }

    /// Who gets a request that comes while the node ends. Where keys move nobody: its key is at
    /// another server, and the worker asks there.
    fn owner_after_the_end(&self) -> Owner {
        if self.keys.get().is_some() { Owner::Store } else { Owner::Application }
    }

    fn transfer(&self, front: &Front, node: &NodeRef, message: &Message, transfer: &Transfer) {
        let from = message.meta.sender;
        let mut taken = Ok(());
        self.step(front, |keys, steps| {
            taken = keys.transfer(node.now(), from, transfer, &message.data, steps);
        });
        if let Err(error) = taken {
            node.event(Event::CannotGoOn(format!(
                "server {from} sent a key that cannot be used: {error}"
            )));
        }
        self.claim_news(front, true);
    }

    /// A new policy.
    pub(crate) fn policy(&self, front: &Front, policy: &RoutedPolicy) {
        let Ok(node) = front.node() else { return };
        self.step(front, |keys, steps| keys.policy(node.now(), policy, steps));
        self.claim_changes(front);
    }

    /// The scheduler orders moves.
    pub(crate) fn orders(&self, front: &Front, orders: &[Order]) {
        let Ok(node) = front.node() else { return };
        self.step(front, |keys, steps| keys.orders(node.now(), orders, steps));
        self.claim_changes(front);
    }

    /// Time has passed, or the application has answered what a move waits for.
    pub(crate) fn advance(&self, front: &Front) {
        let Ok(node) = front.node() else { return };
        if node.is_elastic() {
            self.step(front, |keys, steps| keys.advance(node.now(), steps));
            self.claim_changes(front);
        }
    }

    /// The scheduler asks what is here.
    pub(crate) fn collect(&self, front: &Front, epoch: u64, lost: &[NodeId]) {
        let Ok(node) = front.node() else { return };
        let mut claims = lock(&self.claims);
        let held = lock(self.keys(front, &node)).collect(epoch, lost);
        let claimed = claims.all(epoch, held);
        drop(claims);
        say(&node, claimed);
    }

    /// Tells the scheduler what is here, if that has changed since it was told.
    fn claim_changes(&self, front: &Front) {
        self.claim_news(front, false);
    }

    /// As [`Self::claim_changes`]; with `can_wait` few changes among much that is held wait for the
    /// next tick.
    fn claim_news(&self, front: &Front, can_wait: bool) {
        let Ok(node) = front.node() else { return };
        if !node.is_elastic() {
            return;
        }
        let mut claims = lock(&self.claims);
        let mut keys = lock(self.keys(front, &node));
        let epoch = keys.epoch();
        let news = claims.news(epoch, &mut *keys, can_wait);
        drop((keys, claims));
        if let Some(claimed) = news {
            say(&node, claimed);
        }
    }

    /// This server was emptied, or the job is over.
    pub(crate) fn leave(&self) {
        self.state.released();
    }

    /// A worker is gone, or its id is another process's.
    pub(crate) fn forget_node(&self, node: NodeId) {
        if let Some(keys) = self.keys.get() {
            lock(keys).forget_node(node);
        }
    }

    /// The application answers a request, as it was given to it. The request as its sender knows
    /// it, and what goes to it; `None` if nobody gets this answer. On any thread.
    pub(crate) fn answered(
        &self,
        front: &Front,
        node: &NodeRef,
        request: &Meta,
        mut kv: KvPairs,
    ) -> Option<(Meta, KvPairs)> {
        if !node.is_elastic() {
            return Some((request.clone(), kv));
        }
        let keys = self.keys(front, node);
        let answered = lock(keys).answered(request.timestamp, kv.vals.len());
        let Some(answered) = answered else {
            // As when somebody has left without the push that it waited for: it was answered then.
            let text = "an answer to a request that is answered already is not sent";
            log::write(Level::Verbose, text);
            return None;
        };
        if answered.due {
            look_again(&front.base);
        }
        let known = answered.request?;
        if let Some(fetch) = answered.fetch {
            let (of, base) = (Arc::downgrade(keys), Arc::downgrade(&front.base));
            kv.keys = Bytes::from_owner(Underway { keys: kv.keys, fetch, of, base });
        }
        Some((Meta { error: request.error.clone(), ..known }, kv))
    }

    /// Asks the state machine, and does what it says, in order, and what follows from that.
    fn step(&self, front: &Front, ask: impl FnOnce(&mut Opaque, &mut Vec<Step>)) {
        let Ok(node) = front.node() else { return };
        let keys = self.keys(front, &node);
        let mut steps = Vec::new();
        ask(&mut lock(keys), &mut steps);
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            let mut more = Vec::new();
            match step {
                Step::Answer(answer) => front.send_answer(&node, &answer.request, answer.kv),
                Step::Transfer(outgoing) => front.send_transfer(outgoing),
                Step::Give(meta, frames) => {
                    let message = Message { meta, data: frames.into_iter().collect() };
                    let node = Ok(NodeRef::clone(&node));
                    front.note_request(&node, &message);
                    front.give(&node, message, self.state.is_stateless());
                }
                Step::Export(key) => {
                    let state = self.state.export(key);
                    lock(keys).exported(node.now(), key, state, &mut more);
                }
                Step::Import(key, state) => {
                    let taken = self.state.import(key, state);
                    lock(keys).imported(node.now(), key, taken, &mut more);
                }
                Step::Forget(key) => self.state.forget(key),
                Step::Warn(text) => log::write(Level::Warning, &text),
            }
            steps.extend(more);
        }
    }
}

fn say(node: &NodeRef, claimed: ClaimWord) {
    node.event(Event::Claims(ClaimWord { opaque: true, ..claimed }));
}

/// Has the state machine looked at again: something that a move waits for is over.
fn look_again(base: &Base) {
    base.queue.push(i32::MAX, Delivery::Retry);
}
