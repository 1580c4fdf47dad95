//! What `pslite status` shows of workers that train while deltas travel (`docs/nbsync.md`).

use serde::{Deserialize, Serialize};

use crate::wire::NodeId;

/// An exchange: of one kvstore of each worker. Rates are those of the last ten to twenty seconds;
/// `None` before there are some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExchangeStatus {
    /// The application.
    pub app: i32,
    /// The customer.
    pub customer: i32,
    /// How many rounds of a worker may be in flight.
    pub window: u32,
    /// Rounds that the slowest worker has taken, each of one section.
    pub rounds: u64,
    /// Seconds from one exchange of all sections to the next one.
    pub period: Option<f64>,
    /// In which part of the time the slowest worker has rounds in flight, from 0 to 1.
    pub busy: Option<f64>,
    /// How many times the steps of a plain job the workers do, which all wait for the slowest
    /// worker and for an exchange in each iteration.
    pub gain: Option<f64>,
    /// Workers by their ids.
    pub workers: Vec<ExchangeWorker>,
}

/// A worker of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExchangeWorker {
    /// Its id.
    pub id: NodeId,
    /// Iterations that it has begun.
    pub iterations: u64,
    /// Steps in a second.
    pub steps: Option<f64>,
    /// Steps from one exchange of all sections to the next one.
    pub per_exchange: Option<f64>,
    /// In which part of the time it computes, from 0 to 1.
    pub computing: Option<f64>,
    /// In which part of the time it is held until a round is over.
    pub held: Option<f64>,
    /// Where it is: empty while it trains, `aligns`, `left`.
    pub stage: String,
    /// Its steps take longest: rounds end with it.
    pub is_slowest: bool,
}
