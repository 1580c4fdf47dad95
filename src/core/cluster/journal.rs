//! What a scheduler of an elastic job must still know when it is started again (`docs/elastic.md`,
//! "The scheduler's journal"): records of what changed, and the state that they add up to. Pure:
//! bytes and types, no file (`node::journal` has that).
//!
//! Where pieces are is not here: a scheduler that comes back asks for claims. Which keys exist is,
//! so that it misses those that nobody claims, and since when pieces are whose, so that it knows
//! old copies.

pub mod frames;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prost::Message as _;

use super::tenures::Tenures;
use crate::wire::elastic::{CopyPlace, Order};
use crate::wire::exchange::ExchangeSpec;
use crate::wire::{Node, NodeId, Role};

/// A member of the job.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    /// [`Role`] as on the wire.
    #[prost(int32, tag = "1")]
    pub role: i32,
    /// Its id.
    #[prost(int32, tag = "2")]
    pub id: NodeId,
    /// Where others connect to.
    #[prost(string, tag = "3")]
    pub hostname: String,
    /// The port there.
    #[prost(int32, tag = "4")]
    pub port: i32,
    /// It came after the job was complete.
    #[prost(bool, tag = "5")]
    pub is_recovery: bool,
    /// [`crate::wire::ability`].
    #[prost(uint64, tag = "6")]
    pub abilities: u64,
    /// Its process.
    #[prost(uint64, tag = "7")]
    pub incarnation: u64,
    /// The port of the native data plane, or 0.
    #[prost(uint32, tag = "8")]
    pub native_port: u32,
    /// The customers that it had when it came.
    #[prost(int32, repeated, tag = "9")]
    pub customers: Vec<i32>,
    /// Further ids of the same process.
    #[prost(int32, repeated, tag = "10")]
    pub aliases: Vec<NodeId>,
}

impl Member {
    /// As the journal keeps a node.
    #[must_use]
    pub fn new(node: &Node, customers: Vec<i32>, aliases: Vec<NodeId>) -> Self {
        Self {
            role: node.role as i32,
            id: node.id,
            hostname: node.hostname.clone(),
            port: node.port,
            is_recovery: node.is_recovery,
            abilities: node.abilities,
            incarnation: node.incarnation,
            native_port: u32::from(node.native_port),
            customers,
            aliases,
        }
    }

    /// As others see it; none if the journal holds nonsense.
    #[must_use]
    pub fn node(&self) -> Option<Node> {
        Some(Node {
            role: Role::from_wire(self.role)?,
            id: self.id,
            customer_id: self.customers.first().copied().unwrap_or(0),
            hostname: self.hostname.clone(),
            port: self.port,
            is_recovery: self.is_recovery,
            abilities: self.abilities,
            incarnation: self.incarnation,
            native_port: u16::try_from(self.native_port).ok()?,
            wished_rank: None,
            launched_as: None,
        })
    }
}

/// An entry into a barrier that was released.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Entry {
    /// The node.
    #[prost(int32, tag = "1")]
    pub node: NodeId,
    /// Its customer.
    #[prost(int32, tag = "2")]
    pub customer: i32,
    /// The group.
    #[prost(int32, tag = "3")]
    pub group: i32,
    /// The number of the message that entered it, at its sender.
    #[prost(int32, tag = "4")]
    pub timestamp: i32,
}

/// An order, and the server that had it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ordered {
    /// The owner so far.
    #[prost(int32, tag = "1")]
    pub owner: NodeId,
    /// What it is to give away.
    #[prost(message, required, tag = "2")]
    pub order: Order,
    /// The newest epoch when another order took its place, or it was taken back; 0: it stands.
    #[prost(uint64, tag = "3")]
    pub replaced: u64,
}

/// All that is kept. Sets are maps to `true`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct State {
    /// The job's first scheduler: later ones go on under this number, of which the token of the
    /// native data plane is made.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// `host:port` of the scheduler.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Worker customers of the job.
    #[prost(uint32, tag = "3")]
    pub workers: u32,
    /// Servers that the job began with.
    #[prost(uint32, tag = "4")]
    pub servers: u32,
    /// Copies of each piece beside the owner's.
    #[prost(uint32, tag = "5")]
    pub replicas: u32,
    /// The newest epoch that was given to anybody.
    #[prost(uint64, tag = "6")]
    pub epoch: u64,
    /// The homes of the last policy.
    #[prost(int32, repeated, tag = "7")]
    pub homes: Vec<NodeId>,
    /// Everybody that ever was in the job, but the scheduler.
    #[prost(btree_map = "int32, message", tag = "8")]
    pub members: BTreeMap<NodeId, Member>,
    /// Servers that joined and are in no policy yet.
    #[prost(btree_map = "int32, bool", tag = "9")]
    pub joining: BTreeMap<NodeId, bool>,
    /// Servers that have sent claims.
    #[prost(btree_map = "int32, bool", tag = "10")]
    pub claimed: BTreeMap<NodeId, bool>,
    /// Servers whose values do not move, and why.
    #[prost(btree_map = "int32, string", tag = "11")]
    pub fixed: BTreeMap<NodeId, String>,
    /// Servers that are being emptied.
    #[prost(btree_map = "int32, bool", tag = "12")]
    pub draining: BTreeMap<NodeId, bool>,
    /// The dead, and how they died.
    #[prost(btree_map = "int32, string", tag = "13")]
    pub lost: BTreeMap<NodeId, String>,
    /// Servers that were emptied and left.
    #[prost(btree_map = "int32, bool", tag = "14")]
    pub released: BTreeMap<NodeId, bool>,
    /// Which keys exist, and their lengths in elements.
    #[prost(btree_map = "uint64, uint64", tag = "15")]
    pub keys: BTreeMap<u64, u64>,
    /// Orders that may still be carried out, or were, as earlier versions wrote them.
    #[prost(message, repeated, tag = "16")]
    pub listed_orders: Vec<Ordered>,
    /// The last barrier of each customer in each group.
    #[prost(message, repeated, tag = "17")]
    pub passed: Vec<Entry>,
    /// How often everybody has met.
    #[prost(uint32, tag = "18")]
    pub releases_of_all: u32,
    /// The job is over.
    #[prost(bool, tag = "19")]
    pub ended: bool,
    /// The servers of the last policy.
    #[prost(btree_map = "int32, bool", tag = "20")]
    pub serving: BTreeMap<NodeId, bool>,
    /// Since when parts of keys are whose, as far as they ever changed their owners.
    #[prost(btree_map = "uint64, message", tag = "21")]
    pub tenures: Tenures,
    /// Since which policy each worker that came back has its id.
    #[prost(btree_map = "int32, uint64", tag = "22")]
    pub lives: BTreeMap<NodeId, u64>,
    /// Nodes that took the place of others and are in no policy yet.
    #[prost(btree_map = "int32, bool", tag = "23")]
    pub returning: BTreeMap<NodeId, bool>,
    /// The job goes on without workers that die. Journals of earlier versions do not say.
    #[prost(bool, optional, tag = "24")]
    pub elastic_workers: Option<bool>,
    /// Where copies are kept, by the last policy.
    #[prost(message, repeated, tag = "25")]
    pub copies: Vec<CopyPlace>,
    /// Orders that may still be carried out, or were, by key. No key has none.
    #[prost(btree_map = "uint64, message", tag = "26")]
    pub orders: BTreeMap<u64, KeyOrders>,
    /// The newest overlay that was given to anybody.
    #[prost(uint64, tag = "27")]
    pub overlay: u64,
    /// How workers train while deltas travel, if they do: settled when the job begins.
    #[prost(message, optional, tag = "28")]
    pub exchange: Option<ExchangeSpec>,
}

/// A policy came into force, with a given epoch and given homes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Homes {
    /// For each rank, the server.
    #[prost(int32, repeated, tag = "1")]
    pub homes: Vec<NodeId>,
    /// Servers that are in a policy for the first time.
    #[prost(int32, repeated, tag = "2")]
    pub joined: Vec<NodeId>,
    /// Servers that are not in it any more, as they are empty.
    #[prost(int32, repeated, tag = "3")]
    pub released: Vec<NodeId>,
    /// Workers that came back and are in a policy for the first time.
    #[prost(int32, repeated, tag = "4")]
    pub back: Vec<NodeId>,
    /// Where copies are kept.
    #[prost(message, repeated, tag = "5")]
    pub copies: Vec<CopyPlace>,
}

/// A server, and a text about it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct About {
    /// The server.
    #[prost(int32, tag = "1")]
    pub id: NodeId,
    /// For people.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// Keys that were not known before, or, with length 0, are none of this job's any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Keys {
    /// To their lengths.
    #[prost(btree_map = "uint64, uint64", tag = "1")]
    pub keys: BTreeMap<u64, u64>,
}

/// Orders about one key that may still be carried out, or were: those that stand, and those that do
/// not and may have been begun.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyOrders {
    /// The orders.
    #[prost(message, repeated, tag = "1")]
    pub orders: Vec<Ordered>,
}

/// All orders about some keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrdersOf {
    /// By key; there may be none of it any more.
    #[prost(btree_map = "uint64, message", tag = "1")]
    pub keys: BTreeMap<u64, KeyOrders>,
}

/// All orders about all keys, as earlier versions wrote them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Orders {
    /// The orders.
    #[prost(message, repeated, tag = "1")]
    pub orders: Vec<Ordered>,
}

/// Parts of keys that came to other owners.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Taken {
    /// The parts of each key.
    #[prost(btree_map = "uint64, message", tag = "1")]
    pub keys: Tenures,
}

/// A barrier that was released.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Passed {
    /// Who was in it.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// Everybody met.
    #[prost(bool, tag = "2")]
    pub all: bool,
}

/// What changed.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Change {
    /// Everything: the first record, and that of a journal that was written anew.
    #[prost(message, tag = "1")]
    Job(Box<State>),
    /// An epoch was taken.
    #[prost(uint64, tag = "2")]
    Epoch(u64),
    /// A policy came into force.
    #[prost(message, tag = "3")]
    Homes(Homes),
    /// A server joined.
    #[prost(message, tag = "4")]
    Joined(Member),
    /// Somebody else has the id of that node now.
    #[prost(message, tag = "5")]
    Replaced(Member),
    /// A server sent claims for the first time.
    #[prost(int32, tag = "6")]
    Claimed(NodeId),
    /// A server said that its values do not move.
    #[prost(message, tag = "7")]
    Fixed(About),
    /// A server is to be emptied.
    #[prost(int32, tag = "8")]
    Draining(NodeId),
    /// A node died.
    #[prost(message, tag = "9")]
    Lost(About),
    /// Keys were made.
    #[prost(message, tag = "10")]
    Keys(Keys),
    /// What is ordered at the moment, of all keys. Earlier versions wrote it.
    #[prost(message, tag = "11")]
    Orders(Orders),
    /// A barrier was released.
    #[prost(message, tag = "12")]
    Passed(Passed),
    /// The job is over.
    #[prost(bool, tag = "13")]
    Ended(bool),
    /// Pieces came to other owners.
    #[prost(message, tag = "14")]
    Taken(Taken),
    /// What is ordered at the moment, of some keys.
    #[prost(message, tag = "15")]
    OrdersOf(OrdersOf),
    /// An overlay has that number.
    #[prost(uint64, tag = "16")]
    Overlay(u64),
}

/// One record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Record {
    /// What changed; none in a record of a kind that this version does not know.
    #[prost(oneof = "Change", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16")]
    pub change: Option<Change>,
}

impl Record {
    /// A record of a change.
    #[must_use]
    pub const fn new(change: Change) -> Self {
        Self { change: Some(change) }
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads one; none if the bytes are none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok().filter(|record| record.change.is_some())
    }
}
