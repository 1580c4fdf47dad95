//! The commands that MXNet's workers send to servers (kvstore_dist_server.h:45, CommandHandle), and
//! what they set, in the key space of who commands: mode, precision, compression, optimizer.

use std::sync::Arc;

use pslite_optimizers::Optimizer;
use pslite_optimizers::pickle;

use super::Holdings;
use crate::keys::KeyName;
use crate::store::command::Head;
use crate::store::command::modes::space_of;
use crate::store::error::StoreError;
use crate::store::pieces::name::Customer;
use crate::store::pieces::tensor::{Layout, Piece, Tensor};
use crate::values::compression::Compression;
use crate::values::{Dtype, Space};
use crate::wire::{Key, Meta};

impl Holdings {
    /// Obeys a command other than stop and the optimizer, which are its owner's.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub(in crate::store) fn command(
        &mut self,
        space: Space,
        head: Head,
        body: &[u8],
    ) -> Result<(), StoreError> {
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
        worker: crate::wire::NodeId,
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
    fn optimizer_at(
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

    /// An error if commands of workers say how rounds are applied.
    fn check_no_exchange(&self) -> Result<(), StoreError> {
        let text = "this job exchanges deltas (PSLITE_SYNC): workers keep the optimizer";
        match self.exchanging {
            Some(_) => Err(StoreError::Exchange(text.to_owned())),
            None => Ok(()),
        }
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

    /// Obeys a command of a worker. True if servers that join have to know of it.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub(in crate::store) fn obey(&mut self, request: &Meta) -> Result<bool, StoreError> {
        let (head, space) = (Head::from(request.head), space_of(request));
        if head == Head::Controller {
            let from = Customer::of(request);
            return self.optimizer_at(space, from, Some(request.timestamp), &request.body);
        }
        self.command(space, head, &request.body).map(|()| true)
    }

    /// What is wrong with the first key of a space that the optimizer can never update, if there is
    /// any.
    fn unfit_key(&self, space: Space, optimizer: &Optimizer) -> Option<StoreError> {
        if !optimizer.is_choosy() {
            return None;
        }
        self.tensors_in(space).find_map(|(key, tensor)| {
            let piece = tensor.pieces.first()?;
            self.unfit(optimizer, *key, matches!(piece.layout, Layout::Rows { .. }))
        })
    }

    /// What is wrong with such a key for the optimizer, if anything is.
    pub(in crate::store) fn unfit(
        &self,
        by: &Optimizer,
        key: Key,
        rows: bool,
    ) -> Option<StoreError> {
        let (class, number) = (by.class(), self.view.local(key));
        let (what, reason) = by.unfit(number, rows)?;
        let key = self.view.name(key);
        Some(StoreError::Unfit { class, what, key, reason })
    }

    /// Keys of one space, and what is here of them.
    fn tensors_in(&self, space: Space) -> impl Iterator<Item = (&Key, &Tensor)> {
        self.tensors.iter().filter(move |(key, _)| self.view.space(**key) == space)
    }

    /// The first key of a space that is not here in one piece, if there is any.
    fn cut_key(&self, space: Space) -> Option<KeyName> {
        let mut tensors = self.tensors_in(space);
        let found = tensors.find(|(_, tensor)| tensor.whole_piece().is_none());
        found.map(|(key, _)| self.view.name(*key))
    }

    /// kSyncMode.
    ///
    /// # Errors
    /// There are too many spaces: so of all these.
    pub(in crate::store) fn set_sync(&mut self, space: Space) -> Result<(), StoreError> {
        self.modes.change(space)?.sync = true;
        Ok(())
    }

    /// kSetMultiPrecision: CreateMultiPrecisionCopies.
    ///
    /// # Errors
    /// Pushes are under way: their sum has the wrong type (a CHECK in MXNet).
    pub(in crate::store) fn set_multi_precision(&mut self, space: Space) -> Result<(), StoreError> {
        self.may_widen(space)?;
        self.widen(space)
    }

    /// An error if values cannot get float32 copies now.
    pub(in crate::store) fn may_widen(&self, space: Space) -> Result<(), StoreError> {
        let is_open = |piece: &Piece| piece.dtype != Dtype::F32 && piece.round.is_open();
        if self.modes.of(space).multi_precision || !self.pieces_in(space).any(is_open) {
            return Ok(());
        }
        let text = "multi-precision cannot be set while pushes are under way";
        Err(StoreError::Command(text.to_owned()))
    }

    fn widen(&mut self, space: Space) -> Result<(), StoreError> {
        self.modes.change(space)?.multi_precision = true;
        self.each_piece_in(space, Piece::make_master);
        Ok(())
    }

    /// kSetGradientCompression.
    ///
    /// # Errors
    /// The text names no compression that MXNet has.
    pub(in crate::store) fn set_compression(
        &mut self,
        space: Space,
        body: &[u8],
    ) -> Result<(), StoreError> {
        let compression = Compression::from_body(body)?;
        self.modes.change(space)?.compression = compression;
        Ok(())
    }

    /// kController: from now on this applies gradients, and it begins without any state. One that
    /// keeps float32 beside the weights works on float32 copies of those of other types: so does
    /// MXNet's server where its flag, which is never initialised, is on by chance, and otherwise
    /// its updates fail.
    ///
    /// # Errors
    /// There are too many spaces.
    pub(in crate::store) fn set_optimizer(
        &mut self,
        space: Space,
        optimizer: Optimizer,
    ) -> Result<(), StoreError> {
        if optimizer.wants_float32() {
            self.widen(space)?;
        }
        let optimizer = Arc::new(optimizer);
        let mode = self.modes.change(space)?;
        mode.generations.keep(Arc::clone(&optimizer));
        mode.optimizer = Some(optimizer);
        self.each_piece_in(space, |piece| piece.state = None);
        Ok(())
    }

    fn each_piece_in(&mut self, space: Space, change: impl Fn(&mut Piece)) {
        let view = self.view;
        let own = self.tensors.iter_mut().filter(|(key, _)| view.space(**key) == space);
        own.flat_map(|(_, tensor)| &mut tensor.pieces).for_each(change);
    }

    /// The pieces of one space.
    fn pieces_in(&self, space: Space) -> impl Iterator<Item = &Piece> {
        let own = self.tensors.iter().filter(move |(key, _)| self.view.space(**key) == space);
        own.flat_map(|(_, tensor)| &tensor.pieces)
    }
}
