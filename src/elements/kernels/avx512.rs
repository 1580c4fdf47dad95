//! Halves on x86 with AVX-512, whose conversions are instructions that a loop can be made of.
//!
//! `half` converts a slice by a call for every eight elements, which is several times slower; it
//! does what is left at the end, and everything on other machines.

use std::arch::x86_64::{__m256i, __m512};

use half::f16;
use half::slice::HalfFloatSliceExt;
use pulp::x86::V4;

use super::convert::read_f16;
use super::sum;

/// Elements in a register of floats.
const LANES: usize = 16;
/// Bytes of as many halves.
const HALVES_BYTES: usize = 2 * LANES;
/// To the nearest, ties to even, without exceptions.
const NEAREST: i32 = 0x08;

/// Adds halves: each sum is rounded once. `from` has twice as many bytes as `into` elements.
pub(super) fn add_f16(simd: V4, into: &mut [f16], from: &[u8]) {
    let (into, into_rest) = into.as_chunks_mut::<LANES>();
    let (from, from_rest) = from.as_chunks::<HALVES_BYTES>();
    simd.vectorize(
        #[inline(always)]
        || {
            for (into, from) in into.iter_mut().zip(from) {
                let left = simd.avx512f._mm512_cvtph_ps(bytemuck::cast(*into));
                let right = simd.avx512f._mm512_cvtph_ps(bytemuck::cast(*from));
                *into = narrow(simd, simd.avx512f._mm512_add_ps(left, right));
            }
        },
    );
    sum::add_f16_anywhere(into_rest, from_rest);
}

/// Does something with each float in `into` and the half in `from` that belongs to it.
pub(super) fn widen_f16(
    simd: V4,
    into: &mut [f32],
    from: &[u8],
    job: impl Fn(V4, __m512, __m512) -> __m512,
) {
    let each = |into: &mut [f32; LANES], wide: __m512| {
        *into = bytemuck::cast(job(simd, bytemuck::cast(*into), wide));
    };
    let (into, into_rest) = into.as_chunks_mut::<LANES>();
    let (from, from_rest) = from.as_chunks::<HALVES_BYTES>();
    simd.vectorize(
        #[inline(always)]
        || {
            for (into, from) in into.iter_mut().zip(from) {
                let from: __m256i = bytemuck::cast(*from);
                each(into, simd.avx512f._mm512_cvtph_ps(from));
            }
            let (mut last, mut wide) = ([0.0; LANES], [0.0; LANES]);
            last[..into_rest.len()].copy_from_slice(into_rest);
            read_f16(from_rest, &mut wide[..into_rest.len()]);
            each(&mut last, bytemuck::cast(wide));
            into_rest.copy_from_slice(&last[..into_rest.len()]);
        },
    );
}

/// Floats to halves; both have the same number of elements.
pub(super) fn narrow_to_f16(simd: V4, into: &mut [f16], from: &[f32]) {
    let (into, into_rest) = into.as_chunks_mut::<LANES>();
    let (from, from_rest) = from.as_chunks::<LANES>();
    simd.vectorize(
        #[inline(always)]
        || {
            for (into, from) in into.iter_mut().zip(from) {
                *into = narrow(simd, bytemuck::cast(*from));
            }
        },
    );
    into_rest.convert_from_f32_slice(from_rest);
}

#[inline(always)]
fn narrow(simd: V4, wide: __m512) -> [f16; LANES] {
    let halves: __m256i = simd.avx512f._mm512_cvtps_ph::<NEAREST>(wide);
    bytemuck::cast(halves)
}
