//! All sessions of a job, at its scheduler.

use std::collections::{BTreeMap, BTreeSet};

use super::session::{CoordinatedSession, refusal};
use super::spec;
use super::{Gone, Outbox, Worker};
use crate::invariant::{self, Valid};
use crate::wire::NodeId;
use crate::wire::balance::{BalanceKind, BalanceMessage, SessionStatus};

/// Sessions of a job.
const SESSIONS_MAX: usize = 64;
/// Reports in one message.
const REPORTS_MAX: usize = spec::LOOKAHEAD_MAX as usize;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Coordinator {
    sessions: BTreeMap<String, CoordinatedSession>,
    /// Workers that are dead or have left the job: no session waits for them to open it.
    gone: BTreeSet<NodeId>,
    /// What people should know, until it is said.
    notes: Vec<String>,
}

impl Coordinator {
    /// A worker says something. What follows goes to `out`, in order.
    pub fn handle(&mut self, worker: Worker, message: &BalanceMessage, out: &mut Outbox) {
        let from = worker.node;
        let BalanceMessage { rank, instance, .. } = *message;
        let name = &message.session;
        if let Err(why) = self.take(worker, message, out) {
            out.push((from, refusal(name, rank, instance, &why)));
        }
        if let Some(session) = self.sessions.get_mut(name) {
            self.notes.append(&mut session.take_notes());
        }
        self.drop_empty(name);
        invariant::debug(|| self.sessions.get(name).map_or(Ok(()), CoordinatedSession::validate));
    }

    fn take(
        &mut self,
        worker: Worker,
        message: &BalanceMessage,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let (name, from) = (&message.session, worker.node);
        let kind = BalanceKind::try_from(message.kind).unwrap_or(BalanceKind::Unknown);
        if kind == BalanceKind::Open {
            return self.open(worker, message, out);
        }
        let Some(session) = self.sessions.get_mut(name) else {
            if kind == BalanceKind::Close {
                return Ok(()); // It was given up, or came twice.
            }
            let text = "the scheduler does not know it (was it started again?): open it again";
            return Err(text.to_owned());
        };
        match kind {
            BalanceKind::Report if message.reports.len() <= REPORTS_MAX => {
                session.report(from, message, out)
            }
            BalanceKind::Ask => session.ask(from, message, out),
            BalanceKind::Close => {
                session.close(from, message, out);
                Ok(())
            }
            _ => Err("the scheduler does not understand the worker: another version?".to_owned()),
        }
    }

    fn open(
        &mut self,
        worker: Worker,
        message: &BalanceMessage,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let name = &message.session;
        self.gone.remove(&worker.node);
        let open = message.open.as_ref().ok_or("an opening without its settings")?;
        spec::check(name, open)?;
        if (open.rank, open.instance) != (message.rank, message.instance) {
            return Err("an opening of somebody else".to_owned());
        }
        if !self.sessions.contains_key(name) {
            if self.sessions.len() >= SESSIONS_MAX {
                return Err(format!("{SESSIONS_MAX} sessions are open already"));
            }
            self.sessions.insert(name.clone(), CoordinatedSession::new(name, open));
        }
        let (sessions, gone) = (&mut self.sessions, &self.gone);
        sessions.get_mut(name).map_or(Ok(()), |session| session.open(worker, open, gone, out))
    }

    /// A process is gone, or has left the job.
    pub fn lost(&mut self, node: NodeId, gone: Gone, out: &mut Outbox) {
        self.sessions.values_mut().for_each(|session| session.lost(node, gone, out));
        if gone != Gone::IsReplaced {
            self.gone.insert(node);
            let (sessions, gone) = (&mut self.sessions, &self.gone);
            sessions.values_mut().for_each(|session| session.begin_if_all_are_here(gone, out));
        }
        self.sessions.retain(|_, session| !session.is_empty());
        invariant::debug(|| self.validate());
    }

    /// What has happened since the last call that people should know: lines for the log.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn drop_empty(&mut self, name: &str) {
        if self.sessions.get(name).is_some_and(CoordinatedSession::is_empty) {
            self.sessions.remove(name);
        }
    }

    /// True if there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// All sessions, for people.
    #[must_use]
    pub fn status(&self) -> Vec<SessionStatus> {
        self.sessions.values().map(CoordinatedSession::status).collect()
    }

    /// What it promises of each session (`leases`, `dealer`).
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        self.sessions.values().try_for_each(CoordinatedSession::validate)
    }
}
