//! A worker's session, as its application has it: the next batch, and how long the last one took.
//! May name the running node and its `training`; must not name the van or a customer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::error::{NodeError, Result, refuse_forked};
use crate::running::{NodeRef, RunningNode};
use crate::training::{SessionId, said};
use pslite_core::cluster::{BalanceWord, Event};
use pslite_core::training::balance::{Batch, Turn};
use pslite_core::wire::balance::{BalanceOpen, BalanceReport};
use pslite_core::wire::{Role, SCHEDULER};
use pslite_observe::log::{self, Level};

/// How long the scheduler may take to answer an opening.
const ANSWER: Duration = Duration::from_secs(30);
/// A wait that is as long is said, once.
const LONG: Duration = Duration::from_secs(10);
/// The longest wait without a look at what happens.
const LOOK: Duration = Duration::from_millis(500);

/// What a worker says of a batch. A number that is 0 is not known: the library's own is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchReport {
    /// Seconds of computing, without waiting for others.
    pub seconds: f64,
    /// The share of processors that it can have.
    pub cpu: f64,
    /// The share of memory that it can have.
    pub memory: f64,
}

/// See the module. Closes when it is dropped.
pub struct BatchSession {
    node: Weak<dyn RunningNode>,
    id: SessionId,
    open: BalanceOpen,
    per_epoch: u64,
}

impl BatchSession {
    /// Takes part in the session of that name. Returns when this worker has a place in it: at once,
    /// unless it has closed a session of that name that others are still in. `measured`: the
    /// library measures how long each batch takes, from pushes and answers.
    ///
    /// # Errors
    /// This node is no worker, the scheduler is not ours, it refuses, or the settings make no
    /// sense.
    pub(crate) fn open(
        node: &NodeRef,
        name: &str,
        open: BalanceOpen,
        measured: bool,
    ) -> Result<Self> {
        refuse_forked()?;
        if node.settings().role != Role::Worker {
            return Err(NodeError::Invalid("only workers have batches".to_owned()));
        }
        if !node.is_ours(SCHEDULER) {
            return Err(NodeError::Config(
                "the scheduler of this job is not pslite's: it has no batch sizes to give"
                    .to_owned(),
            ));
        }
        let id = SessionId { name: name.to_owned(), instance: open.instance };
        let words = node.training().open(node.now(), &id, open.clone(), measured)?;
        node.event(Event::Balance(words));
        let mut session = Self { node: Arc::downgrade(node), id, open, per_epoch: 0 };
        session.per_epoch = session.wait_for_answer(node)?;
        Ok(session)
    }

    /// Returns the iterations of an epoch.
    fn wait_for_answer(&self, node: &NodeRef) -> Result<u64> {
        let (training, begin) = (node.training(), Instant::now());
        let mut said = false;
        let mut sessions = training.sessions();
        loop {
            let Some(held) = sessions.get_mut(&self.id) else {
                return Err(NodeError::Stopped(format!(
                    "session {:?}: the opening was cancelled",
                    self.id.name
                )));
            };
            if let Some(why) = held.participant.refusal() {
                let why = why.to_owned();
                // The membership's lock is never asked for with this one held.
                drop(sessions);
                return Err(node.failure().unwrap_or(NodeError::Remote(why)));
            }
            if held.participant.is_answered() {
                return Ok(held.participant.per_epoch());
            }
            let (passed, whom) = (begin.elapsed(), held.participant.waits_for());
            if passed >= ANSWER && whom.is_empty() {
                return Err(NodeError::Timeout(format!(
                    "session {:?}: the scheduler gives no answer; is it an older version?",
                    self.id.name
                )));
            }
            if passed >= LONG && !whom.is_empty() && !std::mem::replace(&mut said, true) {
                let (name, rank) = (&self.id.name, self.open.rank);
                let text = format!("session {name:?}: rank {rank} opens it again, and waits for");
                log::write(Level::Warning, &format!("{text} {whom}"));
            }
            sessions = training.wait(sessions, LOOK);
        }
    }

    /// Ends the opening of that name which another thread waits for.
    pub(crate) fn cancel(node: &NodeRef, name: &str) {
        tell(node, node.training().cancel(name));
    }

    /// What it was opened with.
    #[must_use]
    pub const fn settings(&self) -> &BalanceOpen {
        &self.open
    }

    /// Iterations of an epoch; 0 where batches are dealt.
    #[must_use]
    pub const fn per_epoch(&self) -> u64 {
        self.per_epoch
    }

    /// The next batch; waits for it, at most so long. `None`: there are no more.
    ///
    /// # Errors
    /// [`NodeError::Timeout`]: not yet; the text says for whom it waits. Others: this worker does
    /// not take part any more.
    pub fn next(&self, limit: Option<Duration>) -> Result<Option<Batch>> {
        let node = self.node()?;
        let begin = Instant::now();
        let mut said = false;
        loop {
            let (turn, words) = self.turn(&node)?;
            tell(&node, words);
            match turn {
                Turn::Batch(batch) => return Ok(Some(batch)),
                Turn::End => return Ok(None),
                Turn::Refused(why) => {
                    return Err(node.failure().unwrap_or(NodeError::Remote(why)));
                }
                Turn::Wait => {}
            }
            let passed = begin.elapsed();
            if limit.is_some_and(|limit| passed >= limit) {
                return Err(NodeError::Timeout(self.waiting_text(&node)));
            }
            if passed >= LONG && !std::mem::replace(&mut said, true) {
                log::write(Level::Warning, &self.waiting_text(&node));
            }
            let left = limit.map_or(LOOK, |limit| (limit - passed).min(LOOK));
            let training = node.training();
            let mut sessions = training.sessions();
            let waits = sessions.get_mut(&self.id).is_some_and(|held| held.participant.waits());
            if waits {
                drop(training.wait(sessions, left));
            }
        }
    }

    fn turn(&self, node: &NodeRef) -> Result<(Turn, Vec<BalanceWord>)> {
        let mut out = Vec::new();
        let mut sessions = node.training().sessions();
        let held = sessions.get_mut(&self.id).ok_or_else(|| self.id.closed())?;
        let turn = held.participant.next(node.now(), &mut out);
        Ok((turn, said(out)))
    }

    fn waiting_text(&self, node: &NodeRef) -> String {
        let mut sessions = node.training().sessions();
        let held = sessions.get_mut(&self.id).map(|held| &held.participant);
        let (next, computed) = held.map_or((0, 0), |participant| participant.progress());
        let whom = held.map_or("", |participant| participant.waits_for());
        let whom = if whom.is_empty() { "the scheduler" } else { whom };
        let (rank, lookahead) = (self.open.rank, self.open.lookahead);
        format!(
            "session {:?}: rank {rank} waits for {whom}. It has begun {next} batches and reported \
             {computed}; {lookahead} may be begun ahead of the slowest worker's reports. A loader \
             that takes batches ahead needs `prefetch`",
            self.id.name
        )
    }

    /// The batches up to that one were computed.
    ///
    /// # Errors
    /// It was not begun, or the session is closed.
    pub fn report(&self, iteration: u64, report: BatchReport) -> Result<()> {
        let node = self.node()?;
        let BatchReport { seconds, cpu, memory } = report;
        let report = BalanceReport { seconds, cpu, memory };
        let report = node.training().complete(node.now(), report);
        tell(&node, node.training().report(&self.id, iteration, report)?);
        Ok(())
    }

    /// How many batches were begun, and how many of them reported.
    ///
    /// # Errors
    /// The session is closed.
    pub fn progress(&self) -> Result<(u64, u64)> {
        let node = self.node()?;
        let mut sessions = node.training().sessions();
        let held = sessions.get_mut(&self.id).ok_or_else(|| self.id.closed())?;
        Ok(held.participant.progress())
    }

    /// Takes part no more. The others go on without this worker.
    pub fn close(&self) {
        if let Some(node) = self.node.upgrade() {
            tell(&node, node.training().close(&self.id));
        }
    }

    fn node(&self) -> Result<NodeRef> {
        refuse_forked()?;
        self.node.upgrade().ok_or_else(|| {
            NodeError::NotStarted("the node of this session was finalized".to_owned())
        })
    }
}

impl Drop for BatchSession {
    fn drop(&mut self) {
        if refuse_forked().is_ok() {
            self.close();
        }
    }
}

fn tell(node: &NodeRef, words: Vec<BalanceWord>) {
    if !words.is_empty() {
        node.event(Event::Balance(words));
    }
}

impl std::fmt::Debug for BatchSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchSession").field("id", &self.id).finish_non_exhaustive()
    }
}
