//! What applies a summed gradient to a value.

use super::{Buffer, Dtype};

/// A summed gradient.
#[derive(Clone, Copy, Debug)]
pub enum Gradient<'a> {
    /// Of all elements.
    Dense(&'a Buffer),
    /// Of some rows, in ascending order; their values one after the other.
    Rows {
        /// Which.
        rows: &'a [i64],
        /// Their values.
        values: &'a Buffer,
        /// Elements of a row.
        row_len: usize,
    },
}

/// An optimizer with the states of its keys.
pub trait Updater: Send {
    /// Applies a gradient of the same type as the value.
    ///
    /// # Errors
    /// It cannot be applied; the text says why. The value is as it was.
    fn update(
        &mut self,
        key: i64,
        dtype: Dtype,
        value: &mut Buffer,
        gradient: Gradient<'_>,
    ) -> Result<(), String>;

    /// Bytes of memory that the states take.
    fn state_bytes(&self) -> usize;
}
