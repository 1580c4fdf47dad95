//! What the requests of a simulated worker are for.

use super::super::ledger::PullBounds;
use pslite_core::wire::Key;

/// What a request is for.
#[derive(Clone, Debug)]
pub(in crate::jobs) enum Purpose {
    Push {
        tensor: usize,
        round: u64,
    },
    Pull {
        tensor: usize,
        bounds: PullBounds,
    },
    Both {
        tensor: usize,
        round: u64,
        bounds: PullBounds,
    },
    Command,
    /// A gradient that the local model applies; with `pulls` for the local values.
    Step {
        tensor: usize,
        pulls: bool,
    },
    /// The local values.
    Local {
        tensor: usize,
    },
    /// A request of the local model's own.
    Own {
        key: Key,
    },
    /// The values at the end.
    Last,
    /// To learn how far the job is with a tensor.
    CatchUp {
        tensor: usize,
    },
}
