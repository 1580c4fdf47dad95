//! [`Model`]: the cards of a job, and how long a round takes where each server holds so much.

use std::collections::BTreeMap;

use super::cards::{PairCap, Server, Worker};
use super::replicas::Replicas;
use super::rows::{self, Row};
use crate::placement::layout::{PieceLoad, ServerHolding, holdings};
use crate::wire::NodeId;

/// A rate below that share of the fastest one counts as that share: such a server gets next to
/// nothing either way, and equations stay solvable.
const SLOWEST: f64 = 1e-4;

/// The job as the model sees it. Pushes and pulls of a round overlap, since cards send and receive
/// at once: the longer one counts. Loads are given and returned in the order of [`Model::servers`].
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) workers: Vec<Worker>,
    pub(super) servers: Vec<Server>,
    pub(super) replicas: Replicas,
    /// For each server the index of the one that holds its copy.
    pub(super) copies: Vec<Option<usize>>,
    /// Tightest cap of each server: push, pull.
    pub(super) caps: Vec<[f64; 2]>,
    pub(super) rows: Vec<Row>,
}

impl Model {
    /// The job of these nodes. Caps of pairs that share a host are ignored.
    #[must_use]
    pub fn new(
        mut workers: Vec<Worker>,
        mut servers: Vec<Server>,
        caps: &[PairCap],
        replicas: &Replicas,
    ) -> Self {
        let replicas = replicas.clone();
        servers.sort_by_key(|server| server.id);
        servers.dedup_by_key(|server| server.id);
        workers.sort_by_key(|worker| worker.id);
        workers.dedup_by_key(|worker| worker.id);
        make_sane(&mut workers, &mut servers);
        let copies = copies(&servers, &replicas);
        let caps = tightest(&workers, &servers, caps);
        let rows = Vec::new();
        let mut model = Self { workers, servers, replicas, copies, caps, rows };
        model.rows = rows::of(&model);
        model
    }

    /// The same job with a server used or not.
    #[must_use]
    pub fn with_usable(&self, server: NodeId, usable: bool) -> Self {
        self.with(server, |server| server.usable = usable)
    }

    /// The same job with one server more. Its id has to be higher than all others.
    #[must_use]
    pub fn with_server(&self, server: Server) -> Self {
        let mut model = self.clone();
        if model.servers.last().is_some_and(|last| last.id >= server.id) {
            return model;
        }
        model.servers.push(server);
        model.caps.push([f64::INFINITY; 2]);
        make_sane(&mut model.workers, &mut model.servers);
        model.copies = copies(&model.servers, &self.replicas);
        model.rows = rows::of(&model);
        model
    }

    /// The same job with a server that many times slower than now.
    #[must_use]
    pub fn with_slowdown(&self, server: NodeId, factor: f64) -> Self {
        self.with(server, |server| server.slowdown *= factor)
    }

    /// The same job with copies kept elsewhere.
    #[must_use]
    pub fn with_replicas(&self, replicas: Replicas) -> Self {
        let mut model = self.clone();
        model.replicas = replicas;
        model.copies = copies(&model.servers, &model.replicas);
        model.rows = rows::of(&model);
        model
    }

    /// Who keeps whose copies: pairs of owner and holder, in ascending order of owners.
    #[must_use]
    pub fn copy_pairs(&self) -> Vec<(NodeId, NodeId)> {
        let id = |index: usize| self.servers.get(index).map(|server| server.id);
        let pairs = self.copies.iter().enumerate();
        pairs.filter_map(|(owner, holder)| Some((id(owner)?, id((*holder)?)?))).collect()
    }

    /// The same job with workers that are no limit.
    #[must_use]
    pub fn without_workers(&self) -> Self {
        let mut model = self.clone();
        // A card that a server shares stays one.
        let shares = |worker: &&mut Worker| {
            worker.host.is_some() && self.servers.iter().any(|server| server.host == worker.host)
        };
        for worker in model.workers.iter_mut().filter(|worker| !shares(worker)) {
            (worker.up, worker.down) = (f64::INFINITY, f64::INFINITY);
        }
        model.rows = rows::of(&model);
        model
    }

    fn with(&self, server: NodeId, change: impl Fn(&mut Server)) -> Self {
        let mut model = self.clone();
        if let Some(server) = self.index_of(server).and_then(|index| model.servers.get_mut(index)) {
            change(server);
        }
        make_sane(&mut model.workers, &mut model.servers);
        model.copies = copies(&model.servers, &self.replicas);
        model.rows = rows::of(&model);
        model
    }

    /// The servers, in ascending order of ids.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The workers, in ascending order of ids.
    #[must_use]
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Where in the order of loads a server stands.
    #[must_use]
    pub fn index_of(&self, server: NodeId) -> Option<usize> {
        self.servers.binary_search_by_key(&server, |server| server.id).ok()
    }

    /// The bytes that each server holds by a layout, and the bytes whose owner is no server of this
    /// model.
    #[must_use]
    pub fn loads_of(&self, layout: &[PieceLoad]) -> (Vec<f64>, f64) {
        self.loads_held(&holdings(layout))
    }

    /// The same, by what each owner holds.
    #[must_use]
    pub fn loads_held(&self, held: &BTreeMap<NodeId, ServerHolding>) -> (Vec<f64>, f64) {
        let mut loads = vec![0.0; self.servers.len()];
        let mut homeless = 0.0;
        for (owner, holding) in held {
            match self.index_of(*owner).and_then(|index| loads.get_mut(index)) {
                Some(load) => *load += bytes(holding.bytes),
                None => homeless += bytes(holding.bytes),
            }
        }
        (loads, homeless)
    }

    /// Seconds of a round.
    #[must_use]
    pub fn round_seconds(&self, loads: &[f64]) -> f64 {
        rows::slowest(&self.rows, self, loads)
    }

    /// Seconds of a round as far as servers decide them: without the times that workers need
    /// whoever holds what.
    #[must_use]
    pub fn servers_seconds(&self, loads: &[f64]) -> f64 {
        let decided = self.rows.iter().filter(|row| !row.terms.is_empty());
        rows::slowest(decided, self, loads)
    }

    /// For each server the seconds until it has served all workers; 0 if it holds nothing.
    #[must_use]
    pub fn server_seconds(&self, loads: &[f64]) -> Vec<f64> {
        let seconds = |index: usize| {
            if loads.get(index).is_none_or(|load| *load <= 0.0) {
                return 0.0;
            }
            let own = self.rows.iter().filter(|row| row.servers.contains(&index));
            rows::slowest(own, self, loads)
        };
        (0..self.servers.len()).map(seconds).collect()
    }

    /// Sum of the rates at which the usable servers could serve all workers, were they alone.
    #[must_use]
    pub fn pooled_rate(&self) -> f64 {
        self.servers
            .iter()
            .filter(|server| server.usable)
            .map(|server| server.up.min(server.down))
            .sum()
    }

    /// Bytes to the copy for each byte of value.
    #[must_use]
    pub fn copy_ratio(&self) -> f64 {
        self.replicas.ratio()
    }

    pub(super) fn worker_count(&self) -> f64 {
        self.workers.len() as f64
    }
}

/// Bytes as the model counts them.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^53; a model needs no more")]
pub(in crate::placement) const fn bytes(count: u64) -> f64 {
    count as f64
}

/// Replaces what is no rate, and what would make the equations unsolvable.
fn make_sane(workers: &mut [Worker], servers: &mut [Server]) {
    let cards = workers.iter().map(|w| (w.up, w.down));
    let cards = cards.chain(servers.iter().map(|s| (s.up, s.down)));
    let rates = cards.flat_map(|(up, down)| [up, down]).filter(|rate| rate.is_finite());
    let fastest = rates.fold(0.0, f64::max);
    let floor = if fastest > 0.0 { fastest * SLOWEST } else { 1.0 };
    // The order of arguments matters: a NaN becomes the floor.
    let sane = |rate: &mut f64| *rate = rate.max(floor);
    workers.iter_mut().flat_map(|w| [&mut w.up, &mut w.down]).for_each(sane);
    servers.iter_mut().flat_map(|s| [&mut s.up, &mut s.down]).for_each(sane);
    for server in servers {
        if !(server.fixed.is_finite() && server.fixed > 0.0) {
            server.fixed = 0.0;
        }
        if !(server.slowdown.is_finite() && server.slowdown > 0.0) {
            server.slowdown = 1.0;
        }
        // Faster than its card: then the card is faster than it seemed.
        if server.slowdown < 1.0 {
            server.up /= server.slowdown;
            server.down /= server.slowdown;
            server.slowdown = 1.0;
        }
    }
}

/// Who holds whose copy.
fn copies(servers: &[Server], replicas: &Replicas) -> Vec<Option<usize>> {
    let usable: Vec<usize> = (0..servers.len())
        .filter(|index| servers.get(*index).is_some_and(|server| server.usable))
        .collect();
    let next = |index: usize| {
        let after = usable.iter().find(|other| **other > index).or_else(|| usable.first());
        after.copied().filter(|other| *other != index)
    };
    match replicas {
        Replicas::None => vec![None; servers.len()],
        Replicas::Next { .. } => (0..servers.len()).map(next).collect(),
        Replicas::Given { pairs, .. } => {
            let at = |id: NodeId| servers.iter().position(|server| server.id == id);
            let named: BTreeMap<NodeId, NodeId> = pairs.iter().copied().collect();
            let copy = |(index, server): (usize, &Server)| {
                let named = named.get(&server.id).and_then(|holder| at(*holder));
                named
                    .filter(|holder| *holder != index && usable.contains(holder))
                    .or_else(|| next(index))
            };
            servers.iter().enumerate().map(copy).collect()
        }
    }
}

/// The tightest cap of each server in either direction.
fn tightest(workers: &[Worker], servers: &[Server], caps: &[PairCap]) -> Vec<[f64; 2]> {
    let mut tightest = vec![[f64::INFINITY; 2]; servers.len()];
    let hosts: BTreeMap<NodeId, Option<u32>> = workers.iter().map(|w| (w.id, w.host)).collect();
    for cap in caps {
        let Ok(index) = servers.binary_search_by_key(&cap.server, |server| server.id) else {
            continue;
        };
        let (Some(server), Some(slot)) = (servers.get(index), tightest.get_mut(index)) else {
            continue;
        };
        let Some(host) = hosts.get(&cap.worker) else { continue };
        if host.is_some() && *host == server.host {
            continue;
        }
        let floor = server.up.max(server.down) * SLOWEST;
        slot[0] = slot[0].min(cap.push.max(floor));
        slot[1] = slot[1].min(cap.pull.max(floor));
    }
    tightest
}
