//! A worker that trains while deltas travel (docs/nbsync.md): the program of a script, and the real
//! local model that answers it, joined as `node`'s customer joins them. Each step adds to each
//! element of a value what says whose step it was. So each global value says how many steps of whom
//! are in it.
//!
//! The program is MXNet's. It pulls each tensor once. Then in each iteration it computes, pushes
//! each tensor, and pulls it when that is answered, or has both in one request. It computes again
//! when it has all of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::super::config::Exchanges;
use super::super::ledger::{Exchanged, Ledger};
use super::super::requests::NewRequest;
use super::super::workload::PushOf;
use super::{Over, Purpose, Worker, WorkerConfig};
use crate::app::{Output, View};
use pslite_core::invariant::Valid;
use pslite_core::kv::Assembled;
use pslite_core::store::command::Head;
use pslite_core::store::local::Obeyed;
use pslite_core::values::KvPairs;
use pslite_core::wire::Key;
use pslite_core::wire::exchange::word::ExchangeWord;
use pslite_core::worker::{Begins, LocalStep, LocalTraining, Own};

/// So many percent of the pushes pull as well.
const BOTH: u32 = 50;

/// A program that waits until all workers are equal, and looks at its values then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finishing {
    /// It does no such thing, or has not begun.
    No,
    /// It waits.
    Waits,
    /// It pulls its values.
    Pulls,
    /// It has them.
    Done,
}

/// See the module.
pub(super) struct Trainer {
    training: LocalTraining,
    /// What the local model has said, and is not done.
    steps: VecDeque<LocalStep>,
    /// Iterations that it computes, and those that it has begun to push.
    iterations: u64,
    begun: u64,
    /// How long one takes at most.
    compute: Duration,
    /// It computes until then.
    computing: Option<Duration>,
    /// It has pulled its tensors for the first time, or does so.
    has_pulled: bool,
    /// Tensors whose values it waits for.
    open: usize,
    /// A swap keeps what was computed since the send.
    keeps: bool,
    /// Each such iteration is one of all workers together; 0: none.
    every: u64,
    finishes: bool,
    finish: Finishing,
    /// It came back: rounds do not wait for it.
    is_back: bool,
    /// It steps its values itself, from those of each tensor that it was given last.
    given: Option<BTreeMap<usize, Bytes>>,
    /// The round of the delta that was sent last.
    last: Option<u64>,
    /// Of each key: steps, steps that were sent, and the values that came.
    done: BTreeMap<Key, Exchanged>,
}

impl Trainer {
    /// That of the worker of that rank, which says how many iterations it computes, and how fast.
    pub(super) fn new(plan: Exchanges, config: &WorkerConfig, rank: usize, is_back: bool) -> Self {
        let Exchanges { spec, iterations, compute, finishes, by_program } = plan;
        let who = Begins { makes_keys: rank == 0, is_back };
        let mut training = LocalTraining::new(&spec, config.workers as u32, config.servers, who);
        // It fails where an optimizer was set, and none was.
        let given = by_program.then(|| training.step_by_program().unwrap_or_default());
        Self {
            training,
            steps: VecDeque::new(),
            iterations: iterations[rank % iterations.len()],
            begun: 0,
            compute: compute * (1 + rank as u32 % 3),
            computing: None,
            has_pulled: false,
            open: 0,
            keeps: spec.waits || spec.keep || spec.sections > 1,
            every: spec.every,
            finishes,
            finish: Finishing::No,
            is_back,
            given: given.map(|()| BTreeMap::new()),
            last: None,
            done: BTreeMap::new(),
        }
    }

    /// What a program that steps by itself pushes of a tensor, in place of a gradient: its new
    /// value. Nobody multiplies its step by the number of workers, so it does.
    fn stepped(&mut self, tensor: usize, gradient: KvPairs, workers: usize) -> KvPairs {
        let Some(value) = self.given.as_mut().and_then(|given| given.get_mut(&tensor)) else {
            return gradient;
        };
        let (values, steps) = (value.as_chunks::<4>().0, gradient.vals.as_chunks::<4>().0);
        let float = |bytes: &[u8; 4]| f32::from_ne_bytes(*bytes);
        let new = values
            .iter()
            .zip(steps)
            .flat_map(|(value, step)| (float(value) + float(step) * workers as f32).to_ne_bytes());
        *value = new.collect();
        KvPairs { vals: value.clone(), ..gradient }
    }

    /// True if a command stays at the worker.
    pub(super) fn obeys(&mut self, head: i32, body: &Bytes) -> Result<bool, String> {
        let obeyed = self.training.command(Head::from(head), body);
        obeyed.map(|obeyed| obeyed == Obeyed::Here).map_err(|error| error.to_string())
    }

    /// What the local model promises of itself.
    pub(super) fn validate(&self) -> Valid {
        self.training.validate()
    }

    /// How far it is, for people.
    pub(super) fn describe(&self) -> String {
        let (counts, waits) = (self.training.counts(), self.training.waits());
        let Self { begun, iterations, open, finish, .. } = self;
        format!(
            "iterations {begun} of {iterations}, {open} open, {counts:?}, waits {waits:?}, finish \
             {finish:?}"
        )
    }

    /// With which other workers' values those that it has now are to be equal.
    fn equal_in(&self) -> Option<u64> {
        if self.is_back {
            return None;
        }
        if self.finish == Finishing::Pulls {
            return Some(u64::MAX);
        }
        let is_together = self.begun.checked_rem(self.every) == Some(0);
        (is_together && self.begun > 0).then_some(self.begun)
    }
}

impl Worker {
    // ---- the program ----------------------------------------------------------------------------

    /// Trains: computes, pushes and pulls.
    pub(super) fn train_by_exchange(
        &mut self,
        view: &View<'_>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(trainer) = &mut self.trainer else { return };
        if trainer.open > 0 {
            return;
        }
        if !trainer.has_pulled {
            trainer.has_pulled = true;
            for tensor in 0..self.config.tensors.len() {
                self.ask_values(view, tensor, Purpose::Local { tensor }, ledger, out);
            }
            return;
        }
        if trainer.begun == trainer.iterations {
            return self.end_exchange(view, ledger, out);
        }
        let until =
            *trainer.computing.get_or_insert_with(|| view.now + self.random.time(trainer.compute));
        if view.now < until {
            return out.push(Output::WakeAfter(until - view.now));
        }
        trainer.computing = None;
        trainer.begun += 1;
        self.push_iteration(view, ledger, out);
    }

    /// Pushes all tensors, from any of them on.
    fn push_iteration(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let tensors = self.config.tensors.len();
        let first = self.random.below(tensors.max(1) as u64) as usize;
        for at in 0..tensors {
            let tensor = (first + at) % tensors;
            let pulls = self.random.percent(BOTH);
            let Some(trainer) = &mut self.trainer else { return };
            let of = &self.config.tensors[tensor];
            for slice in &of.slices {
                trainer.done.entry(slice.key).or_default().steps += 1;
            }
            let round = trainer.begun;
            let push = PushOf { worker: self.rank, round, counts: self.config.counts };
            let kv = of.push(push, &self.ranges);
            let kv = trainer.stepped(tensor, kv, self.config.workers);
            let payload = Purpose::Step { tensor, pulls };
            let request = NewRequest { head: of.head(false), push: true, pull: pulls, kv, payload };
            let what = format!("step {round} of tensor {tensor}");
            self.ask(view, tensor, request, what, ledger, out);
        }
    }

    /// The program has the local values of a tensor.
    pub(super) fn local_values(
        &mut self,
        view: &View<'_>,
        tensor: usize,
        values: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(trainer) = &mut self.trainer else { return };
        if let Some(given) = &mut trainer.given {
            given.insert(tensor, Bytes::copy_from_slice(values));
        }
        let of = &self.config.tensors[tensor];
        let mut rest = values;
        for slice in &of.slices {
            let Some((value, after)) = rest.split_at_checked(of.bytes(slice)) else {
                let why = format!("tensor {tensor}: {} bytes are too few", values.len());
                return out.push(Output::End(Err(why)));
            };
            rest = after;
            let equal_in = trainer.equal_in();
            let done = trainer.done.entry(slice.key).or_default();
            ledger.trains_with(self.rank, slice.key, done, trainer.keeps, value);
            if let Some(meeting) = equal_in {
                ledger.equal_at(self.rank, meeting, slice.key, value);
            }
        }
        trainer.open -= 1;
        self.train(view, ledger, out);
    }

    /// All iterations are over. The program may wait until all are equal; then it leaves.
    fn end_exchange(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Some(trainer) = &mut self.trainer else { return };
        match trainer.finish {
            Finishing::No if trainer.finishes => {
                trainer.finish = Finishing::Waits;
                let mut steps = Vec::new();
                trainer.training.finish(view.now, &mut steps);
                trainer.steps.extend(steps);
                self.do_local(view, ledger, out);
                self.end_exchange(view, ledger, out);
            }
            Finishing::Waits => match trainer.training.is_finished() {
                Ok(false) => {}
                Ok(true) => {
                    trainer.finish = Finishing::Pulls;
                    trainer.open = self.config.tensors.len();
                    for tensor in 0..self.config.tensors.len() {
                        self.ask_values(view, tensor, Purpose::Local { tensor }, ledger, out);
                    }
                }
                Err(why) => out.push(Output::End(Err(why))),
            },
            Finishing::Pulls => {
                trainer.finish = Finishing::Done;
                self.finish_exchange(view, ledger, out);
            }
            Finishing::No | Finishing::Done => self.finish_exchange(view, ledger, out),
        }
    }

    /// The last stretch.
    fn finish_exchange(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Some(trainer) = &mut self.trainer else { return };
        let is_over = if self.customers[0].sabotage.forgets_the_end() {
            true
        } else {
            let mut steps = Vec::new();
            let is_over = match trainer.training.leave(view.now, &mut steps) {
                Ok(is_over) => is_over,
                Err(why) => return out.push(Output::End(Err(why))),
            };
            trainer.steps.extend(steps);
            is_over
        };
        self.do_local(view, ledger, out);
        if is_over {
            let Some(trainer) = &mut self.trainer else { return };
            ledger.trained(self.rank, trainer.iterations);
            self.next_stage(view, ledger, out);
        }
    }

    // ---- the local model ------------------------------------------------------------------------

    /// Asks the local model.
    pub(super) fn ask_local(
        &mut self,
        view: &View<'_>,
        request: NewRequest<Purpose>,
        what: String,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(trainer) = &mut self.trainer else { return };
        // A pull that follows a push is of a tensor that is open already.
        let is_new = match request.payload {
            Purpose::Step { .. } => true,
            Purpose::Local { .. } => trainer.begun == 0,
            _ => false,
        };
        let (meta, slices, name) = match self.customers[0].ask_local(request) {
            Ok(asked) => asked,
            Err(why) => return out.push(Output::End(Err(why))),
        };
        trainer.open += usize::from(is_new);
        ledger.wait_begun(view.process, name, what);
        let (timestamp, mut steps) = (meta.timestamp, Vec::new());
        trainer.training.ask(view.now, meta, slices, &self.ranges, &mut steps);
        self.customers[0].sabotage.in_turn(&mut steps);
        trainer.steps.extend(steps);
        if trainer.training.has(timestamp) && trainer.training.waits().is_some() {
            ledger.held();
        }
    }

    /// Does what the local model says, in order.
    pub(super) fn do_local(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        while let Some(step) = self.trainer.as_mut().and_then(|one| one.steps.pop_front()) {
            let over = match step {
                LocalStep::Send(own) => self.send_own(view, *own, ledger, out),
                step => self.do_step(view, step, ledger, out).1,
            };
            over.into_iter().for_each(|one| self.over(view, one, ledger, out));
        }
    }

    fn do_step(
        &mut self,
        view: &View<'_>,
        step: LocalStep,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> (Option<i32>, Vec<Over<Purpose>>) {
        let own = |key| Purpose::Own { key };
        self.customers[0].do_local(view.now, step, own, ledger, out)
    }

    /// The scheduler says something to the local model.
    pub(super) fn told_of_exchange(
        &mut self,
        view: &View<'_>,
        bytes: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let (Some(trainer), Some(word)) = (&mut self.trainer, ExchangeWord::read(bytes)) else {
            return;
        };
        let mut steps = Vec::new();
        trainer.training.told(view.now, &word, &mut steps);
        trainer.steps.extend(steps);
        self.do_local(view, ledger, out);
        self.train(view, ledger, out);
    }

    /// Time has passed.
    pub(super) fn beat(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Some(trainer) = &mut self.trainer else { return };
        let mut steps = Vec::new();
        trainer.training.tick(view.now, &mut steps);
        trainer.steps.extend(steps);
        self.do_local(view, ledger, out);
    }

    /// Sends a request of the local model's own.
    fn send_own(
        &mut self,
        view: &View<'_>,
        mut own: Own,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<Purpose>> {
        let Some(trainer) = &mut self.trainer else { return Vec::new() };
        let customer = &mut self.customers[0];
        let (key, push) = (own.key, own.meta.push);
        if let Some(round) = own.round {
            let before = trainer.last.replace(round);
            ledger.in_turn(self.rank, before, round);
        }
        if push {
            let done = trainer.done.entry(key).or_default();
            own.kv.vals = customer.sabotage.delta(own.kv.vals, done.sent.is_empty());
            // All tensors are pushed in each iteration. One that is held has not begun.
            done.sent.push(trainer.training.counts().iterations);
        }
        let (begun, over) = self.do_step(view, LocalStep::Send(Box::new(own)), ledger, out);
        if let Some(name) = begun {
            let what = if push { "delta" } else { "first value" };
            ledger.wait_begun(view.process, name, format!("{what} of key {key}"));
        }
        over
    }

    /// A request of the local model's own is over.
    pub(super) fn own_over(
        &mut self,
        view: &View<'_>,
        key: Key,
        result: Result<Assembled, String>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(trainer) = &mut self.trainer else { return };
        let value = result.map(|assembled| Bytes::from(assembled.vals.concat()));
        if let Ok(value) = &value {
            let done = trainer.done.entry(key).or_default();
            // Before the first delta the answer is the value with which the key begins.
            let is_round = !done.globals.is_empty();
            done.globals.push(value.clone());
            if is_round {
                ledger.exchanged(self.rank, trainer.is_back, key, done);
            }
        }
        let sabotage = &mut self.customers[0].sabotage;
        let value = value.map(|value| sabotage.global(key, value));
        let value = value.as_deref().map_err(Clone::clone);
        let mut steps = Vec::new();
        trainer.training.own_answered(view.now, key, value, &mut steps);
        trainer.steps.extend(steps);
        self.do_local(view, ledger, out);
        self.train(view, ledger, out);
    }
}
