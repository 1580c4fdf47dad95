//! Planner A: shares of the servers that follow the network (docs/algorithms.md 2.3 and 2.4). The
//! model says how much each server should hold; the least that must move is moved, so that each
//! server holds something of all parts of a round and has something to receive and to send all the
//! time. Large keys are cut for it.
//!
//! Pure and deterministic: the same layout and model give the same plan. Must not know how rates
//! were measured, nor when to ask: [`super::planner`] does.

mod improve;
mod rounding;
mod shared;
mod spread;
pub(super) mod waiting;

#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;

use super::cost::{Model, bytes};
use super::layout::{LayoutError, Move, MoveOccasion, PieceLoad, Plan, apply, sort};
use super::tuning::{KEY_PIECES_MAX, PIECE_BYTES_MIN, SHARES_HORIZON, THETA, THETA_JOIN};
use crate::text;

/// What a plan has to keep to.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareParameters {
    /// A round has to become shorter by that factor less 1, or nothing moves
    /// (docs/algorithms.md 2.6).
    pub theta: f64,
    /// The same for a plan that gives pieces to a server that has none: it joined.
    pub theta_join: f64,
    /// No cut leaves a piece with fewer bytes, ...
    pub min_piece: u64,
    /// ... and no key has more pieces.
    pub max_pieces: usize,
    /// Rounds over which a move has to pay: how long the network is expected to stay as it is
    /// (H of docs/algorithms.md 2.3).
    pub horizon: f64,
    /// Bytes per second at which pieces move; a byte moved costs its time at that rate. None: the
    /// rate of the average server.
    pub move_rate: Option<f64>,
}

impl Default for ShareParameters {
    fn default() -> Self {
        Self {
            theta: THETA,
            theta_join: THETA_JOIN,
            min_piece: PIECE_BYTES_MIN,
            max_pieces: KEY_PIECES_MAX,
            horizon: SHARES_HORIZON,
            move_rate: None,
        }
    }
}

/// What may move, and what must.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Some pieces are at servers that shall hold nothing, or at nobody.
    forced: bool,
    /// Some server that may hold pieces has none, and gets some. (One that gets none, since it is
    /// slow for example, is no reason to move what others hold.)
    joining: bool,
}

impl Need {
    const fn occasion(self) -> MoveOccasion {
        match self {
            Self { forced: true, .. } => MoveOccasion::Leaves,
            Self { joining: true, .. } => MoveOccasion::Joins,
            _ => MoveOccasion::Shorter,
        }
    }
}

/// A plan for that layout. None: nothing is worth moving. Pieces whose owner is no usable server of
/// the model move in any case, whatever the parameters say.
///
/// # Errors
/// The layout is none.
pub fn plan(
    layout: &[PieceLoad],
    model: &Model,
    parameters: &ShareParameters,
) -> Result<Option<Plan>, LayoutError> {
    let mut pieces = layout.to_vec();
    sort(&mut pieces)?;
    let (loads, homeless) = model.loads_of(&pieces);
    let forced = is_forced(model, &loads, homeless);
    if has_empty(model, &loads)
        && let Some(target) = model.target(&loads, homeless, 0.0)
        && let Some(plan) = plan_for(&pieces, model, &target, parameters)?
        && (forced || fills(&loads, model, &plan.moves))
    {
        return Ok(Some(plan));
    }
    // Such plans are worked out in any case.
    let enough = |seconds: f64| seconds * (1.0 + parameters.theta);
    let now = if forced { f64::INFINITY } else { waiting::seconds(&pieces, model) };
    if now < enough(model.bound(loads.iter().sum())) {
        return Ok(None);
    }
    let price = price(model, &pieces, parameters);
    let Some(target) = model.target(&loads, homeless, price) else { return Ok(None) };
    // Cutting is worked out only where it can pay: this is asked at every look.
    if !forced && now < enough(waiting::least(&pieces, model, &target)) {
        return Ok(None);
    }
    plan_for(&pieces, model, &target, parameters)
}

/// A plan towards given loads (in the order of [`Model::servers`]), if it keeps what [`plan`]
/// promises.
///
/// # Errors
/// The layout is none.
pub fn plan_towards(
    layout: &[PieceLoad],
    model: &Model,
    target: &[f64],
    parameters: &ShareParameters,
) -> Result<Option<Plan>, LayoutError> {
    let mut pieces = layout.to_vec();
    sort(&mut pieces)?;
    plan_for(&pieces, model, target, parameters)
}

/// The same for a sorted layout.
fn plan_for(
    pieces: &[PieceLoad],
    model: &Model,
    target: &[f64],
    parameters: &ShareParameters,
) -> Result<Option<Plan>, LayoutError> {
    let (loads, homeless) = model.loads_of(pieces);
    let after = shared::best(pieces, model, target, parameters);
    let moves = rounding::moves(pieces, &after);
    if moves.is_empty() {
        return Ok(None);
    }
    let forced = is_forced(model, &loads, homeless);
    let need = Need { forced, joining: fills(&loads, model, &moves) };
    let after = apply(pieces, &moves)?;
    let moved_bytes = moved_bytes(pieces, &moves);
    if !need.forced && !pays(model, pieces, &after, moved_bytes, need, parameters) {
        return Ok(None);
    }
    let total = loads.iter().sum::<f64>() + homeless;
    let (before, predicted) = (waiting::seconds(pieces, model), waiting::seconds(&after, model));
    let reason = reason(model, &loads, need);
    let bound = Some(model.bound(total));
    let occasion = need.occasion();
    Ok(Some(Plan { moves, before, predicted, bound, moved_bytes, reason, occasion }))
}

/// Some pieces are at servers that shall hold nothing, or at nobody.
fn is_forced(model: &Model, loads: &[f64], homeless: f64) -> bool {
    let mut servers = model.servers().iter().zip(loads);
    homeless > 0.0 || servers.any(|(server, load)| !server.usable && *load > 0.0)
}

/// Some server that may hold pieces has none.
fn has_empty(model: &Model, loads: &[f64]) -> bool {
    model.servers().iter().zip(loads).any(|(server, load)| server.usable && *load <= 0.0)
}

/// True if moves give pieces to a server that has none. `loads`: in the order of
/// [`Model::servers`].
pub(super) fn fills(loads: &[f64], model: &Model, moves: &[Move]) -> bool {
    let empty = |to: &Move| {
        let load = model.index_of(to.to_server).and_then(|index| loads.get(index));
        load.is_some_and(|load| *load <= 0.0)
    };
    moves.iter().any(empty)
}

/// The seconds that count: of the round; of the servers alone if one joins, since it has to take
/// part even where workers decide the round.
fn seconds(model: &Model, pieces: &[PieceLoad], need: Need) -> f64 {
    match need.joining {
        true => model.servers_seconds(&model.loads_of(pieces).0),
        false => waiting::seconds(pieces, model),
    }
}

const fn theta(need: Need, parameters: &ShareParameters) -> f64 {
    if need.joining { parameters.theta_join } else { parameters.theta }
}

/// Whether the round becomes shorter by enough, and the time saved until the network changes is
/// more than the time it costs to move.
fn pays(
    model: &Model,
    old: &[PieceLoad],
    new: &[PieceLoad],
    moved: u64,
    need: Need,
    parameters: &ShareParameters,
) -> bool {
    let (before, after) = (seconds(model, old, need), seconds(model, new, need));
    let saved = (before - after) * parameters.horizon;
    let cost = bytes(moved) / move_rate(model, parameters);
    before >= after * (1.0 + theta(need, parameters)) && (need.joining || saved > cost)
}

/// Seconds of a round that a byte of value is worth: the time to move it with its state, spread
/// over the rounds of the horizon.
fn price(model: &Model, pieces: &[PieceLoad], parameters: &ShareParameters) -> f64 {
    let sum = |of: fn(&PieceLoad) -> u64| pieces.iter().map(|piece| bytes(of(piece))).sum::<f64>();
    let (values, states) = (sum(|piece| piece.bytes), sum(|piece| piece.state_bytes));
    if values <= 0.0 {
        return 0.0;
    }
    (values + states) / values / move_rate(model, parameters) / parameters.horizon.max(1.0)
}

fn move_rate(model: &Model, parameters: &ShareParameters) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
    let usable = model.servers().iter().filter(|server| server.usable).count().max(1) as f64;
    parameters.move_rate.unwrap_or(model.pooled_rate() / usable).max(1.0)
}

/// The moves from a layout back to an older one of the same elements.
pub(super) fn way_back(layout: &[PieceLoad], old: &[PieceLoad]) -> Vec<Move> {
    let owner = |piece: &PieceLoad| {
        let at = old.partition_point(|old| (old.key, old.to) <= (piece.key, piece.from));
        old.get(at)
            .filter(|old| old.key == piece.key && old.from <= piece.from)
            .map(|old| old.owner)
    };
    let back = |piece: &PieceLoad| PieceLoad {
        owner: owner(piece).unwrap_or(piece.owner),
        ..piece.clone()
    };
    rounding::moves(layout, &layout.iter().map(back).collect::<Vec<_>>())
}

/// Bytes of value and state that moves take out of a sorted layout.
pub(super) fn moved_bytes(pieces: &[PieceLoad], moves: &[Move]) -> u64 {
    let of = |step: &Move| {
        let index = pieces.partition_point(|piece| (piece.key, piece.to) <= (step.key, step.from));
        let piece = pieces.get(index)?;
        Some(piece.bytes_of(step.from, step.to).saturating_add(piece.state_of(step.from, step.to)))
    };
    moves.iter().filter_map(of).fold(0, u64::saturating_add)
}

/// Why, for people: who is slowest, or who leaves or joins.
fn reason(model: &Model, loads: &[f64], need: Need) -> String {
    let named = |wanted: &dyn Fn(bool, f64) -> bool| -> String {
        let servers = model.servers().iter().zip(loads);
        let ids = servers.filter(|(server, load)| wanted(server.usable, **load));
        text::few(ids.map(|(server, _)| server.id.to_string()))
    };
    if need.forced {
        let leaving = named(&|usable, load| !usable && load > 0.0);
        return match leaving.as_str() {
            "" => "pieces without a server get one".to_owned(),
            _ => format!("node {leaving} gives up its pieces"),
        };
    }
    if need.joining {
        return format!("node {} has no pieces yet", named(&|usable, load| usable && load <= 0.0));
    }
    let total: f64 = loads.iter().sum();
    let seconds = model.server_seconds(loads);
    let slowest = seconds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let of = |index: usize| Some((model.servers().get(index)?.id, *loads.get(index)?));
    match slowest.and_then(|(index, _)| of(index)) {
        Some((id, load)) => {
            format!("node {id} is slowest with {:.1} % of the bytes", 100.0 * load / total)
        }
        None => "a shorter round".to_owned(),
    }
}
