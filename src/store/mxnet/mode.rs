//! What commands of workers set: mode, precision, compression, optimizer (kvstore_dist_server.h,
//! CommandHandle). May touch what the store may.

use std::sync::Arc;

use super::Store;
use crate::store::Dtype;
use crate::store::compression::Compression;
use crate::store::error::StoreError;
use crate::store::optimizer::Optimizer;
use crate::store::tensor::Piece;

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
        if self.multi_precision {
            return Ok(());
        }
        if self.pieces().any(|piece| piece.dtype != Dtype::F32 && piece.round.is_open()) {
            return Err(StoreError::Command(
                "multi-precision cannot be set while pushes are under way".to_owned(),
            ));
        }
        self.multi_precision = true;
        self.tensors
            .values_mut()
            .flat_map(|tensor| &mut tensor.pieces)
            .for_each(Piece::make_master);
        Ok(())
    }

    /// kSetGradientCompression.
    ///
    /// # Errors
    /// The text names no compression that MXNet has.
    pub fn set_compression(&mut self, body: &[u8]) -> Result<(), StoreError> {
        self.compression = Compression::from_body(body)?;
        Ok(())
    }

    /// kController: from now on this applies gradients, and it begins without any state.
    pub fn set_optimizer(&mut self, optimizer: Optimizer) {
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
