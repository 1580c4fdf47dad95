//! What a server does as the replica of another one (docs/elastic.md, "Replicas"). May touch what
//! a `Mover` may.

use bytes::Bytes;

use super::kept::Copy;
use super::mover::Mover;
use crate::store::error::StoreError;
use crate::store::pieces::limits::PIECES_MAX;
use crate::store::pieces::sums::{Addend, Sum};
use crate::store::pieces::tensor::{Layout, Piece};
use crate::values::Dtype;
use crate::wire::NodeId;
use crate::wire::transfer::{PieceCut, PieceName, RoundSum, Transfer, WrittenPiece};

impl Mover<'_> {
    pub(super) fn take_seed(
        &mut self,
        from: NodeId,
        written: &WrittenPiece,
        frames: &[Bytes],
    ) -> Result<(), StoreError> {
        let &WrittenPiece { piece: name, length, generation, version, .. } = written;
        // What has left was written by the optimizer of then, of which a server that joined since
        // may never hear: its state would be forgotten with the optimizer in any case.
        let current = self.held.generation(name.key);
        let is_former =
            generation < current && self.held.optimizer_of(name.key, generation).is_err();
        let known = if is_former { current } else { generation };
        let piece = self.held.read_piece(written, frames, known)?;
        let copy = Copy { piece, length, generation };
        self.known.copies.keep(from, name.key, copy)?;
        self.known.changes.of(name.key);
        self.confirm(from, name, version);
        Ok(())
    }

    pub(super) fn take_round(
        &mut self,
        from: NodeId,
        sum: &RoundSum,
        frames: &[Bytes],
    ) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        let &RoundSum { piece: name, version, generation, ref rows, .. } = sum;
        let values = match frames {
            [_] => None,
            [_, values] => Some(values),
            _ => return Err(malformed("it has frames too many, or too few")),
        };
        let dtype =
            Dtype::from_number(sum.dtype.into()).ok_or(malformed("its element type is unknown"))?;
        let optimizer = self.held.optimizer_of(name.key, generation)?.cloned();
        let key = self.held.view.local(name.key);
        let copy = self.known.copies.find(from, &name)?;
        let piece = &mut copy.piece;
        if piece.version.checked_add(1) != Some(version) || piece.term != name.term {
            return Err(malformed("it is not the next round of the copy"));
        }
        if generation < copy.generation {
            return Err(malformed("its optimizer is older than that of the round before"));
        }
        let addend = values.map(|values| read_sum(piece, dtype, rows, values)).transpose()?;
        if generation > copy.generation {
            (copy.generation, piece.state) = (generation, None);
        }
        if dtype == Dtype::F32 {
            // The owner has been told of multi-precision since.
            piece.make_master();
        }
        match addend {
            Some(sum) => {
                piece.apply(key, optimizer.as_deref(), dtype, sum, &mut self.held.scratch)?
            }
            None => piece.version += 1,
        }
        piece.marks.add(&sum.marks);
        self.confirm(from, name, version);
        Ok(())
    }

    /// Says what is here; or will say it with the next policy, if this server may be let go by
    /// that.
    fn confirm(&mut self, owner: NodeId, piece: PieceName, version: u64) {
        let confirmed = Transfer::Confirmed { piece, version };
        let Some(unsaid) = &mut self.known.copies.unsaid else {
            return self.send(owner, confirmed, Vec::new());
        };
        unsaid.insert((owner, piece.key, piece.from, piece.to), confirmed);
    }

    pub(super) fn take_cut(&mut self, from: NodeId, cut: &PieceCut) -> Result<(), StoreError> {
        let malformed = StoreError::Transfer;
        let PieceCut { piece: name, cuts, gone } = cut;
        if cuts.len() >= PIECES_MAX {
            return Err(malformed("it has too many cuts"));
        }
        let maker = self.held.memory.clone();
        let copy = self.known.copies.find(from, name)?;
        let mut borders = vec![name.from];
        borders.extend(cuts);
        borders.push(name.to);
        if borders.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(malformed("its cuts are not within the piece, in ascending order"));
        }
        if copy.piece.layout != Layout::Dense {
            return Err(malformed("a row_sparse key is not cut"));
        }
        let parts = borders.windows(2).map(|borders| {
            let mut piece = copy.piece.part(borders[0], borders[1], maker.as_deref());
            if !gone.contains(&piece.from) {
                piece.term = name.term;
            }
            Copy { piece, length: copy.length, generation: copy.generation }
        });
        let parts: Vec<Copy> = parts.collect();
        // Whatever term the owner names: what was cut gives its place to its parts.
        let copies = self.known.copies.of.entry((name.key, from)).or_default();
        copies.retain(|copy| !name.spans(copy.piece.from, copy.piece.to));
        copies.extend(parts);
        self.known.changes.of(name.key);
        Ok(())
    }

    /// The owner needs its copy no more. It is told when that is gone: until then this server could
    /// claim it.
    pub(super) fn take_drop(&mut self, from: NodeId, dropped: PieceName) {
        if self.known.copies.forget(from, &dropped) {
            self.known.changes.of(dropped.key);
        }
        self.send(from, Transfer::CopyForgotten(dropped), Vec::new());
    }
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
