//! From which parts of a round a server gives something up: from those of which it holds most. So what it keeps is spread
//! over the round as evenly as it can be; and a tensor that lies at one server alone, which nobody could pull before that
//! one has got all of it, is the first to be shared.
//!
//! Pure arithmetic about one layout.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::placement::cost::bytes;
use crate::placement::layout::PieceLoad;

/// A round is looked at in so many parts of equal length, in bytes.
pub(super) const PLACES: usize = 32;

/// Where in a round its tensors are.
pub(super) struct Spread {
    /// For each position the bytes before it, and with it: all of its pieces are exchanged together.
    extents: BTreeMap<u64, Range<f64>>,
    /// Bytes of one place.
    place: f64,
}

impl Spread {
    /// Of all pieces of the job.
    pub(super) fn new(pieces: &[PieceLoad]) -> Self {
        let mut sums = BTreeMap::<u64, f64>::new();
        for piece in pieces {
            *sums.entry(piece.position).or_default() += bytes(piece.bytes);
        }
        let mut end = 0.0;
        let extents = sums.into_iter().map(|(position, sum)| {
            let start = end;
            end += sum;
            (position, start..end)
        });
        let extents: BTreeMap<u64, Range<f64>> = extents.collect();
        #[allow(clippy::cast_precision_loss, reason = "a few places")]
        let place = end / PLACES as f64;
        Self { extents, place }
    }

    /// Of each of these pieces of one server the bytes to give up, if it is to give up that many in all.
    pub(super) fn given_up(&self, own: &[PieceLoad], amount: f64) -> Vec<f64> {
        let places: Vec<[f64; PLACES]> = own.iter().map(|piece| self.in_places(piece)).collect();
        let mut held = [0.0; PLACES];
        for piece in &places {
            held.iter_mut().zip(piece).for_each(|(held, amount)| *held += amount);
        }
        let kept = self.level(&held, amount) * self.place;
        let part = held.map(|held| if held > kept { 1.0 - kept / held } else { 0.0 });
        let sum = |piece: &[f64; PLACES]| -> f64 {
            piece.iter().zip(part).map(|(amount, part)| amount * part).sum()
        };
        places.iter().map(sum).collect()
    }

    /// The highest part of any place that is left to a server with so many bytes in each place which gives up that much.
    fn level(&self, held: &[f64; PLACES], amount: f64) -> f64 {
        let mut most = *held;
        most.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut room) = (-amount, 0.0);
        for (index, held) in most.iter().enumerate() {
            (sum, room) = (sum + held, room + self.place);
            let next = most.get(index + 1).copied().unwrap_or(0.0) / self.place;
            if sum / room >= next {
                return sum / room;
            }
        }
        0.0
    }

    /// What of a piece lies in each place, as if it were spread evenly over the tensor.
    fn in_places(&self, piece: &PieceLoad) -> [f64; PLACES] {
        let extent = self.extents.get(&piece.position).cloned().unwrap_or_default();
        let length = extent.end - extent.start;
        std::array::from_fn(|place| {
            #[allow(clippy::cast_precision_loss, reason = "a few places")]
            let (from, to) = (place as f64 * self.place, (place + 1) as f64 * self.place);
            let inside = extent.end.min(to) - extent.start.max(from);
            if inside > 0.0 { bytes(piece.bytes) * inside / length } else { 0.0 }
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
    fn nothing_is_too_small_or_too_early() {
        assert!(Spread::new(&[]).given_up(&[], 5.0).is_empty());
        assert_eq!(Spread::new(&[piece(3, 0, 8)]).given_up(&[piece(3, 0, 8)], 5.0), [0.0]);
        assert_eq!(given(&[piece(7, 1, 8)], 0.5), [0.5]);
    }
}
