//! The order of an epoch's samples. Every worker computes it by itself, one sample at a time: no
//! list of all samples is kept or sent.
//!
//! A Feistel network permutes the numbers below the next power of four. What falls outside the
//! epoch is permuted again until it falls inside (Black, Rogaway: "Ciphers with arbitrary finite
//! domains", 2002, "cycle walking"): a permutation again, in four steps at most on average.

use crate::random::mix;

/// Rounds of the network: four make a permutation that chance cannot be told from (Luby, Rackoff,
/// 1988), if the function of each round is as good; two more are for that.
const ROUNDS: u64 = 6;

/// The order of one epoch.
#[derive(Clone, Copy, Debug)]
pub struct EpochOrder {
    length: u64,
    seed: u64,
    half_bits: u32,
}

impl EpochOrder {
    /// The order of `length` samples in that epoch.
    #[must_use]
    pub const fn new(length: u64, seed: u64, epoch: u64) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2);
        let half_bits = if half_bits == 0 { 1 } else { half_bits };
        Self { length, seed: mix(mix(seed).wrapping_add(epoch)), half_bits }
    }

    /// The sample at that place. Places behind the end begin again at the first one.
    #[must_use]
    pub const fn sample(&self, place: u64) -> u64 {
        if self.length == 0 {
            return 0;
        }
        let mut number = place % self.length;
        loop {
            number = self.permute(number);
            if number < self.length {
                return number;
            }
        }
    }

    const fn permute(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        let mut round = 0;
        while round < ROUNDS {
            let key = self.seed.wrapping_add(round);
            let next = left ^ (mix(key ^ right.wrapping_mul(crate::random::STRIDE)) & mask);
            (left, right) = (right, next);
            round += 1;
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_has_one_place() {
        for length in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097] {
            for seed in 0..4 {
                let order = EpochOrder::new(length, seed, 1);
                let mut seen: Vec<u64> = (0..length).map(|place| order.sample(place)).collect();
                assert_eq!(order.sample(length), seen[0]);
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..length), "{length} {seed}");
            }
        }
        assert_eq!(EpochOrder::new(0, 1, 1).sample(3), 0);
        assert!(EpochOrder::new(u64::MAX, 1, 1).sample(3) < u64::MAX);
    }

    #[test]
    fn seeds_and_epochs_have_orders_of_their_own() {
        let order = |seed, epoch| -> Vec<u64> {
            (0..100).map(|place| EpochOrder::new(100, seed, epoch).sample(place)).collect()
        };
        let all = [order(0, 0), order(0, 1), order(1, 0), order(1, 1)];
        for (a, one) in all.iter().enumerate() {
            assert!(all[..a].iter().all(|other| other != one));
        }
    }

    /// Where a sample lies, and what follows on it, is as even as chance makes it.
    #[test]
    fn no_place_is_preferred() {
        const LENGTH: u64 = 40;
        let (mut places, mut steps) = ([0_u32; 40], [0_u32; 40]);
        let epochs = 20_000_u64;
        for epoch in 0..epochs {
            let order = EpochOrder::new(LENGTH, 9, epoch);
            places[order.sample(0) as usize] += 1;
            let step = LENGTH + order.sample(8) - order.sample(7);
            steps[(step % LENGTH) as usize] += 1;
        }
        let chi = |counts: &[u32]| -> f64 {
            let expected = epochs as f64 / counts.len() as f64;
            counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
        };
        // 39 degrees of freedom: 72.1 is exceeded once in a thousand times.
        assert!(chi(&places) < 72.1, "{}", chi(&places));
        assert!(chi(&steps[1..]) < 72.1 && steps[0] == 0, "{}", chi(&steps[1..]));
    }
}
