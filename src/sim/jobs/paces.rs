//! How far a worker is with each tensor, and which of them it may push now. What is asked at every
//! event costs no more the more tensors there are. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

/// How far it is with a tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkerPace {
    pub(super) begun: u64,
    pub(super) done: u64,
    pub(super) pulls: u64,
    /// It computes until then.
    pub(super) until: Duration,
    /// Pushes that it may have under way at a time.
    window: u64,
}

/// How far it is with all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Paces {
    all: Vec<WorkerPace>,
    /// The round after which it stops for the moment.
    round: u64,
    /// Those that may be pushed once they are computed, by when that is.
    free: BTreeSet<(Duration, usize)>,
    /// All, by when they are computed.
    untils: BTreeSet<(Duration, usize)>,
    /// How many are not through with the round.
    open: usize,
    /// How many are being pulled.
    pulled: usize,
}

impl Paces {
    /// Nothing has begun; each tensor may have so many pushes under way.
    pub(super) fn new(windows: impl Iterator<Item = u64>) -> Self {
        let all: Vec<WorkerPace> =
            windows.map(|window| WorkerPace { window, ..WorkerPace::default() }).collect();
        let mut paces = Self { all, ..Self::default() };
        paces.until(0);
        paces
    }

    /// All of them.
    pub(super) fn all(&self) -> &[WorkerPace] {
        &self.all
    }

    /// It trains up to the end of that round.
    pub(super) fn until(&mut self, round: u64) {
        let all = std::mem::take(&mut self.all);
        *self = Self { round, ..Self::default() };
        for (tensor, pace) in all.into_iter().enumerate() {
            self.all.push(pace);
            self.enter(tensor);
        }
    }

    /// Something of a tensor is another way now.
    pub(super) fn change(&mut self, tensor: usize, how: impl FnOnce(&mut WorkerPace)) {
        self.leave(tensor);
        how(&mut self.all[tensor]);
        self.enter(tensor);
    }

    /// The tensors that are to be pushed now, ascending.
    pub(super) fn due(&self, now: Duration) -> Vec<usize> {
        let due = self.free.range(..=(now, usize::MAX)).map(|(_, tensor)| *tensor);
        let due: BTreeSet<usize> = due.collect();
        due.into_iter().collect()
    }

    /// When the next one will be computed.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        let later = self.untils.range((now, usize::MAX)..).find(|(until, _)| *until > now);
        later.map(|(until, _)| *until)
    }

    /// True if all are through with the round.
    pub(super) const fn are_over(&self) -> bool {
        self.open == 0
    }

    /// True if some is being pulled.
    pub(super) const fn is_any_pulled(&self) -> bool {
        self.pulled > 0
    }

    /// True if some is being pushed or pulled.
    pub(super) fn is_any_under_way(&self) -> bool {
        self.pulled > 0 || self.all.iter().any(|pace| pace.begun != pace.done)
    }

    fn is_free(&self, pace: &WorkerPace) -> bool {
        pace.begun < self.round
            && pace.begun - pace.done < pace.window
            && (pace.window > 1 || pace.pulls == 0)
    }

    const fn is_open(&self, pace: &WorkerPace) -> bool {
        pace.done != self.round || pace.pulls > 0
    }

    fn enter(&mut self, tensor: usize) {
        let pace = self.all[tensor];
        self.untils.insert((pace.until, tensor));
        if self.is_free(&pace) {
            self.free.insert((pace.until, tensor));
        }
        self.open += usize::from(self.is_open(&pace));
        self.pulled += usize::from(pace.pulls > 0);
    }

    fn leave(&mut self, tensor: usize) {
        let pace = self.all[tensor];
        self.untils.remove(&(pace.until, tensor));
        self.free.remove(&(pace.until, tensor));
        self.open -= usize::from(self.is_open(&pace));
        self.pulled -= usize::from(pace.pulls > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_due_is_what_may_be_pushed_and_is_computed() {
        let mut paces = Paces::new([1, 2].into_iter());
        assert!(paces.are_over() && paces.due(MS).is_empty(), "no round was asked for");
        paces.until(2);
        assert_eq!(paces.due(Duration::ZERO), [0, 1]);
        for tensor in [0, 1] {
            paces.change(tensor, |pace| (pace.begun, pace.until) = (1, MS * (3 - tensor as u32)));
        }
        assert_eq!((paces.due(MS * 5), paces.next(Duration::ZERO)), (vec![1], Some(MS * 2)));
        assert_eq!((paces.due(MS), paces.next(MS * 3)), (vec![], None));
        paces.change(0, |pace| (pace.done, pace.pulls) = (1, 1));
        assert_eq!(paces.due(MS * 5), [1], "one that waits for its pull is not free");
        assert!(paces.is_any_pulled() && !paces.are_over());
        for tensor in [0, 1] {
            paces.change(tensor, |pace| (pace.begun, pace.done, pace.pulls) = (2, 2, 0));
        }
        assert!(paces.are_over() && !paces.is_any_pulled() && paces.due(MS * 5).is_empty());
    }
}
