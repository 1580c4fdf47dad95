//! What goes into the membership and what comes out.

use std::time::Duration;

use thiserror::Error;

use super::ranking::RankOrder;
use crate::chronicle::NewEvent;
use crate::wire::chronicle::ChronicleQuestion;
use crate::wire::elastic::{CopyPlace, KeyRoute, Order};
use crate::wire::exchange::ExchangeSpec;
use crate::wire::topic::Topic;
use crate::wire::trees::{Overlay, TreeTable};
use crate::wire::word::{ClaimWord, RoutedPolicy};
use crate::wire::{Message, Node, NodeId, Role, Setting};

/// What a node was told about itself and the job.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// What it does.
    pub role: Role,
    /// Worker customers of the job.
    pub num_workers: usize,
    /// Servers of the job.
    pub num_servers: usize,
    /// This node: host, port, abilities, incarnation; the scheduler has its id already.
    pub node: Node,
    /// The scheduler: host and port.
    pub scheduler: Node,
    /// Between two signs of life; none: no signs are sent.
    pub heartbeat_interval: Option<Duration>,
    /// `PS_HEARTBEAT_TIMEOUT`: silence after which a node is dead and may be replaced.
    pub heartbeat_timeout: Option<Duration>,
    /// Silence after which a node of ours is dead although its connection seems alive.
    pub silence_limit: Duration,
    /// A channel that is down for that long means that the node behind it is dead.
    pub channel_down_limit: Duration,
    /// How long to wait for the job to be complete; none: for ever.
    pub start_timeout: Option<Duration>,
    /// Between two words about who is missing.
    pub report_interval: Duration,
    /// Scheduler: its owner wants rounds to go along trees.
    pub trees: bool,
    /// Scheduler: its owner wants workers to train while deltas travel.
    pub exchange: Option<ExchangeSpec>,
    /// How long the others wait for the replacement of a dead node.
    pub recovery_wait: Duration,
    /// A scheduler without an application: always counts itself in.
    pub standing_scheduler: bool,
    /// Scheduler: copies of each piece beside the owner's, 0 or 1. None: 1 if there are two servers
    /// or more.
    pub replicas: Option<u32>,
    /// Scheduler: its owner says what moves ([`Event::Orders`]), also what a drained server has.
    /// Else the machine spreads that by itself.
    pub planned: bool,
    /// How long nodes of an elastic job wait for a scheduler that keeps a journal to be started
    /// again.
    pub scheduler_wait: Duration,
    /// Nodes of one role in one process (BytePS's groups): consecutive ranks. 1 but there.
    pub group_size: usize,
    /// Barriers that every node enters by itself have a command of their own.
    pub instance_barriers: bool,
    /// Scheduler: the order of ranks where nodes wish none.
    pub rank_order: RankOrder,
    /// What this node was told of settings that nodes must have alike; none: it is told nobody, and
    /// nobody's is compared.
    pub settings: Vec<Setting>,
    /// Scheduler: what may keep others from reaching it, for people; empty: nothing is known.
    pub doubt: String,
}

/// Something to be said of a topic, which the membership only passes on: between the scheduler and
/// another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// To whom.
    pub to: NodeId,
    /// What it is about.
    pub topic: Topic,
    /// In the encoding of the topic.
    pub bytes: bytes::Bytes,
}

/// What happens to a node.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "events are not kept")]
pub enum Event {
    /// The node begins.
    Start,
    /// A customer of this process starts.
    Register {
        /// The customer.
        customer_id: i32,
    },
    /// A control message came: ADD_NODE, BARRIER or HEARTBEAT.
    Received {
        /// Who sent it; none if the connection does not say.
        from: Option<NodeId>,
        /// The message.
        message: Message,
    },
    /// A customer enters a barrier.
    EnterBarrier {
        /// Names this entry in [`Action::BarrierDone`].
        ticket: u64,
        /// The customer.
        customer_id: i32,
        /// The group that meets.
        group: i32,
        /// The exit barrier: peers may vanish soon without anybody's fault.
        leaving: bool,
        /// Every node enters it by itself, as at the start and the end. Else, where a process has
        /// several nodes ([`ClusterConfig::group_size`]), one of each process.
        instance: bool,
    },
    /// A customer sends no more requests.
    Leaving {
        /// The customer.
        customer_id: i32,
    },
    /// The connection to a node (or pending channel) broke or could not be made.
    ChannelDown {
        /// The node.
        id: NodeId,
    },
    /// The connection to a node stands.
    ChannelUp {
        /// The node.
        id: NodeId,
    },
    /// Resending to a node was given up.
    Unreachable {
        /// The node.
        id: NodeId,
    },
    /// Time has passed.
    Tick,
    /// This node stood still: it was stopped, or its machine was. The time that is given leaves
    /// such pauses out ([`AwakeClock`](crate::awake::AwakeClock)).
    StoodStill,
    /// This node is past its exit barrier: losses mean nothing any more.
    Finalizing,
    /// Server: what it holds, or what is new of that. Answers with all [`Action::Collect`] with its
    /// epoch, and comes by itself, with the newest epoch known, when this server is able to serve
    /// (of one that joins: once the commands are here) and after changes.
    Claims(ClaimWord),
    /// This node cannot go on: the job ends.
    CannotGoOn(String),
    /// Scheduler: a node registers on another wire than this one's (`PSLITE_WIRE`).
    OtherWire {
        /// As it says.
        node: Node,
        /// The name of its wire.
        its: &'static str,
        /// The name of mine.
        ours: &'static str,
    },
    /// Scheduler: what is to move, and who has it. Ignored unless [`super::Cluster::may_order`].
    Orders(Vec<(NodeId, Order)>),
    /// Scheduler: which server is to keep the copies of which. Ignored as `Orders` are.
    Copies(Vec<CopyPlace>),
    /// Scheduler: rounds are to go by these trees.
    Overlay {
        /// The number of the overlay in force when they were planned; with another one by now they
        /// are none.
        over: u64,
        /// In the order of their numbers.
        trees: Vec<TreeTable>,
        /// What went along the former ones may be lost: a link is cut, for instance.
        lossy: bool,
    },
    /// Scheduler: empty that server and release it.
    Drain {
        /// The server.
        id: NodeId,
    },
    /// Scheduler: how the job is, in answer to [`Action::StatusAsked`].
    StatusTold {
        /// As it was asked.
        guest: Option<NodeId>,
        /// The answer.
        text: String,
    },
    /// What this node says of topics: to the scheduler, or that to others.
    Tell(Vec<Tell>),
    /// Worker: something is to go straight to that node. If it is another worker that this one has
    /// no connection to, it gets one.
    Meet {
        /// The node.
        id: NodeId,
    },
}

/// What a node has to do.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "actions are not kept")]
pub enum Action {
    /// Open or replace the channel to `node.id`.
    Connect {
        /// Where to.
        node: Node,
        /// As whom; none: anonymously.
        identity: Option<NodeId>,
    },
    /// Scheduler: a channel to somebody who has no id yet.
    ConnectPending {
        /// Names the channel; negative.
        key: NodeId,
        /// Where to.
        node: Node,
    },
    /// The channel of one key becomes that of another; the connection stays.
    Rename {
        /// From.
        from: NodeId,
        /// To.
        to: NodeId,
    },
    /// Close a channel.
    Disconnect {
        /// Its key.
        id: NodeId,
    },
    /// Send a control message; to my own id: hand it back to me.
    Send {
        /// The channel.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Answer the message that is being handled, over the connection by which it came.
    Answer {
        /// The answer.
        message: Message,
    },
    /// The job is complete; [`super::Cluster::me`] has its id.
    Ready,
    /// A barrier was passed, or never will be.
    BarrierDone {
        /// The entry.
        ticket: u64,
        /// The outcome.
        result: Result<(), JobFailure>,
    },
    /// A node is dead: requests that wait for it must end.
    NodeLost {
        /// The node.
        id: NodeId,
        /// For people.
        reason: String,
    },
    /// Another process took the place of a node.
    NodeReplaced {
        /// The new one.
        node: Node,
    },
    /// A customer of a node sends no more requests.
    CustomerLeft {
        /// The node.
        id: NodeId,
        /// The customer.
        customer_id: i32,
    },
    /// The job cannot go on. Comes once.
    Failed(JobFailure),
    /// Elastic job, every node: a policy is in force.
    Policy(RoutedPolicy),
    /// Server: take nothing more from servers that are lost (their [`Action::NodeLost`] came
    /// before), make no new keys until the next policy, and say what you hold ([`Event::Claims`]).
    Collect {
        /// To be said in the answer.
        epoch: u64,
    },
    /// Worker: pieces that have moved are there now.
    Routes {
        /// Where. They may be known already.
        routes: Vec<KeyRoute>,
    },
    /// Every node: these trees are in force. What went along those below the floor may be lost.
    Overlay(Overlay),
    /// Server: these parts of its pieces are to move. An order takes the place of an earlier one
    /// for the same elements that is not begun; one that names the server itself only takes it
    /// back.
    Orders {
        /// What moves, and where to.
        moves: Vec<Order>,
    },
    /// Server: it was emptied and is not in the job any more. It is to end without a barrier.
    Leave,
    /// Server: all workers are done, and rank 0, which tells MXNet's servers to stop, is dead. It
    /// is to do as if that had told it.
    Stop,
    /// Scheduler: what another node says of a topic. Others: what the scheduler says of it.
    Told {
        /// Who.
        from: NodeId,
        /// What it is about.
        topic: Topic,
        /// In the encoding of the topic.
        bytes: bytes::Bytes,
    },
    /// Scheduler: an operator asks how the job is ([`Event::StatusTold`]).
    StatusAsked {
        /// The channel by which it is told; none: the connection by which it asked.
        guest: Option<NodeId>,
        /// What it asks for of what happened; none: for nothing of it.
        chronicle: Option<ChronicleQuestion>,
    },
    /// Scheduler: to be in the journal before the actions that follow.
    Record(super::journal::Record),
    /// Something has happened: its text is a line for people.
    Note(NewEvent),
    /// A line for whoever wants to see each step.
    Log {
        /// The line.
        text: String,
    },
}

/// Why a job, or a barrier, cannot go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct JobFailure {
    /// What kind of reason.
    pub kind: JobFailureKind,
    /// For people: names the node and what to do.
    pub text: String,
}

/// Kinds of [`JobFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobFailureKind {
    /// A node was lost.
    PeerLost,
    /// The job was not complete in time.
    StartTimeout,
    /// The call makes no sense in this job.
    Config,
    /// The scheduler refused this node.
    Remote,
}
