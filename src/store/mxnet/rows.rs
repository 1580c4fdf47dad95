//! Pushes and pulls of row_sparse arrays: some rows of a matrix (kvstore_dist_server.h,
//! DataHandleRowSparse). May touch what the store may.

use bytes::Bytes;

use super::{Answer, BYTES_MAX, Frames, Store, done};
use crate::kv::{KEY_SIZE, KvPairs};
use crate::store::error::StoreError;
use crate::store::part::Part;
use crate::store::tensor::{Layout, Piece};
use crate::store::{Dtype, sparse};
use crate::wire::Meta;

impl Store {
    /// DataHandleRowSparse.
    pub(super) fn push_rows(
        &mut self,
        request: Meta,
        frames: &Frames,
        dtype: Dtype,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let key = self.key(&frames.keys, 0)?;
        let rows = sparse::rows(&frames.keys, self.config.first_key, key)?;
        let row_len = sparse::row_len(&frames.lens, rows.len(), frames.vals.len(), dtype)?;
        if !self.tensors.contains_key(&key) {
            if rows.is_empty() || !rows.iter().copied().eq(0..rows.len() as i64) {
                return Err(StoreError::Malformed("the first push of a matrix brings all rows"));
            }
            let layout = Layout::Rows { row_len };
            return self.init(
                key,
                Piece::new(self.copy(&frames.vals), dtype, layout),
                request,
                answers,
            );
        }
        let piece = self.piece(key)?;
        let Layout::Rows { row_len: expected } = piece.layout else {
            return Err(StoreError::Storage { key, is: piece.layout.name() });
        };
        if rows.is_empty() && !self.sync {
            // Nothing to apply.
            answers.push(done(request));
            return Ok(());
        }
        let length = piece.length();
        if let Some(row) = rows.iter().find(|row| **row >= length as i64) {
            return Err(StoreError::Row { key, rows: length, row: *row });
        }
        let bytes = rows.len() * expected * dtype.size();
        if !rows.is_empty() && (row_len != expected || bytes != frames.vals.len()) {
            return Err(StoreError::Size { key, expected: bytes, got: frames.vals.len() });
        }
        self.check(key, Layout::Rows { row_len: expected }, dtype, None)?;
        let (rows, values) = sparse::ascending(rows, &frames.vals, expected * dtype.size());
        self.push(key, request, Part::Rows { rows, values }, answers)
    }

    /// RowSparsePullResponse.
    pub(super) fn pull_rows(
        &self,
        request: Meta,
        frames: &Frames,
        dtype: Dtype,
    ) -> Result<Answer, StoreError> {
        let key = self.key(&frames.keys, 0)?;
        let count = frames.keys.len() / KEY_SIZE;
        let rows = sparse::rows(&frames.keys, self.config.first_key, key)?;
        if rows.is_empty() {
            let kv = KvPairs {
                keys: frames.keys.clone(),
                vals: Bytes::new(),
                lens: sparse::lens(count, 0),
            };
            return Ok(Answer { request, kv });
        }
        let piece = self.piece(key)?;
        let Layout::Rows { row_len } = piece.layout else {
            return Err(StoreError::Storage { key, is: piece.layout.name() });
        };
        self.check(key, piece.layout, dtype, None)?;
        if rows.len().saturating_mul(row_len * dtype.size()) > BYTES_MAX {
            return Err(StoreError::Malformed("an answer of more than 2 GiB"));
        }
        let vals = sparse::gather(piece.value.buffer().bytes(), &rows, row_len * dtype.size())
            .map_err(|row| StoreError::Row { key, rows: piece.length(), row })?;
        // In elements, unlike everywhere else: so does MXNet, and its workers don't look.
        let kv = KvPairs { keys: frames.keys.clone(), vals, lens: sparse::lens(count, row_len) };
        Ok(Answer { request, kv })
    }
}
