//! The rule for workers whose time is not in proportion to their samples (docs/algorithms.md 3.5):
//! a GPU takes the same time for every small batch, more for larger ones, and has a limit of
//! memory. So nothing is predicted. After each window of iterations the slowest worker gives a step
//! of samples to the fastest one that has memory left. When samples go back and forth, steps become
//! smaller and windows longer. When a worker is not what it was, all begins again.

use super::split::Bounds;

/// Iterations of the first window.
const WINDOW: u32 = 5;
/// Iterations of a window, at most.
const WINDOW_MAX: u32 = 40;
/// The first step is that part of all samples.
const FIRST_STEP: u32 = 64;
/// Nothing is moved while slowest and fastest differ by less than that part of the mean.
const DEAD_BAND: f64 = 0.02;
/// A worker whose time changes by that part, at about the size that it had, is not what it was.
const OTHER: f64 = 0.2;
/// A step of at most that part of a size leaves it about what it was.
const SMALL: u32 = 10;

/// Which worker gave samples to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    from: usize,
    to: usize,
}

/// What one worker took in the window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowShare {
    seconds: f64,
    count: u32,
    /// Its mean in the window before, at about the size that it has now; 0: it had another one.
    before: f64,
}

impl WindowShare {
    fn mean(&self) -> f64 {
        self.seconds / f64::from(self.count)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pairwise {
    total: u32,
    step: u32,
    window: u32,
    last: Option<Pair>,
    taken: Vec<WindowShare>,
}

impl Pairwise {
    /// For so many workers that share `total` samples.
    #[must_use]
    pub fn new(total: u32, members: usize) -> Self {
        let taken = vec![WindowShare::default(); members];
        let mut rule = Self { total, step: 0, window: 0, last: None, taken };
        rule.begin_again();
        rule
    }

    fn begin_again(&mut self) {
        self.step = (self.total / FIRST_STEP).max(1);
        self.window = WINDOW;
        self.last = None;
    }

    /// A worker has computed a batch.
    pub fn observe(&mut self, member: usize, seconds: f64) {
        let taken = &mut self.taken[member];
        taken.seconds += seconds;
        taken.count += 1;
    }

    /// Another process computes in that worker's place, or sizes were set by somebody else.
    pub fn forget(&mut self) {
        self.taken.fill(WindowShare::default());
        self.begin_again();
    }

    /// The next sizes, if they are to change now. `sizes` are those that all reports of this window
    /// were made with.
    pub fn step(&mut self, sizes: &[u32], bounds: &[Bounds], quantum: u32) -> Option<Vec<u32>> {
        let live: Vec<usize> = (0..sizes.len()).filter(|i| bounds[*i].max > 0).collect();
        if live.iter().any(|i| self.taken[*i].count < self.window) {
            return None;
        }
        let times: Vec<f64> = self.taken.iter().map(WindowShare::mean).collect();
        if live.iter().any(|i| is_other(self.taken[*i].before, times[*i])) {
            self.begin_again();
        }
        let moved = self.pair(&live, &times, sizes, bounds, quantum);
        for (taken, time) in self.taken.iter_mut().zip(&times) {
            *taken = WindowShare { before: *time, ..WindowShare::default() };
        }
        let Some((pair, step)) = moved else {
            self.last = None;
            return None;
        };
        self.adapt(pair);
        for member in [pair.from, pair.to] {
            if step > sizes[member] / SMALL {
                self.taken[member].before = 0.0;
            }
        }
        let mut sizes = sizes.to_vec();
        sizes[pair.from] -= step;
        sizes[pair.to] += step;
        Some(sizes)
    }

    /// Who gives how much to whom.
    fn pair(
        &self,
        live: &[usize],
        times: &[f64],
        sizes: &[u32],
        bounds: &[Bounds],
        quantum: u32,
    ) -> Option<(Pair, u32)> {
        let step = self.step.div_ceil(quantum.max(1)) * quantum.max(1);
        let by_time = |a: &&usize, b: &&usize| times[**a].total_cmp(&times[**b]);
        let room = |i: &&usize| bounds[**i].max - sizes[**i] >= step;
        let enough = |i: &&usize| sizes[**i] >= bounds[**i].min.saturating_add(step);
        let to = *live.iter().filter(room).min_by(by_time)?;
        let from = *live.iter().filter(enough).max_by(by_time)?;
        let mean = live.iter().map(|i| times[*i]).sum::<f64>() / live.len() as f64;
        let differ = times[from] - times[to] > DEAD_BAND * mean;
        (from != to && differ).then_some((Pair { from, to }, step))
    }

    /// Chooses the next step and window.
    fn adapt(&mut self, pair: Pair) {
        let goes_back = |last: Pair| last.from == pair.to || last.to == pair.from;
        if self.last.is_some_and(goes_back) {
            self.step = (self.step / 2).max(1);
            self.window = (self.window * 2).min(WINDOW_MAX);
        }
        self.last = Some(pair);
    }
}

/// True if a worker is not as fast as it was.
fn is_other(before: f64, now: f64) -> bool {
    before > 0.0 && (now - before).abs() > OTHER * before
}
