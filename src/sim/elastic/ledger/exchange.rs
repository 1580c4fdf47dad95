//! Deltas. Each global value says how many steps of whom are in it. So the answer to a delta must
//! have as many steps of its sender as it has sent, in each element; of one round all workers have
//! the same value; what a worker trains with is a global value that it was told, and those of its
//! own steps that are not in it; and at the end each step of everybody is in each element once.

use std::collections::BTreeMap;

use super::Invariant;
use super::once::counts;
use crate::elastic::workload::COUNT_BASE;
use pslite_core::wire::Key;

/// How far a worker is with a key.
#[derive(Clone, Debug, Default)]
pub(in crate::elastic) struct Exchanged {
    /// Steps that it took.
    pub(in crate::elastic) steps: u64,
    /// How many they were when each delta was sent.
    pub(in crate::elastic) sent: Vec<u64>,
    /// Deltas that were answered.
    pub(in crate::elastic) rounds: u64,
}

impl Exchanged {
    /// Its steps that are in the global value of that round.
    fn sent_by(&self, round: u64) -> u64 {
        let at = round.checked_sub(1).and_then(|at| self.sent.get(at as usize));
        at.copied().unwrap_or(0)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    /// The value of each round of each key, as the first worker was told it.
    rounds: BTreeMap<(Key, u64), Vec<u8>>,
    /// The steps of each worker that is through.
    trained: BTreeMap<usize, u64>,
    held: u64,
    /// The values of each key where all workers were to be equal, as the first one had them.
    equal: BTreeMap<(u64, Key), Vec<u8>>,
    /// How many others had the same.
    compared: u64,
}

/// What is wrong, and with what.
type Found = Vec<(Invariant, String)>;

impl Deltas {
    /// A worker is told the value of a round.
    pub(super) fn exchanged(
        &mut self,
        (worker, workers): (usize, usize),
        key: Key,
        at: &Exchanged,
        value: &[u8],
    ) -> Found {
        let (sent, rounds) = (at.sent_by(at.rounds), at.rounds);
        let name = format!("worker {worker}, key {key}, round {rounds}");
        let mut found = Found::new();
        for (element, counted) in counts(value, workers).into_iter().enumerate() {
            let own = counted.as_ref().and_then(|digits| digits.get(worker)).copied();
            if own != Some(sent) {
                let invariant = if own < Some(sent) { Invariant::Durable } else { Invariant::Once };
                let text = format!("{name}: element {element} has {counted:?}, it has sent {sent}");
                found.push((invariant, text));
                break;
            }
        }
        let same = self.rounds.entry((key, rounds)).or_insert_with(|| value.to_vec());
        if same != value {
            found.push((Invariant::Version, format!("{name}: another worker has another value")));
        }
        found
    }

    /// A worker is told what it trains with. `keeps`: a swap keeps what was computed since the
    /// send.
    pub(super) fn trains_with(
        &self,
        (worker, workers): (usize, usize),
        key: Key,
        (at, keeps): (&Exchanged, bool),
        value: &[u8],
    ) -> Found {
        let zeros = vec![0; value.len()];
        let is_since = |round: u64, sent: u64| {
            let global = if round == 0 { Some(&zeros) } else { self.rounds.get(&(key, round)) };
            let own = at.steps.saturating_sub(at.sent_by(sent)) as f32 * workers as f32;
            let own = own * COUNT_BASE.powi(worker as i32);
            global.is_some_and(|global| {
                let pairs = floats(global).zip(floats(value));
                global.len() == value.len() && pairs.clone().all(|(global, v)| v == global + own)
            })
        };
        // What is not kept was computed until the next send, which swaps.
        let is_of = |round| is_since(round, round) || !keeps && is_since(round, round + 1);
        // A round is swapped before the next one of the key is sent.
        if is_of(at.rounds) || at.rounds > 0 && is_of(at.rounds - 1) {
            return Found::new();
        }
        let text = format!(
            "worker {worker}, key {key}: it trains with {:?}, which is no value of round {} or the \
             one before and its own steps: {at:?}",
            floats(value).next(),
            at.rounds
        );
        vec![(Invariant::Version, text)]
    }

    /// A worker is through, and has taken so many steps.
    pub(super) fn trained(&mut self, worker: usize, steps: u64) {
        self.trained.insert(worker, steps);
    }

    /// A worker has a value that is to be the same at all of them.
    pub(super) fn equal_at(
        &mut self,
        worker: usize,
        at: (u64, Key),
        value: &[u8],
    ) -> Option<(Invariant, String)> {
        let first = self.equal.get(&at);
        self.compared += u64::from(first.is_some());
        let same = first.is_none_or(|first| first == value);
        if first.is_none() {
            self.equal.insert(at, value.to_vec());
        }
        let (meeting, key) = at;
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

    /// A worker has the last values, when all are through.
    pub(super) fn last(&self, (worker, workers): (usize, usize), value: &[u8]) -> Found {
        let steps: Vec<u64> =
            (0..workers).map(|worker| self.trained.get(&worker).copied().unwrap_or(0)).collect();
        let all = counts(value, workers).into_iter();
        let wrong = all.into_iter().find(|digits| *digits != Some(steps.clone()));
        let text = |digits| format!("worker {worker} has {digits:?} at the end of {steps:?} steps");
        wrong.map(|digits| (Invariant::Once, text(digits))).into_iter().collect()
    }
}

fn floats(values: &[u8]) -> impl Iterator<Item = f32> + Clone {
    let (elements, _) = values.as_chunks::<4>();
    elements.iter().map(|bytes| f32::from_ne_bytes(*bytes))
}
