//! Batches of a job whose keys stay where they are, where a dead worker is replaced
//! (`PS_HEARTBEAT_TIMEOUT`): the real participant, each of whose iterations is one round, and the
//! real coordinator. A batch is reported when its round is over.

use std::collections::VecDeque;
use std::time::Duration;

use super::app::{Judge, Output, View};
use super::ledger::Ledger;
use pslite_core::cluster::{Event, Tell};
use pslite_core::training::balance::{Batch, Coordinator, Gone, Outbox, Participant, Turn, Worker};
use pslite_core::wire::balance::{BalanceMessage, BalanceOpen, BalanceReport};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{NodeId, SCHEDULER};

/// How a job shares out samples.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Samples of an iteration.
    pub total: u32,
    /// Batches that are taken ahead.
    pub ahead: u32,
}

/// What a worker has of its session.
#[derive(Debug)]
pub(super) struct Batches {
    shares: Shares,
    participant: Option<Participant>,
    taken: VecDeque<Batch>,
    /// It waits for a batch.
    pub(super) waits: bool,
}

impl Batches {
    pub(super) const fn new(shares: Shares) -> Self {
        Self { shares, participant: None, taken: VecDeque::new(), waits: false }
    }

    /// True if the batch of that round is there. Else it comes later.
    pub(super) fn begins(
        &mut self,
        view: &View<'_>,
        (rank, workers): (usize, usize),
        round: u64,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> bool {
        let mut said = Vec::new();
        if self.participant.is_none() {
            let open = BalanceOpen {
                length: u64::from(self.shares.total) * (1 << 20),
                total: self.shares.total,
                members: workers as u32,
                quantum: 1,
                lookahead: self.shares.ahead + 1,
                min: 1,
                rank: rank as u32,
                instance: view.cluster.me().incarnation,
                ..BalanceOpen::default()
            };
            match Participant::open("batches", open, view.now) {
                Ok((participant, message)) => {
                    self.participant = Some(participant);
                    said.push(message);
                }
                Err(why) => ledger.fault(why),
            }
        }
        let begins = self.take(view.now, rank, round, ledger, &mut said);
        self.waits = !begins;
        say(said.into_iter().map(|message| (SCHEDULER, message)), out);
        begins
    }

    fn take(
        &mut self,
        now: Duration,
        rank: usize,
        round: u64,
        ledger: &mut Ledger,
        said: &mut Vec<BalanceMessage>,
    ) -> bool {
        let Some(participant) = &mut self.participant else { return false };
        loop {
            match self.taken.front().map(|batch| batch.iteration) {
                // The dead one has pushed all of it, and could not report it.
                Some(iteration) if iteration < round => {
                    self.taken.pop_front();
                    said.extend(
                        participant.report(iteration, BalanceReport::default()).ok().flatten(),
                    );
                }
                Some(iteration) if iteration == round => return true,
                Some(iteration) => {
                    ledger.fault(format!("rank {rank} has iteration {iteration} in round {round}"));
                    return false;
                }
                None => {}
            }
            while self.taken.len() <= self.shares.ahead as usize {
                match participant.next(now, said) {
                    Turn::Batch(batch) => {
                        ledger.shared(rank, batch.iteration, batch.place, batch.size);
                        self.taken.push_back(batch);
                    }
                    Turn::Refused(why) => {
                        ledger.fault(why);
                        return false;
                    }
                    Turn::Wait | Turn::End => break,
                }
            }
            if self.taken.is_empty() {
                return false;
            }
        }
    }

    /// The round of the batch is over.
    pub(super) fn computed(&mut self, out: &mut Vec<Output>) {
        let (Some(participant), Some(batch)) = (&mut self.participant, self.taken.pop_front())
        else {
            return;
        };
        let seconds = 1e-3 * f64::from(batch.size);
        let report = BalanceReport { seconds, cpu: 1.0, memory: 0.5 };
        let said = participant.report(batch.iteration, report).ok().flatten();
        say(said.into_iter().map(|message| (SCHEDULER, message)), out);
    }

    /// The scheduler says something.
    pub(super) fn told(&mut self, now: Duration, word: &[u8], out: &mut Vec<Output>) {
        let Some(message) = BalanceMessage::read(word) else { return };
        let mut said = Vec::new();
        if let Some(participant) = &mut self.participant {
            participant.received(now, &message, &mut said);
        }
        say(said.into_iter().map(|message| (SCHEDULER, message)), out);
    }

    /// There are no more rounds.
    pub(super) fn close(&mut self, out: &mut Vec<Output>) {
        let said = self.participant.as_mut().and_then(Participant::close);
        say(said.into_iter().map(|message| (SCHEDULER, message)), out);
    }
}

/// The scheduler's side.
#[derive(Debug, Default)]
pub(super) struct Desk {
    coordinator: Coordinator,
    /// Places of the dead are not kept: for the tests of the oracle.
    frees_places: bool,
}

impl Desk {
    pub(super) fn new(frees_places: bool) -> Self {
        Self { frees_places, ..Self::default() }
    }

    /// A worker says something.
    pub(super) fn asked(
        &mut self,
        node: NodeId,
        word: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(message) = BalanceMessage::read(word) else { return };
        let mut words = Outbox::new();
        self.coordinator.handle(Worker { node, life: 0 }, &message, &mut words);
        self.look(ledger);
        say(words, out);
    }

    /// A worker is gone, or has left the job.
    pub(super) fn lost(
        &mut self,
        node: NodeId,
        replaced: bool,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let replaced = replaced && !self.frees_places;
        let gone = if replaced { Gone::IsReplaced } else { Gone::HasLeft };
        let mut words = Outbox::new();
        self.coordinator.lost(node, gone, &mut words);
        self.look(ledger);
        say(words, out);
    }

    fn look(&self, ledger: &mut Ledger) {
        if let Err(broken) = self.coordinator.validate() {
            ledger.fault(broken);
        }
    }
}

fn say(words: impl IntoIterator<Item = (NodeId, BalanceMessage)>, out: &mut Vec<Output>) {
    let word = |(to, message): (NodeId, BalanceMessage)| Tell {
        to,
        topic: Topic::Batches,
        bytes: message.bytes(),
    };
    let words: Vec<Tell> = words.into_iter().map(word).collect();
    if !words.is_empty() {
        out.push(Output::Elastic(Event::Tell(words)));
    }
}
