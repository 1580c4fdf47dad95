//! The last step where pieces cannot be cut as the target wants: whole pieces of the slowest server
//! go elsewhere, or change places, as long as that makes the round shorter.

use std::collections::BTreeSet;

use crate::placement::cost::{Model, bytes};
use crate::placement::layout::PieceLoad;
use crate::placement::tuning::{
    IMPROVE_NEAR, IMPROVE_PIECES_MAX, IMPROVE_STEP_GAIN, IMPROVE_STEPS_MAX,
};

/// A change of owners: of one piece, or of two that change places.
struct OwnerChange {
    seconds: f64,
    owners: Vec<(usize, usize)>,
}

/// The same pieces, some with another owner, so that the round comes nearer to that of the target.
pub(super) fn improve(mut pieces: Vec<PieceLoad>, model: &Model, target: &[f64]) -> Vec<PieceLoad> {
    let good = model.round_seconds(target) * IMPROVE_NEAR;
    for _ in 0..IMPROVE_STEPS_MAX {
        let (loads, _) = model.loads_of(&pieces);
        let now = model.round_seconds(&loads);
        if now <= good {
            break;
        }
        let Some(step) = best_step(&pieces, model, &loads) else { break };
        if step.seconds >= now * (1.0 - IMPROVE_STEP_GAIN) {
            break;
        }
        for (piece, server) in step.owners {
            if let (Some(piece), Some(server)) =
                (pieces.get_mut(piece), model.servers().get(server))
            {
                piece.owner = server.id;
            }
        }
    }
    pieces
}

/// The change that makes the round shortest.
fn best_step(pieces: &[PieceLoad], model: &Model, loads: &[f64]) -> Option<OwnerChange> {
    let seconds = model.server_seconds(loads);
    let slowest = (0..seconds.len()).max_by(|a, b| {
        let of = |index: &usize| seconds.get(*index).copied().unwrap_or(0.0);
        of(a).total_cmp(&of(b))
    })?;
    let mut best: Option<OwnerChange> = None;
    for piece in sizes(pieces, model, slowest) {
        let size = size_of(pieces, piece);
        for (other, server) in model.servers().iter().enumerate() {
            if other == slowest || !server.usable {
                continue;
            }
            let back = sizes(pieces, model, other).into_iter().map(Some);
            for back in
                back.filter(|back| back.is_some_and(|b| size_of(pieces, b) < size)).chain([None])
            {
                let change = size - back.map_or(0.0, |back| size_of(pieces, back));
                let seconds = changed(model, loads, slowest, other, change);
                if best.as_ref().is_none_or(|best| seconds < best.seconds) {
                    let first = (piece, other);
                    let owners = [Some(first), back.map(|back| (back, slowest))];
                    best = Some(OwnerChange {
                        seconds,
                        owners: owners.into_iter().flatten().collect(),
                    });
                }
            }
        }
    }
    best
}

fn size_of(pieces: &[PieceLoad], index: usize) -> f64 {
    pieces.get(index).map_or(0.0, |piece| bytes(piece.bytes))
}

/// Some pieces of a server, of each size one.
fn sizes(pieces: &[PieceLoad], model: &Model, server: usize) -> Vec<usize> {
    let Some(owner) = model.servers().get(server).map(|server| server.id) else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let own =
        pieces.iter().enumerate().filter(|(_, piece)| piece.owner == owner && piece.bytes > 0);
    let mut own: Vec<(usize, u64)> = own
        .filter(|(_, piece)| seen.insert(piece.bytes))
        .map(|(index, piece)| (index, piece.bytes))
        .collect();
    own.sort_by_key(|(index, size)| (std::cmp::Reverse(*size), *index));
    own.into_iter().take(IMPROVE_PIECES_MAX).map(|(index, _)| index).collect()
}

/// Seconds of a round after so many bytes changed from one server to another.
fn changed(model: &Model, loads: &[f64], from: usize, to: usize, amount: f64) -> f64 {
    let mut loads = loads.to_vec();
    if let Some(load) = loads.get_mut(from) {
        *load = (*load - amount).max(0.0);
    }
    let Some(load) = loads.get_mut(to) else { return f64::INFINITY };
    *load += amount;
    model.round_seconds(&loads)
}
