//! Between a value's own type and float32, in which a multi-precision server computes
//! (kvstore_dist_server.h, CreateMultiPrecisionCopies).

use bytemuck::Pod;

use super::{Buffer, Dtype, kernels};

/// The elements as float32.
pub fn to_f32(dtype: Dtype, from: &[u8]) -> Buffer {
    let mut into = Buffer::zeroed(from.len() / dtype.size() * size_of::<f32>());
    let floats = into.elements_mut::<f32>();
    match dtype {
        Dtype::F16 => {
            let _ = kernels::widen_f16(floats, &from[..floats.len() * 2]);
        }
        Dtype::F32 => into.bytes_mut().copy_from_slice(from),
        Dtype::F64 => each(floats, from, |value: f64| value as f32),
        Dtype::U8 => each(floats, from, |value: u8| f32::from(value)),
        Dtype::I8 => each(floats, from, |value: i8| f32::from(value)),
        Dtype::I32 => each(floats, from, |value: i32| value as f32),
        Dtype::I64 => each(floats, from, |value: i64| value as f32),
    }
    into
}

fn each<T: Pod>(into: &mut [f32], from: &[u8], convert: impl Fn(T) -> f32) {
    for (into, bytes) in into.iter_mut().zip(from.chunks_exact(size_of::<T>())) {
        *into = convert(bytemuck::pod_read_unaligned(bytes));
    }
}

/// The float32 elements in a value's own type, as C converts them.
pub fn from_f32(from: &Buffer, dtype: Dtype, into: &mut Buffer) {
    let from = from.elements::<f32>();
    match dtype {
        Dtype::F16 => {
            let _ = kernels::narrow_to_f16(into.elements_mut(), from);
        }
        Dtype::F32 => into.elements_mut::<f32>().copy_from_slice(from),
        Dtype::F64 => put(into, from, f64::from),
        Dtype::U8 => put(into, from, |value| value as u8),
        Dtype::I8 => put(into, from, |value| value as i8),
        Dtype::I32 => put(into, from, |value| value as i32),
        Dtype::I64 => put(into, from, |value| value as i64),
    }
}

fn put<T: Pod>(into: &mut Buffer, from: &[f32], convert: impl Fn(f32) -> T) {
    for (into, from) in into.elements_mut::<T>().iter_mut().zip(from) {
        *into = convert(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_survive_in_every_type() {
        let numbers = Buffer::copy_of(bytemuck::cast_slice(&[0.0_f32, 1.0, 2.0, 100.0, 127.0]));
        for dtype in Dtype::ALL {
            let mut own = Buffer::zeroed(5 * dtype.size());
            from_f32(&numbers, dtype, &mut own);
            assert_eq!(to_f32(dtype, own.bytes()), numbers, "{dtype}");
        }
    }
}
