//! What an exchange of deltas (`docs/nbsync.md`) would bring a job that has none, for people.

use std::collections::BTreeMap;

use super::times::WorkerTime;
use crate::cluster::Cluster;
use crate::wire::{NodeId, Role};

/// An exchange is worth a line if it brings so many times the steps.
const WORTH: f64 = 1.3;
/// Seconds: less than that is not measured.
const SHORTEST: f64 = 1e-4;

/// What an exchange would bring, by steps alone, if that is much; else empty. In a plain job each
/// worker takes one step in an iteration; with an exchange it computes on.
pub(super) fn exchange_advice(cluster: &Cluster, times: &BTreeMap<NodeId, WorkerTime>) -> String {
    let workers = || cluster.members().values().filter(|node| node.role == Role::Worker);
    let all_known = workers().all(|node| times.contains_key(&node.id));
    let can = cluster.is_scheduler()
        && cluster.exchange().is_none()
        && cluster.cannot_exchange().is_none();
    if !cluster.is_ready() || !can || !all_known || times.is_empty() {
        return String::new();
    }
    let seconds = |time: &WorkerTime| time.computes.as_secs_f64().max(SHORTEST);
    let gain =
        times.values().map(|time| (time.computes + time.waits).as_secs_f64() / seconds(time));
    let gain = gain.sum::<f64>() / times.len() as f64;
    if gain < WORTH {
        return String::new();
    }
    let slowest = times.values().map(seconds).fold(0.0, f64::max);
    let fastest = times.values().map(seconds).fold(f64::INFINITY, f64::min);
    let iteration = times.values().map(|time| (time.computes + time.waits).as_secs_f64());
    let iteration = iteration.fold(0.0, f64::max);
    format!(
        "PSLITE_SYNC=nbsync would do {gain:.1} x the steps (the slowest worker computes \
         {slowest:.2} s of each {iteration:.2} s; speeds differ {:.1} x): by steps alone, see \
         docs/nbsync.md",
        slowest / fastest
    )
}
