//! Deltas. Each global value says how many steps of whom are in it. So the answer to a delta must
//! have as many steps of its sender as it has sent, in each element; of one round all workers have
//! the same value; what a worker trains with is a global value that it was told, and those of its
//! own steps that are not in it; and at the end each step of everybody is in each element once.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Invariant;
use super::once::counts;
use crate::jobs::workload::COUNT_BASE;
use pslite_core::wire::Key;

/// How far a process of a worker is with a key.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Exchanged {
    /// Steps that it took.
    pub(in crate::jobs) steps: u64,
    /// How many they were when each delta was sent.
    pub(in crate::jobs) sent: Vec<u64>,
    /// The value with which the key began here, and that of each delta that was answered.
    pub(in crate::jobs) globals: Vec<Bytes>,
}

impl Exchanged {
    /// Deltas that were answered.
    const fn rounds(&self) -> u64 {
        (self.globals.len() as u64).saturating_sub(1)
    }

    /// Its steps that are in the global value of that round.
    fn sent_by(&self, round: u64) -> u64 {
        let at = round.checked_sub(1).and_then(|at| self.sent.get(at as usize));
        at.copied().unwrap_or(0)
    }

    fn global(&self, round: u64) -> Option<&Bytes> {
        self.globals.get(round as usize)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    workers: usize,
    /// Workers die, so a round without one of them counts each step more than once.
    mortal: bool,
    /// The value of each round of each key, as the first worker was told it. Workers that came back
    /// count otherwise.
    rounds: BTreeMap<(Key, u64), Bytes>,
    /// The steps of each worker that is through.
    trained: BTreeMap<usize, u64>,
    held: u64,
    /// The values of each key where all workers were to be equal, as the first one had them.
    equal: BTreeMap<(u64, Key), Vec<u8>>,
    /// How many others had the same.
    compared: u64,
    /// Answers to workers that came back.
    returned: u64,
}

/// What is wrong, and with what.
type Discrepancy = Vec<(Invariant, String)>;

impl Deltas {
    /// Of so many workers. `mortal`: they may die.
    pub(super) fn new(workers: usize, mortal: bool) -> Self {
        Self { workers, mortal, ..Self::default() }
    }

    /// A worker is told the value of a round. `is_back`: it came back.
    pub(super) fn exchanged(
        &mut self,
        worker: usize,
        is_back: bool,
        key: Key,
        at: &Exchanged,
    ) -> Discrepancy {
        let round = at.rounds();
        let Some(value) = at.global(round) else { return Discrepancy::new() };
        let name = format!("worker {worker}, key {key}, round {round}");
        let mut found = match (is_back, self.mortal) {
            (true, _) => {
                self.returned += 1;
                self.came_back(worker, at, &name)
            }
            (false, true) => self.step_of_round(worker, at, &name),
            (false, false) => self.all_that_was_sent(worker, at, &name),
        };
        if !is_back {
            let same = self.rounds.entry((key, round)).or_insert_with(|| value.clone());
            if same != value {
                let text = format!("{name}: another worker has another value");
                found.push((Invariant::Version, text));
            }
        }
        found
    }

    /// What a process that came back has sent counts at least once, besides what counted before.
    fn came_back(&self, worker: usize, at: &Exchanged, name: &str) -> Discrepancy {
        let own = |round: u64| {
            let counted = counts(at.global(round)?, self.workers).into_iter();
            counted.map(|digits| digits.and_then(|digits| digits.get(worker).copied())).min()?
        };
        let (first, now, sent) = (own(0), own(at.rounds()), at.sent_by(at.rounds()));
        let is_empty = at.global(0).is_some_and(|value| value.is_empty());
        if is_empty || first.zip(now).is_some_and(|(first, now)| now >= first + sent) {
            return Discrepancy::new();
        }
        let text = format!("{name}: it had {first:?} steps, has sent {sent}, and has {now:?}");
        vec![(Invariant::Durable, text)]
    }

    /// All that a worker has sent is in the value once.
    fn all_that_was_sent(&self, worker: usize, at: &Exchanged, name: &str) -> Discrepancy {
        let (round, sent) = (at.rounds(), at.sent_by(at.rounds()));
        let Some(value) = at.global(round) else { return Discrepancy::new() };
        for (element, counted) in counts(value, self.workers).into_iter().enumerate() {
            let own = counted.as_ref().and_then(|digits| digits.get(worker)).copied();
            if own != Some(sent) {
                let invariant = if own < Some(sent) { Invariant::Durable } else { Invariant::Once };
                let text = format!("{name}: element {element} has {counted:?}, it has sent {sent}");
                return vec![(invariant, text)];
            }
        }
        Discrepancy::new()
    }

    /// A round of `n` of all workers counts each step `workers / n` times, those of all alike.
    fn step_of_round(&self, worker: usize, at: &Exchanged, name: &str) -> Discrepancy {
        let workers = self.workers;
        let round = at.rounds();
        let (Some(before), Some(now)) = (at.global(round - 1), at.global(round)) else {
            return Discrepancy::new();
        };
        let sent = at.sent_by(round) - at.sent_by(round - 1);
        for (before, now) in counts(before, workers).into_iter().zip(counts(now, workers)) {
            let more: Option<Vec<u64>> = before.as_ref().zip(now.as_ref()).and_then(|(a, b)| {
                a.iter().zip(b).map(|(before, now)| now.checked_sub(*before)).collect()
            });
            let is_mean = |more: &Vec<u64>| {
                let own = more.get(worker).copied().unwrap_or(0);
                let of = |n: u64| own * n == sent * workers as u64;
                let whole =
                    |n: u64| more.iter().all(|one| (one * n).is_multiple_of(workers as u64));
                (1..=workers as u64).any(|n| of(n) && whole(n))
            };
            if !more.as_ref().is_some_and(is_mean) {
                let text = format!("{name}: {now:?} after {before:?}, it has sent {sent} steps");
                return vec![(Invariant::Once, text)];
            }
        }
        Discrepancy::new()
    }

    /// A worker is told what it trains with. `keeps`: a swap keeps what was computed since the
    /// send.
    pub(super) fn trains_with(
        &self,
        worker: usize,
        key: Key,
        at: &Exchanged,
        keeps: bool,
        value: &[u8],
    ) -> Discrepancy {
        let is_since = |round: u64, sent: u64| {
            let own = at.steps.saturating_sub(at.sent_by(sent)) as f32 * self.workers as f32;
            let own = own * COUNT_BASE.powi(worker as i32);
            at.global(round).is_some_and(|global| {
                let pairs = floats(global).zip(floats(value));
                global.len() == value.len() && pairs.clone().all(|(global, v)| v == global + own)
            })
        };
        // What is not kept was computed until the next send, which swaps.
        let is_of = |round| is_since(round, round) || !keeps && is_since(round, round + 1);
        // A round is swapped before the next one of the key is sent.
        let round = at.rounds();
        if is_of(round) || round > 0 && is_of(round - 1) {
            return Discrepancy::new();
        }
        let text = format!(
            "worker {worker}, key {key}: it trains with {:?}, which is no value of round {} or the \
             one before and its own steps: {at:?}",
            floats(value).next(),
            round
        );
        vec![(Invariant::Version, text)]
    }

    /// A worker is through, and has taken so many steps.
    pub(super) fn trained(&mut self, worker: usize, steps: u64) {
        *self.trained.entry(worker).or_default() += steps;
    }

    /// A worker has a value that is to be the same at all of them.
    pub(super) fn equal_at(
        &mut self,
        worker: usize,
        meeting: u64,
        key: Key,
        value: &[u8],
    ) -> Option<(Invariant, String)> {
        let first = self.equal.get(&(meeting, key));
        self.compared += u64::from(first.is_some());
        let same = first.is_none_or(|first| first == value);
        if first.is_none() {
            self.equal.insert((meeting, key), value.to_vec());
        }
        let name = format!("worker {worker}, key {key}, iteration {meeting}");
        (!same).then(|| (Invariant::Version, format!("{name}: it is not equal to the others")))
    }

    /// How many values were compared with those of other workers.
    pub(super) const fn compared(&self) -> u64 {
        self.compared
    }

    /// A push was held.
    pub(super) const fn held(&mut self) {
        self.held += 1;
    }

    /// Rounds of keys that were looked at, and pushes that were held.
    pub(super) fn count(&self) -> (usize, u64) {
        (self.rounds.len(), self.held)
    }

    /// Answers to workers that came back.
    pub(super) const fn returned(&self) -> u64 {
        self.returned
    }

    /// A worker has the last values, when all are through.
    pub(super) fn last(&self, worker: usize, value: &[u8]) -> Discrepancy {
        let steps = (0..self.workers).map(|one| self.trained.get(&one).copied().unwrap_or(0));
        let steps: Vec<u64> = steps.collect();
        let is_right = |digits: &Option<Vec<u64>>| match digits {
            // What a process sent that died may count, too.
            Some(digits) if self.mortal => {
                digits.iter().zip(&steps).all(|(one, steps)| one >= steps)
            }
            digits => *digits == Some(steps.clone()),
        };
        let wrong = counts(value, self.workers).into_iter().find(|digits| !is_right(digits));
        let text = |digits| format!("worker {worker} has {digits:?} at the end of {steps:?} steps");
        wrong.map(|digits| (Invariant::Once, text(digits))).into_iter().collect()
    }
}

fn floats(values: &[u8]) -> impl Iterator<Item = f32> + Clone {
    let (elements, _) = values.as_chunks::<4>();
    elements.iter().map(|bytes| f32::from_ne_bytes(*bytes))
}
