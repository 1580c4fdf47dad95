//! How messages travel: how long they take, in which order they arrive, what is lost or comes
//! twice.

use std::time::Duration;

use super::{ConnectionId, Happening, Item, Network, Process, Sealed};

/// After that time the system sends again what was not confirmed; twice as long the next time.
const RETRANSMIT: Duration = Duration::from_millis(40);
/// So many times at most: more is a fault of the connection, which a test says itself.
const RETRANSMITS_MAX: u32 = 3;

/// What one host can send and receive, in bytes a second. It holds for messages with data; control
/// messages are small, and overtake data wherever they have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Away from it.
    pub up: u64,
    /// To it.
    pub down: u64,
}

/// A host's line, and until when it is busy in either direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    rates: Rates,
    up_until: Duration,
    down_until: Duration,
}

impl Line {
    const fn new(rates: Rates) -> Self {
        Self { rates, up_until: Duration::ZERO, down_until: Duration::ZERO }
    }
}

/// How long so many bytes take.
fn duration(bytes: usize, rate: u64) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate.max(1))
}

impl Network {
    /// From now on a process has lines of these rates; without any it has no limit. What is under
    /// way keeps its time.
    pub fn set_rates(&mut self, process: Process, rates: Option<Rates>) {
        match (rates, self.lines.get_mut(&process)) {
            (Some(rates), Some(line)) => line.rates = rates,
            (Some(rates), None) => drop(self.lines.insert(process, Line::new(rates))),
            (None, _) => drop(self.lines.remove(&process)),
        }
    }

    pub(super) fn launch(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) {
        let Some(connection) = self.connections.get(id) else { return };
        let exposed = connection.identity.is_some() && !connection.kept;
        if exposed && self.random.percent(self.config.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(exposed && self.random.percent(self.config.repeat));
        self.repeated += copies - 1;
        let any_order = self.config.reorder && exposed;
        for _ in 0..copies {
            let at = self.arrival(now, id, sealed);
            let Some(connection) = self.connections.get_mut(id) else { return };
            let epoch = connection.epoch;
            if any_order {
                let alone = Some(sealed.clone());
                self.plan(at, Item::Packet { connection: id, epoch, alone });
            } else {
                let at = at.max(connection.last_arrival);
                connection.last_arrival = at;
                let mut place = connection.flying.len();
                if sealed.overtakes {
                    // It arrives in the place of another one, and that later.
                    let like = connection.flying.iter().rposition(|other| other.overtakes);
                    let first = like.map_or(0, |like| like + 1);
                    place -= self.random.below((place - first + 1) as u64) as usize;
                }
                connection.flying.insert(place, sealed.clone());
                self.plan(at, Item::Packet { connection: id, epoch, alone: None });
            }
        }
    }

    /// When a message would have arrived if it were alone on its connection: it leaves when the
    /// sender's line is free, and is there when the receiver's line has let all of it in.
    fn arrival(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) -> Duration {
        let way = self.config.latency + self.random.time(self.config.jitter) + self.late();
        let Some(connection) = self.connections.get(id) else { return now + way };
        let bytes: usize = sealed.data.iter().map(bytes::Bytes::len).sum();
        if bytes == 0 || self.lines.is_empty() {
            return now + way;
        }
        let (from, to) = (connection.from, self.places.listener(connection.to));
        let (mut first, mut last) = (now, now);
        if let Some(line) = self.lines.get_mut(&from) {
            first = now.max(line.up_until);
            last = first + duration(bytes, line.rates.up);
            line.up_until = last;
        }
        (first, last) = (first + way, last + way);
        if let Some(line) = to.and_then(|to| self.lines.get_mut(&to)) {
            // Its first byte may be let in before the last one has left.
            first = first.max(line.down_until);
            last = last.max(first + duration(bytes, line.rates.down));
            line.down_until = last;
        }
        last
    }

    /// What a message takes longer that is lost below its connection.
    fn late(&mut self) -> Duration {
        let mut late = Duration::ZERO;
        for again in 0..RETRANSMITS_MAX {
            if self.config.retransmits == 0 || !self.random.percent(self.config.retransmits) {
                break;
            }
            self.retransmitted += 1;
            late += RETRANSMIT * (1 << again);
        }
        late
    }

    pub(super) fn arrive(
        &mut self,
        id: ConnectionId,
        epoch: u32,
        alone: Option<Sealed>,
    ) -> Option<Happening> {
        let connection = self.connections.get_mut(id).filter(|c| c.epoch == epoch)?;
        let to = self.places.listener(connection.to)?;
        if self.stalls.contains(&(connection.from, to)) {
            if let Some(sealed) = alone {
                connection.flying.push_back(sealed);
            }
            connection.overdue += 1;
            return None;
        }
        let sealed = alone.or_else(|| connection.flying.pop_front())?;
        let (from, kept) = (connection.identity, connection.kept);
        Some(Happening::Arrived { to, from, kept, sealed })
    }

    /// What a stall held up arrives from now on.
    pub(super) fn release(&mut self, now: Duration, id: ConnectionId) {
        let at = now + self.config.latency;
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (epoch, overdue) = (connection.epoch, std::mem::take(&mut connection.overdue));
        for _ in 0..overdue {
            self.plan(at, Item::Packet { connection: id, epoch, alone: None });
        }
    }

    /// The connection breaks, if it stood: what was under way is lost, or waits to be sent again.
    pub(super) fn sever(&mut self, now: Duration, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let stood = connection.state == super::State::Up;
        connection.state = super::State::Waiting;
        connection.epoch += 1;
        connection.overdue = 0;
        let under_way = std::mem::take(&mut connection.flying);
        if connection.kept {
            let later = std::mem::replace(&mut connection.queue, under_way);
            connection.queue.extend(later);
        }
        if stood {
            self.plan(now + self.config.latency, Item::Down { connection: id });
        }
    }

    /// Of what the process has sent only what arrives before a moment of chance does arrive.
    pub(super) fn lose_tail(&mut self, now: Duration, process: Process) {
        let until = now + self.random.time(2 * (self.config.latency + self.config.jitter));
        for id in self.places.opened_by(process) {
            self.connections[*id].queue.clear();
        }
        let connections = &self.connections;
        let mut lost = Vec::new();
        self.agenda.retain(|(at, _), item| match item {
            Item::Packet { connection, epoch, alone } => {
                let of = connections.get(*connection).filter(|c| c.from == process);
                let stays = *at <= until || of.is_none();
                if !stays && alone.is_none() && of.is_some_and(|c| c.epoch == *epoch) {
                    lost.push(*connection);
                }
                stays
            }
            _ => true,
        });
        for id in lost {
            self.connections.get_mut(id).map(|connection| connection.flying.pop_back());
        }
    }
}
