//! Arithmetic of the element types, as MXNet's kernels do it.
//!
//! float32 and float64 are the machine's. float16 is mshadow's `half_t` (mshadow/half.h): every
//! single operation is done in float32 and its result rounded to the nearest half, ties to even. A
//! half is therefore held as the float32 of its value while it is computed with, and rounding is
//! written without branches, so that loops over halves vectorise too.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

use bytemuck::{AnyBitPattern, NoUninit};

/// A number that a kernel computes with.
pub(super) trait Number:
    Copy
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// How it lies in memory.
    type Stored: AnyBitPattern + NoUninit + Copy + Send + Sync;

    /// From memory.
    fn load(stored: Self::Stored) -> Self;
    /// To memory.
    fn store(self) -> Self::Stored;
    /// From a parameter of type `float`.
    fn of(value: f32) -> Self;
    /// From a parameter of type `double`.
    fn of_double(value: f64) -> Self;
    /// To float32.
    fn single(self) -> f32;
    /// The product with a `float` that is not rounded to this type first.
    fn scaled(self, by: f32) -> Self;
    /// The sum with a `float`, as a `float`.
    fn added_to(self, sum: f32) -> f32;
    /// `self / (sqrt(variance) + epsilon) + decayed` where C++ has only the `sqrt` of doubles at
    /// hand, as in LAMB: with float32 all of it is done in doubles.
    fn over_root(self, variance: Self, epsilon: Self, decayed: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The power, by the C library as in MXNet.
    fn power(self, exponent: Self) -> Self;

    /// `mshadow_op::clip`; a bound below zero means none.
    #[inline(always)]
    fn clip(self, bound: Self) -> Self {
        if bound < Self::of(0.0) { self } else { self.within(-bound, bound) }
    }

    /// The nearest value in the range; NaN stays.
    #[inline(always)]
    fn within(self, low: Self, high: Self) -> Self {
        if self > high {
            high
        } else if self < low {
            low
        } else {
            self
        }
    }

    /// The absolute value.
    #[inline(always)]
    fn abs(self) -> Self {
        if self < Self::of(0.0) { -self } else { self }
    }

    /// Minus one, zero or one; zero for NaN.
    #[inline(always)]
    fn sign(self) -> Self {
        let zero = Self::of(0.0);
        if self < zero {
            Self::of(-1.0)
        } else if self > zero {
            Self::of(1.0)
        } else {
            zero
        }
    }
}

impl Number for f32 {
    type Stored = Self;

    #[inline(always)]
    fn load(stored: Self) -> Self {
        stored
    }
    #[inline(always)]
    fn store(self) -> Self {
        self
    }
    #[inline(always)]
    fn of(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn of_double(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn single(self) -> f32 {
        self
    }
    #[inline(always)]
    fn scaled(self, by: f32) -> Self {
        by * self
    }
    #[inline(always)]
    fn added_to(self, sum: f32) -> f32 {
        sum + self
    }
    #[inline(always)]
    fn over_root(self, variance: Self, epsilon: Self, decayed: Self) -> Self {
        let root = f64::from(variance).sqrt() + f64::from(epsilon);
        (f64::from(self) / root + f64::from(decayed)) as Self
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
    #[inline(always)]
    fn power(self, exponent: Self) -> Self {
        self.powf(exponent)
    }
}

impl Number for f64 {
    type Stored = Self;

    #[inline(always)]
    fn load(stored: Self) -> Self {
        stored
    }
    #[inline(always)]
    fn store(self) -> Self {
        self
    }
    #[inline(always)]
    fn of(value: f32) -> Self {
        value.into()
    }
    #[inline(always)]
    fn of_double(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn single(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn scaled(self, by: f32) -> Self {
        Self::from(by) * self
    }
    #[inline(always)]
    fn added_to(self, sum: f32) -> f32 {
        (Self::from(sum) + self) as f32
    }
    #[inline(always)]
    fn over_root(self, variance: Self, epsilon: Self, decayed: Self) -> Self {
        self / (variance.sqrt() + epsilon) + decayed
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
    #[inline(always)]
    fn power(self, exponent: Self) -> Self {
        self.powf(exponent)
    }
}

/// A half, held as a float32 of the same value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Half(f32);

/// Bits of a float32's significand that a half has not.
const DROPPED: u32 = 13;
const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
/// The smallest normal half, 2^-14.
const SMALLEST_NORMAL: u32 = 0x3880_0000;
/// 65536, the first power of two above all halves.
const ABOVE_ALL: u32 = 0x4780_0000;
/// What the exponents of float32 and half differ by, in place.
const EXPONENT_OFFSET: u32 = (127 - 15) << 23;

impl Half {
    /// The nearest half, ties to even.
    #[inline(always)]
    fn rounded(value: f32) -> Self {
        let bits = value.to_bits();
        let (sign, size) = (bits & SIGN, bits & !SIGN);
        let odd = (size >> DROPPED) & 1;
        let half_unit = (1 << (DROPPED - 1)) - 1;
        let normal = (size.wrapping_add(half_unit + odd)) & !((1 << DROPPED) - 1);
        let normal = if normal >= ABOVE_ALL { INFINITY } else { normal };
        // The unit of floats between 0.5 and 1 is that of subnormal halves, 2^-24.
        let subnormal = ((f32::from_bits(size) + 0.5) - 0.5).to_bits();
        let rounded = if size < SMALLEST_NORMAL { subnormal } else { normal };
        let rounded = if size > INFINITY { size } else { rounded };
        Self(f32::from_bits(sign | rounded))
    }
}

impl Number for Half {
    type Stored = half::f16;

    #[inline(always)]
    fn load(stored: half::f16) -> Self {
        let bits = u32::from(stored.to_bits());
        let (sign, size) = ((bits & 0x8000) << 16, (bits & 0x7fff) << DROPPED);
        // 2^112 moves the exponent to its place, and makes subnormals normal.
        let finite = (f32::from_bits(size) * f32::from_bits((127 + 112) << 23)).to_bits();
        let value = if size >= 0x1f << 23 { size | INFINITY } else { finite };
        Self(f32::from_bits(sign | value))
    }
    #[inline(always)]
    fn store(self) -> half::f16 {
        let bits = self.0.to_bits();
        let (sign, size) = ((bits & SIGN) >> 16, bits & !SIGN);
        let normal = size.wrapping_sub(EXPONENT_OFFSET) >> DROPPED;
        let subnormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
        let value = if size < SMALLEST_NORMAL { subnormal } else { normal };
        let special = 0x7c00 | u32::from(size > INFINITY) << 9;
        let value = if size >= INFINITY { special } else { value };
        half::f16::from_bits((sign | value) as u16)
    }
    #[inline(always)]
    fn of(value: f32) -> Self {
        Self::rounded(value)
    }
    #[inline(always)]
    fn of_double(value: f64) -> Self {
        Self::rounded(value as f32)
    }
    #[inline(always)]
    fn single(self) -> f32 {
        self.0
    }
    #[inline(always)]
    fn scaled(self, by: f32) -> Self {
        Self::rounded(by * self.0)
    }
    #[inline(always)]
    fn added_to(self, sum: f32) -> f32 {
        sum + self.0
    }
    #[inline(always)]
    fn over_root(self, variance: Self, epsilon: Self, decayed: Self) -> Self {
        self / Self::rounded(variance.0.sqrt() + epsilon.0) + decayed
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::rounded(self.0.sqrt())
    }
    #[inline(always)]
    fn power(self, exponent: Self) -> Self {
        Self::rounded(self.0.powf(exponent.0))
    }
}

impl Add for Half {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::rounded(self.0 + other.0)
    }
}

impl Sub for Half {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::rounded(self.0 - other.0)
    }
}

impl Mul for Half {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::rounded(self.0 * other.0)
    }
}

impl Div for Half {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self::rounded(self.0 / other.0)
    }
}

impl Neg for Half {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_half_is_read_and_written() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let number = Half::load(half);
            if half.is_nan() {
                assert!(number.0.is_nan() && number.store().is_nan());
            } else {
                assert_eq!(number.0.to_bits(), half.to_f32().to_bits(), "{bits:#x}");
                assert_eq!(number.store().to_bits(), bits);
                assert_eq!(Half::of(number.0).store().to_bits(), bits);
            }
        }
    }

    #[test]
    fn floats_are_rounded_to_the_nearest_half() {
        // All exponents, with the significands around every kind of tie.
        for high in 0..=0xffff_u32 {
            for low in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x7fff, 0x8000, 0xffff] {
                let float = f32::from_bits(high << 16 | low);
                let (ours, theirs) = (Half::of(float).store(), f16::from_f32(float));
                if float.is_nan() {
                    assert!(ours.is_nan());
                } else {
                    assert_eq!(ours.to_bits(), theirs.to_bits(), "{float:e}");
                }
            }
        }
    }

    #[test]
    fn clip_keeps_nan_and_a_negative_bound_is_none() {
        assert_eq!((2.0_f32.clip(1.0), (-2.0_f32).clip(1.0), 0.5_f32.clip(1.0)), (1.0, -1.0, 0.5));
        assert_eq!(2.0_f32.clip(-1.0), 2.0);
        assert!(f32::NAN.clip(1.0).is_nan());
        assert_eq!((3.0_f64.sign(), (-0.5_f64).sign(), 0.0_f64.sign()), (1.0, -1.0, 0.0));
    }
}
