//! The native server: tensors, how pushes are summed and applied, optimizers, commands.
//!
//! Pure: bytes and requests in, answers out. May touch `wire` types and `kv`; must not do I/O, read a
//! clock, draw random numbers or start threads (whoever owns the store may call it from several).

mod askers;
pub mod buffer;
mod changes;
pub mod command;
pub mod compression;
pub mod dtype;
pub mod elastic;
pub mod error;
pub mod kernels;
pub mod kind;
pub mod mxnet;
pub mod opaque;
pub mod optimizer;
mod parked;
mod part;
pub mod pickle;
mod precision;
pub mod profile;
mod round;
mod sparse;
mod stalls;
mod tensor;
mod value;
mod view;

pub use buffer::{Allocator, Buffer, Memory};
pub use changes::News;
pub use dtype::Dtype;
pub use elastic::{Outbound, Outgoing};
pub use error::StoreError;
pub use mxnet::{Answer, PART_BYTES, Store, StoreConfig};
pub use stalls::{Asked, Reminder, Stall};
