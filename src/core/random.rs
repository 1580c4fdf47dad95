//! Numbers that a seed decides: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
//! number generators", 2014). Small, documented, the same on every machine; not for secrets. The
//! only source of chance of the simulation and the tests, and where a running node needs any it
//! brings the seed.

use std::time::Duration;

/// What a seed grows by with each number.
pub const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed. Every seed is good, 0 too.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        mix(self.0)
    }

    /// A number below `bound`; 0 if that is 0. The bias of the remainder does not matter here.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// True in that many of 100 cases.
    pub const fn percent(&mut self, chance: u32) -> bool {
        chance > 0 && self.below(100) < chance as u64
    }

    /// A number from [0, 1), each as likely as any other.
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time below `bound`, in whole nanoseconds.
    pub fn time(&mut self, bound: Duration) -> Duration {
        let nanoseconds = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanoseconds))
    }

    /// Another sequence, so that one part of a simulation does not shift the chances of another.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self(self.next())
    }
}

/// Spreads the bits of a number over all of it: the last step of SplitMix64.
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 0, as every implementation of SplitMix64 gives them.
    #[test]
    fn it_is_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(random.next(), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = Random::new(7);
        let bound = Duration::from_micros(3);
        assert!((0..1000).all(|_| random.below(5) < 5 && random.time(bound) < bound));
        assert_eq!((random.below(0), random.time(Duration::ZERO)), (0, Duration::ZERO));
        let hits = (0..10_000).filter(|_| random.percent(30)).count();
        assert!((2_700..3_300).contains(&hits), "{hits}");
        assert!((0..100).all(|_| !random.percent(0) && random.percent(100)));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
