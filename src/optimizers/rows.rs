//! Updates with row_sparse gradients.

use pslite_elements::{Buffer, Dtype};

use super::formula::{MOST_TENSORS, UpdateSlices};
use super::number::{Half, Number};
use super::rule::{Sparse, UpdateStep};
use super::{Optimizer, OptimizerError, State, views};

/// The rows of a gradient.
#[derive(Clone, Copy)]
pub(super) struct GivenRows<'a> {
    /// Their numbers, without repetition.
    pub(super) rows: &'a [i64],
    /// The rows, one after the other.
    pub(super) values: &'a Buffer,
    /// Elements of a row, at least one.
    pub(super) row_len: usize,
}

/// Refuses rows that the weights do not have.
pub(super) fn check(key: i64, rows: &[i64], of: usize) -> Result<(), OptimizerError> {
    let inside = |row: &&i64| !usize::try_from(**row).is_ok_and(|row| row < of);
    rows.iter().find(inside).map_or(Ok(()), |&row| Err(OptimizerError::Row { key, row }))
}

impl Optimizer {
    pub(super) fn update_rows(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &mut Buffer,
        rows: GivenRows<'_>,
        state: &mut State,
    ) {
        let sparse = self.method.sparse(self.common.decay(key));
        if sparse == Sparse::Dense {
            let dense = densified(weight.len(), dtype, rows);
            return self.update_dense(key, dtype, weight, &dense, state, true);
        }
        let step = self.begin(key, state, true);
        match dtype {
            Dtype::F32 => self.rows::<f32>(&step, sparse, weight, rows, &mut state.tensors),
            Dtype::F64 => self.rows::<f64>(&step, sparse, weight, rows, &mut state.tensors),
            _ => self.rows::<Half>(&step, sparse, weight, rows, &mut state.tensors),
        }
    }

    fn rows<T: Number>(
        &self,
        step: &UpdateStep<'_>,
        sparse: Sparse,
        weight: &mut Buffer,
        gradient: GivenRows<'_>,
        tensors: &mut [Buffer],
    ) {
        let GivenRows { rows, values, row_len } = gradient;
        let weight: &mut [T::Stored] = weight.elements_mut();
        let mut state = views::<T>(tensors);
        self.method.before_rows::<T>(step, weight);
        let mut given =
            vec![false; if sparse == Sparse::Standard { weight.len() / row_len } else { 0 }];
        for (row, gradient) in rows.iter().zip(values.elements().chunks(row_len)) {
            let row = usize::try_from(*row).unwrap_or(0);
            self.row::<T>(step, row, weight, gradient, &mut state);
            if let Some(given) = given.get_mut(row) {
                *given = true;
            }
        }
        if given.is_empty() {
            return;
        }
        let zeros = Buffer::zeroed(row_len * size_of::<T::Stored>());
        for (row, _) in given.iter().enumerate().filter(|(_, given)| !**given) {
            self.row::<T>(step, row, weight, zeros.elements(), &mut state);
        }
    }

    fn row<T: Number>(
        &self,
        step: &UpdateStep<'_>,
        row: usize,
        weight: &mut [T::Stored],
        gradient: &[T::Stored],
        state: &mut [&mut [T::Stored]; MOST_TENSORS],
    ) {
        let elements = row * gradient.len()..(row + 1) * gradient.len();
        let state = state
            .each_mut()
            .map(|tensor| if tensor.is_empty() { &mut [] } else { &mut tensor[elements.clone()] });
        self.method.row::<T>(step, UpdateSlices { weight: &mut weight[elements], gradient, state });
    }
}

/// The gradient with zeros in the other rows.
fn densified(bytes: usize, dtype: Dtype, gradient: GivenRows<'_>) -> Buffer {
    let GivenRows { rows, values, row_len } = gradient;
    let mut dense = Buffer::zeroed(bytes);
    let row_bytes = row_len.max(1) * dtype.size();
    for (row, values) in rows.iter().zip(values.bytes().chunks(row_bytes)) {
        let from = usize::try_from(*row).unwrap_or(0) * row_bytes;
        dense.bytes_mut()[from..from + row_bytes].copy_from_slice(values);
    }
    dense
}
