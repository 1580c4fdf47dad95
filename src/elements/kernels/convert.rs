//! Between halves and floats, for multi-precision. Halves convert in hardware where it can.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{KernelError, check_length};
use crate::Dtype;

/// Elements that are converted at a time by calls: two blocks of floats stay in the first-level
/// cache.
pub(super) const BLOCK: usize = 1024;

/// Halves in `from` to floats, exactly.
///
/// # Errors
/// [`KernelError::Length`] if `from` has not as many halves as `into` floats.
pub fn widen_f16(into: &mut [f32], from: &[u8]) -> Result<(), KernelError> {
    check_length(Dtype::F16, into.len(), from.len())?;
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V4::try_new() {
        super::avx512::widen_f16(simd, into, from, |_, _, from| from);
        return Ok(());
    }
    widen_f16_anywhere(into, from);
    Ok(())
}

/// Halves to floats on any machine.
pub(super) fn widen_f16_anywhere(into: &mut [f32], from: &[u8]) {
    for (into, from) in into.chunks_mut(BLOCK).zip(from.chunks(2 * BLOCK)) {
        read_f16(from, into);
    }
}

/// Floats to halves, to the nearest, ties to even.
///
/// # Errors
/// [`KernelError::Length`] if the numbers of elements differ.
pub fn narrow_to_f16(into: &mut [f16], from: &[f32]) -> Result<(), KernelError> {
    check_length(Dtype::F32, into.len(), size_of_val(from))?;
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V4::try_new() {
        super::avx512::narrow_to_f16(simd, into, from);
        return Ok(());
    }
    into.convert_from_f32_slice(from);
    Ok(())
}

/// At most a block of halves at any address.
#[inline(always)]
pub(super) fn read_f16(from: &[u8], into: &mut [f32]) {
    if let Ok(halves) = bytemuck::try_cast_slice::<u8, f16>(from) {
        halves.convert_to_f32_slice(into);
        return;
    }
    let mut aligned = [f16::ZERO; BLOCK];
    let aligned = &mut aligned[..into.len()];
    bytemuck::cast_slice_mut(aligned).copy_from_slice(from);
    aligned.convert_to_f32_slice(into);
}
