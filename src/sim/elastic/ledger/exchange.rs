//! Deltas. Each global value says how many steps of whom are in it. So the answer to a delta must
//! have as many steps of its sender as it has sent, in each element; of one round all workers have
//! the same value; and at the end each step of everybody is in each element once.

use std::collections::BTreeMap;

use super::Invariant;
use super::once::counts;
use pslite_core::wire::Key;

/// How far a worker is with a key.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::elastic) struct Exchanged {
    /// Steps that it took.
    pub(in crate::elastic) steps: u64,
    /// Those that are in deltas.
    pub(in crate::elastic) sent: u64,
    /// Deltas that were answered.
    pub(in crate::elastic) rounds: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    /// The value of each round of each key, as the first worker was told it.
    rounds: BTreeMap<(Key, u64), Vec<u8>>,
    /// The steps of each worker that is through.
    trained: BTreeMap<usize, u64>,
    held: u64,
}

/// What is wrong, and with what.
type Found = Vec<(Invariant, String)>;

impl Deltas {
    /// A worker is told the value of a round.
    pub(super) fn exchanged(
        &mut self,
        (worker, workers): (usize, usize),
        key: Key,
        at: Exchanged,
        value: &[u8],
    ) -> Found {
        let Exchanged { sent, rounds, .. } = at;
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

    /// A worker is through, and has taken so many steps.
    pub(super) fn trained(&mut self, worker: usize, steps: u64) {
        self.trained.insert(worker, steps);
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
