//! Deals batches to whoever asks, for training without common iterations. Each sample of an epoch
//! is dealt once. If a worker is lost, the batches that it had not reported are dealt again, before
//! any other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::invariant::{Valid, require};
use crate::wire::balance::{BalanceDealt, BalanceOpen};

/// How many batches a worker may have that it has not reported.
pub(super) const UNREPORTED_MAX: u64 = 1024;

/// The answer when there are no more batches.
const END: BalanceDealt = BalanceDealt { epoch: 0, place: 0, size: 0 };

/// The answer to a worker that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dealing {
    /// It gets that batch. If the size is 0, there are no more.
    Batch(BalanceDealt),
    /// It has to wait. All is dealt, but if another worker is lost, its batches are dealt again.
    Later,
    /// It asks for a batch that it cannot have.
    Never,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Dealer {
    length: u64,
    batch: u32,
    epochs: u64,
    epoch: u64,
    place: u64,
    again: VecDeque<BalanceDealt>,
    /// For each worker the batches that it has not reported. Each worker counts its batches from 0.
    out: BTreeMap<u32, BTreeMap<u64, BalanceDealt>>,
    /// For each worker how many batches it got.
    given: BTreeMap<u32, u64>,
    /// Workers that have to wait.
    waiting: BTreeSet<u32>,
}

impl Dealer {
    pub(super) fn new(open: &BalanceOpen) -> Self {
        Self {
            length: open.length,
            batch: open.total,
            epochs: open.epochs,
            epoch: open.first,
            place: 0,
            again: VecDeque::new(),
            out: BTreeMap::new(),
            given: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// A worker takes part. It may have been here before: it counts its batches from 0 again.
    pub(super) fn joined(&mut self, rank: u32) {
        self.given.insert(rank, 0);
    }

    /// A worker wants a batch. It has had `number` others.
    pub(super) fn ask(&mut self, rank: u32, number: u64) -> Dealing {
        let given = self.given.get(&rank).copied().unwrap_or(0);
        let out = self.out.entry(rank).or_default();
        if number < given {
            // It asks again, since it has not got the answer. A batch that it has reported it has.
            return out.get(&number).map_or(Dealing::Later, |dealt| Dealing::Batch(*dealt));
        }
        if number > given || out.len() as u64 >= UNREPORTED_MAX {
            return Dealing::Never;
        }
        let Some(dealt) = self.again.pop_front().or_else(|| self.draw()) else {
            let all_done = self.out.values().all(BTreeMap::is_empty);
            self.waiting.insert(rank);
            return if all_done { Dealing::Batch(END) } else { Dealing::Later };
        };
        self.waiting.remove(&rank);
        self.out.entry(rank).or_default().insert(number, dealt);
        self.given.insert(rank, given + 1);
        Dealing::Batch(dealt)
    }

    /// The next batch of the epoch. After the last one begins the next epoch.
    fn draw(&mut self) -> Option<BalanceDealt> {
        if self.place >= self.length {
            self.epoch += 1;
            self.place = 0;
        }
        if self.epochs > 0 && self.epoch >= self.epochs {
            (self.epoch, self.place) = (self.epochs, self.length); // There are no more.
            return None;
        }
        let left = self.length - self.place;
        let size = u64::from(self.batch).min(left) as u32;
        let dealt = BalanceDealt { epoch: self.epoch, place: self.place, size };
        self.place += u64::from(size);
        Some(dealt)
    }

    /// A worker has computed its first `number` batches. Returns the workers whose waiting ends.
    pub(super) fn computed(&mut self, rank: u32, number: u64) -> Vec<u32> {
        if let Some(out) = self.out.get_mut(&rank) {
            let rest = out.split_off(&number);
            *out = rest;
        }
        self.call()
    }

    /// A worker is lost, and what it had is dealt again. Returns the workers whose waiting ends.
    pub(super) fn left(&mut self, rank: u32) -> Vec<u32> {
        self.waiting.remove(&rank);
        self.given.remove(&rank);
        self.again.extend(self.out.remove(&rank).unwrap_or_default().into_values());
        self.call()
    }

    fn call(&mut self) -> Vec<u32> {
        let over = self.out.values().all(BTreeMap::is_empty);
        if self.again.is_empty() && !over {
            return Vec::new();
        }
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// How many batches a worker got.
    pub(super) fn given(&self, rank: u32) -> u64 {
        self.given.get(&rank).copied().unwrap_or(0)
    }

    /// True if all is dealt and that worker wants more.
    pub(super) fn is_waiting(&self, rank: u32) -> bool {
        self.waiting.contains(&rank)
    }

    /// For people: who has batches that it has not reported, and how many.
    pub(super) fn unreported(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let out = self.out.iter().filter(|(_, out)| !out.is_empty());
        out.map(|(rank, out)| (*rank, out.len()))
    }

    /// The epoch, and how many of its samples were dealt.
    pub(super) const fn state(&self) -> (u64, u64) {
        (self.epoch, self.place)
    }

    /// What this promises: no two workers have the same sample, and no sample is to be dealt again
    /// that a worker has.
    pub(super) fn validate(&self) -> Valid {
        let out = self.out.values().flat_map(BTreeMap::values).chain(&self.again);
        let mut all: Vec<(u64, u64, u32)> = out.map(|b| (b.epoch, b.place, b.size)).collect();
        all.sort_unstable();
        for pair in all.windows(2) {
            let [(epoch, place, size), next] = [pair[0], pair[1]];
            require(epoch < next.0 || place + u64::from(size) <= next.1, || {
                format!("epoch {epoch}: the samples from {place} and from {} overlap", next.1)
            })?;
        }
        Ok(())
    }
}
