//! The model as a list of limits: each says that some bytes have to pass at some rate. The time of
//! a round, the bound and the linear program all read the same list, so they cannot disagree.

use std::collections::BTreeMap;

use super::Model;

/// Bytes that pass one narrow place in a round: `base` times the bytes of all servers together,
/// plus for each term the factor times the bytes of that server.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Bytes per second of the place.
    pub(super) rate: f64,
    /// Factor of the bytes of all servers.
    pub(super) base: f64,
    /// Factors of the bytes of single servers, by index.
    pub(super) terms: Vec<(usize, f64)>,
    /// The servers that are done only when this is done.
    pub(super) servers: Vec<usize>,
}

impl Row {
    /// The seconds that it takes, given all loads and their sum.
    pub(super) fn seconds(&self, model: &Model, loads: &[f64], total: f64) -> f64 {
        let load = |index: usize| loads.get(index).copied().unwrap_or(0.0);
        let own: f64 = self.terms.iter().map(|(index, factor)| factor * load(*index)).sum();
        let time = ((self.base * total + own) / self.rate).max(0.0);
        let used = self.servers.iter().filter(|index| load(**index) > 0.0);
        time + self.fixed(model, used.copied())
    }

    /// The fixed seconds of those servers, if they are in use.
    pub(super) fn fixed(&self, model: &Model, used: impl Iterator<Item = usize>) -> f64 {
        used.filter_map(|index| model.servers.get(index)).map(|s| s.fixed).fold(0.0, f64::max)
    }
}

/// The seconds of the slowest row.
pub(super) fn slowest<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    model: &Model,
    loads: &[f64],
) -> f64 {
    let total: f64 = loads.iter().sum();
    rows.into_iter().map(|row| row.seconds(model, loads, total)).fold(0.0, f64::max)
}

/// One card and who shares it.
#[derive(Default)]
struct Host {
    up: f64,
    down: f64,
    workers: f64,
    servers: Vec<usize>,
}

/// All limits of a model.
pub(super) fn of(model: &Model) -> Vec<Row> {
    let hosts = hosts(model);
    let mut rows = Vec::new();
    for host in &hosts {
        let card = HostCard { model, host };
        rows.push(
            card.row(host.up, &[CardTraffic::PushOut, CardTraffic::PullOut, CardTraffic::CopyOut]),
        );
        rows.push(
            card.row(host.down, &[CardTraffic::PushIn, CardTraffic::PullIn, CardTraffic::CopyIn]),
        );
        rows.extend(host.servers.iter().flat_map(|index| slow_server(model, host, *index)));
    }
    for (index, [push, pull]) in model.caps.iter().enumerate() {
        for rate in [*push, *pull] {
            let (terms, servers) = (vec![(index, 1.0)], vec![index]);
            rows.push(Row { rate, base: 0.0, terms, servers });
        }
    }
    rows.retain(|row| row.rate.is_finite() && (row.base > 0.0 || !row.terms.is_empty()));
    tightest_only(rows)
}

/// Groups nodes by the card they share.
fn hosts(model: &Model) -> Vec<Host> {
    let mut hosts = BTreeMap::<(Option<u32>, usize), Host>::new();
    let mut place = |host: Option<u32>, up: f64, down: f64, server: Option<usize>| {
        let own = if host.is_none() { hosts.len() } else { 0 };
        let at = hosts.entry((host, own)).or_default();
        at.up = at.up.max(up);
        at.down = at.down.max(down);
        match server {
            Some(index) => at.servers.push(index),
            None => at.workers += 1.0,
        }
    };
    for worker in &model.workers {
        place(worker.host, worker.up, worker.down, None);
    }
    for (index, server) in model.servers.iter().enumerate() {
        place(server.host, server.up, server.down, Some(index));
    }
    hosts.into_values().collect()
}

/// What passes a card.
#[derive(Clone, Copy)]
enum CardTraffic {
    /// From its workers to servers elsewhere.
    PushOut,
    /// From workers elsewhere to its servers.
    PushIn,
    /// From its servers to workers elsewhere.
    PullOut,
    /// From servers elsewhere to its workers.
    PullIn,
    /// From its servers to copies elsewhere.
    CopyOut,
    /// From servers elsewhere to copies here.
    CopyIn,
}

/// The card that the nodes of one host share.
struct HostCard<'a> {
    model: &'a Model,
    host: &'a Host,
}

impl HostCard<'_> {
    /// The row of some traffic at a rate.
    fn row(&self, rate: f64, kinds: &[CardTraffic]) -> Row {
        let mut base = 0.0;
        let mut factors = BTreeMap::<usize, f64>::new();
        for kind in kinds {
            base += self.base(*kind);
            for (index, factor) in self.factors(*kind) {
                *factors.entry(index).or_default() += factor;
            }
        }
        let terms = factors.into_iter().filter(|(_, factor)| *factor != 0.0).collect();
        let servers = self.host.servers.clone();
        Row { rate, base, terms, servers }
    }

    /// Each worker here exchanges all bytes with somebody.
    const fn base(&self, kind: CardTraffic) -> f64 {
        match kind {
            CardTraffic::PushOut | CardTraffic::PullIn => self.host.workers,
            _ => 0.0,
        }
    }

    fn factors(&self, kind: CardTraffic) -> Vec<(usize, f64)> {
        let elsewhere = self.model.worker_count() - self.host.workers;
        let each = |factor: f64| self.host.servers.iter().map(|index| (*index, factor)).collect();
        match kind {
            // What lies on the same host does not pass the card.
            CardTraffic::PushOut | CardTraffic::PullIn => each(-self.host.workers),
            CardTraffic::PushIn | CardTraffic::PullOut => each(elsewhere),
            CardTraffic::CopyOut => self.copies(|owner, copy| owner && !copy),
            CardTraffic::CopyIn => self.copies(|owner, copy| copy && !owner),
        }
    }

    /// The copies of those servers for which it counts whether owner and copy are here.
    fn copies(&self, counts: impl Fn(bool, bool) -> bool) -> Vec<(usize, f64)> {
        let here = |index: &usize| self.host.servers.contains(index);
        let pairs = self.model.copies.iter().enumerate();
        let pairs = pairs.filter_map(|(owner, copy)| copy.map(|copy| (owner, copy)));
        pairs
            .filter(|(owner, copy)| counts(here(owner), here(copy)))
            .map(|(owner, _)| (owner, self.model.replicas.ratio()))
            .collect()
    }
}

/// What limits a server beyond its card: it takes longer than the card explains.
fn slow_server(model: &Model, host: &Host, index: usize) -> Vec<Row> {
    let Some(server) = model.servers.get(index) else { return Vec::new() };
    if server.slowdown <= 1.0 {
        return Vec::new();
    }
    let factor = server.slowdown * (model.worker_count() - host.workers);
    let row =
        |rate: f64| Row { rate, base: 0.0, terms: vec![(index, factor)], servers: vec![index] };
    vec![row(server.down), row(server.up)]
}

/// Of the rows that limit one server alone, the tightest one is enough; and of those that depend on
/// no server.
fn tightest_only(rows: Vec<Row>) -> Vec<Row> {
    let alone = |row: &Row| match (row.terms.as_slice(), row.servers.as_slice()) {
        ([(index, factor)], [own]) if row.base == 0.0 && index == own => {
            Some((Some(*index), factor / row.rate))
        }
        ([], []) => Some((None, row.base / row.rate)),
        _ => None,
    };
    let mut tightest = BTreeMap::<Option<usize>, (f64, Row)>::new();
    let mut kept = Vec::new();
    for row in rows {
        let Some((place, slope)) = alone(&row) else {
            kept.push(row);
            continue;
        };
        match tightest.get(&place) {
            Some((steepest, _)) if *steepest >= slope => {}
            _ => drop(tightest.insert(place, (slope, row))),
        }
    }
    kept.extend(tightest.into_values().map(|(_, row)| row));
    kept
}
