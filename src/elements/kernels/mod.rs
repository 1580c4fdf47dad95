//! What a server does to all elements of a tensor at once: sums and conversions, at memory speed.
//!
//! Each kernel is a plain loop that [`pulp`] compiles for several instruction sets and picks from
//! at run time. Elements are independent, so results depend neither on the instruction set nor on
//! how a tensor is cut. What arrived over the network may lie at any address: `from` is bytes. May
//! touch only what it is given; must not allocate, start threads or panic.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod convert;
mod sum;

use thiserror::Error;

use super::Dtype;

pub use convert::{narrow_to_f16, widen_f16};
pub use sum::{add, add_bf16, add_f16_to_f32, add_pair};

/// Why a kernel did nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KernelError {
    /// The two sides have different numbers of elements.
    #[error("{into} elements of {dtype} do not take up {from} bytes")]
    Length {
        /// The type of the received elements.
        dtype: Dtype,
        /// Elements on the side that is changed.
        into: usize,
        /// Bytes on the other.
        from: usize,
    },
    /// The bytes that are to be changed do not begin at an element, or end within one.
    #[error("{0} bytes of {1} do not begin and end with an element")]
    Alignment(usize, Dtype),
}

/// Fails unless `from` bytes are `into` elements of that type.
fn check_length(dtype: Dtype, into: usize, from: usize) -> Result<(), KernelError> {
    if into.checked_mul(dtype.size()) == Some(from) {
        Ok(())
    } else {
        Err(KernelError::Length { dtype, into, from })
    }
}

#[cfg(test)]
mod tests;
