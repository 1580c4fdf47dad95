//! Which server holds which piece of which key, and what a plan changes about it.
//!
//! Pure data and arithmetic. Knows sizes, not values; how a piece travels is not its business.

use std::collections::BTreeMap;
use std::fmt;

use crate::wire::elastic::OPAQUE_END;
use crate::wire::{Key, NodeId};

/// A range of elements of one key, and who owns it. The pieces of a key follow each other without
/// gap; all pieces of a job together are its layout, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceLoad {
    /// The key on the wire.
    pub key: Key,
    /// When a round comes to it: those with lower positions are exchanged first.
    pub position: u64,
    /// The first element.
    pub from: u64,
    /// One past the last element.
    pub to: u64,
    /// Bytes that each worker pushes for it, and pulls, in a round.
    pub bytes: u64,
    /// Bytes of optimizer state that go along when it moves.
    pub state_bytes: u64,
    /// The server that holds it.
    pub owner: NodeId,
    /// Whether it may be cut: not if its optimizer looks at the whole tensor (LAMB, LARS).
    pub divisible: bool,
    /// Cuts must be at multiples of that many elements, counted from element 0; 0 is taken as 1.
    pub align: u64,
}

impl PieceLoad {
    /// How many elements it has.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Value bytes of `[from, to)`, a part of this piece. Those of adjoining parts add up to those
    /// of the whole.
    #[must_use]
    pub fn bytes_of(&self, from: u64, to: u64) -> u64 {
        self.before(self.bytes, to).saturating_sub(self.before(self.bytes, from))
    }

    /// State bytes of `[from, to)`, as [`bytes_of`](Self::bytes_of).
    #[must_use]
    pub fn state_of(&self, from: u64, to: u64) -> u64 {
        self.before(self.state_bytes, to).saturating_sub(self.before(self.state_bytes, from))
    }

    /// How much of `of` lies before element `end`, if it is spread evenly over the elements.
    fn before(&self, of: u64, end: u64) -> u64 {
        let all = u128::from(self.elements().max(1));
        let before = u128::from(end.clamp(self.from, self.to.max(self.from)) - self.from);
        u64::try_from(u128::from(of) * before / all).unwrap_or(of)
    }

    /// The part `[from, to)` at a server.
    #[must_use]
    pub(super) fn cut(&self, from: u64, to: u64, owner: NodeId) -> Self {
        let (bytes, state_bytes) = (self.bytes_of(from, to), self.state_of(from, to));
        Self { from, to, bytes, state_bytes, owner, ..self.clone() }
    }
}

/// One part of a piece goes to another server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The key.
    pub key: Key,
    /// The first element; together with `to` a part of exactly one piece of the layout.
    pub from: u64,
    /// One past the last element.
    pub to: u64,
    /// Who holds it now.
    pub owner: NodeId,
    /// Who shall hold it.
    pub to_server: NodeId,
}

/// What is to be changed about a layout, and what that is expected to give.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What moves, in ascending order of key and element; never two moves of one element.
    pub moves: Vec<Move>,
    /// Seconds of a round now, by the model; 0 if nothing has been measured.
    pub before: f64,
    /// Seconds of a round with the new layout, by the model; 0 if nothing has been measured.
    pub predicted: f64,
    /// T*: no layout at all can give a shorter round than that many seconds, by the model. None: no
    /// link has been measured yet.
    pub bound: Option<f64>,
    /// Bytes of value and optimizer state that move.
    pub moved_bytes: u64,
    /// Why, for people.
    pub reason: String,
    /// The same in a word.
    pub occasion: MoveOccasion,
}

/// What plans are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveOccasion {
    /// Rounds become shorter.
    Shorter,
    /// A server that may hold pieces has none.
    Joins,
    /// A server is to hold none, or is gone.
    Leaves,
    /// Rounds had become longer.
    Back,
}

impl MoveOccasion {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shorter => "shorter",
            Self::Joins => "joins",
            Self::Leaves => "leaves",
            Self::Back => "back",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "rounded for people")]
        let megabytes = self.moved_bytes as f64 / 1e6;
        write!(f, "{}: {} moves, {megabytes:.1} MB", self.reason, self.moves.len())?;
        if self.predicted > 0.0 {
            write!(f, "; a round of {:.3} s becomes one of {:.3} s", self.before, self.predicted)?;
        }
        self.bound.map_or(Ok(()), |bound| write!(f, "; the bound is {bound:.3} s"))
    }
}

/// Why a layout or a move cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A piece or a move without elements.
    #[error("key {key}: the range [{from}, {to}) is empty")]
    Empty {
        /// The key.
        key: Key,
        /// The first element.
        from: u64,
        /// One past the last element.
        to: u64,
    },
    /// Two pieces overlap, or elements between them belong to nobody.
    #[error("key {key}: a piece ends at element {end}, the next one starts at {from}")]
    NotPartitioned {
        /// The key.
        key: Key,
        /// Where a piece ends.
        end: u64,
        /// Where the next one starts.
        from: u64,
    },
    /// The range of a move is not a part of one piece of that owner.
    #[error("key {key}: no piece of server {owner} holds [{from}, {to})")]
    NoSuchPiece {
        /// The key.
        key: Key,
        /// The first element.
        from: u64,
        /// One past the last element.
        to: u64,
        /// Who is said to hold it.
        owner: NodeId,
    },
    /// A cut where none is allowed.
    #[error("key {key}: a piece may not be cut at element {at}")]
    BadCut {
        /// The key.
        key: Key,
        /// The place.
        at: u64,
    },
    /// Two moves have elements in common.
    #[error("key {key}: two moves take element {at}")]
    TwoMoves {
        /// The key.
        key: Key,
        /// The first common element.
        at: u64,
    },
}

/// Sorts a layout by key and element, and checks that the pieces of each key follow each other.
///
/// # Errors
/// A piece is empty, or there is a gap or an overlap.
pub fn sort(layout: &mut [PieceLoad]) -> Result<(), LayoutError> {
    layout.sort_by_key(|piece| (piece.key, piece.from));
    let mut last: Option<(Key, u64)> = None;
    for &PieceLoad { key, from, to, .. } in &*layout {
        if from >= to {
            return Err(LayoutError::Empty { key, from, to });
        }
        match last {
            Some((before, end)) if before == key && end != from => {
                return Err(LayoutError::NotPartitioned { key, end, from });
            }
            _ => last = Some((key, to)),
        }
    }
    Ok(())
}

/// The layout after all moves. Neighbours of one owner stay separate pieces.
///
/// # Errors
/// The layout is none, or a move is not allowed by it.
pub fn apply(layout: &[PieceLoad], moves: &[Move]) -> Result<Vec<PieceLoad>, LayoutError> {
    let mut pieces = layout.to_vec();
    sort(&mut pieces)?;
    let mut moves = moves.to_vec();
    moves.sort();
    let mut moves = moves.iter().peekable();
    let mut after = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let mut at = piece.from;
        while let Some(step) = moves.next_if(|step| (step.key, step.from) < (piece.key, piece.to)) {
            check_move(piece, step, at)?;
            if step.from > at {
                after.push(piece.cut(at, step.from, piece.owner));
            }
            after.push(piece.cut(step.from, step.to, step.to_server));
            at = step.to;
        }
        if at < piece.to {
            after.push(piece.cut(at, piece.to, piece.owner));
        }
    }
    match moves.next() {
        None => Ok(after),
        Some(&Move { key, from, to, owner, .. }) => {
            Err(LayoutError::NoSuchPiece { key, from, to, owner })
        }
    }
}

/// Whether a move may take its range out of a piece of which all before `at` has moved already.
fn check_move(piece: &PieceLoad, step: &Move, at: u64) -> Result<(), LayoutError> {
    let &Move { key, from, to, owner, .. } = step;
    if from >= to {
        return Err(LayoutError::Empty { key, from, to });
    }
    if key != piece.key || from < piece.from || to > piece.to || owner != piece.owner {
        return Err(LayoutError::NoSuchPiece { key, from, to, owner });
    }
    if from < at {
        return Err(LayoutError::TwoMoves { key, at: from });
    }
    for cut in [from, to] {
        let inside = cut != piece.from && cut != piece.to;
        if inside && !(piece.divisible && cut.is_multiple_of(piece.align.max(1))) {
            return Err(LayoutError::BadCut { key, at: cut });
        }
    }
    Ok(())
}

/// What one server holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerHolding {
    /// Bytes of values.
    pub bytes: u64,
    /// Bytes of optimizer state.
    pub state_bytes: u64,
    /// Pieces.
    pub pieces: usize,
}

/// What each owner of a layout holds.
#[must_use]
pub fn holdings(layout: &[PieceLoad]) -> BTreeMap<NodeId, ServerHolding> {
    let mut holdings = BTreeMap::<NodeId, ServerHolding>::new();
    for piece in layout {
        let holding = holdings.entry(piece.owner).or_default();
        holding.bytes = holding.bytes.saturating_add(piece.bytes);
        holding.state_bytes = holding.state_bytes.saturating_add(piece.state_bytes);
        holding.pieces += 1;
    }
    holdings
}

/// What of a layout is needed at every look, counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What each owner holds.
    pub held: BTreeMap<NodeId, ServerHolding>,
    /// Bytes of the largest piece that cannot be cut.
    pub largest_whole: u64,
    /// An application's own handler keeps some key.
    pub opaque: bool,
}

impl Summary {
    /// Looks at all pieces of a layout.
    #[must_use]
    pub fn of(layout: &[PieceLoad]) -> Self {
        let whole = layout.iter().filter(|piece| !piece.divisible);
        Self {
            held: holdings(layout),
            largest_whole: whole.map(|piece| piece.bytes).max().unwrap_or(0),
            opaque: layout.iter().any(|piece| piece.to == OPAQUE_END),
        }
    }

    /// Bytes of all values, and of all optimizer state.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        self.held.values().fold((0, 0), |(values, states), held| {
            (values.saturating_add(held.bytes), states.saturating_add(held.state_bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(key: Key, from: u64, to: u64, owner: NodeId) -> PieceLoad {
        let bytes = (to - from) * 4;
        let (state_bytes, divisible, align) = (bytes, true, 8);
        PieceLoad { key, position: key, from, to, bytes, state_bytes, owner, divisible, align }
    }

    fn step(key: Key, from: u64, to: u64, owner: NodeId, to_server: NodeId) -> Move {
        Move { key, from, to, owner, to_server }
    }

    #[test]
    fn a_plan_for_people() {
        let (moves, reason) = (vec![step(1, 0, 8, 8, 10)], "node 8 is slowest".to_owned());
        let (before, predicted, moved_bytes) = (2.0, 1.25, 3_456_789);
        let occasion = MoveOccasion::Shorter;
        let plan =
            Plan { moves, before, predicted, bound: Some(1.2), moved_bytes, reason, occasion };
        let text = "node 8 is slowest: 1 moves, 3.5 MB; a round of 2.000 s becomes one of 1.250 \
            s; the \
                    bound is 1.200 s";
        assert_eq!(plan.to_string(), text);
        let blind = Plan { before: 0.0, predicted: 0.0, bound: None, ..plan };
        assert_eq!(blind.to_string(), "node 8 is slowest: 1 moves, 3.5 MB");
    }

    #[test]
    fn parts_of_a_piece_add_up() {
        let odd = PieceLoad { bytes: 1001, state_bytes: 7, ..piece(3, 10, 33, 8) };
        for cut in 10..=33 {
            assert_eq!(odd.bytes_of(10, cut) + odd.bytes_of(cut, 33), 1001);
            assert_eq!(odd.state_of(10, cut) + odd.state_of(cut, 33), 7);
        }
    }

    #[test]
    fn moves_cut_pieces_and_nothing_is_lost() {
        let layout = [piece(1, 0, 64, 8), piece(2, 0, 16, 8), piece(1, 64, 100, 10)];
        let moves = [step(1, 40, 64, 8, 10), step(2, 0, 16, 8, 12), step(1, 8, 16, 8, 12)];
        let after = apply(&layout, &moves).unwrap();
        let ranges: Vec<_> = after.iter().map(|p| (p.key, p.from, p.to, p.owner)).collect();
        let expected = [
            (1, 0, 8, 8),
            (1, 8, 16, 12),
            (1, 16, 40, 8),
            (1, 40, 64, 10),
            (1, 64, 100, 10),
            (2, 0, 16, 12),
        ];
        assert_eq!(ranges, expected);
        assert_eq!(after.iter().map(|p| p.bytes).sum::<u64>(), 116 * 4);
        assert_eq!(holdings(&after)[&12], ServerHolding { bytes: 96, state_bytes: 96, pieces: 2 });
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        let whole = PieceLoad { divisible: false, ..piece(5, 0, 64, 8) };
        let layout = [piece(1, 0, 64, 8), whole];
        let refuse = |moves: &[Move]| apply(&layout, moves).unwrap_err();
        assert_eq!(refuse(&[step(1, 0, 12, 8, 10)]), LayoutError::BadCut { key: 1, at: 12 });
        assert_eq!(refuse(&[step(5, 0, 32, 8, 10)]), LayoutError::BadCut { key: 5, at: 32 });
        let twice = [step(1, 0, 32, 8, 10), step(1, 24, 64, 8, 12)];
        assert_eq!(refuse(&twice), LayoutError::TwoMoves { key: 1, at: 24 });
        assert!(matches!(refuse(&[step(1, 0, 64, 9, 10)]), LayoutError::NoSuchPiece { .. }));
        assert!(matches!(refuse(&[step(1, 0, 72, 8, 10)]), LayoutError::NoSuchPiece { .. }));
        assert!(matches!(refuse(&[step(4, 0, 8, 8, 10)]), LayoutError::NoSuchPiece { .. }));
        assert!(matches!(refuse(&[step(7, 0, 8, 8, 10)]), LayoutError::NoSuchPiece { .. }));
        assert!(matches!(refuse(&[step(1, 8, 8, 8, 10)]), LayoutError::Empty { .. }));
        let gap = [piece(1, 0, 8, 8), piece(1, 16, 24, 8)];
        assert_eq!(apply(&gap, &[]), Err(LayoutError::NotPartitioned { key: 1, end: 8, from: 16 }));
    }
}
