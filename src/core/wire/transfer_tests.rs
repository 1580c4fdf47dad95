//! What each transfer is on the wire: nodes of two versions may be in one job.

use bytes::Bytes;

use super::FlatTransfer;
use super::elastic::{Mark, OPAQUE_END};
use super::transfer::{
    CommandsEnd, FirstPush, OpaqueKey, OptimizerCount, PieceCut, PieceName, RoundSum, ToldCommand,
    Transfer, TransferKind, WrittenPiece,
};

const PIECE: PieceName = PieceName { key: 5, from: 16, to: 32, term: 3 };
const MARK: Mark = Mark { worker: 9, customer: 1, timestamp: 7, life: 2 };

/// A transfer about that piece.
fn about(kind: TransferKind) -> FlatTransfer {
    let PieceName { key, from, to, term } = PIECE;
    FlatTransfer { key, from, to, term, ..bare(kind) }
}

/// A transfer about an opaque key.
fn opaque(kind: TransferKind) -> FlatTransfer {
    FlatTransfer { from: 0, to: OPAQUE_END, length: OPAQUE_END, ..about(kind) }
}

fn bare(kind: TransferKind) -> FlatTransfer {
    FlatTransfer { kind: kind.into(), ..FlatTransfer::default() }
}

/// A piece with everything, and how it is written.
fn written(kind: TransferKind) -> (WrittenPiece, FlatTransfer) {
    let (state, marks) = (Some(Bytes::from_static(b"state")), vec![MARK]);
    let written = WrittenPiece {
        piece: PIECE,
        version: 4,
        length: 40,
        dtype: 2,
        row_len: 8,
        marks: marks.clone(),
        has_master: true,
        state: state.clone(),
        generation: 6,
    };
    let (version, length, row_len, number) = (4, 40, 8, 6);
    let flat = FlatTransfer { version, length, row_len, number, dtype: 2, marks, ..about(kind) };
    (written, FlatTransfer { has_master: true, state, ..flat })
}

fn check(transfer: &Transfer, flat: FlatTransfer) {
    assert_eq!(FlatTransfer::from(transfer), flat);
    assert_eq!(Transfer::from(flat), *transfer);
}

#[test]
fn what_is_about_pieces_is_written_as_ever() {
    use TransferKind::{Confirmed, Cut, Drop, Move, Moved, Round, Seed};
    let (moved, flat) = written(Move);
    check(&Transfer::Move(moved), flat);
    let (seed, flat) = written(Seed);
    check(&Transfer::Seed(seed), flat);
    check(&Transfer::Moved(PIECE), about(Moved));
    check(&Transfer::Drop(PIECE), about(Drop));
    let (marks, rows) = (vec![MARK], vec![1, 3]);
    let flat = FlatTransfer { version: 4, dtype: 2, marks, rows, number: 6, ..about(Round) };
    let (marks, rows) = (vec![MARK], vec![1, 3]);
    let sum = RoundSum { piece: PIECE, version: 4, dtype: 2, marks, rows, generation: 6 };
    check(&Transfer::Round(sum), flat);
    let cut = PieceCut { piece: PIECE, cuts: vec![20, 24], gone: vec![20] };
    let flat = FlatTransfer { cuts: vec![20, 24], gone: vec![20], ..about(Cut) };
    check(&Transfer::Cut(cut), flat);
    let flat = FlatTransfer { version: 4, ..about(Confirmed) };
    check(&Transfer::Confirmed { piece: PIECE, version: 4 }, flat);
    check(&Transfer::Forgotten(PIECE), FlatTransfer { number: 1, ..about(Confirmed) });
    check(&Transfer::CopyForgotten(PIECE), FlatTransfer { gone: vec![16], ..about(Confirmed) });
}

#[test]
fn what_is_about_opaque_keys_is_written_as_ever() {
    let piece = PieceName::opaque(PIECE.key, PIECE.term);
    let push = FirstPush { worker: 9, customer: 1, head: 4, pull: true, frames: 3 };
    let (bytes, marks, first_pushes) = (64, vec![MARK], vec![push]);
    let key = OpaqueKey { piece, bytes, marks, first_pushes };
    let (marks, first_pushes) = (vec![MARK], vec![push]);
    let flat = FlatTransfer { version: 64, marks, first_pushes, ..opaque(TransferKind::Move) };
    check(&Transfer::MoveOpaque(key), flat);
    check(&Transfer::Moved(piece), opaque(TransferKind::Moved));
    check(&Transfer::Refused(piece), opaque(TransferKind::Refused));
}

#[test]
fn what_is_about_commands_is_written_as_ever() {
    use TransferKind::{Command, Confirmed};
    let command = ToldCommand { space: 2, head: 3, generation: 6, until: 8 };
    let flat = FlatTransfer { space: 2, head: 3, number: 6, version: 8, ..bare(Command) };
    check(&Transfer::Command(command), flat);
    let count = OptimizerCount { space: 2, last: MARK, count: 6, until: 8 };
    let (worker, customer, marks) = (9, 1, vec![MARK]);
    let flat = FlatTransfer { space: 2, number: 6, version: 8, marks, ..bare(Command) };
    check(&Transfer::OptimizerCount(count), FlatTransfer { worker, customer, ..flat });
    let end = CommandsEnd { until: 8, epoch: 2, agreed: vec![Default::default()] };
    let (agreed, kind) = (vec![Default::default()], TransferKind::CommandsEnd);
    let flat = FlatTransfer { version: 8, number: 2, agreed, ..bare(kind) };
    check(&Transfer::CommandsEnd(end), flat);
    check(
        &Transfer::CommandsConfirmed { until: 8 },
        FlatTransfer { version: 8, ..bare(Confirmed) },
    );
}

#[test]
fn a_kind_that_nobody_knows_says_nothing() {
    let flat = FlatTransfer { kind: 77, ..written(TransferKind::Move).1 };
    assert_eq!(Transfer::from(flat), Transfer::Unknown);
    check(&Transfer::Unknown, bare(TransferKind::Unknown));
}
