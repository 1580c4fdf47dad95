//! Differences and sums of whole tensors. Only floating-point values are ever changed by an
//! optimizer; of others a difference is nothing, and a sum is the first one.

use half::f16;

use crate::values::{Buffer, Dtype};

/// `a - b`, element by element.
pub(super) fn subtract(dtype: Dtype, a: &Buffer, b: &Buffer) -> Buffer {
    each(dtype, a, b, |a, b| a - b, |a, b| a - b).unwrap_or_else(|| Buffer::zeroed(a.len()))
}

/// `a + b`, element by element.
pub(super) fn add(dtype: Dtype, a: &Buffer, b: &Buffer) -> Buffer {
    each(dtype, a, b, |a, b| a + b, |a, b| a + b).unwrap_or_else(|| a.clone())
}

fn each(
    dtype: Dtype,
    a: &Buffer,
    b: &Buffer,
    single: impl Fn(f32, f32) -> f32,
    double: impl Fn(f64, f64) -> f64,
) -> Option<Buffer> {
    let mut into = Buffer::zeroed(a.len());
    match dtype {
        Dtype::F32 => {
            let pairs = a.elements::<f32>().iter().zip(b.elements::<f32>());
            let into = into.elements_mut::<f32>().iter_mut();
            into.zip(pairs).for_each(|(into, (a, b))| *into = single(*a, *b));
        }
        Dtype::F64 => {
            let pairs = a.elements::<f64>().iter().zip(b.elements::<f64>());
            let into = into.elements_mut::<f64>().iter_mut();
            into.zip(pairs).for_each(|(into, (a, b))| *into = double(*a, *b));
        }
        _ => return None,
    }
    Some(into)
}

/// True if no element is infinite or no number.
pub(super) fn is_finite(dtype: Dtype, of: &Buffer) -> bool {
    // Not with `all`: without an early end the loops are vectorised.
    match dtype {
        Dtype::F32 => of.elements::<f32>().iter().fold(true, |all, x| all & x.is_finite()),
        Dtype::F64 => of.elements::<f64>().iter().fold(true, |all, x| all & x.is_finite()),
        Dtype::F16 => of.elements::<f16>().iter().fold(true, |all, x| all & x.is_finite()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer<T: bytemuck::NoUninit>(values: &[T]) -> Buffer {
        Buffer::copy_of(bytemuck::cast_slice(values))
    }

    #[test]
    fn differences_and_sums_are_those_of_each_element() {
        let (a, b) = (buffer(&[3.0_f32, 1.0]), buffer(&[1.0_f32, 4.0]));
        assert_eq!(subtract(Dtype::F32, &a, &b), buffer(&[2.0_f32, -3.0]));
        assert_eq!(add(Dtype::F32, &a, &b), buffer(&[4.0_f32, 5.0]));
        let (a, b) = (buffer(&[3.0_f64]), buffer(&[1e-12_f64]));
        assert_eq!(subtract(Dtype::F64, &a, &b), buffer(&[3.0 - 1e-12]));
        let (a, b) = (buffer(&[3_i32]), buffer(&[4_i32]));
        assert_eq!((subtract(Dtype::I32, &a, &b), add(Dtype::I32, &a, &b)), (buffer(&[0]), a));
    }

    #[test]
    fn one_element_that_is_no_number_is_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!is_finite(Dtype::F32, &buffer(&[1.0, bad, 2.0])));
            assert!(!is_finite(Dtype::F64, &buffer(&[f64::from(bad)])));
            assert!(!is_finite(Dtype::F16, &buffer(&[f16::from_f32(bad).to_bits()])));
        }
        assert!(is_finite(Dtype::F32, &buffer(&[f32::MAX, -0.0])));
        assert!(
            is_finite(Dtype::F16, &buffer(&[f16::MAX.to_bits()]))
                && is_finite(Dtype::U8, &buffer(&[255_u8]))
        );
    }
}
