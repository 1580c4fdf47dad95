//! What the applications of a simulated job have in common: what they are told, what they ask for,
//! and the messages between them, made as the threads of `node` make them.

use std::time::Duration;

use super::network::Process;
use pslite_core::cluster::{Action, Cluster, Event};
use pslite_core::kv::rounds::Round;
use pslite_core::wire::{Message, Meta, NodeId};

/// The application and customer of all messages.
pub(super) const APP: i32 = 0;

/// What an application is told.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few of them exist at a time")]
pub(super) enum Input {
    Ready,
    Barrier {
        ticket: u64,
        result: Result<(), String>,
    },
    Message(Message),
    NodeLost {
        id: NodeId,
        reason: String,
    },
    CustomerLeft {
        id: NodeId,
        customer_id: i32,
    },
    Failed(String),
    /// A message of the application could not be sent.
    Unsent {
        meta: Box<Meta>,
        reason: String,
    },
    /// The time that it asked for has come.
    Wake,
    /// Time has passed.
    Tick,
    /// What the membership of an elastic job decides.
    Elastic(Box<Action>),
}

/// What an application asks for.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few of them exist at a time")]
pub(super) enum Output {
    Send(Box<Message>),
    Barrier {
        ticket: u64,
        group: i32,
        leaving: bool,
    },
    WakeAfter(Duration),
    /// What the membership of an elastic job is to know.
    Elastic(Event),
    End(Result<(), String>),
}

/// What an application sees.
pub(super) struct View<'a> {
    /// By the node's clock, which stands still while the node is paused.
    pub(super) now: Duration,
    /// By the network's, which nothing stops.
    pub(super) outside: Duration,
    pub(super) process: Process,
    pub(super) cluster: &'a Cluster,
}

/// What runs on a node.
pub(super) trait Application {
    /// What judges the job.
    type Ledger: Judge;

    /// Something reaches it.
    fn input(
        &mut self,
        view: &View<'_>,
        input: Input,
        ledger: &mut Self::Ledger,
        out: &mut Vec<Output>,
    );

    /// The rounds that are over since the last call, of a worker that times them.
    fn take_rounds(&mut self) -> Vec<Round> {
        Vec::new()
    }
}

/// What judges a job.
pub(super) trait Judge {
    /// Something is wrong.
    fn fault(&mut self, text: String);
}
