//! Bytes to typed messages and back. No I/O, no clock, no policy; depends on nothing else in this
//! crate. `ids` has the numbers of keys and nodes, `message` and `payload` the types, `encode` and
//! `decode` the bytes of dmlc's ps-lite, `byteps` those of bytedance's; `dialect` chooses. `native`
//! has the frames between two of our own nodes, `elastic` what they say about pieces that move,
//! `transfer` what servers say to each other, `word` what they and the scheduler do,
//! `flat_transfer` and `flat_word` the bytes of these, `topic` what of that the membership only
//! passes on, `balance` about batch sizes, `counters` about what nodes have counted, `agreement`
//! about what all workers have to say alike, `chronicle` what an operator asks of what happened,
//! `exchange` how workers train while deltas travel; `socks` what is said to tunnels.

pub mod agreement;
pub mod balance;
pub mod byteps;
pub mod chronicle;
pub mod counters;
pub mod decode;
pub mod dialect;
pub mod elastic;
pub mod encode;
pub mod exchange;
mod flat_transfer;
mod flat_word;
mod ids;
pub mod message;
pub mod native;
mod payload;
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
pub mod word;

#[cfg(test)]
pub(crate) use flat_transfer::FlatTransfer;

pub use decode::{DecodeError, decode_meta};
pub use dialect::Dialect;
pub use encode::encode_meta;
pub use ids::*;
pub use message::*;
pub use payload::Payload;
