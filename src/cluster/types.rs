//! What goes into the membership and what comes out.

use std::time::Duration;

use thiserror::Error;

use crate::wire::{Message, Node, NodeId, Role};

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
    /// A link that is down for that long means that the node behind it is dead.
    pub link_down_limit: Duration,
    /// How long to wait for the job to be complete; none: for ever.
    pub start_timeout: Option<Duration>,
    /// Between two words about who is missing.
    pub report_interval: Duration,
    /// How long the others wait for the replacement of a dead node.
    pub recovery_wait: Duration,
    /// A scheduler without an application: always counts itself in.
    pub standing_scheduler: bool,
}

/// What happens to a node.
#[derive(Clone, Debug)]
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
    },
    /// A customer sends no more requests.
    Leaving {
        /// The customer.
        customer_id: i32,
    },
    /// The connection to a node (or pending link) broke or could not be made.
    LinkDown {
        /// The node.
        id: NodeId,
    },
    /// The connection to a node stands.
    LinkUp {
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
    /// This node is past its exit barrier: losses mean nothing any more.
    Finalizing,
}

/// What a node has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open or replace the link to `node.id`.
    Connect {
        /// Where to.
        node: Node,
        /// As whom; none: anonymously.
        identity: Option<NodeId>,
    },
    /// Scheduler: a link to somebody who has no id yet.
    ConnectPending {
        /// Names the link; negative.
        key: NodeId,
        /// Where to.
        node: Node,
    },
    /// The link of one key becomes that of another; the connection stays.
    Rename {
        /// From.
        from: NodeId,
        /// To.
        to: NodeId,
    },
    /// Close a link.
    Disconnect {
        /// Its key.
        id: NodeId,
    },
    /// Send a control message; to my own id: hand it back to me.
    Send {
        /// The link.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// The job is complete; [`super::Cluster::me`] has its id.
    Ready,
    /// A barrier was passed, or never will be.
    BarrierDone {
        /// The entry.
        ticket: u64,
        /// The outcome.
        result: Result<(), Failure>,
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
    Failed(Failure),
    /// A line for people.
    Log {
        /// How much it matters.
        level: Level,
        /// The line.
        text: String,
    },
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something is lost.
    Error,
    /// Something is odd.
    Warning,
    /// Worth knowing once.
    Info,
    /// Each step.
    Verbose,
}

/// Why a job, or a barrier, cannot go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct Failure {
    /// What kind of reason.
    pub kind: FailureKind,
    /// For people: names the node and what to do.
    pub text: String,
}

/// Kinds of [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A node was lost.
    PeerLost,
    /// The job was not complete in time.
    StartTimeout,
    /// The call makes no sense in this job.
    Config,
    /// The scheduler refused this node.
    Remote,
}
