//! What commands of workers set: mode, precision, compression, optimizer (kvstore_dist_server.h,
//! CommandHandle). May touch what the store may.

use std::sync::Arc;

use super::Store;
use crate::store::error::StoreError;
use crate::store::optimizer::Optimizer;
use crate::store::tensor::Piece;
use crate::values::Dtype;
use crate::values::compression::Compression;

impl Store {
    /// kSyncMode.
    pub fn set_sync(&mut self) {
        self.sync = true;
    }

    /// kSetMultiPrecision: CreateMultiPrecisionCopies.
    ///
    /// # Errors
    /// Pushes are under way: their sum has the wrong type (a CHECK in MXNet).
    pub fn set_multi_precision(&mut self) -> Result<(), StoreError> {
        self.may_widen()?;
        self.widen();
        Ok(())
    }

    /// An error if values cannot get float32 copies now.
    pub(in crate::store) fn may_widen(&self) -> Result<(), StoreError> {
        let is_open = |piece: &Piece| piece.dtype != Dtype::F32 && piece.round.is_open();
        if self.multi_precision || !self.pieces().any(is_open) {
            return Ok(());
        }
        let text = "multi-precision cannot be set while pushes are under way";
        Err(StoreError::Command(text.to_owned()))
    }

    fn widen(&mut self) {
        self.multi_precision = true;
        let tensors = self.tensors.values_mut();
        tensors.flat_map(|tensor| &mut tensor.pieces).for_each(Piece::make_master);
    }

    /// kSetGradientCompression.
    ///
    /// # Errors
    /// The text names no compression that MXNet has.
    pub fn set_compression(&mut self, body: &[u8]) -> Result<(), StoreError> {
        self.compression = Compression::from_body(body)?;
        Ok(())
    }

    /// kController: from now on this applies gradients, and it begins without any state. One that
    /// keeps float32 beside the weights works on float32 copies of those of other types: so does
    /// MXNet's server where its flag, which is never initialised, is on by chance, and otherwise
    /// its updates fail.
    pub fn set_optimizer(&mut self, optimizer: Optimizer) {
        if optimizer.wants_float32() {
            self.widen();
        }
        let optimizer = Arc::new(optimizer);
        self.generations.keep(Arc::clone(&optimizer));
        self.optimizer = Some(optimizer);
        for piece in self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces) {
            piece.state = None;
        }
    }

    /// True while pushes wait for others.
    #[must_use]
    pub fn has_open_rounds(&self) -> bool {
        self.pieces().any(|piece| piece.round.is_open())
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.tensors.values().flat_map(|tensor| &tensor.pieces)
    }
}
