//! A piece as a transfer, and back. What comes is believed only as far as its frames go: no length
//! is trusted, and nothing is made that is larger than what came. May touch what a piece is.

use bytes::Bytes;

use crate::store::error::StoreError;
use crate::store::holdings::Holdings;
use crate::store::pieces::tensor::{Layout, Piece};
use crate::values::{Buffer, Dtype};
use crate::wire::Key;
use crate::wire::transfer::{PieceName, WrittenPiece};

/// Elements of one value: MXNet's lengths are 32-bit.
const ELEMENTS_MAX: u64 = i32::MAX as u64;
/// Terms and versions count up from small numbers: none is ever near their end.
const COUNT_MAX: u64 = u64::MAX / 2;
/// Customers of workers that may have pushed to one piece.
const MARKS_MAX: usize = 1 << 20;

/// The frame of keys.
pub(super) fn key_frame(key: Key) -> Bytes {
    Bytes::copy_from_slice(&key.to_ne_bytes())
}

impl Holdings {
    /// A piece as it is after its last round. `length` is that of the whole key.
    pub(super) fn write_piece(
        &self,
        key: Key,
        length: u64,
        piece: &Piece,
    ) -> (WrittenPiece, Vec<Bytes>) {
        let copy = |of: &Buffer| Buffer::copy_in(self.memory.as_deref(), of.bytes()).into_bytes();
        let mut frames = vec![key_frame(key), piece.value.lend()];
        frames.extend(piece.master.as_ref().map(copy));
        let state = piece.state.as_ref().map(|state| {
            let (numbers, tensors) = state.write();
            frames.extend(tensors.map(copy));
            numbers
        });
        (self.head(key, length, piece, state), frames)
    }

    /// The same of a piece that is here no more: nothing is copied.
    pub(super) fn write_gone(
        &self,
        key: Key,
        length: u64,
        mut piece: Piece,
    ) -> (WrittenPiece, Vec<Bytes>) {
        let (state, tensors) = match piece.state.take().map(|state| state.into_written()) {
            Some((numbers, tensors)) => (Some(numbers), tensors),
            None => (None, Vec::new()),
        };
        let written = self.head(key, length, &piece, state);
        let mut frames = vec![key_frame(key), piece.value.lend()];
        frames.extend(piece.master.into_iter().chain(tensors).map(Buffer::into_bytes));
        (written, frames)
    }

    fn head(&self, key: Key, length: u64, piece: &Piece, state: Option<Bytes>) -> WrittenPiece {
        WrittenPiece {
            piece: piece.name(key),
            version: piece.version,
            length,
            dtype: piece.dtype as i32,
            row_len: match piece.layout {
                Layout::Dense => 0,
                Layout::Rows { row_len } => row_len as u64,
            },
            marks: piece.marks.to_wire(),
            has_master: piece.master.is_some(),
            state,
            generation: self.generation(key),
        }
    }

    /// The piece that a `Move` or `Seed` brings. What an optimizer before `generation` kept is left
    /// out.
    pub(super) fn read_piece(
        &self,
        written: &WrittenPiece,
        frames: &[Bytes],
        generation: u64,
    ) -> Result<Piece, StoreError> {
        let malformed = StoreError::Transfer;
        let (dtype, layout, elements) = check_head(written)?;
        let [key, value, more @ ..] = frames else { return Err(malformed("frames are missing")) };
        // One place, and no element in it.
        let PieceName { key: of, from, to, term } = written.piece;
        let is_empty = value.is_empty() && (from, to, written.length) == (0, 1, 1);
        let elements = if is_empty { 0 } else { elements };
        if key[..] != of.to_ne_bytes() {
            return Err(malformed("its frame of keys has not its key"));
        }
        if Some(value.len()) != elements.checked_mul(dtype.size()) {
            return Err(malformed("its value has another length than it says"));
        }
        let (master, tensors) = match (written.has_master, more) {
            (false, tensors) => (None, tensors),
            (true, [master, tensors @ ..]) if Some(master.len()) == elements.checked_mul(4) => {
                (Some(master), tensors)
            }
            (true, _) => return Err(malformed("its master copy has another length than it says")),
        };
        if written.has_master && dtype == Dtype::F32 {
            return Err(malformed("a float32 value has no master copy"));
        }
        let maker = self.memory.as_deref();
        let mut piece = Piece::new(Buffer::copy_in(maker, value), dtype, layout);
        (piece.from, piece.to) = (from, to);
        (piece.term, piece.version) = (term, written.version);
        piece.marks.add(&written.marks);
        piece.master = master.map(|master| Buffer::copy_in(maker, master));
        match &written.state {
            Some(numbers) if written.generation == generation => {
                let optimizer = self.optimizer_of(of, generation)?;
                let optimizer = optimizer.ok_or(malformed("it has a state and no optimizer"))?;
                let computed = piece.sum_dtype();
                let state = optimizer.read_state(computed, elements, numbers, tensors, maker)?;
                piece.state = Some(Box::new(state));
            }
            None if !tensors.is_empty() => return Err(malformed("it has frames too many")),
            _ => {}
        }
        Ok(piece)
    }
}

/// Type, layout and number of elements of a piece that comes.
fn check_head(written: &WrittenPiece) -> Result<(Dtype, Layout, usize), StoreError> {
    let malformed = StoreError::Transfer;
    let dtype =
        Dtype::from_number(written.dtype.into()).ok_or(malformed("its element type is unknown"))?;
    let &WrittenPiece { piece: PieceName { from, to, term, .. }, length, row_len, .. } = written;
    if from >= to || to > length || length > ELEMENTS_MAX {
        return Err(malformed("it is no part of its key"));
    }
    let counts = 1..COUNT_MAX;
    if !counts.contains(&term) || written.version > COUNT_MAX {
        return Err(malformed("its term or version is impossible"));
    }
    if written.marks.len() > MARKS_MAX {
        return Err(malformed("it has too many marks"));
    }
    let layout = match usize::try_from(row_len) {
        Ok(0) => Layout::Dense,
        Ok(row_len) if from == 0 && to == length => Layout::Rows { row_len },
        _ => return Err(malformed("a row_sparse key is not cut")),
    };
    let elements = (to - from).checked_mul(row_len.max(1)).filter(|all| *all <= ELEMENTS_MAX);
    let elements = elements.and_then(|elements| usize::try_from(elements).ok());
    Ok((dtype, layout, elements.ok_or(malformed("it is too large"))?))
}
