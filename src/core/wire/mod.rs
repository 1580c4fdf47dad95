//! Bytes to typed messages and back. No I/O, no clock, no policy; depends on nothing else in this
//! crate. `message` has the types, `encode` and `decode` the bytes of dmlc's ps-lite, `byteps`
//! those of bytedance's; `dialect` chooses. `native` has the frames between two of our own nodes,
//! `elastic` what they say about pieces that move, `transfer` what servers say to each other,
//! `topic` what the membership only passes on, `balance` about batch sizes, `agreement` about what
//! all workers have to say alike, `exchange` how workers train while deltas travel; `socks` what is
//! said to tunnels.

pub mod agreement;
pub mod balance;
pub mod byteps;
pub mod decode;
pub mod dialect;
pub mod elastic;
pub mod encode;
pub mod exchange;
mod flat_transfer;
pub mod message;
pub mod native;
#[cfg(test)]
mod reference_tests;
pub mod save;
pub mod socks;
#[cfg(test)]
mod tests;
pub mod topic;
pub mod transfer;
#[cfg(test)]
mod transfer_tests;
pub mod trees;

#[cfg(test)]
pub(crate) use flat_transfer::FlatTransfer;

pub use decode::{DecodeError, decode_meta};
pub use dialect::Dialect;
pub use encode::encode_meta;
pub use message::*;
