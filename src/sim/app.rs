//! What the applications of a simulated job have in common: what they are told, what they ask for,
//! and the messages between them, made as the threads of `node` make them.

use std::time::Duration;

use super::batches::Shares;
use super::network::Process;
use pslite_core::cluster::{Action, Cluster, Event};
use pslite_core::kv::rounds::Round;
use pslite_core::wire::{Message, Meta, NodeId};

/// The command that ends a server (MXNet's `kStopServer`).
pub(super) const STOP: i32 = 2;

/// The application and customer of all messages.
pub(super) const APP: i32 = 0;

/// What every worker does.
#[derive(Clone, Debug)]
pub struct Program {
    /// How often each tensor is pushed and pulled.
    pub rounds: u64,
    /// Tensors of one key, spread over the servers.
    pub small_tensors: usize,
    /// One more tensor, with keys on every server.
    pub wide_tensor: bool,
    /// Every second tensor is pushed and pulled in one request.
    pub push_pull: bool,
    /// All workers meet after so many rounds; 0: never.
    pub barrier_every: u64,
    /// The longest that a worker computes between two rounds.
    pub compute: Duration,
    /// The worker of that rank takes its leave in that round, without its pushes.
    pub leaves: Option<(usize, u64)>,
    /// Each round is an iteration whose samples the workers share.
    pub shares: Option<Shares>,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            rounds: 3,
            small_tensors: 3,
            wide_tensor: true,
            push_pull: true,
            barrier_every: 2,
            compute: Duration::from_millis(5),
            leaves: None,
            shares: None,
        }
    }
}

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

    /// It is told whenever time has passed.
    const TICKS: bool;

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

/// The answer to a request, as far as it is the same for all.
pub(super) fn answer(request: &Meta, error: String) -> Meta {
    Meta {
        head: request.head,
        app_id: APP,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        recver: request.sender,
        push: request.push,
        pull: request.pull,
        simple_app: request.simple_app,
        error,
        placed: request.placed.clone(),
        ..Meta::default()
    }
}

/// All whole words of a frame.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let (whole, _) = bytes.as_chunks::<8>();
    whole.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Words as a frame.
pub(super) fn frame(words: &[u64]) -> bytes::Bytes {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>().into()
}
