//! A worker that has its batches from a session: the real participant, a loader that takes batches
//! ahead, and rounds of which each is one batch. It reports a batch as the library measures it
//! (when its last tensor is pushed; of the first one it hears with the second), before its pushes,
//! or when all is answered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::config::{Reports, Sessions};
use super::super::ledger::{Ledger, TakenBatch};
use super::{ScriptStage, Worker};
use crate::app::{Output, View};
use pslite_core::cluster::{Event, Tell};
use pslite_core::random::Random;
use pslite_core::training::balance::{Batch, Participant, Turn};
use pslite_core::wire::SCHEDULER;
use pslite_core::wire::balance::{BalanceKind, BalanceMessage, BalanceOpen, BalanceReport};
use pslite_core::wire::topic::Topic;

/// Seeds of the order, and how many iterations an epoch has.
const PER_EPOCH: u64 = 7;
/// How much slower than the fastest a worker is at most.
const SLOWER: f64 = 3.0;

/// See the module.
pub(super) struct SessionBatches {
    plan: Sessions,
    participant: Option<Participant>,
    /// Which session of the job it is in.
    run: u64,
    taken: VecDeque<Batch>,
    computing: Option<Batch>,
    /// It computes no iteration from there on; known once it takes part.
    end: Option<u64>,
    /// Batches that it has begun to compute.
    begun: u64,
    /// Its first batch is over, and the library does not know yet.
    unsaid: Option<u64>,
    is_over: bool,
    /// Seconds of each sample.
    pace: f64,
}

impl SessionBatches {
    pub(super) fn new(
        plan: Sessions,
        compute: Duration,
        workers: usize,
        random: &mut Random,
    ) -> Self {
        let share = f64::from(plan.total) / workers.max(1) as f64;
        let pace = compute.as_secs_f64() / share / SLOWER * (1.0 + (SLOWER - 1.0) * random.unit());
        Self {
            plan,
            participant: None,
            run: 0,
            taken: VecDeque::new(),
            computing: None,
            end: None,
            begun: 0,
            unsaid: None,
            is_over: false,
            pace,
        }
    }

    fn open(
        &mut self,
        view: &View<'_>,
        rank: usize,
        members: usize,
        said: &mut Vec<BalanceMessage>,
    ) -> Result<(), String> {
        let open = BalanceOpen {
            length: u64::from(self.plan.total) * PER_EPOCH,
            total: self.plan.total,
            members: members as u32,
            quantum: 1,
            rule: self.plan.rule as i32,
            lookahead: self.plan.ahead + 1,
            min: 1,
            rank: rank as u32,
            instance: view.cluster.me().incarnation,
            ..BalanceOpen::default()
        };
        let (participant, message) = Participant::open("batches", open, view.now)?;
        self.participant = Some(participant);
        said.push(message);
        Ok(())
    }

    pub(super) fn received(
        &mut self,
        now: Duration,
        message: &BalanceMessage,
        rounds: u64,
        ledger: &Ledger,
    ) -> Vec<BalanceMessage> {
        let mut said = Vec::new();
        let Some(participant) = &mut self.participant else { return said };
        participant.received(now, message, &mut said);
        if message.kind == BalanceKind::Opened as i32 && self.end.is_none() {
            self.run = ledger.session();
            let (first, _) = participant.progress();
            self.end = Some(if self.plan.by_count { first + rounds } else { rounds });
        }
        said
    }

    pub(super) fn tick(&mut self, now: Duration) -> Vec<BalanceMessage> {
        let mut said = Vec::new();
        if let Some(participant) = &mut self.participant {
            participant.tick(now, &mut said);
        }
        said
    }

    /// It takes the place of a dead one, and so many rounds are over: the dead one has pushed all
    /// of the batches before, and could not report the last ones.
    pub(super) fn goes_on_from(&mut self, round: u64) {
        self.begun = round;
    }

    /// Reports batches that the dead one has pushed.
    fn skip_pushed(&mut self, said: &mut Vec<BalanceMessage>) -> Result<(), String> {
        while let Some(batch) = self.taken.front().filter(|batch| batch.iteration < self.begun) {
            let iteration = batch.iteration;
            self.taken.pop_front();
            self.report(iteration, said)?;
        }
        Ok(())
    }

    /// Takes batches ahead, as a loader does.
    fn take(
        &mut self,
        view: &View<'_>,
        rank: usize,
        ledger: &mut Ledger,
        said: &mut Vec<BalanceMessage>,
    ) -> Result<(), String> {
        let (Some(participant), Some(end)) = (&mut self.participant, self.end) else {
            let refused = self.participant.as_ref().and_then(Participant::refusal);
            return match refused {
                // Nobody shares with one that comes when the others have ended.
                Some(why) if why.contains("a worker has closed it") => {
                    self.is_over = true;
                    Ok(())
                }
                Some(why) => Err(why.to_owned()),
                None => Ok(()),
            };
        };
        while !self.is_over && self.taken.len() <= self.plan.ahead as usize {
            if participant.progress().0 >= end {
                self.is_over = true;
                break;
            }
            match participant.next(view.now, said) {
                Turn::Batch(batch) if batch.iteration < end => {
                    // Where keys stay, who takes a place is in no further life of it.
                    let life = view.cluster.my_life().max(view.cluster.me().is_recovery.into());
                    let (run, instance) = (self.run, view.cluster.me().incarnation);
                    ledger.batch_taken(TakenBatch { run, rank, instance, life, batch });
                    self.taken.push_back(batch);
                }
                Turn::Batch(_) | Turn::End => self.is_over = true,
                Turn::Wait => break,
                Turn::Refused(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn report(&mut self, iteration: u64, said: &mut Vec<BalanceMessage>) -> Result<(), String> {
        let Some(participant) = &mut self.participant else { return Ok(()) };
        let size = self.computing.map_or(0, |batch| batch.size);
        let report = BalanceReport { seconds: self.pace * f64::from(size), cpu: 1.0, memory: 0.5 };
        said.extend(participant.report(iteration, report)?);
        Ok(())
    }

    /// The next batch begins. What the library could not know before, it does now.
    fn begins(&mut self, batch: Batch, said: &mut Vec<BalanceMessage>) -> Result<(), String> {
        self.begun += 1;
        if let Some(former) = self.unsaid.take() {
            self.report(former, said)?;
        }
        self.computing = Some(batch);
        if self.plan.reports == Reports::Before {
            self.report(batch.iteration, said)
        } else {
            Ok(())
        }
    }

    /// All its tensors are being pushed.
    fn pushed(&mut self, said: &mut Vec<BalanceMessage>) -> Result<(), String> {
        let Some(batch) = self.computing else { return Ok(()) };
        match self.plan.reports {
            Reports::Measured if self.begun == 1 => {
                self.unsaid = Some(batch.iteration);
                Ok(())
            }
            Reports::Measured => self.report(batch.iteration, said),
            Reports::Before | Reports::After => Ok(()),
        }
    }

    /// All is answered.
    fn answered(&mut self, said: &mut Vec<BalanceMessage>) -> Result<(), String> {
        let Some(batch) = self.computing else { return Ok(()) };
        if self.plan.reports == Reports::After {
            self.report(batch.iteration, said)?;
        }
        self.computing = None;
        Ok(())
    }

    /// How far it is, for people.
    pub(super) fn describe(&self) -> String {
        let progress = self.participant.as_ref().map(Participant::progress);
        let waits_for = self.participant.as_ref().map_or("", Participant::waits_for);
        let computing = self.computing.map(|batch| batch.iteration);
        format!(
            "batches taken, reported {progress:?}, computes {computing:?}, waits for {waits_for:?}"
        )
    }
}

/// To the scheduler.
pub(super) fn say(said: Vec<BalanceMessage>, out: &mut Vec<Output>) {
    if !said.is_empty() {
        let word = |message: BalanceMessage| Tell {
            to: SCHEDULER,
            topic: Topic::Batches,
            bytes: message.bytes(),
        };
        out.push(Output::Elastic(Event::Tell(said.into_iter().map(word).collect())));
    }
}

impl Worker {
    /// Trains by batches: pushes each tensor once in each.
    pub(super) fn train_by_batches(
        &mut self,
        view: &View<'_>,
        mut batches: SessionBatches,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let mut said = Vec::new();
        let is_over = self.go_on(view, &mut batches, ledger, &mut said, out);
        if is_over == Ok(true) {
            said.extend(batches.participant.as_mut().and_then(Participant::close));
        }
        self.batches = Some(batches);
        say(said, out);
        match is_over {
            Ok(true) => self.next_stage(view, ledger, out),
            Ok(false) => {}
            Err(why) => out.push(Output::End(Err(why))),
        }
    }

    /// Returns whether the training is over.
    fn go_on(
        &mut self,
        view: &View<'_>,
        batches: &mut SessionBatches,
        ledger: &mut Ledger,
        said: &mut Vec<BalanceMessage>,
        out: &mut Vec<Output>,
    ) -> Result<bool, String> {
        if batches.participant.is_none() {
            batches.open(view, self.rank, self.config.workers, said)?;
        }
        loop {
            batches.take(view, self.rank, ledger, said)?;
            if batches.computing.is_some() {
                self.push_what_is_due(view, ledger, out);
                let is_begun = self.paces.all().iter().all(|pace| pace.begun == batches.begun);
                if is_begun {
                    batches.pushed(said)?;
                }
                if !self.paces.are_over() {
                    let next = self.paces.next(view.now);
                    out.extend(next.map(|next| Output::WakeAfter(next - view.now)));
                    return Ok(false);
                }
                batches.answered(said)?;
            }
            if self.config.stays.is_some() {
                batches.skip_pushed(said)?;
                batches.take(view, self.rank, ledger, said)?;
            }
            let Some(batch) = batches.taken.pop_front() else { return Ok(batches.is_over) };
            batches.begins(batch, said)?;
            self.compute(view, batches, batch);
        }
    }

    /// Gradients are there one after the other; the last one when the batch is computed.
    fn compute(&mut self, view: &View<'_>, batches: &SessionBatches, batch: Batch) {
        self.paces.until(batches.begun);
        let time = Duration::from_secs_f64(batches.pace * f64::from(batch.size));
        for tensor in 0..self.paces.all().len() {
            let until = view.now + if tensor == 0 { time } else { self.random.time(time) };
            self.paces.change(tensor, |pace| pace.until = until);
        }
    }

    fn push_what_is_due(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        for tensor in self.paces.due(view.now) {
            self.paces.change(tensor, |pace| pace.begun += 1);
            let round = self.paces.all()[tensor].begun;
            self.push(view, tensor, round, ledger, out);
        }
    }

    /// The scheduler says something of batches.
    pub(super) fn told_of_batches(
        &mut self,
        view: &View<'_>,
        word: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let (Some(mut message), Some(batches)) = (BalanceMessage::read(word), &mut self.batches)
        else {
            return;
        };
        if let Some(customer) = self.customers.first_mut() {
            customer.sabotage.shares(&mut message);
        }
        let stages = Arc::clone(&self.config.stages);
        let trains = |stage: &ScriptStage| {
            if let ScriptStage::Train { round } = stage { Some(*round) } else { None }
        };
        let rounds = stages.iter().filter_map(trains).max().unwrap_or(0);
        let said = batches.received(view.now, &message, rounds, ledger);
        say(said, out);
        self.train(view, ledger, out);
    }
}
