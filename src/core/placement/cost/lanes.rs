//! Of each server alone: seconds in which a byte of value comes to it from all workers, and in
//! which it goes to all of them. For the time of a round whose tensors wait (`shares/waiting`).

use super::Model;

/// Seconds for each byte that a server holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::placement) struct ServerLane {
    /// Until all workers have pushed it, and copies of others that come meanwhile.
    pub(in crate::placement) receive: f64,
    /// Until all workers have pulled it, and its copy is sent.
    pub(in crate::placement) send: f64,
}

/// In the order of [`Model::servers`]. Loads say how many copies come to whom.
pub(super) fn lanes(model: &Model, loads: &[f64]) -> Vec<ServerLane> {
    let ratio = model.replicas.ratio();
    let load = |index: usize| loads.get(index).copied().unwrap_or(0.0);
    let host = |index: usize| model.servers.get(index).and_then(|server| server.host);
    let apart = |a: usize, b: usize| host(a).is_none() || host(a) != host(b);
    let copies = || model.copies.iter().enumerate().filter_map(|(own, copy)| Some((own, (*copy)?)));
    let lane = |(index, server): (usize, &super::Server)| {
        let beside = |host: &Option<u32>| host.is_some() && *host == server.host;
        let near = model.workers.iter().filter(|worker| beside(&worker.host)).count();
        #[allow(clippy::cast_precision_loss, reason = "a count of workers")]
        let count = model.worker_count() - near as f64;
        let out = copies().any(|(owner, copy)| owner == index && apart(owner, copy));
        let kept = copies().filter(|(owner, copy)| *copy == index && apart(*owner, *copy));
        let kept: f64 = kept.map(|(owner, _)| load(owner)).sum();
        let kept = if load(index) > 0.0 { ratio * kept / load(index) } else { 0.0 };
        let [push, pull] = model.caps.get(index).copied().unwrap_or([f64::INFINITY; 2]);
        let served = count * server.slowdown;
        ServerLane {
            receive: ((served + kept) / server.down).max(1.0 / push),
            send: ((served + if out { ratio } else { 0.0 }) / server.up).max(1.0 / pull),
        }
    };
    model.servers.iter().enumerate().map(lane).collect()
}
