//! Sums, as MXNet's server makes them (kvstore_dist_server.h, `merged += received`): element by
//! element, halves by way of a float and rounded after each addition, integers wrapping.

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::Arch;

use super::convert::{BLOCK, read_f16};
use super::{KernelError, check_length};
use crate::Dtype;

/// A number that adds as in C.
trait Adds: Pod {
    fn sum(self, other: Self) -> Self;
}

macro_rules! sum {
    ($($float:ty),*; $($integer:ty),*) => {
        $(impl Adds for $float {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
        })*
        $(impl Adds for $integer {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
        })*
    };
}
sum!(f32, f64; u8, i8, i32, i64);

impl Adds for bf16 {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        let sum = f32::from_bits(u32::from(self.to_bits()) << 16)
            + f32::from_bits(u32::from(other.to_bits()) << 16);
        // Round to nearest, ties to even; a NaN stays one, with its quiet bit. Without a branch, so
        // that the loop can be vectorised.
        let bits = sum.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        Self::from_bits(if sum.is_nan() { quiet } else { rounded } as u16)
    }
}

/// Adds the elements in `from` to those in `into`.
///
/// # Errors
/// [`KernelError::Alignment`] if `into` does not begin and end with an element,
/// [`KernelError::Length`] if the two have different lengths. Nothing was changed.
pub fn add(dtype: Dtype, into: &mut [u8], from: &[u8]) -> Result<(), KernelError> {
    match dtype {
        Dtype::F32 => add_as::<f32, 4>(dtype, into, from),
        Dtype::F64 => add_as::<f64, 8>(dtype, into, from),
        Dtype::U8 => add_as::<u8, 1>(dtype, into, from),
        Dtype::I8 => add_as::<i8, 1>(dtype, into, from),
        Dtype::I32 => add_as::<i32, 4>(dtype, into, from),
        Dtype::I64 => add_as::<i64, 8>(dtype, into, from),
        Dtype::F16 => {
            let into = elements::<f16>(dtype, into)?;
            check_length(dtype, into.len(), from.len())?;
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = pulp::x86::V4::try_new() {
                super::avx512::add_f16(simd, into, from);
                return Ok(());
            }
            add_f16_anywhere(into, from);
            Ok(())
        }
    }
}

/// Bytes of halves that are copied and added to before the next ones: they stay in the first-level
/// cache.
const PAIR_BLOCK: usize = 8192;

/// Writes the sums of the elements in `left` and `right` to `into`, whatever was there. One pass
/// over each: with a copy and [`add`] it would be four.
///
/// # Errors
/// As [`add`].
pub fn add_pair(
    dtype: Dtype,
    into: &mut [u8],
    left: &[u8],
    right: &[u8],
) -> Result<(), KernelError> {
    match dtype {
        Dtype::F32 => add_pair_as::<f32, 4>(dtype, into, left, right),
        Dtype::F64 => add_pair_as::<f64, 8>(dtype, into, left, right),
        Dtype::U8 => add_pair_as::<u8, 1>(dtype, into, left, right),
        Dtype::I8 => add_pair_as::<i8, 1>(dtype, into, left, right),
        Dtype::I32 => add_pair_as::<i32, 4>(dtype, into, left, right),
        Dtype::I64 => add_pair_as::<i64, 8>(dtype, into, left, right),
        Dtype::F16 => {
            let elements = elements::<f16>(dtype, into)?.len();
            check_length(dtype, elements, left.len())?;
            check_length(dtype, elements, right.len())?;
            let blocks = into.chunks_mut(PAIR_BLOCK).zip(left.chunks(PAIR_BLOCK));
            for ((into, left), right) in blocks.zip(right.chunks(PAIR_BLOCK)) {
                into.copy_from_slice(left);
                add(dtype, into, right)?;
            }
            Ok(())
        }
    }
}

fn add_pair_as<T: Adds, const N: usize>(
    dtype: Dtype,
    into: &mut [u8],
    left: &[u8],
    right: &[u8],
) -> Result<(), KernelError> {
    let into = elements::<T>(dtype, into)?;
    check_length(dtype, into.len(), left.len())?;
    check_length(dtype, into.len(), right.len())?;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let pairs = left.as_chunks::<N>().0.iter().zip(right.as_chunks::<N>().0);
            for (into, (left, right)) in into.iter_mut().zip(pairs) {
                *into = bytemuck::cast::<_, T>(*left).sum(bytemuck::cast(*right));
            }
        },
    );
    Ok(())
}

/// Adds brain floats, which MXNet 1.9.1's kvstore does not send.
///
/// # Errors
/// [`KernelError::Length`], with the type of the same size, if the lengths differ.
pub fn add_bf16(into: &mut [bf16], from: &[u8]) -> Result<(), KernelError> {
    check_length(Dtype::F16, into.len(), from.len())?;
    add_elements::<bf16, 2>(into, from);
    Ok(())
}

/// Adds halves to floats: how a multi-precision server sums.
///
/// # Errors
/// [`KernelError::Length`] if `from` has not as many halves as `into` floats.
pub fn add_f16_to_f32(into: &mut [f32], from: &[u8]) -> Result<(), KernelError> {
    check_length(Dtype::F16, into.len(), from.len())?;
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V4::try_new() {
        super::avx512::widen_f16(simd, into, from, |simd, into, from| {
            simd.avx512f._mm512_add_ps(into, from)
        });
        return Ok(());
    }
    add_f16_to_f32_anywhere(into, from);
    Ok(())
}

/// Adds halves to floats on any machine.
pub(super) fn add_f16_to_f32_anywhere(into: &mut [f32], from: &[u8]) {
    let mut wide = [0.0; BLOCK];
    for (into, from) in into.chunks_mut(BLOCK).zip(from.chunks(2 * BLOCK)) {
        let wide = &mut wide[..into.len()];
        read_f16(from, wide);
        for (into, from) in into.iter_mut().zip(wide) {
            *into += *from;
        }
    }
}

fn elements<T: Pod>(dtype: Dtype, bytes: &mut [u8]) -> Result<&mut [T], KernelError> {
    let length = bytes.len();
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| KernelError::Alignment(length, dtype))
}

fn add_as<T: Adds, const N: usize>(
    dtype: Dtype,
    into: &mut [u8],
    from: &[u8],
) -> Result<(), KernelError> {
    let into = elements::<T>(dtype, into)?;
    check_length(dtype, into.len(), from.len())?;
    add_elements::<T, N>(into, from);
    Ok(())
}

/// `N` is the size of `T`.
fn add_elements<T: Adds, const N: usize>(into: &mut [T], from: &[u8]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            // Elements are loaded from any address: as fast as from an aligned one.
            for (into, from) in into.iter_mut().zip(from.as_chunks::<N>().0) {
                *into = into.sum(bytemuck::cast(*from));
            }
        },
    );
}

/// Adds halves on any machine. `from` has twice as many bytes as `into` elements.
pub(super) fn add_f16_anywhere(into: &mut [f16], from: &[u8]) {
    let (mut left, mut right) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (into, from) in into.chunks_mut(BLOCK).zip(from.chunks(2 * BLOCK)) {
        let (left, right) = (&mut left[..into.len()], &mut right[..into.len()]);
        into.convert_to_f32_slice(left);
        read_f16(from, right);
        for (left, right) in left.iter_mut().zip(right) {
            *left += *right;
        }
        into.convert_from_f32_slice(left);
    }
}
