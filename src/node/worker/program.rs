//! What a program that steps its values itself asks of its customer (docs/nbsync.md): to be taken
//! at its word, how far it is, and the global values. May touch the local model and `kv`'s decision
//! who answers.

use std::sync::{Arc, Mutex};

use super::{Requests, WorkerCustomer};
use crate::error::{NodeError, Result};
use crate::sync::lock;
use pslite_core::kv::{Answerer, Slices};
use pslite_core::training::exchange::Counts;
use pslite_core::wire::Meta;
use pslite_core::worker::LocalTraining;

/// What is said where servers answer.
const NO_EXCHANGE: &str = "this job exchanges nothing, so no program can step the values itself: \
    set PSLITE_SYNC at the scheduler (nbsync, nbsync:published, fedavg:steps=N, diloco:steps=N)";

impl Requests {
    /// Who answers a request. The local model does not know the global values.
    pub(super) fn who_answers(&mut self, meta: &Meta, slices: &Slices) -> Answerer {
        if self.here.answers() && self.global && meta.pull && !meta.push {
            return Answerer::Servers;
        }
        self.side.who_answers(self.here.answers(), meta, slices)
    }
}

impl WorkerCustomer {
    /// From now on what the program pushes of a key is its new value.
    ///
    /// # Errors
    /// The job exchanges nothing, an optimizer was set, or the node is not started.
    pub(crate) fn step_by_program(&self) -> Result<()> {
        let stepped = lock(&*self.exchanging()?).step_by_program();
        stepped.map_err(|error| NodeError::Invalid(error.to_string()))
    }

    /// What the exchange of this customer has done.
    ///
    /// # Errors
    /// The job exchanges nothing, or the node is not started.
    pub(crate) fn exchange_counts(&self) -> Result<Counts> {
        Ok(lock(&*self.exchanging()?).counts())
    }

    /// The local model, if the job has an exchange.
    fn exchanging(&self) -> Result<Arc<Mutex<LocalTraining>>> {
        self.node()?;
        if !self.is_attached() {
            return Err(NodeError::Invalid("this customer is no KVWorker".to_owned()));
        }
        self.follows_pieces();
        self.training().ok_or_else(|| NodeError::Config(NO_EXCHANGE.to_owned()))
    }

    /// While it is on, pulls bring the global values, from the servers.
    pub(crate) fn pull_global(&self, on: bool) {
        lock(&self.requests).global = on;
    }
}
