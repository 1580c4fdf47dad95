//! What the network is made of: the line of each host, and the edge from each process to each
//! other one. Unless somebody says otherwise all edges are alike, and as fast as the hosts' lines.
//! Knows bytes and times; draws no chance.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Process;

/// What one host can send and receive, in bytes a second. It holds for messages with data; control
/// messages are small, and overtake data wherever they have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Away from it.
    pub up: u64,
    /// To it.
    pub down: u64,
}

/// What is between one process and another, in that direction: the other one may be anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Bytes a second of messages with data, of all connections together, which wait for each other
    /// in front of it; none: as much as the hosts' lines carry.
    pub rate: Option<u64>,
    /// The shortest way of a message.
    pub latency: Duration,
    /// What chance adds to it, at most.
    pub jitter: Duration,
}

/// From one process to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Direction {
    pub(super) from: Process,
    pub(super) to: Process,
}

impl Direction {
    /// The other way round.
    pub(super) const fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// When a message passes a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassTimes {
    /// Its first byte does.
    pub(super) first: Duration,
    /// Its last byte does.
    pub(super) last: Duration,
}

/// When something that carries one message after the other is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    free_at: Duration,
}

impl Queue {
    /// When something that comes then is through. The first byte goes on before the last one has
    /// come.
    pub(super) fn carry(&mut self, comes: PassTimes, time: Duration) -> PassTimes {
        let first = comes.first.max(self.free_at);
        let last = comes.last.max(first + time);
        self.free_at = last;
        PassTimes { first, last }
    }
}

/// A host's line, in either direction.
#[derive(Clone, Copy, Debug)]
struct Line {
    rates: Rates,
    up: Queue,
    down: Queue,
}

/// All lines and edges, and until when they are busy.
#[derive(Debug)]
pub(super) struct Lines {
    /// What is between two processes of which nothing else was said.
    usual: LinkModel,
    hosts: BTreeMap<Process, Line>,
    edges: BTreeMap<Direction, (LinkModel, Queue)>,
}

/// How long so many bytes take.
fn duration(bytes: usize, rate: u64) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate.max(1))
}

impl Lines {
    /// Without limits: all edges are like that one.
    pub(super) const fn new(usual: LinkModel) -> Self {
        Self { usual, hosts: BTreeMap::new(), edges: BTreeMap::new() }
    }

    pub(super) fn set_host(&mut self, process: Process, rates: Option<Rates>) {
        match (rates, self.hosts.get_mut(&process)) {
            (Some(rates), Some(line)) => line.rates = rates,
            (Some(rates), None) => {
                let line = Line { rates, up: Queue::default(), down: Queue::default() };
                self.hosts.insert(process, line);
            }
            (None, _) => drop(self.hosts.remove(&process)),
        }
    }

    pub(super) fn set_edge(&mut self, along: Direction, edge: Option<LinkModel>) {
        match edge {
            Some(edge) => self.edges.entry(along).or_insert((edge, Queue::default())).0 = edge,
            None => drop(self.edges.remove(&along)),
        }
    }

    /// From now on these are the edges that are not as usual.
    pub(super) fn reset_edges(&mut self, edges: &[(Process, Process, LinkModel)]) {
        let named =
            edges.iter().map(|(from, to, edge)| (Direction { from: *from, to: *to }, *edge));
        self.edges.retain(|along, _| named.clone().any(|(other, _)| other == *along));
        named.for_each(|(along, edge)| self.set_edge(along, Some(edge)));
    }

    /// What is between two processes; if nobody is at the other end, what usually is.
    pub(super) fn edge(&self, from: Process, to: Option<Process>) -> LinkModel {
        let edge = to.and_then(|to| self.edges.get(&Direction { from, to }));
        edge.map_or(self.usual, |(edge, _)| *edge)
    }

    /// When a message that is sent now is there: it leaves when the sender's line and the edge are
    /// free, is under way for `way`, and is there when the receiver's line has let all of it in.
    pub(super) fn carry(
        &mut self,
        now: Duration,
        from: Process,
        to: Option<Process>,
        bytes: usize,
        way: Duration,
    ) -> Duration {
        if bytes == 0 {
            return now + way;
        }
        let mut times = PassTimes { first: now, last: now };
        if let Some(line) = self.hosts.get_mut(&from) {
            times = line.up.carry(times, duration(bytes, line.rates.up));
        }
        if let Some((edge, queue)) = to.and_then(|to| self.edges.get_mut(&Direction { from, to }))
            && let Some(rate) = edge.rate
        {
            times = queue.carry(times, duration(bytes, rate));
        }
        times = PassTimes { first: times.first + way, last: times.last + way };
        if let Some(line) = to.and_then(|to| self.hosts.get_mut(&to)) {
            times = line.down.carry(times, duration(bytes, line.rates.down));
        }
        times.last
    }
}
