//! A customer that serves requests for values (KVServer, kv_app.h): by the application's handler,
//! whose keys may move or not, or by the library's own store. May touch the customer; what it
//! decides is in `store`.

use super::{CustomerHandle, Shared, with_data};
use crate::error::{NodeError, Result};
use crate::movable::{KeyState, Movable};
use crate::running::NodeRef;
use crate::shell::{HAND_OVER, Shell};
use crate::sync::lock;
use pslite_core::kv::Unanswered;
use pslite_core::values::KvPairs;
use pslite_core::wire::{Meta, NodeId};
use pslite_observe::log::{self, Level};

impl Shared {
    pub(crate) fn respond(&self, request: &Meta, kv: KvPairs) -> Result<()> {
        if request.sender == HAND_OVER {
            return Ok(());
        }
        let kv = self.watch_answer(request, kv);
        self.settle(request.sender, request);
        let node = self.node()?;
        if !request.error.is_empty() && !node.is_ours(request.sender) {
            return Err(NodeError::Invalid(format!(
                "node {} is a stock ps-lite and cannot be told of an error: {}",
                request.sender, request.error
            )));
        }
        let (mut meta, kv) = match self.movable() {
            None => (response_meta(request, self.app_id), kv),
            Some(movable) => match movable.answered(self, &node, (request, kv)) {
                None => return Ok(()),
                Some((request, kv)) => (response_meta(&request, self.app_id), kv),
            },
        };
        // What the application says of its values, not what the asker said of its own.
        meta.value_type = request.value_type;
        meta.devices = request.devices;
        node.send(with_data(meta, kv))
    }

    /// The application sends an answer by itself.
    pub(crate) fn answered_by_application(&self, answer: &Meta) {
        self.settle(answer.recver, answer);
        self.gate_answered(&Meta { sender: answer.recver, ..answer.clone() });
    }

    /// That node's request is answered.
    fn settle(&self, asker: NodeId, meta: &Meta) {
        if let Some(ledger) = &mut lock(&self.requests).ledger {
            ledger.answered(asker, meta.customer_id, meta.timestamp);
        }
    }

    /// Answers a request that the application's handler did not get.
    pub(crate) fn send_answer(&self, node: &NodeRef, request: &Meta, kv: KvPairs) {
        if let Err(error) = node.send(with_data(response_meta(request, self.app_id), kv)) {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// What stands between keys that move and the application's handler, if something does.
    pub(crate) fn movable(&self) -> Option<&Movable> {
        self.movable.get().filter(|_| self.shell.get().is_none())
    }

    /// True for a server whose keys may move.
    pub(crate) fn serves_by_itself(&self) -> bool {
        self.shell.get().is_some() || self.movable.get().is_some()
    }

    /// A server whose application was made without knowing of keys that move may let them move all
    /// the same (`PSLITE_SERVER_STATELESS`): that is known when the node has started.
    pub(crate) fn decide_movable(&self) {
        let serves = || lock(&self.requests).ledger.is_some();
        if self.movable.get().is_none()
            && self.node().is_ok_and(|node| node.settings().stateless)
            && serves()
        {
            let _ = self.movable.set(Movable::unaware());
        }
    }
}

impl CustomerHandle {
    /// From now on requests are watched until they are answered.
    pub fn attach_server(&self) {
        lock(&self.shared.requests).ledger = Some(Unanswered::new());
        self.shared.decide_movable();
    }

    /// As [`Self::attach_server`]; in a job whose keys move those of this server move too, with the
    /// help of the application.
    ///
    /// # Errors
    /// This customer has said so before.
    pub fn attach_movable(&self, state: Box<dyn KeyState>) -> Result<()> {
        let movable = Movable::new(state);
        let set = self.shared.movable.set(movable);
        set.map_err(|_| NodeError::Invalid("this customer's keys move already".to_owned()))?;
        self.attach_server();
        Ok(())
    }

    /// From now on the library's own store serves the requests; the customer's handler gets the
    /// commands, and the requests too if an optimizer comes that the store does not know.
    pub fn attach_store(&self) {
        let _ = self.shared.shell.set(Shell::with_application());
    }

    /// As [`Self::attach_store`], with nobody behind the store.
    pub(crate) fn attach_shell(&self, shell: Shell) {
        let _ = self.shared.shell.set(shell);
    }

    /// Answers a push or pull (kv_app.h:507); data go along only if there are keys. An error in
    /// `request` says why it could not be served.
    ///
    /// # Errors
    /// The asker is lost, or a stock node that takes every answer for a success; or the node is
    /// not started.
    pub fn respond(&self, request: &Meta, kv: KvPairs) -> Result<()> {
        self.shared.respond(request, kv)
    }
}

fn response_meta(request: &Meta, app_id: i32) -> Meta {
    Meta {
        head: request.head,
        app_id,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        recver: request.sender,
        push: request.push,
        pull: request.pull,
        error: request.error.clone(),
        // Without values it is waited for by somebody who then asks for more.
        overtakes: request.placed.is_some() && !request.pull,
        placed: request.placed.clone(),
        ..Meta::default()
    }
}
