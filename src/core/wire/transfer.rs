//! What two servers say to each other: about pieces that move and their copies, and about what
//! workers commanded. What it means is in `docs/elastic.md`; `flat_transfer` has the bytes.

use bytes::Bytes;

use super::agreement::Agree;
use super::elastic::{Mark, OPAQUE_END};
use super::ids::{Key, NodeId};

/// Which piece: elements of a wire key, under a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceName {
    /// The wire key.
    pub key: Key,
    /// The first element.
    pub from: u64,
    /// One past the last element.
    pub to: u64,
    /// The piece's term.
    pub term: u64,
}

impl PieceName {
    /// An opaque key ([`OPAQUE_END`]).
    #[must_use]
    pub const fn opaque(key: Key, term: u64) -> Self {
        Self { key, from: 0, to: OPAQUE_END, term }
    }

    /// True if it has these elements, under whatever term.
    #[must_use]
    pub const fn spans(&self, from: u64, to: u64) -> bool {
        self.from == from && self.to == to
    }
}

/// A piece with all that belongs to it. Its data frames: the key, the value, then the master copy
/// if there is one, then the optimizer's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPiece {
    /// Which.
    pub piece: PieceName,
    /// Rounds applied.
    pub version: u64,
    /// Elements of the whole wire key.
    pub length: u64,
    /// MXNet's number of the element type.
    pub dtype: i32,
    /// Elements of a row; 0: dense.
    pub row_len: u64,
    /// Which pushes are counted.
    pub marks: Vec<Mark>,
    /// The second data frame after the key is a master copy.
    pub has_master: bool,
    /// What the optimizer keeps, if anything: the sender's own encoding (`optimizers`).
    pub state: Option<Bytes>,
    /// Which optimizer that is of: how many one worker had sent with it.
    pub generation: u64,
}

/// An opaque key. Its data frames: the key, then what the application's handler exported, or the
/// frames of the first pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpaqueKey {
    /// Which.
    pub piece: PieceName,
    /// The longest values that came or went.
    pub bytes: u64,
    /// Which pushes the handler was given.
    pub marks: Vec<Mark>,
    /// Where nothing is kept between rounds: its first pushes, in their order.
    pub first_pushes: Vec<FirstPush>,
}

/// One of the first pushes of an opaque key, as it came: given to the handler of each server that
/// the key moves to.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FirstPush {
    /// The worker.
    #[prost(int32, tag = "1")]
    pub worker: NodeId,
    /// Its customer.
    #[prost(int32, tag = "2")]
    pub customer: i32,
    /// The application's command.
    #[prost(int32, tag = "3")]
    pub head: i32,
    /// It asked for values too.
    #[prost(bool, tag = "4")]
    pub pull: bool,
    /// How many data frames it had.
    #[prost(uint32, tag = "5")]
    pub frames: u32,
}

/// The sum of one round. Its data frames: the key, and the sum; without it nothing is applied, and
/// the pushes count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSum {
    /// Of which piece.
    pub piece: PieceName,
    /// Rounds applied, this one included.
    pub version: u64,
    /// MXNet's number of the sum's element type.
    pub dtype: i32,
    /// The pushes of this round.
    pub marks: Vec<Mark>,
    /// Rows of the sum, if the key is row_sparse.
    pub rows: Vec<i64>,
    /// Which optimizer the sum is for: how many one worker had sent with it.
    pub generation: u64,
}

/// A piece that is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceCut {
    /// The piece as it was; the term is that of its parts.
    pub piece: PieceName,
    /// Where, in ascending order.
    pub cuts: Vec<u64>,
    /// The begins of those parts that leave. They keep the term before.
    pub gone: Vec<u64>,
}

/// A command of a worker. Its body is the one data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldCommand {
    /// The customer with keys of its own that sent it; 0: one of those that share theirs.
    pub space: u32,
    /// The head.
    pub head: i32,
    /// Of an optimizer: how many one worker had sent with it.
    pub generation: u64,
    /// Up to which change of the sender's settings this tells.
    pub until: u64,
}

/// How many optimizers a customer of a worker has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizerCount {
    /// As in [`ToldCommand::space`].
    pub space: u32,
    /// The customer, and the timestamp of the last one.
    pub last: Mark,
    /// How many.
    pub count: u64,
    /// As in [`ToldCommand::until`].
    pub until: u64,
}

/// There are no further commands so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandsEnd {
    /// As in [`ToldCommand::until`].
    pub until: u64,
    /// The policy that the sender knows.
    pub epoch: u64,
    /// What all workers have said alike, and the receiver was not told yet.
    pub agreed: Vec<Agree>,
}

/// A message between two servers. Only what says so has data frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Nothing: a kind that this version does not know.
    Unknown,
    /// To the new owner: the piece.
    Move(WrittenPiece),
    /// To the new owner: the opaque key.
    MoveOpaque(OpaqueKey),
    /// To the old owner: the piece is here, and safe.
    Moved(PieceName),
    /// To the old owner of an opaque key: its handler here cannot take it; keep it. Its data frame:
    /// the reason.
    Refused(PieceName),
    /// From the old owner, which was told so: it has forgotten the piece.
    Forgotten(PieceName),
    /// To the replica: a copy of the piece as of its last round.
    Seed(WrittenPiece),
    /// To the replica: the sum of one round, to be applied as the owner did.
    Round(RoundSum),
    /// From the replica: all up to that version of the piece is here.
    Confirmed {
        /// Which.
        piece: PieceName,
        /// Rounds applied.
        version: u64,
    },
    /// To the replica: the piece is cut.
    Cut(PieceCut),
    /// To the replica: the copy is not needed any more.
    Drop(PieceName),
    /// From the replica that was: it has forgotten the copy.
    CopyForgotten(PieceName),
    /// To a server that joined: a command of a worker, in the order in which the sender obeyed it.
    Command(ToldCommand),
    /// To a server that joined, among the commands.
    OptimizerCount(OptimizerCount),
    /// To a server that joined: there are no further commands so far; it may serve.
    CommandsEnd(CommandsEnd),
    /// From a server that joined: it has obeyed all up to that change of the receiver's settings.
    CommandsConfirmed {
        /// As in [`CommandsEnd`].
        until: u64,
    },
}

impl Transfer {
    /// What it is called on the wire.
    #[must_use]
    pub const fn kind(&self) -> TransferKind {
        match self {
            Self::Unknown => TransferKind::Unknown,
            Self::Move(_) | Self::MoveOpaque(_) => TransferKind::Move,
            Self::Moved(_) => TransferKind::Moved,
            Self::Seed(_) => TransferKind::Seed,
            Self::Round(_) => TransferKind::Round,
            Self::Forgotten(_)
            | Self::Confirmed { .. }
            | Self::CopyForgotten(_)
            | Self::CommandsConfirmed { .. } => TransferKind::Confirmed,
            Self::Cut(_) => TransferKind::Cut,
            Self::Drop(_) => TransferKind::Drop,
            Self::Command(_) | Self::OptimizerCount(_) => TransferKind::Command,
            Self::CommandsEnd(_) => TransferKind::CommandsEnd,
            Self::Refused(_) => TransferKind::Refused,
        }
    }

    /// The piece that it is about; `None`: it is about none.
    #[must_use]
    pub const fn piece(&self) -> Option<&PieceName> {
        match self {
            Self::Move(WrittenPiece { piece, .. })
            | Self::Seed(WrittenPiece { piece, .. })
            | Self::MoveOpaque(OpaqueKey { piece, .. })
            | Self::Round(RoundSum { piece, .. })
            | Self::Cut(PieceCut { piece, .. })
            | Self::Confirmed { piece, .. }
            | Self::Moved(piece)
            | Self::Refused(piece)
            | Self::Forgotten(piece)
            | Self::Drop(piece)
            | Self::CopyForgotten(piece) => Some(piece),
            Self::Unknown
            | Self::Command(_)
            | Self::OptimizerCount(_)
            | Self::CommandsEnd(_)
            | Self::CommandsConfirmed { .. } => None,
        }
    }
}

/// What transfers are called on the wire. One name may stand for several of [`Transfer`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TransferKind {
    /// [`Transfer::Unknown`].
    Unknown = 0,
    /// [`Transfer::Move`], [`Transfer::MoveOpaque`].
    Move = 1,
    /// [`Transfer::Moved`].
    Moved = 2,
    /// [`Transfer::Seed`].
    Seed = 3,
    /// [`Transfer::Round`].
    Round = 4,
    /// [`Transfer::Confirmed`], and what else answers a transfer: [`Transfer::Forgotten`],
    /// [`Transfer::CopyForgotten`], [`Transfer::CommandsConfirmed`].
    Confirmed = 5,
    /// [`Transfer::Cut`].
    Cut = 6,
    /// [`Transfer::Drop`].
    Drop = 7,
    /// [`Transfer::Command`], [`Transfer::OptimizerCount`].
    Command = 8,
    /// [`Transfer::CommandsEnd`].
    CommandsEnd = 9,
    /// [`Transfer::Refused`].
    Refused = 10,
}
