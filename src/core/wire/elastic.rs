//! What our own nodes say to each other about pieces of keys that move: in a request (`PartAsk`)
//! and its answer (`PartReply`), and what more than one of the others has: `transfer` is what two
//! servers say to each other, `word` what the scheduler and all others do. Bytes to types and back;
//! what it means is in `docs/elastic.md`. Stock nodes never get any of it.
//!
//! Numbers are those of protobuf, written and read by prost. Lists are bounded by the message that
//! carries them; whoever reads them checks ranges before use.

use bytes::Bytes;

use super::ids::{Key, NodeId};
use super::trees::{PartTicket, Ticket};

/// Where an opaque key ends: one whose values an application's own handler keeps. Nobody but that
/// knows how long they are, so such a key is one piece from 0 to here, and is never cut.
pub const OPAQUE_END: u64 = u64::MAX;

/// What a request says of the part of a key that it is about. A sum along a tree says no more than
/// which part that is, by which term, epoch and overlay, and `ahead`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PartAsk {
    /// Which of the slices of a request this is (the rank whose key range it lies in).
    #[prost(uint32, tag = "1")]
    pub slice: u32,
    /// The first element. Elements are counted from the begin of the wire key's value; of a
    /// row_sparse key they are rows.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One past the last element; 0: the whole key, whose length the sender does not know.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// The term under which the sender knows the piece; 0 if it does not know it.
    #[prost(uint64, tag = "4")]
    pub term: u64,
    /// The newest policy that the sender knows.
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    /// Of a push: one more than the timestamp of this customer's push of the key before it; 0:
    /// there was none. A piece that has not got that one yet must not count this one.
    #[prost(uint32, tag = "8")]
    pub after: u32,
    /// In which life of the worker's id it is asked: 0 for the process that the job began with,
    /// else the policy that let another one in ([`LiveWorker::since`]). A command of such a process
    /// says only this.
    #[prost(uint64, tag = "9")]
    pub life: u64,
    /// Of a push: it makes the key, if nobody has made it yet, and else is no more than answered.
    #[prost(bool, tag = "10")]
    pub init: bool,
    /// Of a push: its worker pulls the values of the round next. An owner that sums rounds sends
    /// them with the answer.
    #[prost(bool, tag = "11")]
    pub ahead: bool,
    /// Of a push that goes by a tree, or could: its ticket.
    #[prost(message, optional, boxed, tag = "12")]
    pub ticket: Option<Box<Ticket>>,
    /// The newest overlay that the sender knows; 0: none.
    #[prost(uint64, tag = "13")]
    pub overlay: u64,
    /// Of a push: it brings nothing and only asks whether the push of that name has counted. The
    /// answer is *again* if it has not, and says how it is to be pushed.
    #[prost(bool, tag = "14")]
    pub asks: bool,
}

/// What an answer, or what comes down a tree, says of the part of a key that was asked about. The
/// fields that tell parts apart are those of the request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PartReply {
    /// As in the request.
    #[prost(uint32, tag = "1")]
    pub slice: u32,
    /// As in the request.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// As in the request.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// As in the request.
    #[prost(uint64, tag = "4")]
    pub term: u64,
    /// The newest policy that the server knows. Who gets the answer *again* needs that policy
    /// before it sends again what the routes do not cover.
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    /// Nothing was done; send it again, as `routes` say.
    #[prost(bool, tag = "6")]
    pub again: bool,
    /// Where parts of the key are now, as far as this server knows.
    #[prost(message, repeated, tag = "7")]
    pub routes: Vec<Route>,
    /// As in the request.
    #[prost(uint64, tag = "9")]
    pub life: u64,
    /// To a push: the ticket for the next round of this part, if that is to go by a tree.
    #[prost(message, optional, boxed, tag = "12")]
    pub ticket: Option<Box<Ticket>>,
    /// To a push, without a ticket: none takes the next push while there are no newer trees than
    /// this overlay; 0: who asks may get one. A server without trees repeats what was asked.
    #[prost(uint64, tag = "13")]
    pub overlay: u64,
    /// To a push of what is cut by now: what `ticket` is to a part, for each of the parts that this
    /// server has.
    #[prost(message, repeated, tag = "15")]
    pub tickets: Vec<PartTicket>,
}

impl From<&PartAsk> for PartReply {
    /// It was done, and there is nothing new.
    fn from(ask: &PartAsk) -> Self {
        let &PartAsk { slice, from, to, term, epoch, life, overlay, .. } = ask;
        Self { slice, from, to, term, epoch, life, overlay, ..Self::default() }
    }
}

/// Who owns a part of a key. Of two routes for an element, that with the higher term is right.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Route {
    /// The first element.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// One past the last element.
    #[prost(uint64, tag = "2")]
    pub to: u64,
    /// How often the piece has changed its owner or its borders (docs/elastic.md).
    #[prost(uint64, tag = "3")]
    pub term: u64,
    /// The server.
    #[prost(int32, tag = "4")]
    pub owner: NodeId,
}

impl Route {
    /// True if the key is opaque ([`OPAQUE_END`]): all that is asked of it is asked of the whole.
    #[must_use]
    pub const fn is_opaque(&self) -> bool {
        self.to == OPAQUE_END
    }
}

/// A route of a named key.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct KeyRoute {
    /// The wire key.
    #[prost(uint64, tag = "1")]
    pub key: Key,
    /// Where.
    #[prost(message, required, tag = "2")]
    pub route: Route,
}

/// One worker's customer, and the last of its pushes that counted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Mark {
    /// The worker.
    #[prost(int32, tag = "1")]
    pub worker: NodeId,
    /// Its customer.
    #[prost(int32, tag = "2")]
    pub customer: i32,
    /// The push's timestamp.
    #[prost(int32, tag = "3")]
    pub timestamp: i32,
    /// The worker's life, as in [`PartAsk::life`].
    #[prost(uint64, tag = "4")]
    pub life: u64,
}

/// How a server holds a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Holding {
    /// As a copy of another server's.
    Replica = 0,
    /// It was the owner, and keeps it until the new one confirms.
    Leaving = 1,
    /// It is the owner.
    Owner = 2,
}

/// One piece that a server holds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Claim {
    /// The wire key.
    #[prost(uint64, tag = "1")]
    pub key: Key,
    /// The first element.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One past the last element.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// The piece's term.
    #[prost(uint64, tag = "4")]
    pub term: u64,
    /// Rounds applied.
    #[prost(uint64, tag = "5")]
    pub version: u64,
    /// How it is held.
    #[prost(enumeration = "Holding", tag = "6")]
    pub holding: i32,
    /// Elements of the whole wire key.
    #[prost(uint64, tag = "7")]
    pub length: u64,
    /// Bytes of its values.
    #[prost(uint64, tag = "8")]
    pub bytes: u64,
    /// Bytes of all else that moves with it.
    #[prost(uint64, tag = "9")]
    pub state_bytes: u64,
    /// Cuts are possible at multiples of that many elements; 0: it is indivisible.
    #[prost(uint64, tag = "10")]
    pub align: u64,
    /// Of an owner: a replica has all that was answered.
    #[prost(bool, tag = "11")]
    pub safe: bool,
    /// Of one that leaves: where to. Of a replica: whose it is a copy of.
    #[prost(int32, tag = "12")]
    pub peer: NodeId,
}

/// A round of pushes that has waited for long. Numbers are what servers say to people; nothing
/// depends on them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StalledRound {
    /// The application's key.
    #[prost(sint64, tag = "1")]
    pub key: i64,
    /// Which round of it, counted from 1.
    #[prost(uint64, tag = "2")]
    pub round: u64,
    /// Milliseconds since its first push, when this is sent.
    #[prost(uint64, tag = "3")]
    pub waited: u64,
    /// The workers that have pushed.
    #[prost(int32, repeated, tag = "4")]
    pub pushed: Vec<NodeId>,
    /// The workers that it waits for.
    #[prost(int32, repeated, tag = "5")]
    pub missing: Vec<NodeId>,
    /// The customer with keys of its own whose key that is; 0: none.
    #[prost(uint32, tag = "6")]
    pub space: u32,
}

impl StalledRound {
    /// Reads one; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        prost::Message::encode_to_vec(self).into()
    }
}

/// Where the copies of what a server owns are kept.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CopyPlace {
    /// The server that owns.
    #[prost(int32, tag = "1")]
    pub owner: NodeId,
    /// The server that keeps the copies.
    #[prost(int32, tag = "2")]
    pub holder: NodeId,
}

/// A worker that lives, in a job that goes on without those that do not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LiveWorker {
    /// Its id.
    #[prost(int32, tag = "1")]
    pub node: NodeId,
    /// The policy that let this process in; 0: the job began with it.
    #[prost(uint64, tag = "2")]
    pub since: u64,
    /// The customers that it registered with.
    #[prost(int32, repeated, tag = "3")]
    pub customers: Vec<i32>,
    /// The process (`Node::incarnation`): what was sent to the one that had its address before may
    /// reach it.
    #[prost(uint64, tag = "4")]
    pub incarnation: u64,
}

/// One order to move.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Order {
    /// The wire key.
    #[prost(uint64, tag = "1")]
    pub key: Key,
    /// The first element.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One past the last element.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// The new owner.
    #[prost(int32, tag = "4")]
    pub owner: NodeId,
}

/// Reads one of them; `None` if the bytes are none.
pub(super) fn read<T: prost::Message + Default>(bytes: &[u8]) -> Option<T> {
    T::decode(bytes).ok()
}

/// Writes one behind its length.
pub(super) fn write(message: &impl prost::Message, out: &mut Vec<u8>) {
    // A vector grows: the only error is a lack of room.
    let _ = message.encode_length_delimited(out);
}
