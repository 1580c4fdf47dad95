//! Tensors of which each server gets its share. Of the largest ones as many as make the round
//! shortest, what moves for it counted in: each of them is cut in proportion to the target, and the
//! rest is rounded to what is left of it.
//!
//! Bounded: no more than [`SHARED_TENSORS_MAX`] tensors are cut, each into no more pieces than
//! there are servers, and none below [`SHARED_TENSOR_MIN`] of the round.

use std::collections::{BTreeMap, BTreeSet};

use super::{ShareParameters, improve, move_rate, moved_bytes, rounding, waiting};
use crate::placement::cost::{Model, bytes};
use crate::placement::layout::PieceLoad;
use crate::placement::tuning::{SHARED_GAIN, SHARED_TENSOR_MIN, SHARED_TENSORS_MAX};

/// The layout towards the target with which a round, and what moves for it, takes least.
pub(super) fn best(
    pieces: &[PieceLoad],
    model: &Model,
    target: &[f64],
    parameters: &ShareParameters,
) -> Vec<PieceLoad> {
    let cost = |after: &[PieceLoad]| {
        let moved = moved_bytes(pieces, &rounding::moves(pieces, after));
        let rounds = parameters.horizon.max(1.0);
        waiting::seconds(after, model) + bytes(moved) / move_rate(model, parameters) / rounds
    };
    let whole = with_shared(pieces, model, target, parameters, &[]);
    let (mut least, mut best) = (cost(&whole), whole);
    let largest = largest(pieces, parameters);
    let mut count = 1;
    while count < 2 * largest.len() {
        let shared = largest.get(..count.min(largest.len())).unwrap_or_default();
        let after = with_shared(pieces, model, target, parameters, shared);
        let seconds = cost(&after);
        // More pieces have to be worth it.
        if seconds < least * (1.0 - SHARED_GAIN) {
            (least, best) = (seconds, after);
        }
        count *= 2;
    }
    best
}

/// The positions of the largest tensors that can be cut; of equals the later ones come first:
/// nothing overlaps the last one.
fn largest(pieces: &[PieceLoad], parameters: &ShareParameters) -> Vec<u64> {
    let mut sizes = BTreeMap::<u64, (u64, bool)>::new();
    for piece in pieces {
        let (size, divisible) = sizes.entry(piece.position).or_insert((0, true));
        *size = size.saturating_add(piece.bytes);
        *divisible &= piece.divisible;
    }
    let total: f64 = sizes.values().map(|(size, _)| bytes(*size)).sum();
    let least = (total * SHARED_TENSOR_MIN).max(2.0 * bytes(parameters.min_piece));
    let large = sizes.into_iter().filter(|(_, (size, cut))| *cut && bytes(*size) >= least);
    let mut large: Vec<(u64, u64)> = large.map(|(position, (size, _))| (size, position)).collect();
    large.sort_unstable_by(|a, b| b.cmp(a));
    large.into_iter().take(SHARED_TENSORS_MAX).map(|(_, position)| position).collect()
}

/// The layout in which these tensors are cut in proportion to the target, and the rest fills it up.
fn with_shared(
    pieces: &[PieceLoad],
    model: &Model,
    target: &[f64],
    parameters: &ShareParameters,
    shared: &[u64],
) -> Vec<PieceLoad> {
    let total: f64 = target.iter().sum();
    let shared: BTreeSet<u64> = shared.iter().copied().collect();
    let (mut rest, mut tensors) = (Vec::new(), BTreeMap::<u64, Vec<PieceLoad>>::new());
    for piece in pieces {
        match shared.contains(&piece.position) {
            true => tensors.entry(piece.position).or_default().push(piece.clone()),
            false => rest.push(piece.clone()),
        }
    }
    let mut after = Vec::new();
    for tensor in tensors.values() {
        let fraction = tensor.iter().map(|piece| bytes(piece.bytes)).sum::<f64>() / total;
        let own: Vec<f64> = target.iter().map(|load| load * fraction).collect();
        after.extend(rounding::round(tensor, model, &own, parameters));
    }
    let (given, _) = model.loads_of(&after);
    let left: Vec<f64> = target.iter().zip(given).map(|(all, own)| (all - own).max(0.0)).collect();
    let rest = rounding::round(&rest, model, &left, parameters);
    match shared.is_empty() {
        true => improve::improve(rest, model, target),
        false => {
            after.extend(rest);
            after
        }
    }
}
