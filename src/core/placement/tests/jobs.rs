//! What the tests of this room share: layouts, models, noise.

use std::collections::BTreeMap;

use super::fluid::{Lab, Node};
use crate::placement::cost::{Model, Replicas, Server, Worker};
use crate::placement::layout::PieceLoad;
use crate::random::Random;
use crate::wire::{Key, NodeId};

/// Around 0 with deviation 1 (Box and Muller).
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

pub(crate) fn server_id(rank: usize) -> NodeId {
    crate::wire::server_id(rank)
}

pub(crate) fn worker_id(rank: usize) -> NodeId {
    crate::wire::worker_id(rank)
}

/// Workers and servers with equal rates in both directions, in bytes per second.
pub(crate) fn model_of(workers: &[f64], servers: &[f64]) -> Model {
    let worker =
        |(i, rate): (usize, &f64)| Worker { id: worker_id(i), up: *rate, down: *rate, host: None };
    let server = |(i, rate): (usize, &f64)| Server::new(server_id(i), *rate, *rate);
    Model::new(
        workers.iter().enumerate().map(worker).collect(),
        servers.iter().enumerate().map(server).collect(),
        &[],
        &Replicas::None,
    )
}

pub(crate) fn piece(key: Key, from: u64, to: u64, owner: NodeId) -> PieceLoad {
    let bytes = (to - from) * 4;
    let (state_bytes, divisible, align) = (bytes, true, 16);
    PieceLoad { key, position: key, from, to, bytes, state_bytes, owner, divisible, align }
}

/// Keys of one size, dealt out in turn.
pub(crate) fn spread(total: f64, keys: usize, owners: &[NodeId]) -> Vec<PieceLoad> {
    let elements = (total / keys as f64 / 4.0) as u64;
    (0..keys).map(|key| piece(key as Key, 0, elements, owners[key % owners.len()])).collect()
}

/// The 161 tensors of ResNet-50 (He et al. 2015) that are trained, in elements: 25,557,032
/// together.
pub(crate) fn resnet50() -> Vec<u64> {
    let mut sizes = Vec::new();
    let convolution = |sizes: &mut Vec<u64>, from: u64, to: u64, side: u64| {
        sizes.extend([from * to * side * side, to, to]);
    };
    convolution(&mut sizes, 3, 64, 7);
    let mut from = 64;
    for (blocks, width) in [(3, 64), (4, 128), (6, 256), (3, 512)] {
        for block in 0..blocks {
            convolution(&mut sizes, from, width, 1);
            convolution(&mut sizes, width, width, 3);
            convolution(&mut sizes, width, width * 4, 1);
            if block == 0 {
                convolution(&mut sizes, from, width * 4, 1);
            }
            from = width * 4;
        }
    }
    sizes.extend([2048 * 1000, 1000]);
    sizes
}

/// ResNet-50 as MXNet places it.
pub(crate) fn resnet50_by_hash(servers: usize) -> Vec<PieceLoad> {
    by_hash(&resnet50(), servers)
}

/// Tensors as MXNet places them (kvstore_dist.h:650-680): below 10^6 elements they go whole to
/// server `key * 9973 % servers`, others in equal shares to all.
pub(crate) fn by_hash(sizes: &[u64], servers: usize) -> Vec<PieceLoad> {
    let mut layout = Vec::new();
    let all = servers as u64;
    for (key, size) in (0..).zip(sizes.iter().copied()) {
        if size < 1_000_000 {
            layout.push(piece(key, 0, size, server_id((key * 9973 % all) as usize)));
            continue;
        }
        let cut = |rank: u64| (size as f64 / all as f64 * rank as f64).round() as u64;
        for rank in 0..all {
            let to = if rank + 1 == all { size } else { cut(rank + 1) };
            layout.push(piece(key, cut(rank), to, server_id(rank as usize)));
        }
    }
    layout
}

/// Each tensor cut in proportion to what servers can carry.
pub(crate) fn cut_by(sizes: &[u64], rates: &[f64]) -> Vec<PieceLoad> {
    let total: f64 = rates.iter().sum();
    let mut layout = Vec::new();
    for (key, size) in (0..).zip(sizes) {
        let (mut from, mut sum) = (0, 0.0);
        for (rank, rate) in rates.iter().enumerate() {
            sum += rate;
            let to = (*size as f64 * sum / total).round() as u64;
            if to > from {
                layout.push(piece(key, from, to, server_id(rank)));
            }
            from = to;
        }
    }
    layout
}

/// As [`pipelined`], of the nodes of a lab: cards that send and receive at different rates, workers
/// that are a limit. No two nodes may share a host.
pub(crate) fn waiting(layout: &[PieceLoad], lab: &Lab) -> f64 {
    let count = lab.workers.len() as f64;
    let least = |of: fn(&Node) -> f64| lab.workers.values().map(of).fold(f64::INFINITY, f64::min);
    let mut order: Vec<&PieceLoad> = layout.iter().collect();
    order.sort_by_key(|piece| piece.position);
    let (mut received, mut pushed) = (BTreeMap::<NodeId, f64>::new(), 0.0);
    let mut ready = Vec::new();
    for tensor in order.chunk_by(|a, b| a.position == b.position) {
        let mut at = 0.0_f64;
        for piece in tensor {
            pushed += piece.bytes as f64;
            let own = received.entry(piece.owner).or_default();
            *own += count * piece.bytes as f64 / lab.servers[&piece.owner].down;
            at = at.max(*own).max(pushed / least(|node| node.up));
        }
        ready.push((at, tensor));
    }
    ready.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sent, mut pulled) = (BTreeMap::<NodeId, f64>::new(), 0.0_f64);
    for (at, tensor) in ready {
        let first = pulled.max(at);
        pulled = first;
        for (owner, pieces) in holdings_of(tensor) {
            let own = sent.entry(owner).or_default();
            *own = own.max(at) + count * pieces / lab.servers[&owner].up;
            pulled += pieces / least(|node| node.down);
        }
    }
    sent.into_values().fold(pulled, f64::max)
}

fn holdings_of(tensor: &[&PieceLoad]) -> BTreeMap<NodeId, f64> {
    let mut held = BTreeMap::new();
    for piece in tensor {
        *held.entry(piece.owner).or_default() += piece.bytes as f64;
    }
    held
}

/// Seconds of a round in which a tensor is pulled when all of it was pushed: so many workers push
/// all tensors in their order, and pull each as soon as they may; servers have these rates, in
/// bytes per second, and workers are no limit.
pub(crate) fn pipelined(layout: &[PieceLoad], workers: f64, rates: &BTreeMap<NodeId, f64>) -> f64 {
    let mut tensors = BTreeMap::<u64, BTreeMap<NodeId, f64>>::new();
    for piece in layout {
        let part = tensors.entry(piece.position).or_default().entry(piece.owner).or_default();
        *part += workers * piece.bytes as f64 / rates[&piece.owner];
    }
    let (mut received, mut sent) = (BTreeMap::new(), BTreeMap::<NodeId, f64>::new());
    let mut pulls = Vec::new();
    for parts in tensors.into_values() {
        let mut whole = 0.0_f64;
        for (server, seconds) in &parts {
            let at = received.entry(*server).or_insert(0.0);
            *at += seconds;
            whole = whole.max(*at);
        }
        pulls.push((whole, parts));
    }
    pulls.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (whole, parts) in pulls {
        for (server, seconds) in parts {
            let free = sent.entry(server).or_default();
            *free = free.max(whole) + seconds;
        }
    }
    sent.into_values().fold(0.0, f64::max)
}
