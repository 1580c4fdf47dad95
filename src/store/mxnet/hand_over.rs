//! Another server takes over, in Python, what this one cannot serve: when it must, whether it can, and what
//! it gets. May touch what the store may.

use bytes::Bytes;

use super::Store;
use crate::store::error::StoreError;
use crate::store::kind::{RequestKind, command_of, kind_of};
use crate::store::stalls::Stalls;
use crate::store::tensor::{Layout, Piece};
use crate::wire::{Key, Meta};

impl Store {
    /// The first row_sparse key, if there is any.
    pub(in crate::store) fn rows_key(&self) -> Option<i64> {
        let is_rows = |piece: &Piece| matches!(piece.layout, Layout::Rows { .. });
        let mut tensors = self.tensors.iter();
        let found = tensors.find(|(_, tensor)| tensor.pieces.iter().any(is_rows));
        found.map(|(key, _)| self.view.local(*key))
    }

    /// The first key that is not here in one piece, if there is any.
    pub(in crate::store) fn cut_key(&self) -> Option<i64> {
        let mut tensors = self.tensors.iter();
        let found = tensors.find(|(_, tensor)| tensor.whole_piece().is_none());
        found.map(|(key, _)| self.view.local(*key))
    }

    /// Why the store can never update the key that this request makes, if so: it is row_sparse, and the
    /// optimizer has no kernel for that here.
    #[must_use]
    pub fn cannot_take(&self, request: &Meta, frames: &[Bytes]) -> Option<StoreError> {
        let optimizer = self.optimizer.as_ref()?;
        let reason = optimizer.lacks_rows()?;
        let is_rows = kind_of(request.head).is_ok_and(|(kind, _)| kind == RequestKind::RowSparse);
        let key = self.key(frames.first()?, 0).ok().filter(|_| is_rows && request.push)?;
        let class = optimizer.class();
        let new = !self.knows(key);
        new.then(|| StoreError::Rows { class, key: self.view.local(key), reason })
    }

    /// True if another server that gets all values, and the optimizer, goes on as this one would: nothing
    /// else is kept yet.
    #[must_use]
    pub fn is_only_values(&self) -> bool {
        self.pieces().all(|piece| piece.state.is_none() && !piece.round.is_open())
    }

    /// For another server that takes over: each key's value, as the push that would initialise it
    /// (metadata without sender and timestamp, and frames). The store is empty then.
    pub fn give_away(&mut self) -> Vec<(Meta, Vec<Bytes>)> {
        let tensors = std::mem::take(&mut self.tensors);
        self.stalls = Stalls::default();
        let pushes = tensors.iter().flat_map(|(key, tensor)| {
            tensor.pieces.iter().map(|piece| Self::init_push(*key, piece))
        });
        pushes.collect()
    }

    fn init_push(first: Key, piece: &Piece) -> (Meta, Vec<Bytes>) {
        let vals = piece.value.lend();
        let (kind, keys, lens) = match piece.layout {
            Layout::Dense => (RequestKind::Default, vec![first], vec![vals.len() as i32]),
            Layout::Rows { row_len } => {
                let rows = 0..piece.length() as u64;
                let keys = std::iter::once(first).chain(rows.map(|row| first.wrapping_add(row)));
                let mut lens = vec![(row_len * piece.dtype.size()) as i32; piece.length() + 1];
                lens[0] = 0;
                (RequestKind::RowSparse, keys.collect(), lens)
            }
        };
        let head = command_of(kind, piece.dtype);
        let meta = Meta { head, push: true, request: true, ..Meta::default() };
        let keys = Bytes::copy_from_slice(bytemuck::cast_slice(&keys));
        (meta, vec![keys, vals, Bytes::copy_from_slice(bytemuck::cast_slice(&lens))])
    }
}
