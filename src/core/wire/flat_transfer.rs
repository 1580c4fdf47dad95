//! A transfer as it is on the wire: one message of protobuf for all kinds, of which each uses a few
//! fields. Nothing else knows it. What comes and is not of its kind is left out; whoever reads the
//! rest checks ranges before use.

use bytes::Bytes;

use super::agreement::Agree;
use super::elastic::{Mark, OPAQUE_END};
use super::ids::{Key, NodeId};
use super::transfer::{
    CommandsEnd, FirstPush, OpaqueKey, OptimizerCount, PieceCut, PieceName, RoundSum, ToldCommand,
    Transfer, TransferKind, WrittenPiece,
};

/// The number of a `Confirmed` that answers a `Moved`.
const OF_MOVED: u64 = 1;
/// The head of an optimizer (`kController`).
const OPTIMIZER: i32 = 0;

/// See the module.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct FlatTransfer {
    #[prost(enumeration = "TransferKind", tag = "1")]
    pub(crate) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) key: Key,
    #[prost(uint64, tag = "3")]
    pub(crate) from: u64,
    /// Of a `Confirmed` 0: it answers `CommandsEnd`.
    #[prost(uint64, tag = "4")]
    pub(crate) to: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) term: u64,
    /// A version, `until`, or bytes.
    #[prost(uint64, tag = "6")]
    pub(crate) version: u64,
    /// Of all that is about an opaque key: where that ends.
    #[prost(uint64, tag = "7")]
    pub(crate) length: u64,
    #[prost(int32, tag = "8")]
    pub(crate) dtype: i32,
    #[prost(uint64, tag = "9")]
    pub(crate) row_len: u64,
    /// Of a `Command` one: it is a count of optimizers.
    #[prost(message, repeated, tag = "10")]
    pub(crate) marks: Vec<Mark>,
    #[prost(bool, tag = "11")]
    pub(crate) has_master: bool,
    #[prost(bytes = "bytes", optional, tag = "12")]
    pub(crate) state: Option<Bytes>,
    #[prost(uint64, repeated, tag = "13")]
    pub(crate) cuts: Vec<u64>,
    /// Of a `Confirmed` the begin of the piece: it answers `Drop`.
    #[prost(uint64, repeated, tag = "14")]
    pub(crate) gone: Vec<u64>,
    #[prost(int64, repeated, tag = "15")]
    pub(crate) rows: Vec<i64>,
    #[prost(int32, tag = "16")]
    pub(crate) head: i32,
    /// A generation, a count of optimizers, or an epoch; of a `Confirmed` [`OF_MOVED`].
    #[prost(uint64, tag = "17")]
    pub(crate) number: u64,
    /// Of a count of optimizers, as in its mark.
    #[prost(int32, tag = "18")]
    pub(crate) worker: NodeId,
    /// Of a count of optimizers, as in its mark.
    #[prost(int32, tag = "19")]
    pub(crate) customer: i32,
    #[prost(message, repeated, tag = "20")]
    pub(crate) first_pushes: Vec<FirstPush>,
    #[prost(message, repeated, tag = "21")]
    pub(crate) agreed: Vec<Agree>,
    #[prost(uint32, tag = "25")]
    pub(crate) space: u32,
}

impl From<FlatTransfer> for Transfer {
    fn from(flat: FlatTransfer) -> Self {
        let kind = flat.kind();
        let FlatTransfer { key, from, to, term, version, dtype, marks, number, space, .. } = flat;
        let (piece, until) = (PieceName { key, from, to, term }, version);
        match kind {
            TransferKind::Unknown => Self::Unknown,
            TransferKind::Move if piece.spans(0, OPAQUE_END) => {
                let first_pushes = flat.first_pushes;
                Self::MoveOpaque(OpaqueKey { piece, bytes: version, marks, first_pushes })
            }
            TransferKind::Move | TransferKind::Seed => {
                let written = WrittenPiece {
                    piece,
                    version,
                    length: flat.length,
                    dtype,
                    row_len: flat.row_len,
                    marks,
                    has_master: flat.has_master,
                    state: flat.state,
                    generation: number,
                };
                if kind == TransferKind::Move { Self::Move(written) } else { Self::Seed(written) }
            }
            TransferKind::Moved => Self::Moved(piece),
            TransferKind::Round => {
                let rows = flat.rows;
                Self::Round(RoundSum { piece, version, dtype, marks, rows, generation: number })
            }
            TransferKind::Confirmed if to == 0 => Self::CommandsConfirmed { until },
            TransferKind::Confirmed if !flat.gone.is_empty() => Self::CopyForgotten(piece),
            TransferKind::Confirmed if number > 0 => Self::Forgotten(piece),
            TransferKind::Confirmed => Self::Confirmed { piece, version },
            TransferKind::Cut => Self::Cut(PieceCut { piece, cuts: flat.cuts, gone: flat.gone }),
            TransferKind::Drop => Self::Drop(piece),
            TransferKind::Command => match (flat.head, &marks[..]) {
                (OPTIMIZER, &[last]) => {
                    Self::OptimizerCount(OptimizerCount { space, last, count: number, until })
                }
                (head, _) => Self::Command(ToldCommand { space, head, generation: number, until }),
            },
            TransferKind::CommandsEnd => {
                Self::CommandsEnd(CommandsEnd { until, epoch: number, agreed: flat.agreed })
            }
            TransferKind::Refused => Self::Refused(piece),
        }
    }
}

impl FlatTransfer {
    /// What all kinds have.
    fn about(transfer: &Transfer) -> Self {
        let kind = transfer.kind().into();
        let Some(&PieceName { key, from, to, term }) = transfer.piece() else {
            return Self { kind, ..Self::default() };
        };
        let length = if to == OPAQUE_END { OPAQUE_END } else { 0 };
        Self { kind, key, from, to, term, length, ..Self::default() }
    }
}

impl From<&Transfer> for FlatTransfer {
    fn from(transfer: &Transfer) -> Self {
        let about = Self::about(transfer);
        match transfer {
            Transfer::Unknown | Transfer::Moved(_) | Transfer::Refused(_) | Transfer::Drop(_) => {
                about
            }
            Transfer::Move(written) | Transfer::Seed(written) => Self {
                version: written.version,
                length: written.length,
                dtype: written.dtype,
                row_len: written.row_len,
                marks: written.marks.clone(),
                has_master: written.has_master,
                state: written.state.clone(),
                number: written.generation,
                ..about
            },
            Transfer::MoveOpaque(opaque) => Self {
                version: opaque.bytes,
                marks: opaque.marks.clone(),
                first_pushes: opaque.first_pushes.clone(),
                ..about
            },
            Transfer::Round(sum) => Self {
                version: sum.version,
                dtype: sum.dtype,
                marks: sum.marks.clone(),
                rows: sum.rows.clone(),
                number: sum.generation,
                ..about
            },
            Transfer::Confirmed { version, .. } => Self { version: *version, ..about },
            Transfer::Forgotten(_) => Self { number: OF_MOVED, ..about },
            Transfer::CopyForgotten(piece) => Self { gone: vec![piece.from], ..about },
            Transfer::CommandsConfirmed { until } => Self { version: *until, ..about },
            Transfer::Cut(PieceCut { cuts, gone, .. }) => {
                Self { cuts: cuts.clone(), gone: gone.clone(), ..about }
            }
            &Transfer::Command(ToldCommand { space, head, generation, until }) => {
                Self { version: until, head, number: generation, space, ..about }
            }
            &Transfer::OptimizerCount(OptimizerCount { space, last, count, until }) => {
                let Mark { worker, customer, .. } = last;
                let (version, number, marks) = (until, count, vec![last]);
                Self { version, marks, head: OPTIMIZER, number, worker, customer, space, ..about }
            }
            Transfer::CommandsEnd(CommandsEnd { until, epoch, agreed }) => {
                Self { version: *until, number: *epoch, agreed: agreed.clone(), ..about }
            }
        }
    }
}
