//! What a program asks of a node whose job trains while deltas travel (docs/nbsync.md).

use std::sync::Arc;

use super::{NodeRef, Postoffice, Result};
use pslite_core::wire::Role;

impl Postoffice {
    /// How this job exchanges, for people. `None`: it does not.
    ///
    /// # Errors
    /// The node is not started.
    pub fn exchange(&self) -> Result<Option<String>> {
        let node: NodeRef = self.running()?;
        let spec = node.policy().and_then(|routed| routed.policy.exchange);
        Ok(spec.map(|spec| spec.describe()))
    }

    /// While it is on, pulls of this process's workers bring the global values, from the servers,
    /// also where a local model answers. It counts for requests that are made meanwhile.
    pub fn pull_global(&self, on: bool) {
        self.customers.pull_global(on);
    }

    /// Waits until all workers are equal, if they exchange deltas (`docs/nbsync.md`). False: this
    /// job's workers do not.
    ///
    /// # Errors
    /// The job has failed, or what was changed cannot be sent.
    pub fn align(&self) -> Result<bool> {
        let van = self.running()?;
        let node: NodeRef = Arc::clone(&van) as _;
        let exchanges = node.policy().is_some_and(|routed| routed.policy.exchange.is_some());
        if exchanges && van.settings().role == Role::Worker {
            self.customers.align()?;
        }
        Ok(exchanges)
    }
}
