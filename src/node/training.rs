//! Batch sizes, as a running node has them: the scheduler's coordinator, a worker's sessions, and
//! the clock by which a worker's computing is measured. The rules are in `core::training`; here are
//! the locks, and who waits. The van brings what others say and sends what is said. Must not name
//! the van or a customer.

mod available;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{NodeError, Result};
use crate::sync::lock;
use available::Available;
use pslite_core::cluster::BalanceWord;
use pslite_core::training::balance::clock::{ComputeClock, Computed, Pushed};
use pslite_core::training::balance::{Coordinator, Outbox, Participant};
use pslite_core::wire::balance::{BalanceMessage, BalanceOpen, BalanceReport, SessionStatus};
use pslite_core::wire::{NodeId, SCHEDULER};

/// See the module. No lock of it is held while another one of the node is taken.
#[derive(Default)]
pub(crate) struct Training {
    /// A scheduler's.
    coordinator: Mutex<Coordinator>,
    /// Sessions were open when the status was read last.
    had_sessions: AtomicBool,
    /// A worker's, by name.
    sessions: Mutex<BTreeMap<String, Held>>,
    /// Signalled when a session has changed.
    changed: Condvar,
    /// Some session wants the times that the library measures.
    measures: AtomicBool,
    clock: Mutex<ComputeClock>,
    available: Mutex<Available>,
}

/// A session of this worker.
pub(crate) struct Held {
    pub(crate) participant: Participant,
    /// The library measures the time of computing.
    pub(crate) measured: bool,
}

pub(crate) type Sessions = BTreeMap<String, Held>;

impl Training {
    // ---- the scheduler --------------------------------------------------------------------------

    /// A worker says something. Returns what follows.
    pub(crate) fn asked(&self, from: NodeId, word: &[u8]) -> Vec<BalanceWord> {
        let Some(message) = BalanceMessage::read(word) else { return Vec::new() };
        let mut out = Outbox::new();
        lock(&self.coordinator).handle(from, &message, &mut out);
        words(out)
    }

    /// A worker is gone. Returns what follows.
    pub(crate) fn lost(&self, id: NodeId) -> Vec<BalanceWord> {
        let mut out = Outbox::new();
        lock(&self.coordinator).lost(id, &mut out);
        words(out)
    }

    /// How the sessions are, if there are any, or were at the last call.
    pub(crate) fn status(&self) -> Option<Vec<SessionStatus>> {
        let coordinator = lock(&self.coordinator);
        let has = !coordinator.is_empty();
        let had = self.had_sessions.swap(has, Ordering::Relaxed);
        (has || had).then(|| coordinator.status())
    }

    // ---- a worker -------------------------------------------------------------------------------

    /// The sessions of this process.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    /// Waits until a session may have changed.
    pub(crate) fn wait<'a>(
        &self,
        sessions: MutexGuard<'a, Sessions>,
        most: Duration,
    ) -> MutexGuard<'a, Sessions> {
        self.changed.wait_timeout(sessions, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Begins a session. Returns what is to be said.
    ///
    /// # Errors
    /// There is one of that name here, or the settings make no sense.
    pub(crate) fn open(
        &self,
        now: Duration,
        name: &str,
        open: BalanceOpen,
        measured: bool,
    ) -> Result<Vec<BalanceWord>> {
        let mut sessions = self.sessions();
        if sessions.contains_key(name) {
            return Err(NodeError::Invalid(format!("session {name:?} is open here already")));
        }
        let opened = Participant::open(name, open, now);
        let (participant, message) = opened.map_err(NodeError::Invalid)?;
        sessions.insert(name.to_owned(), Held { participant, measured });
        self.note_measured(&sessions);
        Ok(said(vec![message]))
    }

    /// Ends a session. Returns what is to be said.
    pub(crate) fn close(&self, name: &str) -> Vec<BalanceWord> {
        let mut sessions = self.sessions();
        let message = sessions.remove(name).and_then(|mut held| held.participant.close());
        self.note_measured(&sessions);
        drop(sessions);
        self.changed.notify_all();
        said(message.into_iter().collect())
    }

    fn note_measured(&self, sessions: &Sessions) {
        let measures = sessions.values().any(|held| held.measured);
        if !self.measures.swap(measures, Ordering::Relaxed) && measures {
            *lock(&self.clock) = ComputeClock::default();
        }
    }

    /// The scheduler says something. Returns what follows.
    pub(crate) fn told(&self, now: Duration, word: &[u8]) -> Vec<BalanceWord> {
        let Some(message) = BalanceMessage::read(word) else { return Vec::new() };
        let mut out = Vec::new();
        if let Some(held) = self.sessions().get_mut(&message.session) {
            held.participant.received(now, &message, &mut out);
        }
        self.changed.notify_all();
        said(out)
    }

    /// Time has passed. Returns what is to be said again.
    pub(crate) fn tick(&self, now: Duration) -> Vec<BalanceWord> {
        let mut out = Vec::new();
        for held in self.sessions().values_mut() {
            held.participant.tick(now, &mut out);
        }
        let mut words = said(out);
        if self.measures.load(Ordering::Relaxed) {
            let computed = lock(&self.clock).rest(now);
            words.extend(
                computed.map(|computed| self.measured(now, computed)).into_iter().flatten(),
            );
        }
        words
    }

    /// The job is over for this worker.
    pub(crate) fn fail(&self, why: &str) {
        self.sessions().values_mut().for_each(|held| held.participant.fail(why));
        self.changed.notify_all();
    }

    // ---- what is measured -----------------------------------------------------------------------

    /// A worker pushes. `may_set`: it may set the key's first values. Returns what is to be said.
    pub(crate) fn pushed(
        &self,
        now: impl FnOnce() -> Duration,
        push: Pushed,
        may_set: bool,
    ) -> Vec<BalanceWord> {
        if !self.measures.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let now = now();
        let computed = lock(&self.clock).pushed(now, push, may_set);
        computed.map_or_else(Vec::new, |computed| self.measured(now, computed))
    }

    /// A request of this worker has ended.
    pub(crate) fn answered(&self, now: impl FnOnce() -> Duration) {
        if self.measures.load(Ordering::Relaxed) {
            lock(&self.clock).answered(now());
        }
    }

    /// This worker meets others.
    pub(crate) fn barrier(&self) {
        if self.measures.load(Ordering::Relaxed) {
            lock(&self.clock).barrier();
        }
    }

    fn measured(&self, now: Duration, Computed(time): Computed) -> Vec<BalanceWord> {
        let seconds = time.map_or(0.0, |time| time.as_secs_f64());
        let report = self.complete(now, BalanceReport { seconds, ..BalanceReport::default() });
        let mut sessions = self.sessions();
        let measured = sessions.values_mut().filter(|held| held.measured);
        said(measured.filter_map(|held| held.participant.measured(report)).collect())
    }

    /// Adds what this process can have of its host, where the report does not say it.
    pub(crate) fn complete(&self, now: Duration, report: BalanceReport) -> BalanceReport {
        let has = lock(&self.available).look(now);
        let or = |told: f64, seen: f64| if told > 0.0 { told } else { seen };
        BalanceReport {
            cpu: or(report.cpu, has.cpu),
            memory: or(report.memory, has.memory),
            ..report
        }
    }
}

/// To be sent by the scheduler.
fn words(out: Outbox) -> Vec<BalanceWord> {
    out.into_iter().map(|(to, message)| BalanceWord { to, word: message.bytes() }).collect()
}

/// To be sent to the scheduler.
pub(crate) fn said(messages: Vec<BalanceMessage>) -> Vec<BalanceWord> {
    words(messages.into_iter().map(|message| (SCHEDULER, message)).collect())
}
