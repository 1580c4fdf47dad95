//! What a program asks of a node whose job trains while deltas travel (docs/nbsync.md).

use super::{NodeRef, Postoffice, Result};

impl Postoffice {
    /// How this job exchanges, for people. `None`: it does not.
    ///
    /// # Errors
    /// The node is not started.
    pub fn exchange(&self) -> Result<Option<String>> {
        let node: NodeRef = self.running()?;
        let spec = node.policy().and_then(|word| word.exchange);
        Ok(spec.map(|spec| spec.describe()))
    }

    /// While it is on, pulls of this process's workers bring the global values, from the servers,
    /// also where a local model answers. It counts for requests that are made meanwhile.
    pub fn pull_global(&self, on: bool) {
        self.customers.pull_global(on);
    }
}
