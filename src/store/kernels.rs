//! Stand-in until the kernels are merged.
use super::{Buffer, Dtype};
use half::f16;
macro_rules! each {
    ($t:ty, $into:expr, $from:expr, $add:expr) => {
        for (a, b) in $into.elements_mut::<$t>().iter_mut().zip($from.chunks_exact(size_of::<$t>()))
        {
            let mut raw = [0_u8; size_of::<$t>()];
            raw.copy_from_slice(b);
            *a = $add(*a, <$t>::from_ne_bytes(raw));
        }
    };
}
/// Adds.
pub fn add(dtype: Dtype, into: &mut Buffer, from: &[u8]) {
    match dtype {
        Dtype::F32 => each!(f32, into, from, |a, b| a + b),
        Dtype::F64 => each!(f64, into, from, |a, b| a + b),
        Dtype::F16 => {
            each!(f16, into, from, |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32()))
        }
        Dtype::U8 => each!(u8, into, from, u8::wrapping_add),
        Dtype::I8 => each!(i8, into, from, i8::wrapping_add),
        Dtype::I32 => each!(i32, into, from, i32::wrapping_add),
        Dtype::I64 => each!(i64, into, from, i64::wrapping_add),
    }
}
/// To f32.
pub fn to_f32(dtype: Dtype, from: &[u8]) -> Buffer {
    let from = Buffer::copy_of(from);
    let values: Vec<f32> = match dtype {
        Dtype::F32 => from.elements::<f32>().to_vec(),
        Dtype::F64 => from.elements::<f64>().iter().map(|v| *v as f32).collect(),
        Dtype::F16 => from.elements::<f16>().iter().map(|v| v.to_f32()).collect(),
        Dtype::U8 => from.elements::<u8>().iter().map(|v| f32::from(*v)).collect(),
        Dtype::I8 => from.elements::<i8>().iter().map(|v| f32::from(*v)).collect(),
        Dtype::I32 => from.elements::<i32>().iter().map(|v| *v as f32).collect(),
        Dtype::I64 => from.elements::<i64>().iter().map(|v| *v as f32).collect(),
    };
    Buffer::copy_of(bytemuck::cast_slice(&values))
}
/// From f32.
pub fn from_f32(from: &Buffer, dtype: Dtype, into: &mut Buffer) {
    let from = from.elements::<f32>();
    match dtype {
        Dtype::F32 => into.elements_mut::<f32>().copy_from_slice(from),
        Dtype::F64 => {
            into.elements_mut::<f64>().iter_mut().zip(from).for_each(|(a, b)| *a = f64::from(*b))
        }
        Dtype::F16 => into
            .elements_mut::<f16>()
            .iter_mut()
            .zip(from)
            .for_each(|(a, b)| *a = f16::from_f32(*b)),
        Dtype::U8 => {
            into.elements_mut::<u8>().iter_mut().zip(from).for_each(|(a, b)| *a = *b as u8)
        }
        Dtype::I8 => {
            into.elements_mut::<i8>().iter_mut().zip(from).for_each(|(a, b)| *a = *b as i8)
        }
        Dtype::I32 => {
            into.elements_mut::<i32>().iter_mut().zip(from).for_each(|(a, b)| *a = *b as i32)
        }
        Dtype::I64 => {
            into.elements_mut::<i64>().iter_mut().zip(from).for_each(|(a, b)| *a = *b as i64)
        }
    }
}
