//! What a server does as the replica of another one (docs/elastic.md, "Replicas"). May touch what
//! the store may.

use bytes::Bytes;

use super::kept::Copy;
use super::limits::PIECES_MAX;
use super::state::Elastic;
use super::travel::about;
use crate::store::error::StoreError;
use crate::store::limits::TENSORS_MAX;
use crate::store::outbound::Outbound;
use crate::store::state::Store;
use crate::store::tensor::{Layout, Piece};
use crate::store::{Addend, Sum};
use crate::values::Dtype;
use crate::wire::NodeId;
use crate::wire::elastic::{Transfer, TransferKind};

impl Store {
    pub(super) fn take_seed(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        // What has left was written by the optimizer of then, of which a server that joined since
        // may never hear: its state would be forgotten with the optimizer in any case.
        let current = self.generation(transfer.key);
        let is_former =
            transfer.number < current && self.optimizer_of(transfer.key, transfer.number).is_err();
        let generation = if is_former { current } else { transfer.number };
        let piece = self.read_piece(transfer, frames, generation)?;
        let (key, range) = (transfer.key, (piece.from, piece.to));
        let (term, version) = (piece.term, piece.version);
        let copy = Copy { piece, length: transfer.length, generation: transfer.number };
        let Some(elastic) = &mut self.elastic else { return Ok(()) };
        if elastic.copies.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        // Nearly all keys are one piece, and there may be very many of them.
        let copies = elastic.copies.entry((key, from)).or_insert_with(|| Vec::with_capacity(1));
        copies.retain(|copy| copy.piece.to <= range.0 || range.1 <= copy.piece.from);
        copies.push(copy);
        elastic.changes.of(key);
        let confirmed = Transfer { version, ..about(TransferKind::Confirmed, key, range, term) };
        self.confirm(from, confirmed, out);
        Ok(())
    }

    pub(super) fn take_round(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        let values = match frames {
            [_] => None,
            [_, values] => Some(values),
            _ => return Err(malformed("it has frames too many, or too few")),
        };
        let dtype = Dtype::from_number(transfer.dtype.into())
            .ok_or(malformed("its element type is unknown"))?;
        let optimizer = self.optimizer_of(transfer.key, transfer.number)?.cloned();
        let key = self.view.local(transfer.key);
        let copy = find_copy(self.elastic.as_deref_mut(), from, transfer)?;
        let piece = &mut copy.piece;
        if piece.version.checked_add(1) != Some(transfer.version) || piece.term != transfer.term {
            return Err(malformed("it is not the next round of the copy"));
        }
        if transfer.number < copy.generation {
            return Err(malformed("its optimizer is older than that of the round before"));
        }
        let sum =
            values.map(|values| read_sum(piece, dtype, &transfer.rows, values)).transpose()?;
        if transfer.number > copy.generation {
            (copy.generation, piece.state) = (transfer.number, None);
        }
        if dtype == Dtype::F32 {
            // The owner has been told of multi-precision since.
            piece.make_master();
        }
        match sum {
            Some(sum) => piece.apply(key, optimizer.as_deref(), dtype, sum, &mut self.scratch)?,
            None => piece.version += 1,
        }
        piece.marks.add(&transfer.marks);
        let confirmed = Transfer {
            version: transfer.version,
            ..about(
                TransferKind::Confirmed,
                transfer.key,
                (transfer.from, transfer.to),
                transfer.term,
            )
        };
        self.confirm(from, confirmed, out);
        Ok(())
    }

    /// Says what is here; or will say it with the next policy, if this server may be let go by
    /// that.
    fn confirm(&mut self, owner: NodeId, confirmed: Transfer, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let Some(unsaid) = &mut elastic.unsaid else {
            return self.send(owner, confirmed, Vec::new(), out);
        };
        unsaid.insert((owner, confirmed.key, confirmed.from, confirmed.to), confirmed);
    }

    pub(super) fn take_cut(&mut self, from: NodeId, transfer: &Transfer) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        if transfer.cuts.len() >= PIECES_MAX {
            return Err(malformed("it has too many cuts"));
        }
        let maker = self.memory.clone();
        let copy = find_copy(self.elastic.as_deref_mut(), from, transfer)?;
        let mut borders = vec![transfer.from];
        borders.extend(&transfer.cuts);
        borders.push(transfer.to);
        if borders.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(malformed("its cuts are not within the piece, in ascending order"));
        }
        if copy.piece.layout != Layout::Dense {
            return Err(malformed("a row_sparse key is not cut"));
        }
        let parts = borders.windows(2).map(|borders| {
            let mut piece = copy.piece.part(borders[0], borders[1], maker.as_deref());
            if !transfer.gone.contains(&piece.from) {
                piece.term = transfer.term;
            }
            Copy { piece, length: copy.length, generation: copy.generation }
        });
        let parts: Vec<Copy> = parts.collect();
        let Some(elastic) = &mut self.elastic else { return Ok(()) };
        // Whatever term the owner names: what was cut gives its place to its parts.
        let range = (transfer.from, transfer.to);
        let copies = elastic.copies.entry((transfer.key, from)).or_default();
        copies.retain(|copy| (copy.piece.from, copy.piece.to) != range);
        copies.extend(parts);
        elastic.changes.of(transfer.key);
        Ok(())
    }

    /// The owner needs its copy no more. It is told when that is gone: until then this server could
    /// claim it.
    pub(super) fn take_drop(&mut self, from: NodeId, transfer: &Transfer, out: &mut Outbound) {
        self.forget_copy(from, transfer);
        let &Transfer { key, from: begin, to, term, .. } = transfer;
        let forgotten = Transfer {
            gone: vec![begin],
            ..about(TransferKind::Confirmed, key, (begin, to), term)
        };
        self.send(from, forgotten, Vec::new(), out);
    }

    fn forget_copy(&mut self, from: NodeId, transfer: &Transfer) {
        let Some(elastic) = &mut self.elastic else { return };
        let place = (transfer.key, from);
        if let Some(copies) = elastic.copies.get_mut(&place) {
            // The piece may have come back to its owner meanwhile: that copy has a higher term.
            copies.retain(|copy| {
                copy.piece.term > transfer.term
                    || (copy.piece.from, copy.piece.to) != (transfer.from, transfer.to)
            });
            if copies.is_empty() {
                elastic.copies.remove(&place);
            }
            elastic.changes.of(transfer.key);
        }
    }
}

fn find_copy<'a>(
    elastic: Option<&'a mut Elastic>,
    from: NodeId,
    transfer: &Transfer,
) -> Result<&'a mut Copy, StoreError> {
    let copies = elastic.and_then(|elastic| elastic.copies.get_mut(&(transfer.key, from)));
    let range = (transfer.from, transfer.to);
    let copy = copies.into_iter().flatten().find(|copy| (copy.piece.from, copy.piece.to) == range);
    copy.ok_or(StoreError::Transfer("there is no copy of that piece here"))
}

/// The sum of a round as it came, checked.
fn read_sum(piece: &Piece, dtype: Dtype, rows: &[i64], values: &Bytes) -> Result<Sum, StoreError> {
    let malformed = StoreError::Transfer;
    if dtype != piece.sum_dtype() && dtype != Dtype::F32 {
        return Err(malformed("its sum is of another type than the copy"));
    }
    match piece.layout {
        Layout::Dense if rows.is_empty() && values.len() == piece.length() * dtype.size() => {
            Ok(Sum::One(Addend::Dense(values.clone())))
        }
        Layout::Dense => Err(malformed("its sum has another length than the copy")),
        Layout::Rows { row_len } => {
            let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = |row: &i64| usize::try_from(*row).is_ok_and(|row| row < piece.length());
            if !ascending || !rows.iter().all(inside) {
                return Err(malformed("its rows are not those of the copy, in ascending order"));
            }
            if values.len() != rows.len() * row_len * dtype.size() {
                return Err(malformed("its rows have another length than those of the copy"));
            }
            Ok(Sum::One(Addend::Rows { rows: rows.to_vec(), values: values.clone() }))
        }
    }
}
