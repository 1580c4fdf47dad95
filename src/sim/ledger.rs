//! The oracle: proves from the pulled values which pushes were counted.
//!
//! Each push of a tensor has [`WORDS`] words for each key. The first has one hexadecimal digit for
//! each worker, so that the sum says how often each was counted; the second is a number that only
//! this worker has for this key in this round, so that a push of another round does not pass for
//! it; the third says the round. The ledger knows what the sum must be, and knows nothing of how
//! the servers made it.

use std::collections::BTreeMap;

use super::app::Judge;
use pslite_core::random::mix;
use pslite_core::wire::Key;

/// Words of one key.
pub const WORDS: usize = 3;

/// The most workers that the digits of a word can tell apart.
pub const WORKERS_MAX: usize = 15;

/// Faults that are kept; one is enough to fail.
const FAULTS_KEPT: usize = 20;

/// What was claimed and what was found wrong.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    workers: usize,
    faults: Vec<String>,
    checked: u64,
    /// Of each iteration whose samples are shared, by rank: where they begin, and how many.
    shares: BTreeMap<u64, BTreeMap<usize, (u64, u32)>>,
}

/// What that worker pushes for a key in a round.
#[must_use]
pub fn gradient(worker: usize, key: Key, round: u64) -> [u64; WORDS] {
    let own = mix(mix(key ^ (round << 8)) ^ worker as u64);
    [1 << (4 * worker), own, round + 1]
}

impl Ledger {
    /// The ledger of a job with so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers, ..Self::default() }
    }

    /// A worker takes its samples of an iteration. One that replaces another takes the same.
    pub(super) fn shared(&mut self, rank: usize, iteration: u64, place: u64, size: u32) {
        let shares = self.shares.entry(iteration).or_default();
        let before = shares.insert(rank, (place, size));
        let other = shares.iter().find(|(other, (from, length))| {
            let apart = place + u64::from(size) <= *from || from + u64::from(*length) <= place;
            **other != rank && !apart
        });
        let other = other.map(|(other, _)| *other);
        if before.is_some_and(|before| before != (place, size)) {
            self.fault(format!(
                "rank {rank} has other samples of iteration {iteration} than before"
            ));
        }
        if let Some(other) = other {
            self.fault(format!("ranks {other} and {rank} share samples of iteration {iteration}"));
        }
    }

    /// How many samples of an iteration were taken.
    #[must_use]
    pub fn samples(&self, iteration: u64) -> u64 {
        let shares = self.shares.get(&iteration).into_iter().flatten();
        shares.map(|(_, (_, size))| u64::from(*size)).sum()
    }

    /// What the pushes of all workers for a key in a round add up to.
    #[must_use]
    pub fn sum(&self, key: Key, round: u64) -> [u64; WORDS] {
        let mut sum = [0_u64; WORDS];
        for worker in 0..self.workers {
            for (sum, word) in sum.iter_mut().zip(gradient(worker, key, round)) {
                *sum = sum.wrapping_add(word);
            }
        }
        sum
    }

    /// A worker has the result of a round for a key.
    pub fn pulled(&mut self, worker: usize, key: Key, round: u64, words: &[u64]) {
        self.checked += 1;
        let expected = self.sum(key, round);
        if words == expected {
            return;
        }
        let digits = words.first().copied().unwrap_or(0);
        let counts: Vec<u64> = (0..self.workers).map(|w| (digits >> (4 * w)) & 15).collect();
        self.fault(format!(
            "worker {worker}, key {key}, round {round}: pushes counted {counts:?} times, words \
             {words:x?} instead of {expected:x?}"
        ));
    }

    /// What is wrong.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// How many results were looked at.
    #[must_use]
    pub const fn checked(&self) -> u64 {
        self.checked
    }
}

impl Judge for Ledger {
    fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sees_what_is_missing_twice_or_of_another_round() {
        let ledger = Ledger::new(3);
        let wrong = [
            ledger.sum(5, 1),
            {
                let mut twice = ledger.sum(5, 2);
                twice.iter_mut().zip(gradient(1, 5, 2)).for_each(|(s, w)| *s = s.wrapping_add(w));
                twice
            },
            {
                let mut missing = ledger.sum(5, 2);
                missing.iter_mut().zip(gradient(0, 5, 2)).for_each(|(s, w)| *s = s.wrapping_sub(w));
                missing
            },
        ];
        for words in wrong {
            let mut ledger = ledger.clone();
            ledger.pulled(0, 5, 2, &words);
            assert_eq!((ledger.faults().len(), ledger.checked()), (1, 1));
        }
        let mut ledger = ledger;
        ledger.pulled(0, 5, 2, &ledger.sum(5, 2));
        assert!(ledger.faults().is_empty());
    }
}
