//! What the store refuses, and why. The text travels to the worker that asked.

use pslite_elements::kernels::KernelError;
use pslite_optimizers::OptimizerError;
use thiserror::Error;

use crate::keys::KeyName;
use crate::values::Dtype;
use crate::values::compression::CompressionError;
use crate::values::kind::UnknownKind;
use crate::values::sum::SumError;
use crate::wire::Key;

/// What to do about arrays that differ.
const ALIKE: &str =
    "all workers must make a key, push to it and pull it with arrays of one shape and dtype";

/// The same, where one worker has cut the array and another has not.
const UNEQUAL_BOUNDS: &str = "one is what MXNet puts of the other on one of several servers, so \
     probably workers have unequal MXNET_KVSTORE_BIGARRAY_BOUND: it must be the same on all (if it \
     is, give them arrays of one shape)";

/// Why a request or command is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StoreError {
    /// A pull, or a push that needs a value, of a key that nobody initialised.
    #[error("key {key} was not initialised: call kv.init first")]
    Unknown {
        /// The key.
        key: KeyName,
    },
    /// The frames of a request do not fit each other or the protocol.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// The command of a request names no known kind or element type.
    #[error("the request's command {0} names no known kind and element type")]
    UnknownKind(i32),
    /// A worker on the way could not sum what it was sent.
    #[error("the pushes of a round were not summed on their way: {0}")]
    Relay(String),
    /// A value of another size than the key's.
    #[error(
        "key {key} has {expected} bytes on this server where the push of worker {worker} has \
         {got}: {}", if *cut { UNEQUAL_BOUNDS } else { ALIKE }
    )]
    Size {
        /// Whose push it is: its rank.
        worker: i32,
        /// The key.
        key: KeyName,
        /// Bytes on the server.
        expected: usize,
        /// Bytes in the request.
        got: usize,
        /// One is what MXNet puts of the other on this server.
        cut: bool,
    },
    /// A value of another type than the key's.
    #[error("key {key} holds {expected}, the request of worker {worker} says {got}: {ALIKE}")]
    Type {
        /// Whose request it is: its rank.
        worker: i32,
        /// The key.
        key: KeyName,
        /// On the server.
        expected: Dtype,
        /// In the request.
        got: Dtype,
    },
    /// A row_sparse push to a dense key, which stock's server does not survive. It names no length:
    /// of a large array each server would name that of its own part.
    #[error(
        "key {key} was made as a dense array: a dense weight over a \
         dist kvstore cannot take row_sparse gradients; make the weight stype='row_sparse', or \
         drop \
         sparse_grad=True (grad_stype='row_sparse')"
    )]
    RowsToDense {
        /// The key.
        key: KeyName,
    },
    /// A dense push to a row_sparse key.
    #[error(
        "key {key} was made as a row_sparse array: a row_sparse weight over \
         a dist kvstore cannot take dense gradients; make the gradients row_sparse \
         (grad_stype='row_sparse', \
         sparse_grad=True), or make the weight stype='default'"
    )]
    DenseToRows {
        /// The key.
        key: KeyName,
    },
    /// A pull of rows of a dense key.
    #[error(
        "key {key} was made as a dense array: rows cannot be pulled \
         from it; use kv.pull, or make the weight stype='row_sparse'"
    )]
    RowsOfDense {
        /// The key.
        key: KeyName,
    },
    /// A row that the key does not have.
    #[error(
        "key {key} has {rows} rows on this server, the request of worker {worker} names row \
         {row}: {ALIKE}"
    )]
    Row {
        /// Whose request it is: its rank.
        worker: i32,
        /// The key.
        key: KeyName,
        /// Rows on the server.
        rows: usize,
        /// The row asked for.
        row: i64,
    },
    /// `dist_async` without an optimizer (a CHECK in stock, kvstore_dist_server.h).
    #[error("dist_async needs an optimizer on the server: call kv.set_optimizer")]
    NoOptimizer,
    /// A pickled optimizer that is malformed, or that the store does not have.
    #[error("the optimizer is refused: {0}")]
    Optimizer(String),
    /// The optimizer cannot do it.
    #[error("the optimizer failed: {0}")]
    Update(#[from] OptimizerError),
    /// A key that the optimizer can never update here.
    #[error("{class} cannot update the {what} key {key} here: {reason}")]
    Unfit {
        /// The optimizer.
        class: &'static str,
        /// What about the key it cannot: `dense` or `row_sparse`.
        what: &'static str,
        /// The key.
        key: KeyName,
        /// Why not.
        reason: &'static str,
    },
    /// A key that lies in the space of another customer.
    #[error(
        "key {key} is too large: the keys of one customer are less than 2^40 behind the begin of \
         their server's range; those behind are for customers with keys of their own"
    )]
    TooLarge {
        /// The key, as the wire has it.
        key: Key,
    },
    /// More customers with keys of their own than may be.
    #[error("{0} customers have keys of their own, and there may be no more")]
    Spaces(usize),
    /// A request for a whole key that is in several pieces, or on other servers, from a node that
    /// does not follow pieces.
    #[error("key {key} is not in one piece on this server")]
    Elsewhere {
        /// The key.
        key: KeyName,
    },
    /// What another server sent is malformed, or does not fit what is here.
    #[error("a transfer between servers is malformed: {0}")]
    Transfer(&'static str),
    /// The sum of several pushes of which some have counted and others have not, or which are of
    /// different rounds: nothing of it counts.
    #[error("a sum for key {key} names pushes that are here beside others that are not")]
    Overlap {
        /// The key.
        key: KeyName,
    },
    /// One worker is many rounds ahead of the others.
    #[error("{waiting} pushes of this key wait for the other workers already")]
    TooEarly {
        /// How many wait.
        waiting: usize,
    },
    /// The server would hold more keys or bytes than it may.
    #[error("the server holds {0} keys, and may hold no more")]
    Full(usize),
    /// A sum cannot be made.
    #[error("a sum cannot be made: {0}")]
    Sum(#[from] KernelError),
    /// A compressed gradient, or the command that sets the compression, is malformed.
    #[error("{0}")]
    Compression(#[from] CompressionError),
    /// What cannot be in a job that exchanges deltas.
    #[error("{0}")]
    Exchange(String),
    /// A command that cannot be obeyed.
    #[error("{0}")]
    Command(String),
}

impl StoreError {
    /// True if its text names a key, and so whose it is.
    pub(super) const fn names_a_key(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. }
                | Self::Size { .. }
                | Self::Type { .. }
                | Self::RowsToDense { .. }
                | Self::DenseToRows { .. }
                | Self::RowsOfDense { .. }
                | Self::Row { .. }
                | Self::Unfit { .. }
                | Self::Elsewhere { .. }
                | Self::Overlap { .. }
        )
    }
}

impl From<SumError> for StoreError {
    fn from(error: SumError) -> Self {
        match error {
            SumError::Mixed => Self::Malformed("dense and row_sparse pushes in one round"),
            SumError::Unequal => Self::Malformed("pushes of different lengths in one round"),
            SumError::Undivided(dtype) => {
                Self::Exchange(format!("deltas of {dtype} cannot be divided among workers"))
            }
            SumError::Kernel(error) => Self::Sum(error),
        }
    }
}

impl From<UnknownKind> for StoreError {
    fn from(UnknownKind(command): UnknownKind) -> Self {
        Self::UnknownKind(command)
    }
}
