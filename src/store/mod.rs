//! The native server: tensors, how pushes are summed and applied, optimizers, commands.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `kv`; must not do I/O, read a
//! clock, draw random numbers or start threads (whoever owns the store may call it from several).

pub mod buffer;
pub mod compression;
pub mod dtype;
pub mod kernels;
pub mod pickle;

pub use buffer::Buffer;
pub use dtype::Dtype;
