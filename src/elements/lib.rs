//! What a tensor is made of: element types, the memory that holds elements, and what is done to all
//! elements at once.
//!
//! Pure: bytes in, bytes out. Knows nothing of keys, wires or nodes; must not do I/O, read a clock,
//! draw random numbers or start threads.
#![forbid(unsafe_code)]

mod buffer;
mod dtype;
pub mod kernels;
pub mod precision;

pub use buffer::{Allocator, Buffer, Memory};
pub use dtype::Dtype;
