//! What a customer that serves, and whatever serves in its place, have in common: the node, the
//! application's handler with the gate before it, and what is owed to those who asked. Requests go
//! to the application here; `answers` has what goes to other nodes. May touch the node. Must not
//! name who serves: each of them is handed this.

use std::sync::{Arc, Mutex};

use super::gating::Gating;
use crate::base::Base;
use crate::error::Result;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Unanswered;
use pslite_core::kv::unanswered::Stuck;
use pslite_core::wire::{Message, Meta, NodeId};

/// The sender of pushes and commands that hand the store over. Nobody gets their answers.
pub(super) const HAND_OVER: NodeId = -2;

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is dealt with.
    Store,
    /// The application's handler gets it.
    Application,
}

/// See the module.
pub(super) struct Front {
    pub(super) base: Arc<Base>,
    /// What the application owes answers to, if this is a KVServer.
    ledger: Mutex<Option<Unanswered>>,
    /// Keeps the rounds of an application with its own handler separate.
    pub(super) gating: Arc<Gating>,
}

impl Front {
    pub(super) fn new(base: Arc<Base>) -> Self {
        let gating = Gating::new(Arc::clone(&base));
        Self { base, ledger: Mutex::default(), gating }
    }

    pub(super) fn node(&self) -> Result<NodeRef> {
        self.base.node()
    }

    // ---- what is owed ---------------------------------------------------------------------------

    /// From now on each request is watched until it is answered.
    pub(super) fn attach(&self) {
        *lock(&self.ledger) = Some(Unanswered::new());
    }

    /// True for a KVServer's.
    pub(super) fn is_attached(&self) -> bool {
        lock(&self.ledger).is_some()
    }

    /// Somebody asked, and is owed an answer.
    pub(super) fn note_request(&self, node: &Result<NodeRef>, message: &Message) {
        let Ok(node) = node else { return };
        if let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.asked(&message.meta, &message.data, node.now());
        }
    }

    /// That node's request is answered.
    pub(super) fn settle(&self, asker: NodeId, meta: &Meta) {
        if let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.answered(asker, meta.customer_id, meta.timestamp);
        }
    }

    /// A worker's customer sends no more. False if nothing is watched.
    pub(super) fn note_left(&self, id: NodeId, customer_id: i32) -> bool {
        let mut ledger = lock(&self.ledger);
        if let Some(ledger) = &mut *ledger {
            ledger.customer_left(id, customer_id);
        }
        ledger.is_some()
    }

    /// A node that is gone is owed nothing.
    pub(super) fn forget(&self, id: NodeId) {
        if let Some(ledger) = &mut *lock(&self.ledger) {
            ledger.forget_node(id);
        }
    }

    /// Requests that wait for the push of somebody who has left. `None`: nothing is watched.
    pub(super) fn stuck(&self) -> Option<Vec<Stuck>> {
        lock(&self.ledger).as_ref().map(Unanswered::stuck)
    }

    // ---- to the application ---------------------------------------------------------------------

    /// The application's handler gets a message.
    pub(super) fn pass(&self, message: Message) {
        (self.base.handler)(message);
    }

    /// The same with a request, now or once the round before is over. `stateless`: the application
    /// keeps nothing of a key between rounds.
    pub(super) fn give(&self, node: &Result<NodeRef>, message: Message, stateless: bool) {
        let passed = match node {
            Ok(node) if !message.meta.simple_app && holds_pushes(node, stateless) => {
                self.gating.take(node, message)
            }
            _ => Some(message),
        };
        if let Some(message) = passed {
            self.pass(message);
        }
    }
}

fn holds_pushes(node: &NodeRef, stateless: bool) -> bool {
    let settings = node.settings();
    settings.holds_pushes.unwrap_or(settings.stateless || stateless)
}
