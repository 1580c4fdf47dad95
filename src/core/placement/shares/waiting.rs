//! The time of a round in which a tensor is pulled when all of it was pushed: a tensor that lies
//! whole at one server is first received there, and only then sent, while the others have nothing
//! of it to do. The fluid ([`Model::round_seconds`]) does not have that.
//!
//! Pure arithmetic about one layout: a pass over its pieces in the order of the round.

use smallvec::SmallVec;

use crate::placement::cost::{Model, ServerLane, Worker, bytes};
use crate::placement::layout::PieceLoad;

/// What one tensor has at each server, in bytes. Most lie at one.
type TensorParts = SmallVec<[(usize, f64); 1]>;

/// Seconds of a round with that layout. Never less than those of the fluid.
pub(in crate::placement) fn seconds(layout: &[PieceLoad], model: &Model) -> f64 {
    let (loads, _) = model.loads_of(layout);
    let fluid = model.round_seconds(&loads);
    if !fluid.is_finite() {
        return fluid;
    }
    let tensors = tensors(layout, |tensor| held(tensor, model));
    let last = pulled(tensors, model, &model.lanes(&loads));
    fluid.max(last)
}

/// Seconds of a round in which each tensor is cut in proportion to such loads. About the least that
/// any layout takes.
pub(super) fn least(layout: &[PieceLoad], model: &Model, target: &[f64]) -> f64 {
    let total = target.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let cut = |tensor: &[&PieceLoad]| -> TensorParts {
        let size: f64 = tensor.iter().map(|piece| bytes(piece.bytes)).sum();
        let held = target.iter().enumerate().filter(|(_, load)| **load > 0.0);
        held.map(|(server, load)| (server, size * load / total)).collect()
    };
    let tensors = tensors(layout, cut);
    let last = pulled(tensors, model, &model.lanes(target));
    model.round_seconds(target).max(last)
}

/// The tensors in the order of the round. Each look of the planner asks for them, however many keys
/// there are. So no memory is taken for each of them, and the order of keys, which is mostly that
/// of the round, is used.
fn tensors(layout: &[PieceLoad], parts: impl Fn(&[&PieceLoad]) -> TensorParts) -> Vec<TensorParts> {
    let mut order: Vec<&PieceLoad> = layout.iter().collect();
    order.sort_by_key(|piece| piece.position);
    order.chunk_by(|a, b| a.position == b.position).map(parts).collect()
}

/// What a tensor has at each server that the model has.
fn held(tensor: &[&PieceLoad], model: &Model) -> TensorParts {
    let mut parts = TensorParts::new();
    for piece in tensor {
        let Some(index) = model.index_of(piece.owner) else { continue };
        match parts.iter_mut().find(|(server, _)| *server == index) {
            Some((_, sum)) => *sum += bytes(piece.bytes),
            None => parts.push((index, bytes(piece.bytes))),
        }
    }
    parts
}

/// The slowest worker in one direction.
fn slowest(model: &Model, rate: fn(&Worker) -> f64) -> f64 {
    model.workers().iter().map(rate).fold(f64::INFINITY, f64::min)
}

/// When all of each tensor was pushed, one after the other; the first to be so comes first.
fn pushed(
    tensors: Vec<TensorParts>,
    model: &Model,
    lanes: &[ServerLane],
) -> Vec<(f64, TensorParts)> {
    let up = slowest(model, |worker| worker.up);
    let (mut received, mut sent) = (vec![0.0; lanes.len()], 0.0);
    let whole = |parts: TensorParts| {
        sent += parts.iter().map(|(_, part)| part).sum::<f64>();
        let mut whole = sent / up;
        for (server, part) in &parts {
            if let (Some(at), Some(lane)) = (received.get_mut(*server), lanes.get(*server)) {
                *at += part * lane.receive;
                whole = f64::max(whole, *at);
            }
        }
        (whole, parts)
    };
    let mut pulls: Vec<(f64, TensorParts)> = tensors.into_iter().map(whole).collect();
    pulls.sort_by(|a, b| a.0.total_cmp(&b.0));
    pulls
}

/// When all tensors are pulled.
fn pulled(tensors: Vec<TensorParts>, model: &Model, lanes: &[ServerLane]) -> f64 {
    let down = slowest(model, |worker| worker.down);
    let (mut free, mut taken) = (vec![0.0; lanes.len()], 0.0_f64);
    for (whole, parts) in &pushed(tensors, model, lanes) {
        let all: f64 = parts.iter().map(|(_, part)| part).sum();
        taken = taken.max(*whole) + all / down;
        for (server, part) in parts {
            if let (Some(at), Some(lane)) = (free.get_mut(*server), lanes.get(*server)) {
                *at = f64::max(*at, *whole) + part * lane.send;
            }
        }
    }
    free.into_iter().fold(taken, f64::max)
}
