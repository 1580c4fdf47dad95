//! How far workers are with a tensor, and what of that is asked at every event: the last round that
//! anybody knows to be done, and how often all have pushed. Costs no more the more workers there
//! are. Pure.

/// How far a worker is with a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Pushes that it began.
    pub(super) begun: u64,
    /// Pushes whose callback it got.
    pub(super) done: u64,
}

/// How far all of them are.
#[derive(Clone, Debug)]
pub(super) struct All {
    workers: Vec<Progress>,
    last: u64,
    least: u64,
    /// How many have begun no more than `least`.
    at_least: usize,
}

impl All {
    /// So many workers, none of which has begun.
    pub(super) fn new(workers: usize) -> Self {
        Self { workers: vec![Progress::default(); workers], last: 0, least: 0, at_least: workers }
    }

    /// By worker.
    pub(super) fn workers(&self) -> &[Progress] {
        &self.workers
    }

    /// The last round of which anybody got a callback.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// How many pushes each has begun at least.
    pub(super) const fn least(&self) -> u64 {
        self.least
    }

    /// A worker begins a push.
    pub(super) fn begin(&mut self, worker: usize) {
        let Some(progress) = self.workers.get_mut(worker) else { return };
        progress.begun += 1;
        if progress.begun != self.least + 1 {
            return;
        }
        self.at_least -= 1;
        if self.at_least == 0 {
            self.count();
        }
    }

    fn count(&mut self) {
        self.least = self.workers.iter().map(|progress| progress.begun).min().unwrap_or(0);
        let at_least = self.workers.iter().filter(|progress| progress.begun == self.least);
        self.at_least = at_least.count();
    }

    /// Another one has taken its place, and goes on after that round.
    pub(super) fn set(&mut self, worker: usize, round: u64) {
        let Some(progress) = self.workers.get_mut(worker) else { return };
        *progress = Progress { begun: round, done: round };
        self.count();
    }

    /// It was told that its push of a round is done.
    pub(super) fn done(&mut self, worker: usize, round: u64) {
        let Some(progress) = self.workers.get_mut(worker) else { return };
        progress.done += 1;
        self.last = self.last.max(round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_and_the_fastest_are_known() {
        let mut all = All::new(3);
        let mut begun = [0; 3];
        for worker in [0, 0, 1, 0, 2, 2, 2, 1, 1, 1, 0, 2] {
            all.begin(worker);
            begun[worker] += 1;
            assert_eq!(all.least(), begun.into_iter().min().unwrap());
            assert_eq!(all.workers()[worker].begun, begun[worker]);
        }
        all.set(2, 1);
        begun[2] = 1;
        for worker in [2, 2, 1] {
            assert_eq!(all.least(), begun.into_iter().min().unwrap());
            all.begin(worker);
            begun[worker] += 1;
        }
        all.done(1, 4);
        all.done(0, 2);
        assert_eq!((all.last(), all.workers()[1].done), (4, 1));
    }
}
