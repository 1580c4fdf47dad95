//! A worker that trains while deltas travel (docs/nbsync.md): the real machine and the real local
//! values, joined as a node is to join them. Each step adds to each element of its values what says
//! whose step it was. So each global value says how many steps of whom are in it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::super::config::Exchanges;
use super::super::ledger::{Exchanged, Ledger};
use super::super::workload::{COUNT_BASE, Tensor};
use super::{Purpose, Worker};
use crate::app::{Output, View};
use pslite_core::invariant::Valid;
use pslite_core::random::Random;
use pslite_core::store::command::Head;
use pslite_core::store::local::{LocalModel, Obeyed};
use pslite_core::training::exchange::{Act, Exchange, Push, Rest, Turn};
use pslite_core::values::{Dtype, KvPairs};
use pslite_core::wire::Key;

/// See the module.
pub(super) struct Trainer {
    machine: Exchange,
    model: LocalModel,
    /// Of each wire key: its tensor, and how many bytes its value has.
    keys: BTreeMap<Key, (usize, usize)>,
    /// Iterations that it computes, and those that it has begun to push.
    iterations: u64,
    begun: u64,
    /// How long one takes at most.
    compute: Duration,
    /// It computes until then.
    computing: Option<Duration>,
    /// What is left to push of this iteration.
    rest: Vec<Key>,
    /// Of each key: steps, steps that were sent, and rounds whose values came.
    done: BTreeMap<Key, Exchanged>,
    /// Tensors whose first values are not here.
    unknown: Option<usize>,
}

impl Trainer {
    pub(super) fn new(plan: Exchanges, workers: usize, servers: usize, tensors: &[Tensor]) -> Self {
        let keys = tensors.iter().enumerate().flat_map(|(index, tensor)| {
            tensor.slices.iter().map(move |slice| (slice.key, (index, tensor.bytes(slice))))
        });
        Self {
            machine: Exchange::new(plan.spec),
            model: LocalModel::new(&plan.spec, workers as u32, servers),
            keys: keys.collect(),
            iterations: 0,
            begun: 0,
            compute: plan.compute,
            computing: None,
            rest: Vec::new(),
            done: BTreeMap::new(),
            unknown: None,
        }
    }

    /// Its rank is known: how many iterations it computes, and how fast.
    pub(super) fn is_of_rank(&mut self, plan: Exchanges, rank: usize) {
        self.iterations = plan.iterations[rank % plan.iterations.len()];
        self.compute = plan.compute * (1 + rank as u32 % 3);
    }

    /// True if a command stays at the worker.
    pub(super) fn obeys(&mut self, head: i32, body: &Bytes) -> Result<bool, String> {
        let obeyed = self.model.command(Head::from(head), body);
        obeyed.map(|obeyed| obeyed == Obeyed::Here).map_err(|error| error.to_string())
    }

    /// What the machine promises of itself.
    pub(super) fn validate(&self) -> Valid {
        self.machine.validate()
    }

    /// How far it is, for people.
    pub(super) fn describe(&self) -> String {
        let counts = self.machine.counts();
        format!("iterations {} of {}, {counts:?}", self.begun, self.iterations)
    }

    /// The next iteration begins: its keys, in any order.
    fn next_iteration(&mut self, random: &mut Random) {
        self.begun += 1;
        self.rest = self.keys.keys().copied().collect();
        let first = random.below(self.rest.len().max(1) as u64) as usize;
        self.rest.rotate_left(first);
    }

    /// One gradient of a key: a step of this worker.
    fn step(&mut self, key: Key, rank: usize) -> Result<(), String> {
        let bytes = self.keys.get(&key).map_or(0, |(_, bytes)| *bytes);
        let one = COUNT_BASE.powi(rank as i32).to_ne_bytes();
        let gradient: Vec<u8> = one.iter().copied().cycle().take(bytes).collect();
        self.model.step(key, Dtype::F32, &gradient).map_err(|error| error.to_string())?;
        self.done.entry(key).or_default().steps += 1;
        Ok(())
    }
}

impl Worker {
    /// Trains: computes, and exchanges what it has changed.
    pub(super) fn train_by_exchange(
        &mut self,
        view: &View<'_>,
        mut trainer: Trainer,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let is_over = self.exchange_on(view, &mut trainer, ledger, out);
        self.trainer = Some(trainer);
        match is_over {
            Ok(true) => self.next_stage(view, ledger, out),
            Ok(false) => {}
            Err(why) => out.push(Output::End(Err(why))),
        }
    }

    /// Returns whether the training is over.
    fn exchange_on(
        &mut self,
        view: &View<'_>,
        trainer: &mut Trainer,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<bool, String> {
        if trainer.unknown.is_none() {
            trainer.unknown = Some(self.config.tensors.len());
            for tensor in 0..self.config.tensors.len() {
                self.ask_values(view, (tensor, Purpose::First { tensor }), ledger, out);
            }
        }
        if trainer.unknown != Some(0) {
            return Ok(false);
        }
        loop {
            if let Some(key) = trainer.rest.last().copied() {
                let bytes = trainer.keys.get(&key).map_or(0, |(_, bytes)| *bytes);
                let Push { before, turn } = trainer.machine.push(view.now, key, bytes as u64);
                for (other, act) in before {
                    self.act(view, trainer, (other, act), ledger, out)?;
                }
                let Turn::Taken(act) = turn else {
                    ledger.held();
                    return Ok(false);
                };
                trainer.rest.pop();
                trainer.step(key, self.rank)?;
                self.act(view, trainer, (key, act), ledger, out)?;
                continue;
            }
            if trainer.begun == trainer.iterations {
                return self.finish_exchange(view, trainer, ledger, out);
            }
            // The program has no values to compute with.
            if trainer.keys.keys().any(|key| trainer.machine.withholds(*key)) {
                return Ok(false);
            }
            let until = *trainer
                .computing
                .get_or_insert_with(|| view.now + self.random.time(trainer.compute));
            if view.now < until {
                out.push(Output::WakeAfter(until - view.now));
                return Ok(false);
            }
            trainer.computing = None;
            trainer.next_iteration(&mut self.random);
        }
    }

    /// The last stretch. True if all of it is in rounds that are over.
    fn finish_exchange(
        &mut self,
        view: &View<'_>,
        trainer: &mut Trainer,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<bool, String> {
        let is_done = if self.customers[0].sabotage.forgets_the_end() {
            trainer.keys.keys().all(|key| !trainer.machine.withholds(*key))
        } else {
            let resting = trainer.machine.rest(Rest::Own);
            for act in resting.acts {
                self.act(view, trainer, act, ledger, out)?;
            }
            resting.is_done
        };
        if is_done {
            ledger.trained(self.rank, trainer.iterations);
        }
        Ok(is_done)
    }

    /// Swaps, sends, or both.
    fn act(
        &mut self,
        view: &View<'_>,
        trainer: &mut Trainer,
        (key, act): (Key, Act),
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        let Act { swap, send } = self.customers[0].sabotage.act(act);
        let delta = trainer.model.exchange(key, (swap, send)).map_err(|error| error.to_string())?;
        let Some(delta) = delta else { return Ok(()) };
        let done = trainer.done.entry(key).or_default();
        done.sent = done.steps;
        let is_first = done.rounds == 0;
        let vals = self.customers[0].sabotage.delta(delta, is_first);
        let tensor = trainer.keys.get(&key).map_or(0, |(tensor, _)| *tensor);
        let lens = Bytes::copy_from_slice(&(vals.len() as i32).to_ne_bytes());
        let kv = KvPairs { keys: Bytes::copy_from_slice(&key.to_ne_bytes()), vals, lens };
        let what = format!("delta of key {key}");
        let head = self.config.tensors[tensor].head(false);
        let purpose = (Purpose::Delta { key }, what);
        self.ask(view, tensor, ((head, true, true), kv), purpose, ledger, out);
        Ok(())
    }

    /// The first values of a tensor are here.
    pub(super) fn first_values(&mut self, tensor: usize, values: &[u8]) -> Result<(), String> {
        let Some(trainer) = &mut self.trainer else { return Ok(()) };
        let of = &self.config.tensors[tensor];
        let mut from = 0;
        for slice in &of.slices {
            let to = from + of.bytes(slice);
            let value = values.get(from..to).ok_or("the first values are too short")?;
            let begun = trainer.model.begin(slice.key, Dtype::F32, value);
            begun.map_err(|error| error.to_string())?;
            from = to;
        }
        trainer.unknown = trainer.unknown.map(|unknown| unknown - 1);
        Ok(())
    }

    /// A delta was answered with the global value.
    pub(super) fn global_value(
        &mut self,
        view: &View<'_>,
        key: Key,
        value: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        let Some(mut trainer) = self.trainer.take() else { return Ok(()) };
        let done = trainer.done.entry(key).or_default();
        done.rounds += 1;
        ledger.exchanged(self.rank, key, *done, value);
        let taken = trainer.model.arrived(key, value).map_err(|error| error.to_string());
        let act = trainer.machine.answered(key);
        let acted = taken.and_then(|()| self.act(view, &mut trainer, (key, act), ledger, out));
        self.trainer = Some(trainer);
        acted
    }
}
