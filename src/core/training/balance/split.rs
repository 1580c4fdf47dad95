//! Shares a number of samples among workers in proportion to their speeds: docs/algorithms.md 3.4.
//! What a worker may not take goes to the others. The rest that does not divide is given where it
//! costs the least time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How many samples a worker takes, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

impl Bounds {
    /// Of a worker that takes nothing: it is gone.
    pub const NOTHING: Self = Self { min: 0, max: 0 };
}

/// One worker, in the order of the time that it would take with one portion more.
struct NextPortion {
    seconds: f64,
    member: usize,
}

impl PartialEq for NextPortion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for NextPortion {}

impl PartialOrd for NextPortion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NextPortion {
    /// The largest of a heap is the fastest; of two alike the one of the lower rank.
    fn cmp(&self, other: &Self) -> Ordering {
        other.seconds.total_cmp(&self.seconds).then(other.member.cmp(&self.member))
    }
}

/// How many of `total` samples each worker takes, so that the slowest one ends as early as can be.
/// Sizes are multiples of `quantum` above each worker's least, but for one worker's rest. `None`:
/// the bounds allow no such sizes.
///
/// `speeds`: samples per second, above 0; one for each of `bounds`.
#[must_use]
pub fn split(total: u32, speeds: &[f64], bounds: &[Bounds], quantum: u32) -> Option<Vec<u32>> {
    if speeds.len() != bounds.len() || !fits(total, bounds) {
        return None;
    }
    let quantum = quantum.max(1);
    let ideal = shares(f64::from(total), speeds, bounds);
    let mut sizes: Vec<u32> = bounds
        .iter()
        .zip(&ideal)
        .map(|(bounds, ideal)| {
            let above = (*ideal as u32).saturating_sub(bounds.min) / quantum * quantum;
            (bounds.min + above).min(bounds.max)
        })
        .collect();
    let given: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
    // The ideal shares add up to the total, and each was rounded down.
    let rest = u64::from(total).saturating_sub(given) as u32;
    hand_out(rest, quantum, speeds, bounds, &mut sizes);
    Some(sizes)
}

/// True if sizes within the bounds can add up to the total.
fn fits(total: u32, bounds: &[Bounds]) -> bool {
    let sum = |of: fn(&Bounds) -> u32| bounds.iter().map(|b| u64::from(of(b))).sum::<u64>();
    bounds.iter().all(|bounds| bounds.min <= bounds.max)
        && (sum(|b| b.min)..=sum(|b| b.max)).contains(&u64::from(total))
}

/// Shares in proportion to the speeds: what is beyond a worker's bounds is shared among the others.
fn shares(total: f64, speeds: &[f64], bounds: &[Bounds]) -> Vec<f64> {
    // All take the same time where no bound binds. More time, more samples: bisection finds it.
    let at = |seconds: f64| -> f64 {
        let size = |(speed, bounds): (&f64, &Bounds)| bound(speed * seconds, bounds);
        speeds.iter().zip(bounds).map(size).sum()
    };
    let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (0.0, total / slowest);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if at(middle) > total { high = middle } else { low = middle }
    }
    speeds.iter().zip(bounds).map(|(speed, bounds)| bound(speed * low, bounds)).collect()
}

/// Halvings of the time that is looked for: as many as a float has bits, and some for its size.
const BISECTIONS: usize = 80;

fn bound(size: f64, bounds: &Bounds) -> f64 {
    size.clamp(f64::from(bounds.min), f64::from(bounds.max))
}

/// Gives out what is left in portions of `quantum`, each to the worker that would be done first
/// with it.
fn hand_out(mut rest: u32, quantum: u32, speeds: &[f64], bounds: &[Bounds], sizes: &mut [u32]) {
    let next = |member: usize, size: u32, portion: u32| {
        (size < bounds[member].max).then(|| {
            let seconds = f64::from(size.saturating_add(portion)) / speeds[member];
            NextPortion { seconds, member }
        })
    };
    // Whole portions first. Where bounds or the total are no multiples, single samples follow.
    for portion in [quantum, 1] {
        let mut queue: BinaryHeap<NextPortion> =
            (0..sizes.len()).filter_map(|member| next(member, sizes[member], portion)).collect();
        while rest >= portion
            && let Some(NextPortion { member, .. }) = queue.pop()
        {
            let room = bounds[member].max - sizes[member];
            if room < portion {
                continue;
            }
            sizes[member] += portion;
            rest -= portion;
            queue.extend(next(member, sizes[member], portion));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FREE: Bounds = Bounds { min: 1, max: u32::MAX };

    #[test]
    fn sizes_follow_the_speeds() {
        let sizes =
            |speeds: &[f64], bounds: &[Bounds], quantum| split(100, speeds, bounds, quantum);
        assert_eq!(sizes(&[1.0, 1.0, 2.0], &[FREE; 3], 1), Some(vec![25, 25, 50]));
        assert_eq!(sizes(&[1.0, 1.0, 1.0], &[FREE; 3], 1), Some(vec![34, 33, 33]));
        let low = Bounds { min: 1, max: 10 };
        assert_eq!(sizes(&[1.0, 1.0, 2.0], &[FREE, FREE, low], 1), Some(vec![45, 45, 10]));
        let most = Bounds { min: 80, max: 90 };
        assert_eq!(sizes(&[1.0, 1.0, 2.0], &[most, FREE, FREE], 1), Some(vec![80, 7, 13]));
    }

    #[test]
    fn sizes_are_multiples_but_for_the_rest() {
        let bounds = [Bounds { min: 0, max: u32::MAX }; 3];
        let sizes = split(100, &[1.0, 2.0, 4.0], &bounds, 8).unwrap();
        assert_eq!(sizes.iter().sum::<u32>(), 100);
        assert_eq!(sizes.iter().filter(|size| **size % 8 != 0).count(), 1, "{sizes:?}");
    }

    #[test]
    fn impossible_bounds_are_told() {
        let low = Bounds { min: 1, max: 10 };
        assert_eq!(split(100, &[1.0; 3], &[low; 3], 1), None);
        assert_eq!(split(2, &[1.0; 3], &[low; 3], 1), None);
        assert_eq!(split(2, &[1.0; 2], &[low; 3], 1), None);
    }

    /// The best sizes of all, sample by sample: each goes where it ends first.
    fn optimum(total: u32, speeds: &[f64], bounds: &[Bounds]) -> f64 {
        let mut sizes: Vec<u32> = bounds.iter().map(|bounds| bounds.min).collect();
        for _ in sizes.iter().sum::<u32>()..total {
            let free = (0..sizes.len()).filter(|i| sizes[*i] < bounds[*i].max);
            let time = |i: &usize| f64::from(sizes[*i] + 1) / speeds[*i];
            let best = free.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap();
            sizes[best] += 1;
        }
        slowest(&sizes, speeds)
    }

    fn slowest(sizes: &[u32], speeds: &[f64]) -> f64 {
        sizes.iter().zip(speeds).map(|(size, speed)| f64::from(*size) / speed).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn nothing_is_faster_within_the_bounds(
            members in prop::collection::vec((0.01..100.0_f64, 0..20_u32, 0..60_u32), 1..12),
            part in 0.0..1.0_f64, quantum in 1..9_u32,
        ) {
            let speeds: Vec<f64> = members.iter().map(|(speed, _, _)| *speed).collect();
            let bounds: Vec<Bounds> = members
                .iter().map(|(_, min, more)| Bounds { min: *min, max: min + more }).collect();
            let least: u32 = bounds.iter().map(|bounds| bounds.min).sum();
            let most: u32 = bounds.iter().map(|bounds| bounds.max).sum();
            let total = least + (f64::from(most - least) * part) as u32;
            let sizes = split(total, &speeds, &bounds, quantum).unwrap();
            prop_assert_eq!(sizes.iter().sum::<u32>(), total);
            for (size, bounds) in sizes.iter().zip(&bounds) {
                prop_assert!((bounds.min..=bounds.max).contains(size));
            }
            if quantum == 1 {
                let best = optimum(total, &speeds, &bounds);
                prop_assert!(slowest(&sizes, &speeds) <= best * (1.0 + 1e-9));
            }
        }
    }
}
