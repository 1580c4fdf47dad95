//! The rule for GPUs in a model: `../../../../docs/lbbsp.md` has its numbers.

use super::*;
use crate::random::Random;

/// A worker: flat up to `knee` samples, linear behind it.
#[derive(Clone, Copy)]
struct Gpu {
    base: f64,
    slope: f64,
    knee: u32,
    room: u32,
}

impl Gpu {
    fn seconds(&self, size: u32) -> f64 {
        self.base + self.slope * f64::from(size.saturating_sub(self.knee))
    }
}

struct Model {
    gpus: Vec<Gpu>,
    bounds: Vec<Bounds>,
    random: Random,
}

const TOTAL: u32 = 512;

impl Model {
    fn new(seed: u64, members: usize) -> Self {
        let mut random = Random::new(seed);
        let gpus: Vec<Gpu> = (0..members)
            .map(|_| Gpu {
                base: 0.02 + 0.03 * random.unit(),
                slope: 0.4e-3 + 1.6e-3 * random.unit(),
                knee: 16 + random.below(32) as u32,
                room: 90 + random.below(170) as u32,
            })
            .collect();
        let bounds = gpus.iter().map(|gpu| Bounds { min: 1, max: gpu.room }).collect();
        Self { gpus, bounds, random }
    }

    fn slowest(&self, sizes: &[u32]) -> f64 {
        self.gpus.iter().zip(sizes).map(|(gpu, size)| gpu.seconds(*size)).fold(0.0, f64::max)
    }

    /// Noise of 4 %.
    fn measured(&mut self, member: usize, size: u32) -> f64 {
        let noise: f64 = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        self.gpus[member].seconds(size) * (1.0 + 0.04 * noise)
    }

    /// The best sizes of all, sample by sample: each goes where it ends first.
    fn optimum(&self) -> f64 {
        let mut sizes = vec![1; self.gpus.len()];
        for _ in sizes.len()..TOTAL as usize {
            let time = |i: &usize| self.gpus[*i].seconds(sizes[*i] + 1);
            let free = (0..sizes.len()).filter(|i| sizes[*i] < self.gpus[*i].room);
            let best = free.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap();
            sizes[best] += 1;
        }
        self.slowest(&sizes)
    }

    /// After so many iterations: the sizes, and the mean time of all iterations.
    fn run(&mut self, rule: &mut Pairwise, sizes: &mut Vec<u32>, iterations: u32) -> f64 {
        let mut sum = 0.0;
        for _ in 0..iterations {
            for (member, size) in sizes.iter().enumerate() {
                let seconds = self.measured(member, *size);
                rule.observe(member, seconds);
            }
            sum += self.slowest(sizes);
            if let Some(next) = rule.step(sizes, &self.bounds, 1) {
                *sizes = next;
            }
            assert_eq!(sizes.iter().sum::<u32>(), TOTAL);
            for (size, bounds) in sizes.iter().zip(&self.bounds) {
                assert!((bounds.min..=bounds.max).contains(size));
            }
        }
        sum / f64::from(iterations)
    }
}

/// Of 40 sets of workers that nobody chose.
#[test]
fn it_ends_within_2_percent_of_the_best_sizes() {
    let (mut rest, mut gain, mut possible) = (0.0, 0.0, 0.0);
    let seeds = 40;
    for seed in 0..seeds {
        let mut model = Model::new(seed, 8);
        let mut sizes = vec![TOTAL / 8; 8];
        let mut rule = Pairwise::new(TOTAL, 8);
        let equal = model.slowest(&sizes);
        let mean = model.run(&mut rule, &mut sizes, 600);
        rest += model.slowest(&sizes) / model.optimum();
        gain += equal / mean;
        possible += equal / model.optimum();
    }
    let mean = |sum: f64| sum / seeds as f64;
    println!("rest {:.3}, gain {:.2} of {:.2}", mean(rest), mean(gain), mean(possible));
    assert!(mean(rest) < 1.02, "{}", mean(rest));
    assert!(mean(gain) > 0.9 * mean(possible), "{} of {}", mean(gain), mean(possible));
}

/// A worker that becomes another one in the middle.
#[test]
fn it_begins_again_when_a_worker_changes() {
    let mut model = Model::new(7, 4);
    model.gpus.iter_mut().for_each(|gpu| gpu.room = TOTAL);
    model.bounds = vec![Bounds { min: 1, max: TOTAL }; 4];
    let mut sizes = vec![TOTAL / 4; 4];
    let mut rule = Pairwise::new(TOTAL, 4);
    model.run(&mut rule, &mut sizes, 600);
    model.gpus[0].slope *= 3.0;
    let before = model.slowest(&sizes);
    model.run(&mut rule, &mut sizes, 300);
    let (after, best) = (model.slowest(&sizes), model.optimum());
    assert!(before > 1.3 * best && after < 1.05 * best, "{before} {after} {best}");
}

#[test]
fn nothing_moves_between_workers_that_are_alike() {
    let mut rule = Pairwise::new(64, 2);
    let bounds = [Bounds { min: 1, max: 64 }; 2];
    for _ in 0..100 {
        rule.observe(0, 1.0);
        rule.observe(1, 1.01);
        assert_eq!(rule.step(&[32, 32], &bounds, 1), None);
    }
    // Nobody has memory left, or nobody can give any more.
    for bounds in [[Bounds { min: 1, max: 32 }; 2], [Bounds { min: 32, max: 64 }; 2]] {
        for _ in 0..10 {
            rule.observe(0, 1.0);
            rule.observe(1, 2.0);
            assert_eq!(rule.step(&[32, 32], &bounds, 1), None);
        }
    }
}
