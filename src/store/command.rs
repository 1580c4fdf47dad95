//! The commands that MXNet's workers send to servers (kvstore_dist_server.h:45).

use std::collections::BTreeMap;

use super::error::StoreError;
use super::mxnet::Store;
use super::optimizer::Optimizer;
use super::pickle;
use crate::wire::NodeId;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// `kController`: the optimizer, as a pickle.
    Controller,
    /// `kSetMultiPrecision`.
    MultiPrecision,
    /// `kStopServer`.
    Stop,
    /// `kSyncMode`: this is `dist_sync`.
    SyncMode,
    /// `kSetGradientCompression`.
    Compression,
    /// `kSetProfilerParams`.
    Profiler,
    /// Another number: MXNet answers it and does nothing.
    Other(i32),
}

impl From<i32> for Head {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::Controller,
            1 => Self::MultiPrecision,
            2 => Self::Stop,
            3 => Self::SyncMode,
            4 => Self::Compression,
            5 => Self::Profiler,
            other => Self::Other(other),
        }
    }
}

/// Which optimizers came from whom. Every worker sends each one: the n-th from any worker is
/// generation n, and only the first arrival of a generation counts. In MXNet each arrival replaces
/// the optimizer and forgets its states.
#[derive(Debug, Default)]
pub(super) struct Generations {
    sent: BTreeMap<(NodeId, i32), u64>,
    applied: u64,
}

impl Generations {
    /// True if what this customer sends now is a generation that nobody has sent before.
    pub(super) fn is_new(&mut self, from: (NodeId, i32)) -> bool {
        let sent = self.sent.entry(from).or_default();
        *sent += 1;
        let new = *sent > self.applied;
        self.applied = self.applied.max(*sent);
        new
    }

    /// Somebody else has that id from now on, and begins anew.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.sent.retain(|(sender, _), _| *sender != node);
    }
}

impl Store {
    /// Obeys a command other than stop and the optimizer, which are its owner's.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn command(&mut self, head: Head, body: &[u8]) -> Result<(), StoreError> {
        match head {
            Head::SyncMode => self.set_sync(),
            Head::MultiPrecision => self.set_multi_precision()?,
            Head::Compression => self.set_compression(body)?,
            Head::Controller | Head::Stop | Head::Profiler | Head::Other(_) => {}
        }
        Ok(())
    }

    /// The pickled optimizer that a worker's customer sent. It counts if its generation is new here.
    ///
    /// # Errors
    /// It is malformed, or none that runs here; the optimizer before it stays.
    pub fn optimizer(&mut self, from: (NodeId, i32), body: &[u8]) -> Result<(), StoreError> {
        let refused = |reason: String| StoreError::Optimizer(reason);
        let value = pickle::read(body).map_err(|error| refused(error.to_string()))?;
        let optimizer =
            Optimizer::from_value(&value).map_err(|error| refused(error.to_string()))?;
        if let Some(reason) = optimizer.lacks_rows()
            && let Some(key) = self.rows_key()
        {
            return Err(StoreError::Rows { class: optimizer.class(), key, reason });
        }
        if self.generations.is_new(from) {
            self.set_optimizer(optimizer);
        }
        Ok(())
    }

    /// The node is gone, or another process has its id.
    pub fn forget_node(&mut self, node: NodeId) {
        self.generations.forget(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_each_generation_counts() {
        let mut generations = Generations::default();
        let order = [(9, true), (11, false), (11, true), (13, false), (9, false), (13, false)];
        for (worker, new) in order {
            assert_eq!(generations.is_new((worker, 0)), new, "{worker}");
        }
        generations.forget(9);
        assert!(!generations.is_new((9, 0)), "one that comes late resets nothing");
    }
}
