//! What commands of workers set, in the key space of who commands: mode, precision, compression,
//! optimizer (kvstore_dist_server.h, CommandHandle). May touch what the store may.

use std::sync::Arc;

use pslite_optimizers::Optimizer;

use crate::store::error::StoreError;
use crate::store::pieces::tensor::Piece;
use crate::store::state::Store;
use crate::values::compression::Compression;
use crate::values::{Dtype, SHARED, Space};
use crate::wire::Key;

impl Store {
    /// kSyncMode.
    ///
    /// # Errors
    /// There are too many spaces: so of all these.
    pub fn set_sync(&mut self, space: Space) -> Result<(), StoreError> {
        self.modes.change(space)?.sync = true;
        Ok(())
    }

    /// kSetMultiPrecision: CreateMultiPrecisionCopies.
    ///
    /// # Errors
    /// Pushes are under way: their sum has the wrong type (a CHECK in MXNet).
    pub fn set_multi_precision(&mut self, space: Space) -> Result<(), StoreError> {
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
    pub fn set_compression(&mut self, space: Space, body: &[u8]) -> Result<(), StoreError> {
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
    pub fn set_optimizer(&mut self, space: Space, optimizer: Optimizer) -> Result<(), StoreError> {
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

    /// True while pushes wait for others.
    #[must_use]
    pub fn has_open_rounds(&self) -> bool {
        self.pieces().any(|piece| piece.round.is_open())
    }

    /// True if no customer has keys of its own here.
    #[must_use]
    pub fn is_shared_by_all(&self) -> bool {
        let is_shared = |key: &Key| self.view.space(*key) == SHARED;
        !self.modes.has_further() && self.tensors.keys().all(is_shared)
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
