//! The oracle of jobs. It knows what workers pushed and what they were told, what each
//! server says that it owns, and which policies there were; it knows nothing of how servers move
//! pieces. One file for each of what must hold: `once`, `durable`, `owners`, `versions`, `waits`,
//! `epochs`, `sums`, `samples`, `exchange`, `placement`. `reference` has the values that are right.

mod durable;
mod epochs;
mod exchange;
mod once;
mod owners;
mod placement;
mod progress;
pub(super) mod reference;
mod samples;
mod sites;
mod sums;
mod versions;
mod waits;

use std::collections::BTreeMap;
use std::fmt;

use self::epochs::Epochs;
use self::exchange::Deltas;
pub(super) use self::exchange::Exchanged;
use self::owners::Owners;
use self::placement::Iterations;
use self::reference::{Reference, ReferencePlan};
use self::samples::Samples;
pub(super) use self::samples::TakenBatch;
use self::sums::Sums;
use self::waits::Waits;
use super::workload::{Tensor, TensorSlice};
use crate::app::Judge;
use pslite_core::invariant::Valid;
use pslite_core::training::balance::Worker;
use pslite_core::values::KvPairs;
use pslite_core::wire::elastic::{Claim, KeyRoute};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::Policy;
use pslite_core::wire::{Key, Meta, NodeId};

/// Faults of one kind that are kept; one is enough to fail.
const FAULTS_KEPT: usize = 3;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Each push is applied exactly once to each element that it covers.
    Once,
    /// No push is lost after its callback.
    Durable,
    /// Each element has one owner at a time, who alone applies its rounds.
    OneOwner,
    /// A pull brings the version that it must bring, to the bit.
    Version,
    /// Every wait ends, with an error only where one is due.
    Ends,
    /// What goes along a tree is what it says, and goes where it may.
    Sums,
    /// Each sample of an iteration is computed once, unless its worker is lost.
    Samples,
    /// Epochs and terms grow, and name one thing each.
    Grows,
    /// Keys go to where rounds are short, and stay there.
    Placed,
    /// Trees are about as good as can be planned, and do not change to and fro.
    Planted,
    /// The machines keep what they promise of themselves (`pslite_core::invariant`).
    Promised,
    /// A message cannot be read, or the simulation itself is wrong.
    Sound,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What does not hold.
    pub invariant: Invariant,
    /// How that showed.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.text)
    }
}

/// What a pull may bring.
#[derive(Clone, Debug)]
pub(super) struct PullBounds {
    /// The first version that may be seen.
    from: u64,
    /// How many pushes of each worker must be in it, in a job that counts them.
    done: Vec<u64>,
}

/// See the module.
pub struct Ledger {
    plan: ReferencePlan,
    tensors: Vec<Tensor>,
    /// Values count pushes: an asynchronous job of several workers.
    counts: bool,
    slices: BTreeMap<Key, (usize, TensorSlice)>,
    /// Of each tensor, by worker.
    progress: Vec<progress::All>,
    reference: Reference,
    owners: Owners,
    epochs: Epochs,
    waits: Waits,
    sums: Sums,
    samples: Samples,
    deltas: Deltas,
    iterations: Iterations,
    said: Vec<String>,
    faults: Vec<Fault>,
    checked: u64,
    ahead: u64,
}

impl Ledger {
    pub(super) fn new(plan: ReferencePlan, tensors: Vec<Tensor>, counts: bool) -> Self {
        let slices = tensors
            .iter()
            .enumerate()
            .flat_map(|(index, tensor)| tensor.slices.iter().map(move |s| (s.key, (index, *s))))
            .collect();
        Self {
            progress: vec![progress::All::new(plan.workers); tensors.len()],
            deltas: Deltas::new(plan.workers, plan.mortal),
            reference: Reference::new(plan.clone()),
            plan,
            tensors,
            counts,
            slices,
            owners: Owners::default(),
            epochs: Epochs::default(),
            waits: Waits::default(),
            sums: Sums::default(),
            samples: Samples::default(),
            iterations: Iterations::default(),
            said: Vec::new(),
            faults: Vec::new(),
            checked: 0,
            ahead: 0,
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many pulled values were looked at.
    #[must_use]
    pub const fn checked(&self) -> u64 {
        self.checked
    }

    /// Pulls so far whose values came ahead.
    #[must_use]
    pub const fn ahead(&self) -> u64 {
        self.ahead
    }

    /// The values of a pull came ahead.
    pub(super) const fn note_ahead(&mut self) {
        self.ahead += 1;
    }

    /// Somebody says something for people.
    pub(super) fn say(&mut self, text: String) {
        self.said.push(text);
    }

    /// What was said since the last call.
    pub(super) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn found(&mut self, invariant: Invariant, faults: impl IntoIterator<Item = String>) {
        for text in faults {
            let of_kind = self.faults.iter().filter(|fault| fault.invariant == invariant);
            if of_kind.count() < FAULTS_KEPT {
                self.faults.push(Fault { invariant, text });
            }
        }
    }

    // ---- what workers do ------------------------------------------------------------------------

    /// A worker begins a push.
    pub(super) fn push_begun(&mut self, worker: usize, tensor: usize) {
        if let Some(progress) = self.progress.get_mut(tensor) {
            progress.begin(worker);
        }
    }

    /// It was told that the push of that round is done.
    pub(super) fn push_done(&mut self, worker: usize, tensor: usize, round: u64) {
        if let Some(progress) = self.progress.get_mut(tensor) {
            progress.done(worker, round);
        }
    }

    /// A worker that takes the place of a dead one has pulled a tensor that lies under one key.
    /// Returns the round that the values are of: the worker goes on from there.
    pub(super) fn caught_up(&mut self, worker: usize, tensor: usize, values: &[u8]) -> u64 {
        self.pulled(worker, tensor, &self.bounds(tensor, None), values);
        let (Some(of), Some(progress)) = (self.tensors.get(tensor), self.progress.get_mut(tensor))
        else {
            return 0;
        };
        let Some(slice) = of.slices.first() else { return 0 };
        let reference = &mut self.reference;
        let mut is_of =
            |round: &u64| reference.value(of, slice, *round).is_ok_and(|value| *value == *values);
        let round = (progress.last()..=progress.least()).rev().find(&mut is_of).unwrap_or(0);
        progress.set(worker, round);
        round
    }

    /// A worker begins a pull. Who was given up meanwhile, in that life, may have the values of the
    /// last round that it pushed to: they came with the answer.
    pub(super) fn pull_begun(&self, tensor: usize, worker: NodeId, life: u64) -> PullBounds {
        if self.epochs.gave_up(worker, life) {
            return PullBounds { from: 0, done: Vec::new() };
        }
        self.bounds(tensor, None)
    }

    /// A worker begins a push that pulls: it brings its own push of that round too.
    pub(super) fn both_begun(&self, tensor: usize, worker: usize, round: u64) -> PullBounds {
        self.bounds(tensor, Some((worker, round)))
    }

    fn bounds(&self, tensor: usize, own: Option<(usize, u64)>) -> PullBounds {
        let progress = self.progress.get(tensor);
        let last = progress.map_or(0, progress::All::last);
        let workers = progress.filter(|_| self.counts).map_or(&[][..], progress::All::workers);
        let mut done: Vec<u64> = workers.iter().map(|progress| progress.done).collect();
        if let Some(done) = own.and_then(|(worker, _)| done.get_mut(worker)) {
            *done += 1;
        }
        PullBounds { from: last.max(own.map_or(0, |(_, round)| round)), done }
    }

    /// It has the values.
    pub(super) fn pulled(
        &mut self,
        worker: usize,
        tensor: usize,
        bounds: &PullBounds,
        values: &[u8],
    ) {
        self.checked += 1;
        let Some(of) = self.tensors.get(tensor).cloned() else { return };
        let all: usize = of.slices.iter().map(|slice| of.bytes(slice)).sum();
        if values.len() != all {
            let text = format!("worker {worker} pulled {} of {all} bytes", values.len());
            return self.found(Invariant::Version, [text]);
        }
        let begun = self.progress[tensor].least();
        let mut from = 0;
        for slice in &of.slices {
            let to = from + of.bytes(slice);
            let name = format!("worker {worker}, tensor {tensor}, key {}", slice.key);
            let part = &values[from..to];
            if self.counts {
                let counts = once::counts(part, self.plan.workers);
                let once = once::check(&name, &counts, self.progress[tensor].workers());
                let durable = durable::check_counts(&name, &counts, &bounds.done);
                self.found(Invariant::Once, once);
                self.found(Invariant::Durable, durable);
            } else {
                self.check_version(&name, &of, slice, bounds.from, begun, part);
            }
            from = to;
        }
    }

    /// Pulled values have to be of versions from `from` up to `to`.
    fn check_version(
        &mut self,
        name: &str,
        tensor: &Tensor,
        slice: &TensorSlice,
        from: u64,
        to: u64,
        values: &[u8],
    ) {
        // Nearly always they are of one version as a whole.
        for round in from..=to {
            match self.reference.value(tensor, slice, round) {
                Ok(value) if value == values => return,
                Ok(_) => {}
                Err(error) => return self.found(Invariant::Sound, [error]),
            }
        }
        let mut known = Vec::new();
        for round in 0..=to.max(from) {
            match self.reference.value(tensor, slice, round) {
                Ok(value) => known.push(value),
                Err(error) => return self.found(Invariant::Sound, [error]),
            }
        }
        let wrong = versions::wrong(values, &known, from, to);
        let durable = durable::check_versions(name, &wrong, from);
        let versions = versions::check(name, &wrong, from, to);
        self.found(Invariant::Durable, durable);
        self.found(Invariant::Version, versions);
    }

    /// Somebody begins to wait for a request.
    pub(super) fn wait_begun(&mut self, process: usize, timestamp: i32, what: String) {
        self.waits.begun(process, timestamp, what);
    }

    /// The wait has ended.
    pub(super) fn wait_ended(&mut self, process: usize, timestamp: i32) {
        self.waits.ended(process, timestamp);
    }

    // ---- what goes along trees ------------------------------------------------------------------

    /// Sums that were looked at.
    #[must_use]
    pub const fn opened(&self) -> u64 {
        self.sums.opened()
    }

    /// Somebody has these trees in force.
    pub(super) fn overlay(&mut self, overlay: &Overlay) {
        let found = self.sums.overlay(overlay);
        self.found(Invariant::Grows, found);
    }

    /// A worker pushes a part along a tree.
    pub(super) fn pushed_by_tree(&mut self, push: &Meta, kv: &KvPairs, key: Key) {
        self.sums.pushed(push, kv, key);
    }

    /// A message goes along a tree.
    pub(super) fn sent_by_tree(&mut self, meta: &Meta, kv: &KvPairs) {
        let found = self.sums.sent(meta, kv);
        self.found(Invariant::Sums, found);
    }

    // ---- batches --------------------------------------------------------------------------------

    /// Workers share so many samples of each iteration before `end`, and may take some iterations
    /// ahead.
    pub(super) fn shares_batches(&mut self, total: u32, ahead: u32, end: u64) {
        self.samples = Samples::new(total, ahead, end);
    }

    /// Dead workers are replaced, and their batches wait for that.
    pub(super) fn keeps_places(&mut self) {
        self.samples.keep_places();
    }

    /// The scheduler has a session, and had none.
    pub(super) fn session_begins(&mut self) {
        self.samples.begins();
    }

    /// How many sessions it had.
    pub(super) const fn session(&self) -> u64 {
        self.samples.run()
    }

    /// How many batches were taken, and how many of them by workers that came back.
    #[must_use]
    pub fn batches(&self) -> (usize, usize) {
        self.samples.count()
    }

    /// The scheduler has given a worker a place in its session, from that iteration on.
    pub(super) fn placed(&mut self, worker: Worker, instance: u64, first: u64) {
        self.samples.placed(worker, instance, first);
    }

    /// A worker takes a batch.
    pub(super) fn batch_taken(&mut self, taken: TakenBatch) {
        let found = self.samples.taken(&taken);
        self.found(Invariant::Samples, found);
    }

    /// The scheduler has lost a worker.
    pub(super) fn worker_lost(&mut self, worker: NodeId) {
        self.samples.lost(worker);
    }

    // ---- deltas ---------------------------------------------------------------------------------

    /// Rounds of keys that brought a global value, and pushes that were held.
    #[must_use]
    pub fn exchanges(&self) -> (usize, u64) {
        self.deltas.count()
    }

    /// A worker is told the global value of a key, in answer to a delta. `is_back`: it came back.
    pub(super) fn exchanged(&mut self, worker: usize, is_back: bool, key: Key, at: &Exchanged) {
        self.checked += 1;
        let found = self.deltas.exchanged(worker, is_back, key, at);
        for (invariant, text) in found {
            self.found(invariant, [text]);
        }
    }

    /// A worker is told what it trains with ([`Deltas::trains_with`]).
    pub(super) fn trains_with(
        &mut self,
        worker: usize,
        key: Key,
        at: &Exchanged,
        keeps: bool,
        value: &[u8],
    ) {
        self.checked += 1;
        let found = self.deltas.trains_with(worker, key, at, keeps, value);
        for (invariant, text) in found {
            self.found(invariant, [text]);
        }
    }

    /// A worker sends a delta of a round after one of another: all tensors are pushed in each
    /// iteration, so no newer round goes first.
    pub(super) fn in_turn(&mut self, worker: usize, before: Option<u64>, round: u64) {
        if before.is_some_and(|before| before > round) {
            let text = format!("worker {worker} sends round {round} after {before:?}");
            self.found(Invariant::Grows, [text]);
        }
    }

    /// A worker has a value that is to be the same at all of them ([`Deltas::equal_at`]).
    pub(super) fn equal_at(&mut self, worker: usize, meeting: u64, key: Key, value: &[u8]) {
        self.checked += 1;
        if let Some((invariant, text)) = self.deltas.equal_at(worker, meeting, key, value) {
            self.found(invariant, [text]);
        }
    }

    /// Deltas of workers that came back.
    #[must_use]
    pub const fn returned(&self) -> u64 {
        self.deltas.returned()
    }

    /// How many values were compared where all workers were to be equal.
    #[must_use]
    pub const fn compared_equal(&self) -> u64 {
        self.deltas.compared()
    }

    /// A worker is held until something is answered.
    pub(super) const fn held(&mut self) {
        self.deltas.held();
    }

    /// A worker is through with so many steps.
    pub(super) fn trained(&mut self, worker: usize, steps: u64) {
        self.deltas.trained(worker, steps);
    }

    /// A worker has the last values of a tensor.
    pub(super) fn last_values(&mut self, worker: usize, values: &[u8]) {
        for (invariant, text) in self.deltas.last(worker, values) {
            self.found(invariant, [text]);
        }
    }

    // ---- what servers hold ----------------------------------------------------------------------

    /// A server lives and holds these pieces: of one key, or of all.
    pub(super) fn holds(&mut self, server: NodeId, key: Option<Key>, claims: &[Claim]) {
        let (found, pieces) = self.owners.holds(server, key, claims, |key| {
            let (tensor, slice) = self.slices.get(&key)?;
            self.tensors.get(*tensor).map(|of| of.align(slice))
        });
        self.found(Invariant::OneOwner, found);
        for piece in pieces {
            let terms = self.epochs.owns(server, &piece);
            self.found(Invariant::Grows, terms);
            let Some((tensor, _)) = self.slices.get(&piece.key) else { continue };
            let progress = &self.progress[*tensor];
            let counted = !self.counts;
            let durable = durable::check_owner(server, &piece, progress.last()).filter(|_| counted);
            let once = once::check_owner(server, &piece, progress.least()).filter(|_| counted);
            self.found(Invariant::Durable, durable);
            self.found(Invariant::Once, once);
        }
    }

    /// Nothing of a server counts any more: it was declared dead, or has ended.
    pub(super) fn gone(&mut self, server: NodeId) {
        self.owners.gone(server);
    }

    /// True if that server was declared dead, or has ended.
    pub(super) fn is_gone(&self, server: NodeId) -> bool {
        self.owners.is_gone(server)
    }

    // ---- what is said of places -----------------------------------------------------------------

    /// A process starts.
    pub(super) fn started(&mut self, process: usize) {
        self.epochs.started(process);
    }

    /// A process has a policy in force.
    pub(super) fn policy(&mut self, process: usize, policy: &Policy) {
        let found = self.epochs.policy(process, policy);
        self.found(Invariant::Grows, found);
    }

    /// Somebody says where a piece is.
    pub(super) fn route(&mut self, said: &KeyRoute) {
        let found = self.epochs.route(said);
        self.found(Invariant::Grows, found);
    }

    /// The machines of a process break a promise of theirs.
    pub(super) fn promised(&mut self, process: usize, kept: Valid) {
        self.found(Invariant::Promised, kept.err().map(|text| format!("p{process}: {text}")));
    }

    /// A server that is to be emptied is not, although nothing stands against it.
    pub(super) fn not_emptied(&mut self, server: NodeId, epoch: u64) {
        let text =
            format!("server {server} is being emptied by policy {epoch}, and is never empty");
        if !self.faults.iter().any(|fault| fault.text == text) {
            self.found(Invariant::Ends, [text]);
        }
    }

    // ---- the end --------------------------------------------------------------------------------

    /// How the job ended: `hung` and `failed` name processes; those that were to complete must
    /// have.
    pub(super) fn ended(&mut self, hung: &[String], failed: &[String]) {
        let found = self.waits.check(hung, failed);
        self.found(Invariant::Ends, found);
        if hung.is_empty() && failed.is_empty() {
            let found = self.samples.check();
            self.found(Invariant::Samples, found);
        }
    }
}

impl Judge for Ledger {
    fn fault(&mut self, text: String) {
        self.found(Invariant::Sound, [text]);
    }
}
