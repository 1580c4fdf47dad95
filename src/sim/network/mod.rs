//! A seeded network on virtual time: connections in one direction, as the stock wire has them (one
//! DEALER for each peer). What is sent arrives later, in order as over TCP; on request some of it
//! is lost, repeated or overtaken. Processes crash, vanish and come back. Channels are cut and
//! mended, in both directions or in one, loudly or so that nobody notices. Knows bytes, addresses
//! and names of connections; not what the bytes mean.
//!
//! `lines` has what is between the processes, `cards` what shares the lines where data are cut into
//! chunks, and `between_sites` the links that these chunks pass; `travel` what becomes of messages
//! on their way, `faults` what goes wrong on purpose, `places` who listens where.

mod between_sites;
mod cards;
mod faults;
mod lines;
mod places;
#[cfg(test)]
mod tests;
mod travel;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use self::cards::{Cards, ChunkStep, DueStep};
use self::places::{Place, Places};
use pslite_core::random::Random;
use pslite_core::wire::{Frames, NodeId};

pub use cards::{CarriedBytes, ChunkArrival, ChunkOf, Chunks};
pub use lines::{LinkModel, Rates};

/// The number of a process.
pub type Process = usize;

/// The number of a connection; never used twice.
pub type ConnectionId = usize;

/// Messages that wait in a connection that does not stand; more are dropped, as at libzmq's
/// high-water mark. (A kept connection drops nothing: the native data plane lets its sender wait.)
const QUEUE_MAX: usize = 1000;

/// How the network behaves.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// The shortest way of a message, on every edge of which nothing else is said.
    pub latency: Duration,
    /// What chance adds to it, at most.
    pub jitter: Duration,
    /// So many percent of the messages are lost. Only on connections that say who they are: the
    /// first message of a node, its registration, is outside what the resender can repeat.
    pub loss: u32,
    /// So many percent arrive twice.
    pub repeat: u32,
    /// Messages of one connection overtake each other. Needs the resender, as do the two above.
    pub reorder: bool,
    /// So many percent of the messages are lost, or overtaken, below the connection, where TCP
    /// sends them again and puts them in order: they, and all that follow on that connection, are
    /// late.
    pub retransmits: u32,
    /// Kept connections share the hosts' lines chunk by chunk; else message by message.
    pub chunks: Option<Chunks>,
}

impl NetworkConfig {
    /// What is between two processes, if nothing else is said.
    #[must_use]
    pub const fn edge(&self) -> LinkModel {
        LinkModel { rate: None, latency: self.latency, jitter: self.jitter }
    }
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(100),
            jitter: Duration::from_micros(900),
            loss: 0,
            repeat: 0,
            reorder: false,
            retransmits: 0,
            chunks: None,
        }
    }
}

/// A message as it travels.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The encoded metadata.
    pub meta: Vec<u8>,
    /// The data frames.
    pub data: Frames,
    /// It may overtake what else goes the same way.
    pub overtakes: bool,
    /// Where data are cut into chunks, the one of the higher class goes first.
    pub class: i32,
}

/// What the network does to a process.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A message came.
    Arrived {
        /// To whom.
        to: Process,
        /// The name of its connection.
        from: Option<NodeId>,
        /// The connection is a kept one.
        kept: bool,
        /// The message.
        sealed: Sealed,
    },
    /// A connection of the process came up or went down.
    Channel {
        /// Whose connection.
        process: Process,
        /// Which one.
        connection: ConnectionId,
        /// It stands.
        up: bool,
    },
}

impl Happening {
    /// Whom it happens to.
    #[must_use]
    pub const fn process(&self) -> Process {
        match self {
            Self::Arrived { to, .. } => *to,
            Self::Channel { process, .. } => *process,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Shaking,
    Up,
}

#[derive(Clone, Debug)]
struct Connection {
    from: Process,
    to: Place,
    identity: Option<NodeId>,
    /// What it carries arrives once and in order, however often it breaks, as over a channel of the
    /// native data plane. Nothing is lost, repeated or overtaken here.
    kept: bool,
    state: State,
    /// Counts breaks: what was under way when it broke is lost, or comes again.
    epoch: u32,
    /// Sent while it does not stand.
    queue: VecDeque<Sealed>,
    /// Under way, in order.
    flying: VecDeque<Sealed>,
    /// Under way in chunks, by the number of the message on this connection.
    in_chunks: BTreeMap<u64, Sealed>,
    /// Messages that went in chunks.
    numbered: u64,
    /// How many of these would have arrived, but for a stall.
    overdue: usize,
    last_arrival: Duration,
    closed: bool,
}

#[derive(Clone, Debug)]
enum Item {
    /// A message arrives: that one, or else the first that is under way.
    Packet {
        connection: ConnectionId,
        epoch: u32,
        alone: Option<Sealed>,
    },
    Up {
        connection: ConnectionId,
        epoch: u32,
    },
    Down {
        connection: ConnectionId,
    },
    Chunk(ChunkStep),
}

/// All connections and what is under way.
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    random: Random,
    /// By their numbers; none is ever removed.
    connections: Vec<Connection>,
    places: Places,
    /// Directions in which nothing goes, and connections break.
    cuts: BTreeSet<lines::Direction>,
    /// Directions in which nothing goes, and nobody notices.
    stalls: BTreeSet<lines::Direction>,
    lines: lines::Lines,
    cards: Option<Cards>,
    agenda: BTreeMap<(Duration, u64), Item>,
    items: u64,
    /// All messages, and bytes of those without data.
    sent: u64,
    words: u64,
    lost: u64,
    repeated: u64,
    retransmitted: u64,
}

impl Network {
    /// Nobody is connected.
    #[must_use]
    pub fn new(config: NetworkConfig, random: Random) -> Self {
        Self {
            config,
            random,
            connections: Vec::new(),
            places: Places::default(),
            cuts: BTreeSet::new(),
            stalls: BTreeSet::new(),
            lines: lines::Lines::new(config.edge()),
            cards: config.chunks.map(Cards::new),
            agenda: BTreeMap::new(),
            items: 0,
            sent: 0,
            words: 0,
            lost: 0,
            repeated: 0,
            retransmitted: 0,
        }
    }

    /// Messages that the network lost and that it repeated.
    #[must_use]
    pub const fn faults(&self) -> (u64, u64) {
        (self.lost, self.repeated)
    }

    /// Messages that were sent.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes of all messages without data that were sent: of an elastic job above all the words of
    /// its scheduler and to it.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.words
    }

    /// How often something was sent again below a connection.
    #[must_use]
    pub const fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// A process listens from now on; connections to it that wait come up.
    pub fn listen(&mut self, now: Duration, process: Process, address: &str) {
        let place = self.places.listen(process, address);
        for id in self.places.to(place) {
            self.sever(now, id);
            self.shake(now, id);
        }
    }

    /// Opens a connection.
    pub fn connect(
        &mut self,
        now: Duration,
        from: Process,
        address: &str,
        identity: Option<NodeId>,
    ) -> ConnectionId {
        self.open(now, from, address, identity, false)
    }

    /// Opens a connection that keeps what it carries until it has arrived.
    pub fn connect_kept(
        &mut self,
        now: Duration,
        from: Process,
        address: &str,
        identity: NodeId,
    ) -> ConnectionId {
        self.open(now, from, address, Some(identity), true)
    }

    fn open(
        &mut self,
        now: Duration,
        from: Process,
        address: &str,
        identity: Option<NodeId>,
        kept: bool,
    ) -> ConnectionId {
        let id = self.connections.len();
        let connection = Connection {
            from,
            to: self.places.connect(id, from, address),
            identity,
            kept,
            state: State::Waiting,
            epoch: 0,
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            in_chunks: BTreeMap::new(),
            numbered: 0,
            overdue: 0,
            last_arrival: now,
            closed: false,
        };
        self.connections.push(connection);
        self.shake(now, id);
        id
    }

    /// Sends on a connection, or lets the message wait until that stands.
    pub fn send(&mut self, now: Duration, id: ConnectionId, sealed: Sealed) {
        let Some(connection) = self.connections.get_mut(id).filter(|c| !c.closed) else { return };
        self.sent += 1;
        if sealed.data.is_empty() {
            self.words += sealed.meta.len() as u64;
        }
        if connection.state == State::Up {
            self.launch(now, id, &sealed);
        } else if connection.kept || connection.queue.len() < QUEUE_MAX {
            connection.queue.push_back(sealed);
        }
    }

    /// Closes a connection; what was sent still arrives.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.closed = true;
        }
    }

    /// When [`Self::pop`] has something.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.agenda.keys().next().map(|(at, _)| *at)
    }

    /// The next that happens, if it is due.
    pub fn pop(&mut self, now: Duration) -> Option<Happening> {
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let happening = match entry.remove() {
                Item::Packet { connection, epoch, alone } => self.arrive(connection, epoch, alone),
                Item::Up { connection, epoch } => self.come_up(now, connection, epoch),
                Item::Down { connection } => self.channel(connection, false),
                Item::Chunk(step) => self.chunk(now, step),
            };
            if happening.is_some() {
                return happening;
            }
        }
        None
    }

    fn come_up(&mut self, now: Duration, id: ConnectionId, epoch: u32) -> Option<Happening> {
        let reachable = self.is_reachable(id);
        let connection = self.connections.get_mut(id).filter(|c| c.epoch == epoch)?;
        if !reachable {
            connection.state = State::Waiting;
            return None;
        }
        connection.state = State::Up;
        for sealed in std::mem::take(&mut connection.queue) {
            self.launch(now, id, &sealed);
        }
        self.channel(id, true)
    }

    fn channel(&self, id: ConnectionId, up: bool) -> Option<Happening> {
        let connection = self.connections.get(id).filter(|c| !c.closed)?;
        Some(Happening::Channel { process: connection.from, connection: id, up })
    }

    fn plan(&mut self, at: Duration, item: Item) {
        // Equal times keep the order of planning: the number decides.
        self.items += 1;
        self.agenda.insert((at, self.items), item);
    }

    fn shake(&mut self, now: Duration, id: ConnectionId) {
        if !self.is_reachable(id) {
            return;
        }
        let edge = self.edge(id);
        let at = now + edge.latency + self.random.time(edge.jitter);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.state == State::Waiting {
            connection.state = State::Shaking;
            let epoch = connection.epoch;
            self.plan(at, Item::Up { connection: id, epoch });
        }
    }

    fn is_reachable(&self, id: ConnectionId) -> bool {
        // A closed connection flushes what it holds, but needs no other life.
        let wanted = |c: &&Connection| !c.closed || !c.queue.is_empty();
        let Some(connection) = self.connections.get(id).filter(wanted) else { return false };
        let Some(to) = self.places.listener(connection.to) else { return false };
        // A handshake needs both directions.
        let there = lines::Direction { from: connection.from, to };
        [there, there.back()]
            .iter()
            .all(|way| !self.cuts.contains(way) && !self.stalls.contains(way))
    }
}
