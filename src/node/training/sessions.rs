//! The sessions of a worker's process. The process has at most one of each name at a time. But a
//! name may be closed and opened again, so each call says which opening it means.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{NodeError, Result};
use pslite_core::training::balance::Participant;
use pslite_core::wire::balance::{BalanceMessage, BalanceOpen};

/// One opening of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionId {
    /// The session's name.
    pub(crate) name: String,
    /// Another number for each opening.
    pub(crate) instance: u64,
}

impl SessionId {
    /// That it is not open any more.
    pub(crate) fn closed(&self) -> NodeError {
        NodeError::Invalid(format!("session {:?} was closed", self.name))
    }
}

/// A session of this worker.
pub(crate) struct HeldSession {
    pub(crate) participant: Participant,
    /// The library measures the time of computing.
    pub(crate) measured: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct WorkerSessions(BTreeMap<String, HeldSession>);

impl WorkerSessions {
    /// Adds one. Returns what is to be said.
    ///
    /// # Errors
    /// There is one of that name, or the settings make no sense.
    pub(super) fn open(
        &mut self,
        now: Duration,
        id: &SessionId,
        mut open: BalanceOpen,
        measured: bool,
    ) -> Result<BalanceMessage> {
        let name = &id.name;
        if self.0.contains_key(name) {
            return Err(NodeError::Invalid(format!("session {name:?} is open here already")));
        }
        (open.instance, open.measured) = (id.instance, measured);
        let opened = Participant::open(name, open, now);
        let (participant, message) = opened.map_err(NodeError::Invalid)?;
        self.0.insert(name.clone(), HeldSession { participant, measured });
        Ok(message)
    }

    /// That opening, unless it was closed.
    pub(crate) fn get_mut(&mut self, id: &SessionId) -> Option<&mut HeldSession> {
        let same = |held: &&mut HeldSession| held.participant.settings().instance == id.instance;
        self.0.get_mut(&id.name).filter(same)
    }

    /// Removes that opening. Returns what is to be said.
    pub(super) fn close(&mut self, id: &SessionId) -> Option<BalanceMessage> {
        let message = self.get_mut(id)?.participant.close();
        self.0.remove(&id.name);
        message
    }

    /// The opening of that name, if it has not been answered.
    pub(super) fn opening(&self, name: &str) -> Option<SessionId> {
        let held = self.0.get(name).filter(|held| !held.participant.is_answered())?;
        let instance = held.participant.settings().instance;
        Some(SessionId { name: name.to_owned(), instance })
    }

    /// The scheduler says something. What follows goes to `out`.
    pub(super) fn received(
        &mut self,
        now: Duration,
        message: &BalanceMessage,
        out: &mut Vec<BalanceMessage>,
    ) {
        if let Some(held) = self.0.get_mut(&message.session) {
            held.participant.received(now, message, out);
        }
    }

    /// All of them.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut HeldSession> {
        self.0.values_mut()
    }

    /// The library measures one of them at least.
    pub(super) fn any_is_measured(&self) -> bool {
        self.0.values().any(|held| held.measured)
    }
}
