//! The slices of a program's request that the local model can answer, and why it cannot answer
//! others. Names the forms of requests; knows no model.

use crate::kv::Slices;
use crate::values::kind::{RequestKind, form_of, kind_of};
use crate::values::{Dtype, Form, KeyRange, KvPairs};
use crate::wire::{Key, Meta};

const CANNOT: &str = "cannot be answered in a job that exchanges deltas (PSLITE_SYNC)";
const SPARSE: &str = "this job exchanges deltas (PSLITE_SYNC), and row_sparse arrays cannot be: \
    make the array dense (stype='default', sparse_grad=False)";
const COMPRESSED: &str = "this job exchanges deltas (PSLITE_SYNC), and gradient compression is for \
    gradients: drop compression_params";

/// One slice of a request.
#[derive(Clone, Debug)]
pub(super) struct LocalSlice {
    pub(super) rank: u32,
    pub(super) key: Key,
    pub(super) dtype: Dtype,
    pub(super) kv: KvPairs,
}

/// The slices of a request that the local model can answer.
pub(super) fn cut(
    meta: &Meta,
    slices: Slices,
    ranges: &[KeyRange],
) -> Result<Vec<LocalSlice>, String> {
    let mut all = Vec::with_capacity(1);
    for (rank, kv) in slices.into_iter().enumerate() {
        let Some(kv) = kv else { continue };
        let first = ranges.get(rank).map_or(0, |range| range.begin);
        let kind = kind_of(meta.head);
        let (Ok((RequestKind::Default, dtype)), (Form::Dense { .. }, key)) =
            (kind, form_of(meta, &kv, first))
        else {
            return Err(match kind {
                Ok((RequestKind::RowSparse, _)) => SPARSE.to_owned(),
                Ok((RequestKind::Compressed, _)) => COMPRESSED.to_owned(),
                _ => format!("a request with command {} {CANNOT}", meta.head),
            });
        };
        all.push(LocalSlice { rank: rank as u32, key, dtype, kv });
    }
    Ok(all)
}
