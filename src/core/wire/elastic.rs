//! What our own nodes say to each other about pieces of keys that move: beside a request
//! (`Placed`), and between the scheduler and all others (`SchedulerMessage`, a *word*); between two
//! servers, `transfer` has it. Bytes to types and back; what it means is in `docs/elastic.md`.
//! Stock nodes never get any of it.
//!
//! Numbers are those of protobuf, written and read by prost. Lists are bounded by the message that
//! carries them; whoever reads them checks ranges before use.

use bytes::Bytes;

use super::exchange::ExchangeSpec;
use super::message::{Key, NodeId};
use super::trees::{Overlay, PartTicket, Ticket};

/// Where an opaque key ends: one whose values an application's own handler keeps. Nobody but that
/// knows how long they are, so such a key is one piece from 0 to here, and is never cut.
pub const OPAQUE_END: u64 = u64::MAX;

/// Which part of a key a request, or its answer, is about, and what the answer teaches.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Placed {
    /// Which of the slices of a request this is (the rank whose key range it lies in): echoed in
    /// the answer.
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
    /// The newest policy that the sender knows. Who gets the answer *again* needs that policy
    /// before it sends again what the routes do not cover.
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    /// In an answer: nothing was done; send it again, as `routes` say.
    #[prost(bool, tag = "6")]
    pub again: bool,
    /// In an answer: where parts of the key are now, as far as this server knows.
    #[prost(message, repeated, tag = "7")]
    pub routes: Vec<Route>,
    /// Of a push: one more than the timestamp of this customer's push of the key before it; 0:
    /// there was none. A piece that has not got that one yet must not count this one.
    #[prost(uint32, tag = "8")]
    pub after: u32,
    /// In which life of the worker's id it was asked: 0 for the process that the job began with,
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
    /// Of a push that goes by a tree, or could: its ticket. In an answer to a push: the one for the
    /// next round of this part, if that is to go by a tree.
    #[prost(message, optional, boxed, tag = "12")]
    pub ticket: Option<Box<Ticket>>,
    /// The newest overlay that the sender knows; 0: none. In an answer to a push, without a ticket:
    /// that none takes the next push while there are no newer trees; 0: who asks may get one.
    #[prost(uint64, tag = "13")]
    pub overlay: u64,
    /// Of a push: it brings nothing and only asks whether the push of that name has counted. The
    /// answer is *again* if it has not, and says how it is to be pushed.
    #[prost(bool, tag = "14")]
    pub asks: bool,
    /// In an answer to a push of what is cut by now: what `ticket` is to a part, for each of the
    /// parts that this server has.
    #[prost(message, repeated, tag = "15")]
    pub tickets: Vec<PartTicket>,
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
    /// The worker's life, as in [`Placed::life`].
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

/// What a word between the scheduler and another node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SchedulerMessageKind {
    /// Nothing: a kind that this version does not know.
    Unknown = 0,
    /// Scheduler to all: the policy of `epoch`: `servers`, `homes`, `routes`, `lost`.
    Policy = 1,
    /// Scheduler to servers: `lost` are dead; take nothing from them any more and say what you
    /// hold.
    Collect = 2,
    /// Server to scheduler: all that it holds, or what is new since the last one, under `epoch`.
    /// With a `text`: nothing that it has can move, for that reason.
    Claims = 3,
    /// Scheduler to a server: move `moves` away.
    Orders = 4,
    /// Scheduler to a server that was emptied: go.
    Leave = 5,
    /// Operator to scheduler: empty `node` and release it. `number` 1: the operator reads the
    /// answer from its own connection. Else it is of an earlier version, and listens at `text`
    /// (`host:port`).
    Drain = 6,
    /// Operator, as before: say how the job is.
    Status = 7,
    /// Scheduler to operator: `text`, which is JSON after `Status`. `node`: 0 if what was asked for
    /// is done. Server to operator: `told`, after `Save`.
    Told = 8,
    /// Any node to scheduler: which policy it knows (`epoch`). With a `report` the topic `Measure`.
    Report = 9,
    /// The topic `Probe`, from the scheduler: send padding to `node`, whose link from you is idle
    /// (`native::Kind::Probe`).
    Probe = 10,
    /// Scheduler to a server: the workers are done, and the one that would tell it to stop is dead.
    Stop = 11,
    /// The topic `Batches` ([`super::topic`]): `told`.
    Balance = 12,
    /// Scheduler to workers: pieces that have moved are where `routes` say. Who does not get it
    /// learns the same from its next request.
    Routes = 13,
    /// Scheduler to all: the trees of `overlay` are in force.
    Overlay = 14,
    /// The topic `Exchange`: `told`.
    Exchange = 15,
    /// Operator to a server: which values it has, as `told` says ([`super::save`]). It answers by
    /// `Told`.
    Save = 41,
    /// A node that has no place in the job yet to the scheduler, in every job of ours: it ends, for
    /// the reason in `text`, which names it. `number`: its incarnation, if it has registered.
    GivesUp = 40,
    /// The topic `Stall`, in every job of ours: the oldest round that has waited for long, in
    /// `stalled`; without it: none does any more.
    Stalled = 20,
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

/// A word between the scheduler and another node: rides in a heartbeat (extension 102 of
/// `PBControl`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SchedulerMessage {
    /// What it says.
    #[prost(enumeration = "SchedulerMessageKind", tag = "1")]
    pub kind: i32,
    /// The policy that it belongs to.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The servers that live, ascending.
    #[prost(int32, repeated, tag = "3")]
    pub servers: Vec<NodeId>,
    /// For each rank of the application's view: the server that new keys of its range go to.
    #[prost(int32, repeated, tag = "4")]
    pub homes: Vec<NodeId>,
    /// Where pieces are.
    #[prost(message, repeated, tag = "5")]
    pub routes: Vec<KeyRoute>,
    /// Servers that are dead.
    #[prost(int32, repeated, tag = "6")]
    pub lost: Vec<NodeId>,
    /// What a server holds.
    #[prost(message, repeated, tag = "7")]
    pub claims: Vec<Claim>,
    /// What is to move.
    #[prost(message, repeated, tag = "8")]
    pub moves: Vec<Order>,
    /// The node that it is about.
    #[prost(int32, tag = "9")]
    pub node: NodeId,
    /// For people.
    #[prost(string, tag = "10")]
    pub text: String,
    /// What a node measured: its own encoding (`placement`).
    #[prost(bytes = "bytes", tag = "11")]
    pub report: Bytes,
    /// Copies of each piece that are kept beside the owner's.
    #[prost(uint32, tag = "12")]
    pub replicas: u32,
    /// `Policy`: those of `servers` that are being emptied.
    #[prost(int32, repeated, tag = "13")]
    pub draining: Vec<NodeId>,
    /// `Policy`: worker customers of the job.
    #[prost(uint32, tag = "14")]
    pub workers: u32,
    /// `Policy`: servers that were emptied and are not in the job any more.
    #[prost(int32, repeated, tag = "15")]
    pub released: Vec<NodeId>,
    /// `Policy`: which server keeps the copies of which. A server that is not named chooses for
    /// itself.
    #[prost(message, repeated, tag = "16")]
    pub copies: Vec<CopyPlace>,
    /// `Policy`: the workers that live. None is named where the death of one ends the job.
    #[prost(message, repeated, tag = "17")]
    pub live: Vec<LiveWorker>,
    /// `Claims`: an application's own handler keeps what this server has. It moves by whole keys,
    /// and has no copies.
    #[prost(bool, tag = "18")]
    pub opaque: bool,
    /// `Claims`: which one of this server it is, from 1 on.
    #[prost(uint64, tag = "19")]
    pub number: u64,
    /// `Claims`: the number of the one that it follows on: `claims` are all those of each key of
    /// which something is new. 0: `claims` are all.
    #[prost(uint64, tag = "20")]
    pub since: u64,
    /// `Claims`: keys of which nothing is left.
    #[prost(uint64, repeated, tag = "21")]
    pub gone: Vec<Key>,
    /// `Stalled`: that round.
    #[prost(message, optional, tag = "30")]
    pub stalled: Option<StalledRound>,
    /// Of a topic ([`super::topic`]): in its encoding. Of `Save` and its answer: theirs.
    #[prost(bytes = "bytes", tag = "31")]
    pub told: Bytes,
    /// `Overlay`: that one.
    #[prost(message, optional, tag = "32")]
    pub overlay: Option<Overlay>,
    /// `Policy`: how workers train while deltas travel; without it they push gradients.
    #[prost(message, optional, tag = "33")]
    pub exchange: Option<ExchangeSpec>,
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
