//! From which parts of a round a server gives something up: from those up to which it holds more
//! than is due to it, of each tensor as much as of the whole round. So no server gets its share of
//! a tensor later than the others, who could not answer before; and a tensor that lies at one
//! server alone, which nobody could pull before that one has got all of it, is the first to be
//! shared.
//!
//! Pure arithmetic about one layout.

use std::collections::BTreeMap;

use crate::placement::cost::bytes;
use crate::placement::layout::PieceLoad;
use crate::placement::tuning::SPREAD_STEPS;

/// Where in a round its tensors are.
pub(super) struct Spread {
    /// For each position the fraction of the round up to and with it: all of its pieces are
    /// exchanged together.
    ends: BTreeMap<u64, f64>,
}

impl Spread {
    /// Of all pieces of the job.
    pub(super) fn new(pieces: &[PieceLoad]) -> Self {
        let mut ends = BTreeMap::<u64, f64>::new();
        for piece in pieces {
            *ends.entry(piece.position).or_default() += bytes(piece.bytes);
        }
        let total = ends.values().sum::<f64>().max(1.0);
        let mut sum = 0.0;
        for end in ends.values_mut() {
            sum += *end;
            *end = sum / total;
        }
        Self { ends }
    }

    /// Of each of these pieces of one server, which come in the order of the round, the bytes to
    /// give up, if it is to give up that many in all.
    pub(super) fn given_up(&self, own: &[PieceLoad], amount: f64) -> Vec<f64> {
        let load: f64 = own.iter().map(|piece| bytes(piece.bytes)).sum();
        let keeps = (load - amount).max(0.0);
        // Who holds most of it early in the round cannot keep so much if that is due to him at the
        // end alone.
        let (mut enough, mut too_late) = (0.0, 1.0);
        for _ in 0..SPREAD_STEPS {
            let middle = f64::midpoint(enough, too_late);
            let kept: f64 = self.kept(own, keeps, middle).sum();
            if kept < keeps { too_late = middle } else { enough = middle }
        }
        let kept = self.kept(own, keeps, enough);
        own.iter().zip(kept).map(|(piece, kept)| bytes(piece.bytes) - kept).collect()
    }

    /// What a server keeps of each of its pieces if at no place it has more than is due there, and
    /// it is due by that fraction of the round, evenly.
    fn kept(&self, own: &[PieceLoad], keeps: f64, by: f64) -> impl Iterator<Item = f64> {
        let mut held = 0.0;
        own.iter().map(move |piece| {
            let end = self.ends.get(&piece.position).copied().unwrap_or(1.0);
            let due = if end >= by { keeps } else { keeps * end / by };
            let kept = (due - held).clamp(0.0, bytes(piece.bytes));
            held += kept;
            kept
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::NodeId;

    fn piece(position: u64, bytes: u64, owner: NodeId) -> PieceLoad {
        let (from, to, state_bytes, divisible, align) = (0, bytes, 0, true, 1);
        PieceLoad { key: position, position, from, to, bytes, state_bytes, owner, divisible, align }
    }

    /// What server 8 gives up of each of its pieces.
    fn given(pieces: &[PieceLoad], amount: f64) -> Vec<f64> {
        let own: Vec<PieceLoad> = pieces.iter().filter(|piece| piece.owner == 8).cloned().collect();
        let given = Spread::new(pieces).given_up(&own, amount);
        assert!((given.iter().sum::<f64>() - amount).abs() < 1e-6, "{given:?}");
        given.into_iter().map(|bytes| (bytes * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn what_is_even_is_given_up_evenly() {
        let pieces: Vec<PieceLoad> =
            (0..8).flat_map(|at| [piece(at, 100, 8), piece(at, 300, 10)]).collect();
        assert_eq!(given(&pieces, 400.0), [50.0; 8]);
        assert_eq!(given(&pieces, 800.0), [100.0; 8]);
        assert_eq!(given(&pieces, 0.0), [0.0; 8]);
    }

    #[test]
    fn a_tensor_at_one_server_alone_is_shared_first() {
        let rest = (1..13).flat_map(|at| [8, 10, 12, 14].map(|owner| piece(at, 25, owner)));
        let pieces: Vec<PieceLoad> = [piece(0, 400, 8)].into_iter().chain(rest).collect();
        // Of 1600 bytes it holds 700; with 300 less it has a quarter of each tensor.
        assert_eq!(given(&pieces, 300.0)[..2], [300.0, 0.0]);
        assert_eq!(given(&pieces, 400.0)[..2], [325.0, 6.25]);
    }

    #[test]
    fn whoever_holds_nothing_at_first_keeps_what_is_due_then() {
        let pieces: Vec<PieceLoad> =
            (0..8).map(|at| piece(at, 100, if at < 4 { 10 } else { 8 })).collect();
        assert_eq!(given(&pieces, 200.0), [0.0, 50.0, 75.0, 75.0]);
    }

    #[test]
    fn whoever_holds_all_of_it_early_gives_up_evenly() {
        let pieces: Vec<PieceLoad> =
            (0..8).map(|at| piece(at, 100, if at < 4 { 8 } else { 10 })).collect();
        assert_eq!(given(&pieces, 40.0), [10.0; 4]);
    }

    #[test]
    fn nothing_is_too_small_or_too_early() {
        assert!(Spread::new(&[]).given_up(&[], 5.0).is_empty());
        assert_eq!(Spread::new(&[piece(3, 0, 8)]).given_up(&[piece(3, 0, 8)], 5.0), [0.0]);
        assert_eq!(given(&[piece(7, 1, 8)], 0.5), [0.5]);
    }
}
