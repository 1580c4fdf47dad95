//! One tensor of the server, as pieces: ranges of elements, or of rows, each with its value and its
//! round. MXNet's cut gives a server one piece of a key, whose place in the whole it does not know; it
//! counts from 0 here.

use super::error::StoreError;
use super::optimizer::State;
use super::part::Sum;
use super::round::Round;
use super::value::Value;
use super::{Buffer, Dtype, precision};

/// How a piece's elements are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In one row.
    Dense,
    /// In rows of that many elements, which are pushed and pulled one by one.
    Rows { row_len: usize },
}

impl Layout {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Rows { .. } => "row_sparse",
        }
    }
}

/// The elements, or rows, from `from` up to `to` of a tensor.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) dtype: Dtype,
    pub(super) layout: Layout,
    /// What pulls get.
    pub(super) value: Value,
    /// What the optimizer works on instead, where that is of higher precision.
    pub(super) master: Option<Buffer>,
    /// What the optimizer keeps for it.
    pub(super) state: Option<State>,
    /// Rounds that were applied.
    pub(super) version: u64,
    pub(super) round: Round,
}

/// A tensor, or this server's part of it.
#[derive(Debug, Default)]
pub(super) struct Tensor {
    /// In the order of their places.
    pub(super) pieces: Vec<Piece>,
}

impl Piece {
    pub(super) fn new(value: Buffer, dtype: Dtype, layout: Layout) -> Self {
        let elements = value.len() / dtype.size();
        let length = match layout {
            Layout::Dense => elements,
            Layout::Rows { row_len } => elements.checked_div(row_len).unwrap_or(0),
        };
        Self {
            from: 0,
            to: length as u64,
            dtype,
            layout,
            value: Value::new(value),
            master: None,
            state: None,
            version: 0,
            round: Round::default(),
        }
    }

    /// Elements or rows.
    pub(super) const fn length(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Bytes of memory that it holds, open rounds apart.
    pub(super) fn bytes(&self) -> usize {
        self.value.buffer().len() + self.master.as_ref().map_or(0, Buffer::len)
    }

    /// Bytes of what the optimizer keeps for it.
    pub(super) fn state_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, State::bytes)
    }

    /// Without an optimizer the sum takes the place of the value.
    pub(super) fn replace(&mut self, sum: Sum, dtype: Dtype) -> Result<(), StoreError> {
        match self.layout {
            Layout::Dense => self.replace_all(sum, dtype)?,
            Layout::Rows { row_len } => self.replace_rows(sum, dtype, row_len)?,
        }
        self.master_to_value();
        self.version += 1;
        Ok(())
    }

    fn replace_all(&mut self, sum: Sum, dtype: Dtype) -> Result<(), StoreError> {
        match (&mut self.master, sum) {
            (None, Sum::Dense(sum)) if sum.len() == self.value.buffer().len() => {
                self.value = Value::new(sum);
                Ok(())
            }
            (None, sum) => sum.write(dtype, self.value.overwrite()),
            (Some(master), sum) => sum.write(dtype, master),
        }
    }

    /// Rows that nobody pushed are zero then: a row_sparse array has no others.
    fn replace_rows(&mut self, sum: Sum, dtype: Dtype, row_len: usize) -> Result<(), StoreError> {
        let (rows, values) = sum.rows(dtype)?;
        let target = match &mut self.master {
            Some(master) => master,
            None => self.value.overwrite(),
        };
        target.bytes_mut().fill(0);
        let size = row_len * dtype.size();
        for (i, row) in rows.iter().enumerate() {
            let at = *row as usize * size;
            target.bytes_mut()[at..at + size]
                .copy_from_slice(&values.bytes()[i * size..(i + 1) * size]);
        }
        Ok(())
    }

    pub(super) fn master_to_value(&mut self) {
        if let Some(master) = &self.master {
            precision::from_f32(master, self.dtype, self.value.overwrite());
        }
    }
}

impl Tensor {
    pub(super) fn whole(piece: Piece) -> Self {
        Self { pieces: vec![piece] }
    }
}
