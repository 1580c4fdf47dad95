//! Another server takes over, in Python, what this one cannot serve: when it must, whether it can,
//! and what it gets. May touch what the store may.

use bytes::Bytes;

use crate::store::error::StoreError;
use crate::store::pieces::stalls::OpenRounds;
use crate::store::pieces::tensor::{Layout, Piece};
use crate::store::state::Store;
use crate::values::key_at;
use crate::values::kind::{RequestKind, command_of, kind_of};
use crate::wire::{Key, Meta};

impl Store {
    /// Why the store can never update the key that this request makes, if so.
    #[must_use]
    pub fn cannot_take(&self, request: &Meta, frames: &[Bytes]) -> Option<StoreError> {
        // All keys of a request are of one space.
        let first = key_at(frames.first()?, 0)?;
        let optimizer = self.held.mode(first).optimizer.as_ref();
        let optimizer = optimizer.filter(|optimizer| optimizer.is_choosy())?;
        let (kind, _) = kind_of(request.head).ok().filter(|_| request.push)?;
        // Before the key of a compressed push comes the number of its elements.
        let at = usize::from(kind == RequestKind::Compressed);
        let key =
            self.key(frames.first()?, at).ok().filter(|key| !self.whereabouts().knows(*key))?;
        self.held.unfit(optimizer, key, kind == RequestKind::RowSparse)
    }

    /// True if another server that gets all values, and the optimizer, goes on as this one would:
    /// nothing else is kept yet.
    #[must_use]
    pub fn is_only_values(&self) -> bool {
        self.held.pieces().all(|piece| piece.state.is_none() && !piece.round.is_open())
    }

    /// For another server that takes over: each key's value, as the push that would initialise it
    /// (metadata without sender and timestamp, and frames). The store is empty then.
    pub fn give_away(&mut self) -> Vec<(Meta, Vec<Bytes>)> {
        let tensors = std::mem::take(&mut self.held.tensors);
        self.held.stalls = OpenRounds::default();
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
