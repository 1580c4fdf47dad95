//! What the sum of a round does to a piece: by an optimizer, or in the value's place
//! (kvstore_dist_server.h, ApplyUpdates).

use pslite_optimizers::{Gradient, Optimizer};

use super::sums::Sum;
use super::tensor::{Layout, Piece};
use crate::store::error::StoreError;
use crate::values::{Buffer, Dtype};

impl Piece {
    /// The type in which pushes are summed.
    pub(in crate::store) const fn sum_dtype(&self) -> Dtype {
        if self.master.is_some() { Dtype::F32 } else { self.dtype }
    }

    /// Applies the sum of a round: by the optimizer, or, if there is none, in the value's place.
    /// `key` is the application's, `scratch` memory for a sum.
    pub(in crate::store) fn apply(
        &mut self,
        key: i64,
        optimizer: Option<&Optimizer>,
        dtype: Dtype,
        sum: Sum,
        scratch: &mut Buffer,
    ) -> Result<(), StoreError> {
        match optimizer {
            Some(optimizer) => self.update(key, optimizer, dtype, sum, scratch)?,
            None => self.replace(sum, dtype)?,
        }
        self.version += 1;
        Ok(())
    }

    fn update(
        &mut self,
        key: i64,
        optimizer: &Optimizer,
        dtype: Dtype,
        sum: Sum,
        scratch: &mut Buffer,
    ) -> Result<(), StoreError> {
        let rows;
        let gradient = match (self.layout, &sum) {
            (Layout::Dense, Sum::Shared(sum)) => Gradient::Dense(sum.buffer()),
            (Layout::Dense, _) => {
                scratch.resize(self.length() * dtype.size());
                sum.write(dtype, scratch)?;
                Gradient::Dense(scratch)
            }
            (Layout::Rows { row_len }, _) => {
                rows = sum.rows(dtype)?;
                Gradient::RowSparse { rows: &rows.0, values: &rows.1, row_len }
            }
        };
        let target = match &mut self.master {
            Some(master) => master,
            None => self.value.change(),
        };
        optimizer.update(key, dtype, target, &gradient, &mut self.state)?;
        self.master_to_value();
        Ok(())
    }
}
