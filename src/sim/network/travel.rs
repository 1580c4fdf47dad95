//! How messages travel: how long they take, in which order they arrive, what is lost or comes
//! twice.

use std::time::Duration;

use super::cards::{FlowEnds, MessageLoad};
use super::lines::{Direction, LinkModel, Rates};
use super::{
    CarriedBytes, ChunkArrival, ChunkStep, ConnectionId, DueStep, Happening, Item, Network,
    Process, Sealed,
};
use pslite_core::wire::NodeId;

/// After that time the system sends again what was not confirmed; twice as long the next time.
const RETRANSMIT: Duration = Duration::from_millis(40);
/// So many times at most: more is a fault of the connection, which a test says itself.
const RETRANSMITS_MAX: u32 = 3;

impl Network {
    /// From now on a process has lines of these rates; without any it has no limit. What is under
    /// way keeps its time.
    pub fn set_rates(&mut self, process: Process, rates: Option<Rates>) {
        match &mut self.cards {
            Some(cards) => cards.set_rates(process, rates),
            None => self.lines.set_host(process, rates),
        }
    }

    /// For how many bytes one byte of values stands.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.config.chunks.map_or(1, |chunks| chunks.weight)
    }

    /// Where data are cut into chunks: a process is at that site.
    pub fn place(&mut self, process: Process, site: usize) {
        self.cards.iter_mut().for_each(|cards| cards.sites.place(process, site));
    }

    /// Where data are cut into chunks: from now on the link between the first site and the second,
    /// in that direction, carries so many bytes a second.
    pub fn set_link(&mut self, ends: [usize; 2], rate: u64) {
        self.cards.iter_mut().for_each(|cards| cards.sites.set_link(ends, rate));
    }

    /// Where data are cut into chunks: what goes between these sites passes those, both ends
    /// included.
    pub fn set_way(&mut self, ends: [usize; 2], way: &[usize]) {
        self.cards.iter_mut().for_each(|cards| cards.sites.set_way(ends, way.to_vec()));
    }

    /// From now on that is between the first process and the second, in that direction; without
    /// anything it is what the network's configuration says. What is under way keeps its time.
    pub fn set_edge(&mut self, from: Process, to: Process, edge: Option<LinkModel>) {
        self.lines.set_edge(Direction { from, to }, edge);
    }

    /// The same of all pairs: those that are not named are as the network's configuration says.
    pub fn reset_edges(&mut self, edges: &[(Process, Process, LinkModel)]) {
        self.lines.reset_edges(edges);
    }

    pub(super) fn launch(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.kept && self.cards.is_some() {
            return self.launch_in_chunks(now, id, sealed);
        }
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

    /// A message of a kept connection, where those share lines chunk by chunk.
    fn launch_in_chunks(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(to) = self.places.listener(connection.to) else { return };
        connection.numbered += 1;
        let number = connection.numbered;
        connection.in_chunks.insert(number, sealed.clone());
        let ends = FlowEnds { connection: id, epoch: connection.epoch, from: connection.from, to };
        // Keys, values and lens.
        let values = sealed.data.get(1).map_or(0, bytes::Bytes::len);
        let load = MessageLoad { number, class: sealed.class, values };
        let due = self.cards.as_mut().and_then(|cards| cards.send(now, ends, load));
        self.plan_chunk(due);
    }

    /// Probes the link of a connection, where data are cut into chunks: if it carries nothing now,
    /// or whenever it carries nothing else, if it is `in_use`.
    pub fn probe(&mut self, now: Duration, id: ConnectionId, in_use: bool) {
        let Some(connection) = self.connections.get(id) else { return };
        let Some(to) = self.places.listener(connection.to) else { return };
        let ends = FlowEnds { connection: id, epoch: connection.epoch, from: connection.from, to };
        let stands = connection.state == super::State::Up && !connection.closed;
        let due = self.cards.as_mut().filter(|_| stands);
        let due = due.and_then(|cards| cards.probe(now, ends, in_use));
        self.plan_chunk(due);
    }

    fn plan_chunk(&mut self, due: Option<DueStep>) {
        if let Some((at, step)) = due {
            self.plan(at, Item::Chunk(step));
        }
    }

    pub(super) fn chunk(&mut self, now: Duration, step: ChunkStep) -> Option<Happening> {
        let cards = self.cards.as_mut()?;
        match step {
            ChunkStep::Left(chunk) => {
                let from = self.connections.get(chunk.connection)?.from;
                let edge = self.edge(chunk.connection);
                let dues = self.cards.as_mut()?.left(now, chunk, from, edge.latency);
                dues.into_iter().for_each(|due| self.plan_chunk(due));
                None
            }
            ChunkStep::Passed(chunk) => {
                let way = self.edge(chunk.connection).latency;
                let due = self.cards.as_mut()?.passed(chunk, way);
                self.plan_chunk(due);
                None
            }
            ChunkStep::Landed(chunk) => {
                let (ends, due) = cards.landed(now, chunk);
                self.plan_chunk(due);
                let connection = self.connections.get_mut(chunk.connection)?;
                let sealed = connection.in_chunks.remove(&ends?)?;
                self.arrive(chunk.connection, chunk.epoch, Some(sealed))
            }
        }
    }

    /// What came in at a process since the last call, and from whom, where data are cut into
    /// chunks.
    pub fn take_came(&mut self, process: Process) -> Vec<(NodeId, ChunkArrival)> {
        let came = self.cards.as_mut().map(|cards| cards.take_came(process)).unwrap_or_default();
        let sender = |fragment: ChunkArrival| {
            Some((self.connections.get(fragment.connection)?.identity?, fragment))
        };
        came.into_iter().filter_map(sender).collect()
    }

    /// What went over a connection so far, where data are cut into chunks.
    pub fn carried(&mut self, now: Duration, id: ConnectionId) -> Option<CarriedBytes> {
        self.cards.as_mut()?.carried(now, id)
    }

    /// When a message would have arrived if it were alone on its connection.
    fn arrival(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) -> Duration {
        let edge = self.edge(id);
        let way = edge.latency + self.random.time(edge.jitter) + self.late();
        let Some(connection) = self.connections.get(id) else { return now + way };
        let bytes: usize = sealed.data.iter().map(bytes::Bytes::len).sum();
        let (from, to) = (connection.from, self.places.listener(connection.to));
        self.lines.carry(now, from, to, bytes, way)
    }

    /// What is between the two ends of a connection.
    pub(super) fn edge(&self, id: ConnectionId) -> LinkModel {
        let ends = self.connections.get(id);
        let ends = ends.map(|ends| (ends.from, self.places.listener(ends.to)));
        let (from, to) = ends.unwrap_or_default();
        self.lines.edge(from, to)
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
        if self.stalls.contains(&Direction { from: connection.from, to }) {
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
        let mut under_way = std::mem::take(&mut connection.flying);
        under_way.extend(std::mem::take(&mut connection.in_chunks).into_values());
        if let Some(cards) = &mut self.cards {
            cards.forget(id);
        }
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
            if let Some(cards) = &mut self.cards {
                cards.forget(*id);
            }
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
