//! What nodes say to each other about trees: on the way up to an owner sums and the names of what
//! is in them, on the way down what became of that, and from the scheduler the trees
//! (`docs/trees.md`). Bytes to types and back. Stock nodes never get any of it.
//!
//! Lists are bounded by the message that carries them; whoever reads them checks ids before use.

use super::ids::{Key, NodeId};

/// Overlays that each node remembers. What goes by an older one is given up, as if it were below
/// the floor.
pub const OVERLAYS_KEPT: u64 = 8;

/// Which tree a piece takes in which round. Its owner gives it out at the end of the round before,
/// or when a worker asks how to push, and no two rounds of a piece have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Ticket {
    /// Which overlay the tree is of.
    #[prost(uint64, tag = "1")]
    pub overlay: u64,
    /// Which of its trees.
    #[prost(uint32, tag = "2")]
    pub tree: u32,
    /// The version of the piece that the round makes.
    #[prost(uint64, tag = "3")]
    pub round: u64,
}

impl Ticket {
    /// True if this one was given out before another one of the same part.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        (self.round, self.overlay) < (other.round, other.overlay)
    }
}

/// What an owner says of the next push to a part of a key that was cut.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PartTicket {
    /// The first element.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// One past the last element.
    #[prost(uint64, tag = "2")]
    pub to: u64,
    /// The ticket; without one the push goes alone.
    #[prost(message, optional, tag = "3")]
    pub ticket: Option<Ticket>,
}

/// One push of one worker, as a sum names it: what `PartAsk` and the metadata say of a push that
/// comes alone.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PushName {
    /// The worker.
    #[prost(int32, tag = "1")]
    pub worker: NodeId,
    /// Its customer.
    #[prost(int32, tag = "2")]
    pub customer: i32,
    /// The worker's life.
    #[prost(uint64, tag = "3")]
    pub life: u64,
    /// The customer's number of the request.
    #[prost(int32, tag = "4")]
    pub timestamp: i32,
    /// One more than the timestamp of the push before it; 0: there was none.
    #[prost(uint32, tag = "5")]
    pub after: u32,
    /// Which slice of the request.
    #[prost(uint32, tag = "6")]
    pub slice: u32,
    /// It asks for the values of the round.
    #[prost(bool, tag = "7")]
    pub wants: bool,
}

/// What a message along a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum HopKind {
    /// Nothing: a kind that this version does not know.
    Unknown = 0,
    /// To the parent: a sum, and the pushes in it.
    Up = 1,
    /// To a child: these pushes counted, or were refused for the reason that the message has.
    Down = 2,
    /// To a child: the ticket is void. Nothing that went by it and was not told of counts. The
    /// ticket that `PartReply` has, if there is one, is in its place.
    Void = 3,
}

/// In a message along a tree: extension 105, beside what it says of the part of the key that it is
/// about.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Hop {
    /// What it is.
    #[prost(enumeration = "HopKind", tag = "1")]
    pub kind: i32,
    /// By which ticket it goes.
    #[prost(message, required, tag = "2")]
    pub ticket: Ticket,
    /// The pushes that it is about.
    #[prost(message, repeated, tag = "3")]
    pub names: Vec<PushName>,
    /// The wire key.
    #[prost(uint64, tag = "4")]
    pub key: Key,
}

/// One node of a tree, and where its sums and its values go through.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TreeNode {
    /// The node: a worker.
    #[prost(int32, tag = "1")]
    pub node: NodeId,
    /// To whom it sends sums.
    #[prost(int32, tag = "2")]
    pub up: NodeId,
    /// From whom it gets values.
    #[prost(int32, tag = "3")]
    pub down: NodeId,
}

/// One tree of an overlay. Its number is its place among them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TreeTable {
    /// The server whose pieces take it.
    #[prost(int32, tag = "1")]
    pub root: NodeId,
    /// All workers in it.
    #[prost(message, repeated, tag = "2")]
    pub nodes: Vec<TreeNode>,
    /// Which part of its root's pieces takes it, in relation to the root's other trees.
    #[prost(uint32, tag = "3")]
    pub weight: u32,
}

/// Trees that are in force from now on: from the scheduler.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Overlay {
    /// Grows with each overlay of the job.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// What went along trees of overlays below this number may be lost. Who waits for it asks the
    /// owner.
    #[prost(uint64, tag = "2")]
    pub floor: u64,
    /// The trees.
    #[prost(message, repeated, tag = "3")]
    pub trees: Vec<TreeTable>,
}
