//! Batch sizes, as a running node has them: the scheduler's coordinator, a worker's sessions, and
//! the clock by which a worker's computing is measured. The rules are in `core::training`; here are
//! the locks, and who waits. The van brings what others say and sends what is said. Must not name
//! the van or a customer.

mod available;
mod exchange;
mod sessions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{NodeError, Result};
use crate::sync::lock;
use available::Available;
use exchange::LockedExchange;
use pslite_core::cluster::Tell;
use pslite_core::training::balance::clock::{ComputeClock, Computed, PushedKey};
use pslite_core::training::balance::{Coordinator, Gone, Outbox, Worker};
use pslite_core::wire::balance::{BalanceMessage, BalanceOpen, BalanceReport, SessionStatus};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{NodeId, SCHEDULER};
pub(crate) use sessions::{SessionId, WorkerSessions};

/// See the module. No lock of it is held while another one of the node is taken.
#[derive(Default)]
pub(crate) struct Training {
    /// A scheduler's.
    coordinator: Mutex<Coordinator>,
    /// A worker's.
    sessions: Mutex<WorkerSessions>,
    /// Signalled when a session has changed.
    changed: Condvar,
    /// Some session wants the times that the library measures.
    measures: AtomicBool,
    clock: Mutex<ComputeClock>,
    available: Mutex<Available>,
    /// A scheduler's, of a job that exchanges deltas.
    pub(crate) exchange: LockedExchange,
}

impl Training {
    // ---- the scheduler --------------------------------------------------------------------------

    /// A worker says something. Returns what follows; what people are to be told goes to `notes`.
    pub(crate) fn asked(&self, from: Worker, word: &[u8], notes: &mut Vec<String>) -> Vec<Tell> {
        let Some(message) = BalanceMessage::read(word) else { return Vec::new() };
        let mut out = Outbox::new();
        let mut coordinator = lock(&self.coordinator);
        coordinator.handle(from, &message, &mut out);
        notes.extend(coordinator.take_notes());
        drop(coordinator);
        words(out)
    }

    /// A worker is gone. Returns what follows.
    pub(crate) fn lost(&self, id: NodeId, gone: Gone) -> Vec<Tell> {
        let mut out = Outbox::new();
        lock(&self.coordinator).lost(id, gone, &mut out);
        words(out)
    }

    /// How the sessions are.
    pub(crate) fn status(&self) -> Vec<SessionStatus> {
        lock(&self.coordinator).status()
    }

    // ---- a worker -------------------------------------------------------------------------------

    /// The sessions of this process.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, WorkerSessions> {
        lock(&self.sessions)
    }

    /// Waits until a session may have changed.
    pub(crate) fn wait<'a>(
        &self,
        sessions: MutexGuard<'a, WorkerSessions>,
        most: Duration,
    ) -> MutexGuard<'a, WorkerSessions> {
        self.changed.wait_timeout(sessions, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Begins a session. Returns what is to be said.
    ///
    /// # Errors
    /// There is one of that name here, or the settings make no sense.
    pub(crate) fn open(
        &self,
        now: Duration,
        id: &SessionId,
        open: BalanceOpen,
        measured: bool,
    ) -> Result<Vec<Tell>> {
        let mut sessions = self.sessions();
        let message = sessions.open(now, id, open, measured)?;
        self.note_measured(&sessions);
        Ok(said(vec![message]))
    }

    /// Ends a session, if it has not ended. Returns what is to be said.
    pub(crate) fn close(&self, id: &SessionId) -> Vec<Tell> {
        let mut sessions = self.sessions();
        let message = sessions.close(id);
        self.note_measured(&sessions);
        drop(sessions);
        self.changed.notify_all();
        said(message.into_iter().collect())
    }

    /// Ends the session of that name whose opening has not been answered yet, if there is one.
    /// Returns what is to be said.
    pub(crate) fn cancel(&self, name: &str) -> Vec<Tell> {
        let opening = self.sessions().opening(name);
        opening.map_or_else(Vec::new, |id| self.close(&id))
    }

    /// The application says what a batch took, of which `report` is complete. From now on the
    /// library measures that session no more. Returns what is to be said.
    ///
    /// # Errors
    /// The session is closed, or that batch was not begun.
    pub(crate) fn report(
        &self,
        id: &SessionId,
        iteration: u64,
        report: BalanceReport,
    ) -> Result<Vec<Tell>> {
        let mut sessions = self.sessions();
        let held = sessions.get_mut(id).ok_or_else(|| id.closed())?;
        let was_measured = std::mem::replace(&mut held.measured, false);
        let message = held.participant.report(iteration, report).map_err(NodeError::Invalid)?;
        if was_measured {
            self.note_measured(&sessions);
        }
        Ok(said(message.into_iter().collect()))
    }

    /// The application computes none of the batches before that one that it has not reported.
    /// Returns what is to be said.
    ///
    /// # Errors
    /// The session is closed, or nothing can be skipped.
    pub(crate) fn skip(&self, id: &SessionId, to: u64) -> Result<Vec<Tell>> {
        let mut sessions = self.sessions();
        let held = sessions.get_mut(id).ok_or_else(|| id.closed())?;
        let message = held.participant.skip(to).map_err(NodeError::Invalid)?;
        drop(sessions);
        self.changed.notify_all();
        Ok(said(message.into_iter().collect()))
    }

    /// The application has an order of its own for that epoch. Returns what is to be said.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn ordered(&self, id: &SessionId, epoch: u64, hash: u64) -> Result<Vec<Tell>> {
        let mut sessions = self.sessions();
        let held = sessions.get_mut(id).ok_or_else(|| id.closed())?;
        Ok(said(vec![held.participant.ordered(epoch, hash)]))
    }

    /// The application pushes nothing more of the batch that it computed last. Returns what is to
    /// be said.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn settle(&self, now: Duration, id: &SessionId) -> Result<Vec<Tell>> {
        let measured = self.sessions().get_mut(id).ok_or_else(|| id.closed())?.measured;
        let computed = if measured { lock(&self.clock).settle() } else { None };
        Ok(computed.map_or_else(Vec::new, |computed| self.measured(now, computed)))
    }

    fn note_measured(&self, sessions: &WorkerSessions) {
        let measures = sessions.any_is_measured();
        if !self.measures.swap(measures, Ordering::Relaxed) && measures {
            *lock(&self.clock) = ComputeClock::default();
        }
    }

    /// The scheduler says something. Returns what follows.
    pub(crate) fn told(&self, now: Duration, word: &[u8]) -> Vec<Tell> {
        let Some(message) = BalanceMessage::read(word) else { return Vec::new() };
        let mut out = Vec::new();
        self.sessions().received(now, &message, &mut out);
        self.changed.notify_all();
        said(out)
    }

    /// Time has passed. Returns what is to be said again.
    pub(crate) fn tick(&self, now: Duration) -> Vec<Tell> {
        let mut out = Vec::new();
        self.sessions().all().for_each(|held| held.participant.tick(now, &mut out));
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
        self.sessions().all().for_each(|held| held.participant.fail(why));
        self.changed.notify_all();
    }

    // ---- what is measured -----------------------------------------------------------------------

    /// A worker pushes. `may_set`: it may set the key's first values. Returns what is to be said.
    pub(crate) fn pushed(
        &self,
        now: impl FnOnce() -> Duration,
        push: PushedKey,
        may_set: bool,
    ) -> Vec<Tell> {
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

    fn measured(&self, now: Duration, Computed(time): Computed) -> Vec<Tell> {
        let seconds = time.map_or(0.0, |time| time.as_secs_f64());
        let report = self.complete(now, BalanceReport { seconds, ..BalanceReport::default() });
        let mut sessions = self.sessions();
        let measured = sessions.all().filter(|held| held.measured);
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
fn words(out: Outbox) -> Vec<Tell> {
    out.into_iter()
        .map(|(to, message)| Tell { to, topic: Topic::Batches, bytes: message.bytes() })
        .collect()
}

/// To be sent to the scheduler.
pub(crate) fn said(messages: Vec<BalanceMessage>) -> Vec<Tell> {
    words(messages.into_iter().map(|message| (SCHEDULER, message)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::Key;
    use pslite_core::wire::balance::{BalanceKind, BalanceShare};

    const NOW: Duration = Duration::from_secs(5);

    fn id(name: &str, instance: u64) -> SessionId {
        SessionId { name: name.to_owned(), instance }
    }

    /// Opens a session of one worker, which has its first 5 batches.
    fn opened(training: &Training, id: &SessionId, measured: bool) {
        let open = BalanceOpen {
            length: 100,
            total: 2,
            members: 1,
            quantum: 1,
            lookahead: 4,
            min: 1,
            ..BalanceOpen::default()
        };
        training.open(NOW, id, open, measured).unwrap();
        let answer = |kind: BalanceKind, iteration, shares| BalanceMessage {
            kind: kind as i32,
            session: id.name.clone(),
            instance: id.instance,
            iteration,
            shares,
            ..BalanceMessage::default()
        };
        let share = BalanceShare { size: 2, ..BalanceShare::default() };
        training.told(NOW, &answer(BalanceKind::Opened, 0, Vec::new()).bytes());
        training.told(NOW, &answer(BalanceKind::Grant, 5, vec![share]).bytes());
        let mut sessions = training.sessions();
        let participant = &mut sessions.get_mut(id).unwrap().participant;
        (0..5).for_each(|_| _ = participant.next(NOW, &mut Vec::new()));
    }

    fn reported(training: &Training, id: &SessionId) -> u64 {
        training.sessions().get_mut(id).unwrap().participant.progress().1
    }

    fn push(training: &Training, key: Key) {
        training.pushed(|| NOW, PushedKey { customer_id: 0, key }, false);
        training.answered(|| NOW);
    }

    #[test]
    fn a_name_that_is_opened_again_is_another_session() {
        let training = Training::default();
        let (one, other) = (id("a", 1), id("a", 3));
        opened(&training, &one, false);
        assert!(training.open(NOW, &other, BalanceOpen::default(), false).is_err());
        assert_eq!(training.close(&one).len(), 1);
        opened(&training, &other, false);
        // Who still has the first one neither ends the second one nor reports in it.
        assert_eq!(training.close(&one), []);
        let report = training.report(&one, 0, BalanceReport::default());
        assert!(report.unwrap_err().to_string().contains("was closed"));
        assert!(training.sessions().get_mut(&one).is_none());
        assert_eq!(reported(&training, &other), 0);
    }

    #[test]
    fn who_reports_is_measured_no_more() {
        let training = Training::default();
        let (one, other) = (id("a", 1), id("b", 3));
        opened(&training, &one, true);
        opened(&training, &other, true);
        (0..3).for_each(|_| push(&training, 7));
        assert_eq!((reported(&training, &one), reported(&training, &other)), (2, 2));
        training.report(&one, 2, BalanceReport::default()).unwrap();
        push(&training, 7);
        assert_eq!((reported(&training, &one), reported(&training, &other)), (3, 3));
        assert!(training.measures.load(Ordering::Relaxed), "the other one is measured");
        training.report(&other, 3, BalanceReport::default()).unwrap();
        // Nobody wants the clock any more: pushes cost nothing.
        assert!(!training.measures.load(Ordering::Relaxed));
        push(&training, 7);
        assert_eq!((reported(&training, &one), reported(&training, &other)), (3, 4));
    }

    #[test]
    fn what_was_pushed_last_is_reported_when_the_application_settles() {
        let training = Training::default();
        let (one, other) = (id("a", 1), id("b", 3));
        opened(&training, &one, true);
        opened(&training, &other, false);
        push(&training, 7);
        assert_eq!(reported(&training, &one), 0, "another key may come");
        assert_eq!(training.settle(NOW, &other).unwrap(), [], "it is not measured");
        assert_eq!(training.settle(NOW, &one).unwrap().len(), 1);
        assert_eq!(training.settle(NOW, &one).unwrap(), []);
        assert_eq!((reported(&training, &one), reported(&training, &other)), (1, 0));
        push(&training, 7);
        push(&training, 8);
        assert_eq!(reported(&training, &one), 2);
        training.close(&one);
        assert!(training.settle(NOW, &one).is_err());
    }

    #[test]
    fn only_an_opening_without_an_answer_is_cancelled() {
        let training = Training::default();
        let (one, other) = (id("a", 1), id("b", 3));
        opened(&training, &one, true);
        let open = training.sessions().get_mut(&one).unwrap().participant.settings().clone();
        training.open(NOW, &other, open, true).unwrap();
        assert_eq!(training.cancel("a"), []);
        assert_eq!(training.cancel("c"), []);
        let words = training.cancel("b");
        let word = BalanceMessage::read(&words[0].bytes).unwrap();
        assert_eq!((word.kind, word.instance), (BalanceKind::Close as i32, 3));
        assert!(training.sessions().get_mut(&other).is_none());
        assert!(training.sessions().get_mut(&one).is_some());
    }
}
