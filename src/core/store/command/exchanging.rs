//! What a store keeps of its exchange, from one round to the next.

use std::collections::BTreeMap;

use crate::wire::Key;
use crate::wire::exchange::ExchangeSpec;

/// What a store keeps of its exchange.
#[derive(Debug)]
pub(in crate::store) struct Exchanging {
    pub(in crate::store) spec: ExchangeSpec,
    /// Why it cannot be done: each push is refused with that.
    pub(in crate::store) cannot: Option<String>,
    /// In how many rounds the momentum of pieces was too long, one after the other; of others
    /// there is nothing.
    pub(in crate::store) long: BTreeMap<(Key, u64), u32>,
    /// A line for people.
    pub(in crate::store) warning: Option<String>,
    /// It was said, and since then some piece's momentum is too long.
    pub(in crate::store) warned: bool,
}
