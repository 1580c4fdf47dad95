//! What a store keeps of its exchange, from one round to the next.

use std::collections::BTreeMap;

use crate::wire::Key;
use crate::wire::exchange::ExchangeSpec;

/// What a store keeps of its exchange.
#[derive(Debug)]
pub(in crate::store) struct Exchanging {
    pub(super) spec: ExchangeSpec,
    /// Why it cannot be done: each push is refused with that.
    pub(super) cannot: Option<String>,
    /// In how many rounds the momentum of pieces was too long, one after the other; of others
    /// there is nothing.
    pub(super) long: BTreeMap<(Key, u64), u32>,
    /// A line for people.
    pub(super) warning: Option<String>,
    /// It was said, and since then some piece's momentum is too long.
    pub(super) warned: bool,
}
