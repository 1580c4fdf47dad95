//! What the scheduler and another node say to each other: a *word*, which rides in a heartbeat
//! (extension 102 of `PBControl`). One variant for each kind, with the fields that the kind has;
//! `flat_word` has the bytes. What a word means is in `docs/elastic.md`. Stock nodes never get any.
//!
//! Lists are bounded by the message that carries them; whoever reads them checks ranges before use.

use bytes::Bytes;

use super::chronicle::ChronicleQuestion;
use super::elastic::{Claim, CopyPlace, KeyRoute, LiveWorker, Order};
use super::exchange::ExchangeSpec;
use super::ids::{Key, NodeId};
use super::topic::Topic;
use super::trees::Overlay;

/// What is said. `epoch`: the newest policy that the sender knows, if nothing else is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Something of which this version knows nothing.
    Unknown,
    /// Scheduler to all: this policy is in force.
    Policy {
        /// The policy.
        policy: RoutedPolicy,
        /// Why the last one of those that it calls lost is dead.
        text: String,
    },
    /// Scheduler to servers: take nothing more from those that are dead, and say what you hold.
    Collect {
        /// The policy that is being made.
        epoch: u64,
        /// Servers that are dead.
        lost: Vec<NodeId>,
        /// Why the last one of them is.
        text: String,
    },
    /// Server to scheduler: what it holds.
    Claims(ClaimWord),
    /// Scheduler to a server: move these away.
    Orders {
        /// See [`Word`].
        epoch: u64,
        /// What is to move.
        moves: Vec<Order>,
    },
    /// Scheduler to a server that was emptied: go.
    Leave {
        /// See [`Word`].
        epoch: u64,
    },
    /// Scheduler to a server: the workers are done, and the one that would tell it to stop is dead.
    Stop {
        /// See [`Word`].
        epoch: u64,
    },
    /// Scheduler to workers: pieces that have moved are there now. Who does not get it learns the
    /// same from its next request.
    Routes {
        /// See [`Word`].
        epoch: u64,
        /// Where they are.
        routes: Vec<KeyRoute>,
    },
    /// Scheduler to all: these trees are in force.
    Overlay {
        /// See [`Word`].
        epoch: u64,
        /// The trees.
        overlay: Overlay,
    },
    /// Any node to the scheduler: which policy it knows. It is a sign of life.
    Report {
        /// That policy.
        epoch: u64,
    },
    /// What the membership only passes on.
    Topic {
        /// What it is about.
        topic: Topic,
        /// In the encoding of the topic.
        bytes: Bytes,
        /// See [`Word`]; 0 where words of that topic do not say it.
        epoch: u64,
    },
    /// Operator to scheduler: say how the job is.
    Status {
        /// By which way it hears the answer.
        way: AnswerWay,
        /// What it asks for of what happened; none: for nothing of it. Schedulers of earlier
        /// versions do not see it.
        chronicle: Option<ChronicleQuestion>,
    },
    /// Operator to scheduler: empty that server and release it.
    Drain {
        /// The server.
        server: NodeId,
        /// By which way it hears the answer.
        way: AnswerWay,
    },
    /// Operator to a server: which values it has ([`super::save::SaveAsked`]).
    Save(Bytes),
    /// To an operator: what it asked for, or why it is refused.
    Told(Result<OperatorAnswer, String>),
    /// A node that has no place in the job yet to the scheduler, in every job of ours: it ends.
    GivesUp {
        /// Names it, and says why.
        text: String,
        /// The node's, if it has registered; else 0.
        incarnation: u64,
    },
}

impl Word {
    /// The word that says this of a topic. A measurement of nothing is no more than a sign of life.
    #[must_use]
    pub fn of_topic(topic: Topic, bytes: Bytes, epoch: u64) -> Self {
        match topic {
            Topic::Measure if bytes.is_empty() => Self::Report { epoch },
            _ => Self::Topic { topic, bytes, epoch },
        }
    }
}

/// Who serves in an elastic job (`docs/elastic.md`): the same at every node that knows the same
/// epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Grows with each policy; 0: none has come.
    pub epoch: u64,
    /// The servers that live, ascending.
    pub servers: Vec<NodeId>,
    /// Those of them that are being emptied: no new piece, no home and no new replica goes there.
    pub draining: Vec<NodeId>,
    /// For each rank of the application's view: the server that new keys of its range go to.
    pub homes: Vec<NodeId>,
    /// Servers that are dead: nothing is taken from them any more.
    pub lost: Vec<NodeId>,
    /// Servers that were emptied, and left.
    pub released: Vec<NodeId>,
    /// Copies of each piece that are kept beside the owner's.
    pub replicas: u32,
    /// Worker customers of the job.
    pub workers: u32,
    /// Which server keeps the copies of which; one that is not named chooses the next one by id.
    pub copies: Vec<CopyPlace>,
    /// The workers that live; none is named where the death of one ends the job and all push
    /// equally often.
    pub live: Vec<LiveWorker>,
    /// How workers train while deltas travel; `None`: they push gradients.
    pub exchange: Option<ExchangeSpec>,
}

/// A policy, and where pieces are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutedPolicy {
    /// Who serves.
    pub policy: Policy,
    /// Where pieces are. Routes that are known already may come again.
    pub routes: Vec<KeyRoute>,
}

/// What a server holds, or what is new of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimWord {
    /// Which collection, or policy, it belongs to.
    pub epoch: u64,
    /// The pieces; of a difference those of all keys of which something is new.
    pub claims: Vec<Claim>,
    /// How it follows on the word before.
    pub difference: Difference,
    /// Why this server's values do not move, if so: an application's own handler keeps them.
    pub fixed: Option<String>,
    /// An application's own handler keeps the values: they move by whole keys, and nobody has
    /// copies.
    pub opaque: bool,
}

/// How a server's claims follow on those before (`server::Claims`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Which word of this server about its claims it is, from 1 on.
    pub number: u64,
    /// The number of the word that it follows on; 0: it says all.
    pub since: u64,
    /// Keys of which nothing is left.
    pub gone: Vec<Key>,
}

/// By which way an operator hears the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerWay {
    /// It reads the connection by which it asks. One of an earlier version does not.
    pub own_connection: bool,
    /// Where it listens, as `host:port`; empty: nowhere.
    pub listens_at: String,
}

/// What an operator is told if it is not refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorAnswer {
    /// For people; of `Status` it is JSON.
    pub text: String,
    /// Of `Save`: [`super::save::SaveTold`].
    pub told: Bytes,
}
