//! A worker's session, as its application has it: the next batch, and how long the last one took.
//! May name the running node and its `training`; must not name the van or a customer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::error::{NodeError, Result, refuse_forked};
use crate::running::{NodeRef, RunningNode};
use crate::training::{SessionId, said};
use pslite_core::cluster::{Event, Tell};
use pslite_core::training::balance::{Batch, Participant, Turn};
use pslite_core::wire::balance::{BalanceOpen, BalanceReport, BalanceRule};
use pslite_core::wire::{Role, SCHEDULER};
use pslite_observe::awake;
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
        let exchanges = node.policy().is_some_and(|routed| routed.policy.exchange.is_some());
        if exchanges && open.rule != BalanceRule::Dealt as i32 {
            return Err(NodeError::Invalid(
                "this job exchanges deltas (PSLITE_SYNC): its workers do not wait for each other \
                 in each iteration, and a batch session with this rule lets them; take \
                 rule=\"dealt\", or do without one of both"
                    .to_owned(),
            ));
        }
        let id = SessionId { name: name.to_owned(), instance: open.instance };
        let words = node.training().open(node.now(), &id, open.clone(), measured)?;
        node.event(Event::Tell(words));
        // A session that is there before the job fails is ended by that.
        if let Some(failure) = node.failure() {
            node.training().close(&id);
            return Err(failure);
        }
        let mut session = Self { node: Arc::downgrade(node), id, open, per_epoch: 0 };
        session.per_epoch = session.wait_for_answer(node)?;
        Ok(session)
    }

    /// Returns the iterations of an epoch.
    fn wait_for_answer(&self, node: &NodeRef) -> Result<u64> {
        let (training, begin) = (node.training(), awake::now());
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
            let (passed, whom) = (awake::since(begin), held.participant.waits_for());
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
        let begin = awake::now();
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
            let passed = awake::since(begin);
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

    fn turn(&self, node: &NodeRef) -> Result<(Turn, Vec<Tell>)> {
        let mut out = Vec::new();
        let mut sessions = node.training().sessions();
        let held = sessions.get_mut(&self.id).ok_or_else(|| self.id.closed())?;
        let turn = held.participant.next(node.now(), &mut out);
        Ok((turn, said(out)))
    }

    fn waiting_text(&self, node: &NodeRef) -> String {
        let mut sessions = node.training().sessions();
        match sessions.get_mut(&self.id) {
            Some(held) => waiting_text(node.now(), &self.id.name, &held.participant, held.measured),
            None => self.id.closed().to_string(),
        }
    }

    /// This worker computes none of the batches before that iteration that it has not reported. All
    /// workers have to skip alike.
    ///
    /// # Errors
    /// Where batches are dealt, nothing can be skipped; or the session is closed.
    pub fn skip(&self, to: u64) -> Result<()> {
        self.settle()?;
        let node = self.node()?;
        tell(&node, node.training().skip(&self.id, to)?);
        Ok(())
    }

    /// The application takes the samples of that epoch in an order of its own. The hash is compared
    /// with that of the other workers.
    ///
    /// # Errors
    /// The session is closed.
    pub fn ordered(&self, epoch: u64, hash: u64) -> Result<()> {
        let node = self.node()?;
        tell(&node, node.training().ordered(&self.id, epoch, hash)?);
        Ok(())
    }

    /// The application pushes nothing more of the batch that it computed last. If the library
    /// measures the session, that batch is reported now, in place of with the next push.
    ///
    /// # Errors
    /// The session is closed.
    pub fn settle(&self) -> Result<()> {
        let node = self.node()?;
        tell(&node, node.training().settle(node.now(), &self.id)?);
        Ok(())
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

/// For people: whom a worker waits for, since when, and what it has not reported itself.
fn waiting_text(now: Duration, name: &str, worker: &Participant, measured: bool) -> String {
    let (next, computed) = worker.progress();
    let BalanceOpen { rank, lookahead, .. } = *worker.settings();
    let whom = worker.waits_for();
    let whom = if whom.is_empty() { "the scheduler" } else { whom };
    let seconds = now.saturating_sub(worker.waits_since()).as_secs();
    let begin = format!(
        "session {name:?}: rank {rank} waits for {whom}, for {seconds} s now. It has begun {next} \
         batches and reported {computed}"
    );
    let (left, is_dealt) = (next - computed, worker.per_epoch() == 0);
    if left < u64::from(lookahead) && !(is_dealt && left > 0) {
        return format!("{begin}; {lookahead} may be begun ahead of the slowest worker's reports");
    }
    let how = if measured {
        "the library reports a batch when its gradients were pushed. One that is only looked at, \
         or whose gradients are pushed with another's, is to be reported by the application"
    } else {
        "the application has to report them"
    };
    let loaders = "A loader that takes batches ahead needs `prefetch`";
    format!("{begin}: its own from {computed} on are missing, and {how}. {loaders}")
}

fn tell(node: &NodeRef, words: Vec<Tell>) {
    if !words.is_empty() {
        node.event(Event::Tell(words));
    }
}

impl std::fmt::Debug for BatchSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchSession").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::balance::{BalanceKind, BalanceMessage, BalanceShare};

    #[test]
    fn a_wait_says_for_whom_since_when_and_what_is_missing_here() {
        let now = Duration::from_secs(100);
        let open = BalanceOpen {
            length: 100,
            total: 10,
            members: 1,
            quantum: 1,
            lookahead: 2,
            min: 1,
            instance: 5,
            ..BalanceOpen::default()
        };
        let (mut worker, _) = Participant::open("a", open, now).unwrap();
        let mut received = |kind: BalanceKind, iteration, text: &str| {
            let message = BalanceMessage {
                kind: kind as i32,
                instance: 5,
                iteration,
                text: text.to_owned(),
                shares: vec![BalanceShare { size: 10, ..BalanceShare::default() }],
                ..BalanceMessage::default()
            };
            worker.received(now, &message, &mut Vec::new());
        };
        received(BalanceKind::Opened, 0, "");
        received(BalanceKind::Grant, 2, "rank 0 to report iteration 0");
        let later = now + Duration::from_secs(7);
        let text = waiting_text(later, "a", &worker, true);
        assert!(text.contains("rank 0 waits for rank 0 to report iteration 0, for 7 s now"));
        assert!(text.contains("2 may be begun ahead") && !text.contains("prefetch"), "{text}");
        (0..2).for_each(|_| _ = worker.next(now, &mut Vec::new()));
        let text = waiting_text(later, "a", &worker, true);
        assert!(text.contains("its own from 0 on are missing, and the library reports"), "{text}");
        let text = waiting_text(later, "a", &worker, false);
        assert!(text.contains("the application has to report them. A loader"), "{text}");
    }
}
