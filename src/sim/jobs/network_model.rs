//! The cost model of a simulated job's network by the true rates of its cards, which nobody in the
//! job knows.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::{Fault, JobConfig};
use crate::network::{Process, Rates};
use pslite_core::placement::cost::{Model, Replicas, Server, Worker};
use pslite_core::values::server_key_ranges;
use pslite_core::wire::{NodeId, server_id, worker_id};

/// The model at that time. `nodes`: who each process is; without it they are in order.
pub(super) fn true_model(
    config: &JobConfig,
    at: Duration,
    nodes: &BTreeMap<Process, NodeId>,
) -> Model {
    let rates = rates_at(config, at);
    let of = |process: Process| {
        let rates = rates.get(&process);
        rates.map_or((f64::INFINITY, f64::INFINITY), |r| (r.up as f64, r.down as f64))
    };
    let servers = config.server_processes().enumerate().map(|(rank, process)| {
        let (up, down) = of(process);
        Server::new(nodes.get(&process).copied().unwrap_or(server_id(rank)), up, down)
    });
    let first = 1 + config.servers;
    let workers = (0..config.workers).map(|rank| {
        let (up, down) = of(first + rank);
        let id = nodes.get(&(first + rank)).copied().unwrap_or(worker_id(rank));
        Worker { id, up, down, host: None }
    });
    let replicas = match config.replicas {
        0 => Replicas::None,
        _ => Replicas::Next { ratio: 1.0 },
    };
    Model::new(workers.collect(), servers.collect(), &[], &replicas)
}

/// Bytes of all values, as they are charged.
pub(super) fn model_bytes(config: &JobConfig) -> f64 {
    let tensors = config.tensors.make(&server_key_ranges(config.servers), 1);
    let weight = config.network.chunks.map_or(1, |chunks| chunks.weight);
    let slices = tensors.iter().flat_map(|tensor| tensor.slices.iter().map(|s| tensor.bytes(s)));
    (slices.sum::<usize>() as u64 * weight) as f64
}

/// The cards of all processes by then.
fn rates_at(config: &JobConfig, by: Duration) -> BTreeMap<Process, Rates> {
    let mut faults: Vec<_> = config.faults.iter().filter(|(at, _)| *at <= by).collect();
    faults.sort_by_key(|(at, _)| *at);
    let mut rates = BTreeMap::new();
    for (_, fault) in faults {
        if let Fault::Rates(process, Some(new)) = fault {
            rates.insert(*process, *new);
        }
    }
    rates
}
