//! How fast each worker will be: docs/algorithms.md 3.4. A worker's time is in proportion to its
//! samples there, so its speed, in samples per second, is all that counts. What it will be is
//! predicted from its last speeds, and, by [`Predictor::Regression`], from the processor and memory
//! that the worker says it can have now: a worker that is about to slow down says so there first.

use std::collections::VecDeque;

/// Reports of a worker that are looked at.
const WINDOW: usize = 60;
/// Rows without which a regression says nothing: as many as it has unknowns, and one more.
const ROWS_MIN: usize = 7;
/// What a regression looks at: 1, two speeds, the processor twice, memory.
const FEATURES: usize = 6;
/// Weight of the ridge, by which features that do not vary do no harm.
const RIDGE: f64 = 1e-2;
/// A prediction is within these parts of the median of the last [`MEDIAN_OF`] speeds.
const CLIP: (f64, f64) = (0.2, 5.0);
const MEDIAN_OF: usize = 10;
/// What each older speed counts in an average, by the next one.
const DECAY: f64 = 0.6;
/// Memory that varies by less says nothing.
const MEMORY_VARIES: f64 = 0.02;

/// By what speeds are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// The last one.
    Last,
    /// An average; older ones count less.
    Mean,
    /// A linear model (ARX) of the last speeds and of what the worker can have. The paper has a
    /// small recurrent network there.
    Regression,
}

/// What a worker measured in one iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IterationSample {
    /// Samples per second.
    pub speed: f64,
    /// The share of the processor that it can have after that iteration.
    pub cpu: f64,
    /// The share of memory likewise.
    pub memory: f64,
}

/// The last speeds of all workers of a session.
#[derive(Clone, Debug)]
pub struct Speeds {
    predictor: Predictor,
    members: Vec<VecDeque<IterationSample>>,
}

impl Speeds {
    /// Of so many workers, of which nothing is known.
    #[must_use]
    pub fn new(predictor: Predictor, members: usize) -> Self {
        Self { predictor, members: vec![VecDeque::new(); members] }
    }

    /// A worker has computed a batch.
    pub fn observe(&mut self, member: usize, sample: IterationSample) {
        let history = &mut self.members[member];
        if history.len() == WINDOW {
            history.pop_front();
        }
        history.push_back(sample);
    }

    /// Another process computes in that worker's place.
    pub fn forget(&mut self, member: usize) {
        self.members[member].clear();
    }

    /// The speed of a worker `ahead` iterations after its last report; `None` if it has none.
    #[must_use]
    pub fn predict(&self, member: usize, ahead: usize) -> Option<f64> {
        let history = &self.members[member];
        let last = history.back()?.speed;
        let predicted = match self.predictor {
            Predictor::Last => last,
            Predictor::Mean => mean(history),
            Predictor::Regression => regression(history, ahead.max(1)).unwrap_or(last),
        };
        let median = median(history);
        Some(predicted.clamp(CLIP.0 * median, CLIP.1 * median))
    }

    /// The speeds of all, where those of whom nothing is known get the median of the others.
    #[must_use]
    pub fn all(&self, ahead: impl Fn(usize) -> usize) -> Option<Vec<f64>> {
        let speeds: Vec<Option<f64>> =
            (0..self.members.len()).map(|member| self.predict(member, ahead(member))).collect();
        let mut known: Vec<f64> = speeds.iter().flatten().copied().collect();
        let usual = middle(&mut known)?;
        Some(speeds.into_iter().map(|speed| speed.unwrap_or(usual)).collect())
    }
}

fn mean(history: &VecDeque<IterationSample>) -> f64 {
    let (mut sum, mut weights, mut weight) = (0.0, 0.0, 1.0);
    for sample in history.iter().rev() {
        sum += weight * sample.speed;
        weights += weight;
        weight *= DECAY;
    }
    sum / weights
}

fn median(history: &VecDeque<IterationSample>) -> f64 {
    let mut last: Vec<f64> = history.iter().rev().take(MEDIAN_OF).map(|s| s.speed).collect();
    middle(&mut last).unwrap_or(0.0)
}

fn middle(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What a speed is predicted from, if it is the one `ahead` iterations after sample `at`.
fn features(
    history: &VecDeque<IterationSample>,
    at: usize,
    unit: f64,
    memory: bool,
) -> [f64; FEATURES] {
    let (now, before) = (history[at], history[at - 1]);
    let memory = if memory { now.memory } else { 0.0 };
    [1.0, now.speed / unit, before.speed / unit, now.cpu, before.cpu, memory]
}

/// Fits the model to the window, and asks it.
fn regression(history: &VecDeque<IterationSample>, ahead: usize) -> Option<f64> {
    let rows = history.len().checked_sub(ahead + 1).filter(|rows| *rows >= ROWS_MIN)?;
    let unit = median(history);
    if !(unit.is_finite() && unit > 0.0) {
        return None;
    }
    let memory = varies(history.iter().map(|sample| sample.memory));
    let mut normal = [[0.0; FEATURES + 1]; FEATURES];
    for row in 0..rows {
        let z = features(history, row + 1, unit, memory);
        let y = history[row + 1 + ahead].speed / unit;
        for (i, line) in normal.iter_mut().enumerate() {
            for j in 0..FEATURES {
                line[j] += z[i] * z[j];
            }
            line[FEATURES] += z[i] * y;
        }
    }
    for (i, line) in normal.iter_mut().enumerate() {
        line[i] += RIDGE;
    }
    let theta = solve(normal)?;
    let z = features(history, history.len() - 1, unit, memory);
    let predicted: f64 = theta.iter().zip(z).map(|(theta, z)| theta * z).sum();
    (predicted.is_finite() && predicted > 0.0).then_some(predicted * unit)
}

fn varies(values: impl Iterator<Item = f64>) -> bool {
    let range = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    range.1 - range.0 > MEMORY_VARIES
}

/// Gauss's elimination; the matrix is symmetric and positive (a ridge was added), so the diagonal
/// serves as pivots. The last column is the right side.
fn solve(mut lines: [[f64; FEATURES + 1]; FEATURES]) -> Option<[f64; FEATURES]> {
    for pivot in 0..FEATURES {
        let line = lines[pivot];
        if line[pivot] <= 0.0 {
            return None;
        }
        for lower in lines.iter_mut().skip(pivot + 1) {
            let factor = lower[pivot] / line[pivot];
            for column in pivot..=FEATURES {
                lower[column] -= factor * line[column];
            }
        }
    }
    let mut found = [0.0; FEATURES];
    for row in (0..FEATURES).rev() {
        let known: f64 = (row + 1..FEATURES).map(|column| lines[row][column] * found[column]).sum();
        found[row] = (lines[row][FEATURES] - known) / lines[row][row];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn sample(speed: f64, cpu: f64) -> IterationSample {
        IterationSample { speed, cpu, memory: 0.5 }
    }

    fn of(predictor: Predictor, samples: impl IntoIterator<Item = IterationSample>) -> Speeds {
        let mut speeds = Speeds::new(predictor, 1);
        samples.into_iter().for_each(|sample| speeds.observe(0, sample));
        speeds
    }

    #[test]
    fn who_has_reported_nothing_is_as_fast_as_the_median() {
        let mut speeds = Speeds::new(Predictor::Last, 4);
        assert_eq!(speeds.all(|_| 1), None);
        for (member, speed) in [(0, 10.0), (1, 30.0), (2, 20.0)] {
            speeds.observe(member, sample(speed, 1.0));
        }
        assert_eq!(speeds.all(|_| 1).unwrap(), [10.0, 30.0, 20.0, 20.0]);
        speeds.forget(1);
        assert_eq!(speeds.predict(1, 1), None);
    }

    #[test]
    fn averages_prefer_what_is_new() {
        let steps = || (0..20).map(|i| sample(if i < 15 { 10.0 } else { 20.0 }, 1.0));
        assert_eq!(of(Predictor::Last, steps()).predict(0, 1), Some(20.0));
        let mean = of(Predictor::Mean, steps()).predict(0, 1).unwrap();
        assert!((18.0..20.0).contains(&mean), "{mean}");
    }

    /// A worker whose processor is taken away says so one iteration before it is slow.
    #[test]
    fn a_regression_hears_of_a_change_before_it_is_measured() {
        let mut random = Random::new(3);
        let mut cpu = 1.0;
        let mut samples: Vec<IterationSample> = (0..60)
            .map(|_| {
                let speed = 100.0 * cpu;
                if random.percent(30) {
                    cpu = 0.3 + 0.7 * random.unit();
                }
                sample(speed, cpu)
            })
            .collect();
        samples.last_mut().unwrap().cpu = 0.4;
        let arx = of(Predictor::Regression, samples.clone()).predict(0, 1).unwrap();
        assert!((arx - 40.0).abs() < 2.0, "{arx}");
        let last = of(Predictor::Last, samples).predict(0, 1).unwrap();
        assert!((last - 40.0).abs() > 5.0, "{last}");
    }

    #[test]
    fn predictions_stay_near_what_was_seen() {
        let jump = (0..20).map(|_| sample(10.0, 1.0)).chain([sample(1000.0, 1.0)]);
        assert_eq!(of(Predictor::Last, jump).predict(0, 1), Some(50.0));
        // Nothing varies, and a processor of which nothing is known.
        let flat = of(Predictor::Regression, (0..60).map(|_| sample(10.0, 0.0)));
        assert!((flat.predict(0, 3).unwrap() - 10.0).abs() < 0.01);
    }

    #[test]
    fn equations_are_solved() {
        let mut lines = [[0.0; FEATURES + 1]; FEATURES];
        for (i, line) in lines.iter_mut().enumerate() {
            line[i] = 2.0;
            line[(i + 1) % FEATURES] += 0.5;
            line[FEATURES] = 2.5;
        }
        assert!(solve(lines).unwrap().iter().all(|x| (x - 1.0).abs() < 1e-9));
        assert_eq!(solve([[0.0; FEATURES + 1]; FEATURES]), None);
    }
}
