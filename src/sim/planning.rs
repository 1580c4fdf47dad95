//! Placement in a network of any size, on paper: cards whose rates a seed draws, keys where MXNet's
//! hash puts them, and the plan that planner A makes of it. Nobody sends anything.
//!
//! May touch `placement` and `kv`'s ranges of ranks; like all of `sim` no clock and no chance but
//! [`Random`]'s.

use pslite_core::placement::cost::{Model, Replicas, Server, Worker};
use pslite_core::placement::layout::{LayoutError, PieceLoad, Plan, apply};
use pslite_core::placement::shares::{ShareParameters, plan};
use pslite_core::random::Random;
use pslite_core::values::KeyPart;
use pslite_core::wire::{server_id, worker_id};

/// A megabit per second, in bytes.
const MBIT: f64 = 125_000.0;
/// From that many elements on MXNet cuts a tensor into equal parts, one for each server
/// (`kvstore_dist.h`).
const BIG: u64 = 1_000_000;
/// Tensors have at least that many elements, ...
const SMALLEST: u64 = 64;
/// ... and at most that times as many; sizes are drawn evenly by their logarithm.
const DOUBLINGS: u64 = 17;
/// Cuts are at multiples of that many elements, as in the store.
const ALIGN: u64 = 16;

/// A network, and what is trained over it.
#[derive(Clone, Copy, Debug)]
pub struct PlanningConfig {
    /// Draws rates and sizes.
    pub seed: u64,
    /// Workers.
    pub workers: usize,
    /// Servers.
    pub servers: usize,
    /// Tensors.
    pub tensors: u64,
    /// The slowest and the fastest card, in Mbit/s; the same rate in both directions.
    pub rates: (u64, u64),
    /// Each piece has a copy at another server.
    pub copies: bool,
}

/// What was planned.
#[derive(Clone, Debug)]
pub struct PlannedLayout {
    /// Bytes of all values.
    pub bytes: u64,
    /// Pieces before and after.
    pub pieces: (usize, usize),
    /// Seconds of a round before, by the model; with a plan, as that counts them.
    pub before: f64,
    /// T*: no layout can give a shorter round, by the model.
    pub bound: f64,
    /// None: nothing is worth moving.
    pub plan: Option<Plan>,
}

/// Draws the network and plans for it.
///
/// # Errors
/// The planner made a layout that is none.
pub fn planned(config: &PlanningConfig) -> Result<PlannedLayout, LayoutError> {
    let mut random = Random::new(config.seed);
    let model = model(config, &mut random);
    let layout = layout(config, &mut random);
    let (loads, _) = model.loads_of(&layout);
    let plan = plan(&layout, &model, &ShareParameters::default())?;
    let after = match &plan {
        Some(plan) => apply(&layout, &plan.moves)?.len(),
        None => layout.len(),
    };
    Ok(PlannedLayout {
        bytes: layout.iter().map(|piece| piece.bytes).sum(),
        pieces: (layout.len(), after),
        before: plan.as_ref().map_or_else(|| model.round_seconds(&loads), |plan| plan.before),
        bound: model.bound(loads.iter().sum()),
        plan,
    })
}

fn model(config: &PlanningConfig, random: &mut Random) -> Model {
    let (low, high) = config.rates;
    let mut rate = || {
        let mbit = low + random.below(high.saturating_sub(low).saturating_add(1));
        #[allow(clippy::cast_precision_loss, reason = "rates are drawn below 2^53")]
        let rate = mbit as f64 * MBIT;
        rate
    };
    let servers = (0..config.servers).map(|rank| {
        let rate = rate();
        Server::new(server_id(rank), rate, rate)
    });
    let servers = servers.collect();
    let workers = (0..config.workers).map(|rank| {
        let rate = rate();
        Worker { id: worker_id(rank), up: rate, down: rate, host: None }
    });
    let replicas = if config.copies { Replicas::Next { ratio: 1.0 } } else { Replicas::None };
    Model::new(workers.collect(), servers, &[], &replicas)
}

/// Keys as MXNet places them: small tensors by a hash, large ones in equal parts at all servers.
fn layout(config: &PlanningConfig, random: &mut Random) -> Vec<PieceLoad> {
    let servers = config.servers as u64;
    let mut layout = Vec::new();
    for key in 0..config.tensors {
        let doublings = random.below(DOUBLINGS);
        let elements = (SMALLEST << doublings) + random.below(SMALLEST << doublings);
        if elements < BIG {
            let rank = key.wrapping_mul(9973) % servers;
            layout.push(piece(KeyPart { key, from: 0, to: elements }, rank as usize));
            continue;
        }
        let mut from = 0;
        for rank in 0..servers {
            let border = |rank: u64| elements * rank / servers / ALIGN * ALIGN;
            let to = if rank + 1 == servers { elements } else { border(rank + 1) };
            if from < to {
                layout.push(piece(KeyPart { key, from, to }, rank as usize));
                from = to;
            }
        }
    }
    layout
}

/// Values of four bytes, with as much of an optimizer's state.
const fn piece(part: KeyPart, rank: usize) -> PieceLoad {
    let KeyPart { key, from, to } = part;
    let bytes = (to - from) * 4;
    let (state_bytes, divisible, align) = (bytes, true, ALIGN);
    let owner = server_id(rank);
    PieceLoad { key, position: key, from, to, bytes, state_bytes, owner, divisible, align }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(workers: usize, servers: usize) -> PlanningConfig {
        let (seed, tensors, rates, copies) = (1, 100, (50, 1000), false);
        PlanningConfig { seed, workers, servers, tensors, rates, copies }
    }

    #[test]
    fn a_plan_is_what_its_seed_decides_and_comes_near_the_bound() {
        let one = planned(&config(40, 20)).unwrap();
        let plan = one.plan.clone().unwrap();
        assert_eq!(Some(&plan), planned(&config(40, 20)).unwrap().plan.as_ref());
        assert!(one.bound <= plan.predicted && plan.predicted < one.before, "{one:?}");
        // What nothing overlaps of the last tensor is in it.
        assert!(plan.predicted < 1.12 * one.bound, "{} {}", plan.predicted, one.bound);
        assert!(plan.moved_bytes > 0 && one.pieces.1 >= 100, "{one:?}");
        let other = planned(&PlanningConfig { seed: 2, ..config(40, 20) }).unwrap();
        assert_ne!(other.plan, Some(plan));
    }

    #[test]
    fn hundreds_of_servers_are_planned_too() {
        for copies in [false, true] {
            let planned = planned(&PlanningConfig { copies, ..config(500, 150) }).unwrap();
            let plan = planned.plan.unwrap();
            assert!(plan.predicted < planned.before, "{copies}");
        }
    }
}
