//! Pushes and pulls of row_sparse arrays: some rows of a matrix (kvstore_dist_server.h,
//! DataHandleRowSparse). May touch what the store may.

use bytes::Bytes;

use super::sparse;
use super::{BYTES_MAX, RequestFrames, RequestTarget};
use crate::store::error::StoreError;
use crate::store::holdings::At;
use crate::store::outbound::{Answer, Outbound};
use crate::store::pieces::sums::Addend;
use crate::store::pieces::tensor::{Layout, Piece};
use crate::store::state::Store;
use crate::values::{Dtype, KEY_SIZE, KvPairs};
use crate::wire::{Meta, id_to_rank};

impl Store {
    /// DataHandleRowSparse.
    pub(super) fn push_rows(
        &mut self,
        request: Meta,
        frames: &RequestFrames,
        dtype: Dtype,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let rows = sparse::rows(&frames.keys, target.key)?;
        let row_len = sparse::row_len(&frames.lens, rows.len(), frames.vals.len(), dtype)?;
        let Some(at) = target.at else {
            if rows.is_empty() || !rows.iter().copied().eq(0..rows.len() as i64) {
                return Err(StoreError::Malformed("the first push of a matrix brings all rows"));
            }
            let layout = Layout::Rows { row_len };
            let piece = Piece::new(self.held.copy(&frames.vals), dtype, layout);
            return self.init(target.key, piece, request, out);
        };
        let fits = self.check_rows(at, &request, &rows, row_len, dtype, frames.vals.len());
        if fits.is_ok() && rows.is_empty() && !self.held.mode(at.key).sync {
            return self.mover(out).push_nothing(at, request);
        }
        let addend = fits.map(|()| {
            let (rows, values) = sparse::ascending(rows, &frames.vals, row_len * dtype.size());
            Addend::Rows { rows, values }
        });
        self.push(at, request, Addend::of(addend), out)
    }

    /// Rows of that many elements, and of so many bytes together, must fit the piece.
    fn check_rows(
        &self,
        at: At,
        request: &Meta,
        rows: &[i64],
        row_len: usize,
        dtype: Dtype,
        got: usize,
    ) -> Result<(), StoreError> {
        let (piece, key) = (self.held.piece(at)?, self.held.view.name(at.key));
        self.check(at, request, piece.layout.as_rows(), dtype, None)?;
        let Layout::Rows { row_len: expected } = piece.layout else { return Ok(()) };
        let (worker, length) = (id_to_rank(request.sender), piece.length());
        if let Some(row) = rows.iter().find(|row| **row >= length as i64) {
            return Err(StoreError::Row { key, worker, rows: length, row: *row });
        }
        let bytes = rows.len() * expected * dtype.size();
        if !rows.is_empty() && (row_len != expected || bytes != got) {
            return Err(StoreError::Size { key, worker, expected: bytes, got, cut: false });
        }
        Ok(())
    }

    /// RowSparsePullResponse.
    pub(super) fn pull_rows(
        &self,
        request: Meta,
        frames: &RequestFrames,
        dtype: Dtype,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let count = frames.keys.len() / KEY_SIZE;
        let rows = sparse::rows(&frames.keys, target.key)?;
        let (row_len, vals) = if rows.is_empty() {
            (0, Bytes::new())
        } else {
            self.gather(&request, target, &rows, dtype)?
        };
        // In elements, unlike everywhere else: so does MXNet, and its workers don't look.
        let kv = KvPairs { keys: frames.keys.clone(), vals, lens: sparse::lens(count, row_len) };
        self.whereabouts().deliver(target.key, Answer { request, kv }, out);
        Ok(())
    }

    /// Elements of a row, and these rows.
    fn gather(
        &self,
        request: &Meta,
        target: RequestTarget,
        rows: &[i64],
        dtype: Dtype,
    ) -> Result<(usize, Bytes), StoreError> {
        let at = self.known(target)?;
        let (piece, key) = (self.held.piece(at)?, self.held.view.name(at.key));
        let Layout::Rows { row_len } = piece.layout else {
            return Err(StoreError::RowsOfDense { key });
        };
        self.check(at, request, piece.layout, dtype, None)?;
        if rows.len().saturating_mul(row_len * dtype.size()) > BYTES_MAX {
            return Err(StoreError::Malformed("an answer of more than 2 GiB"));
        }
        let vals = sparse::gather(piece.value.buffer().bytes(), rows, row_len * dtype.size())
            .map_err(|row| StoreError::Row {
                key,
                worker: id_to_rank(request.sender),
                rows: piece.length(),
                row,
            })?;
        Ok((row_len, vals))
    }
}
