//! The commands that MXNet's workers send to servers (kvstore_dist_server.h:45).

use pslite_optimizers::Optimizer;
use pslite_optimizers::pickle;

use crate::store::command::Head;
use crate::store::error::StoreError;
use crate::store::pieces::name::Customer;
use crate::store::state::Store;
use crate::values::Space;
use crate::wire::NodeId;

impl Store {
    /// Obeys a command other than stop and the optimizer, which are its owner's.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn command(&mut self, space: Space, head: Head, body: &[u8]) -> Result<(), StoreError> {
        match head {
            Head::SyncMode => self.set_sync(space),
            Head::MultiPrecision => self.set_multi_precision(space),
            Head::Compression => self.set_compression(space, body),
            Head::Controller | Head::Stop | Head::Profiler | Head::Agree | Head::Other(_) => Ok(()),
        }
    }

    /// The pickled optimizer that a worker's customer sent, without its timestamp.
    ///
    /// # Errors
    /// It is malformed, or none that runs here; the optimizer before it stays.
    #[cfg(test)]
    pub(in crate::store) fn optimizer(
        &mut self,
        worker: NodeId,
        customer: i32,
        body: &[u8],
    ) -> Result<(), StoreError> {
        let from = Customer { worker, customer, life: 0 };
        self.optimizer_at(crate::values::SHARED, from, None, body).map(|_| ())
    }

    /// The pickled optimizer that a customer sent. True if it counts: its generation is new here.
    ///
    /// # Errors
    /// It is malformed, or none that runs here; the optimizer before it stays.
    pub(in crate::store) fn optimizer_at(
        &mut self,
        space: Space,
        from: Customer,
        timestamp: Option<i32>,
        body: &[u8],
    ) -> Result<bool, StoreError> {
        let generations = &mut self.modes.change(space)?.generations;
        if generations.is_read(from, body) {
            return Ok(generations.is_new(from, timestamp));
        }
        let optimizer = self.read_optimizer(space, body)?;
        let generations = &mut self.modes.change(space)?.generations;
        generations.note_read(body);
        let new = generations.is_new(from, timestamp);
        if new {
            self.set_optimizer(space, optimizer)?;
        }
        Ok(new)
    }

    /// Reads an optimizer that can update what is here of a space.
    pub(in crate::store) fn read_optimizer(
        &self,
        space: Space,
        body: &[u8],
    ) -> Result<Optimizer, StoreError> {
        self.check_no_exchange()?;
        let refused = |reason: String| StoreError::Optimizer(reason);
        let value = pickle::read(body).map_err(|error| refused(error.to_string()))?;
        let optimizer =
            Optimizer::from_value(&value).map_err(|error| refused(error.to_string()))?;
        if let Some(unfit) = self.unfit_key(space, &optimizer) {
            return Err(unfit);
        }
        if optimizer.wants_float32() {
            self.may_widen(space)?;
        }
        if !optimizer.is_elementwise()
            && let Some(key) = self.cut_key(space)
        {
            let class = optimizer.class();
            let reason = format!("{class} needs whole tensors, and key {key} has been cut");
            return Err(refused(reason));
        }
        Ok(optimizer)
    }

    /// The node is gone, or another process has its id.
    pub fn forget_node(&mut self, node: NodeId) {
        self.modes.forget(node);
        self.agreements.forget(node);
        if self.elastic.is_none() {
            let pieces = self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces);
            pieces.for_each(|piece| piece.round.died(node));
        }
        self.forget_worker(node);
        self.look_at_all();
    }
}
