//! What an operator reads of the values that are here (`pslite save`). Nothing changes by it.

use super::pieces::tensor::Layout;
use super::state::Store;
use crate::wire::save::{SaveAsked, SaveTold, SavedPiece};

impl Store {
    /// The first piece from there on that this server owns; or that there is none, and what workers
    /// have said of arrays with names.
    pub fn saved(&mut self, asked: SaveAsked) -> SaveTold {
        let SaveAsked { key, from, bare } = asked;
        for (at, tensor) in self.held.tensors.range_mut(key..) {
            let first = if *at == key { from } else { 0 };
            let Some(piece) = tensor.pieces.iter_mut().find(|piece| piece.from >= first) else {
                continue;
            };
            let row = match piece.layout {
                Layout::Dense => 0,
                Layout::Rows { row_len } => row_len as u64,
            };
            let piece = SavedPiece {
                key: *at,
                from: piece.from,
                to: piece.to,
                length: tensor.length,
                version: piece.version,
                dtype: piece.dtype as u32,
                row,
                values: if bare { Default::default() } else { piece.value.lend() },
            };
            return SaveTold { piece: Some(piece), facts: Vec::new() };
        }
        SaveTold { piece: None, facts: self.held.agreements.about_arrays() }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::StoreConfig;
    use crate::values::Dtype;
    use crate::values::kind::{RequestKind, command_of};
    use crate::wire::{Meta, worker_id};

    fn store() -> Store {
        let mut store = Store::new(StoreConfig::alone(1));
        for (timestamp, key) in (1..).zip([3_u64, 9]) {
            let request = Meta {
                sender: worker_id(0),
                timestamp,
                head: command_of(RequestKind::Default, Dtype::F32),
                push: true,
                request: true,
                ..Meta::default()
            };
            let values: Bytes = [key as f32, 1.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
            let lens = Bytes::copy_from_slice(&8_i32.to_ne_bytes());
            let keys = Bytes::copy_from_slice(&key.to_ne_bytes());
            let mut answers = Vec::new();
            store.request(request, &[keys, values, lens], &mut answers);
            assert_eq!(answers.len(), 1);
        }
        store
    }

    #[test]
    fn whoever_asks_for_one_after_the_other_gets_them_all() {
        let (mut store, mut asked, mut keys) = (store(), SaveAsked::default(), Vec::new());
        while let Some(piece) = store.saved(asked).piece {
            assert_eq!((piece.from, piece.to, piece.length, piece.row), (0, 2, 2, 0));
            assert_eq!(piece.dtype, Dtype::F32 as u32);
            assert_eq!(piece.values[..4], (piece.key as f32).to_ne_bytes());
            keys.push(piece.key);
            asked = SaveAsked { key: piece.key, from: piece.to, bare: false };
        }
        assert_eq!(keys, [3, 9]);
        let bare = store.saved(SaveAsked { bare: true, ..SaveAsked::default() });
        assert_eq!(bare.piece.unwrap().values, Bytes::new());
    }
}
