//! A seeded network on virtual time: connections in one direction, as the stock wire has them
//! (one DEALER for each peer). What is sent arrives later, in order as over TCP; on request some of
//! it is lost, repeated or overtaken. Processes crash, vanish and come back; links are cut and
//! mended. Knows bytes, addresses and names of connections; not what the bytes mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::random::Random;
use crate::wire::{Frames, NodeId};

/// The number of a process.
pub type Process = usize;

/// The number of a connection; never used twice.
pub type ConnectionId = u64;

/// Messages that wait in a connection that does not stand; more are dropped, as at libzmq's
/// high-water mark.
const QUEUE_MAX: usize = 1000;

/// How the network behaves.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// The shortest way of a message.
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
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(100),
            jitter: Duration::from_micros(900),
            loss: 0,
            repeat: 0,
            reorder: false,
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
        /// The message.
        sealed: Sealed,
    },
    /// A connection of the process came up or went down.
    Link {
        /// Whose connection.
        process: Process,
        /// Which one.
        connection: ConnectionId,
        /// It stands.
        up: bool,
    },
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
    address: String,
    identity: Option<NodeId>,
    state: State,
    /// Counts breaks: what was under way when it broke is lost.
    epoch: u32,
    queue: Vec<Sealed>,
    last_arrival: Duration,
    closed: bool,
}

#[derive(Clone, Debug)]
enum Item {
    Packet { connection: ConnectionId, epoch: u32, sealed: Sealed },
    Up { connection: ConnectionId, epoch: u32 },
    Down { connection: ConnectionId },
}

/// All connections and what is under way.
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    random: Random,
    connections: BTreeMap<ConnectionId, Connection>,
    listeners: BTreeMap<String, Process>,
    cuts: BTreeSet<(Process, Process)>,
    agenda: BTreeMap<(Duration, u64), Item>,
    items: u64,
    lost: u64,
    repeated: u64,
}

impl Network {
    /// Nobody is connected.
    #[must_use]
    pub const fn new(config: NetworkConfig, random: Random) -> Self {
        Self {
            config,
            random,
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            cuts: BTreeSet::new(),
            agenda: BTreeMap::new(),
            items: 0,
            lost: 0,
            repeated: 0,
        }
    }

    /// Messages that the network lost and that it repeated.
    #[must_use]
    pub const fn faults(&self) -> (u64, u64) {
        (self.lost, self.repeated)
    }

    /// A process listens from now on; connections to it that wait come up.
    pub fn listen(&mut self, now: Duration, process: Process, address: &str) {
        self.listeners.insert(address.to_owned(), process);
        for id in self.to(address) {
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
        let id = self.connections.len() as ConnectionId;
        let connection = Connection {
            from,
            address: address.to_owned(),
            identity,
            state: State::Waiting,
            epoch: 0,
            queue: Vec::new(),
            last_arrival: now,
            closed: false,
        };
        self.connections.insert(id, connection);
        self.shake(now, id);
        id
    }

    /// Sends on a connection, or lets the message wait until that stands.
    pub fn send(&mut self, now: Duration, id: ConnectionId, sealed: Sealed) {
        let Some(connection) = self.connections.get_mut(&id).filter(|c| !c.closed) else { return };
        if connection.state == State::Up {
            self.launch(now, id, &sealed);
        } else if connection.queue.len() < QUEUE_MAX {
            connection.queue.push(sealed);
        }
    }

    /// Closes a connection; what was sent still arrives.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closed = true;
        }
    }

    /// The process ended properly: its messages arrive, its connections and those to it go.
    pub fn end(&mut self, now: Duration, process: Process) {
        self.remove(now, process, true);
    }

    /// The process was killed: the system closes its connections, and the tail of what it had sent
    /// is lost.
    pub fn crash(&mut self, now: Duration, process: Process) {
        self.lose_tail(now, process);
        self.remove(now, process, true);
    }

    /// The host of the process has lost its power: nobody closes its connections.
    pub fn vanish(&mut self, now: Duration, process: Process) {
        self.lose_tail(now, process);
        self.remove(now, process, false);
    }

    /// Nothing goes between two processes any more; what was under way is lost.
    pub fn cut(&mut self, now: Duration, a: Process, b: Process) {
        self.cuts.insert((a, b));
        self.cuts.insert((b, a));
        for id in self.between(a, b) {
            self.sever(now, id);
        }
    }

    /// The connections between two processes come up again.
    pub fn mend(&mut self, now: Duration, a: Process, b: Process) {
        self.cuts.remove(&(a, b));
        self.cuts.remove(&(b, a));
        for id in self.between(a, b) {
            self.shake(now, id);
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
                Item::Packet { connection, epoch, sealed } => {
                    self.arrive(connection, epoch, sealed)
                }
                Item::Up { connection, epoch } => self.come_up(now, connection, epoch),
                Item::Down { connection } => self.link(connection, false),
            };
            if happening.is_some() {
                return happening;
            }
        }
        None
    }

    fn arrive(&self, id: ConnectionId, epoch: u32, sealed: Sealed) -> Option<Happening> {
        let connection = self.connections.get(&id).filter(|c| c.epoch == epoch)?;
        let to = *self.listeners.get(&connection.address)?;
        Some(Happening::Arrived { to, from: connection.identity, sealed })
    }

    fn come_up(&mut self, now: Duration, id: ConnectionId, epoch: u32) -> Option<Happening> {
        let reachable = self.is_reachable(id);
        let connection = self.connections.get_mut(&id).filter(|c| c.epoch == epoch)?;
        if !reachable {
            connection.state = State::Waiting;
            return None;
        }
        connection.state = State::Up;
        for sealed in std::mem::take(&mut connection.queue) {
            self.launch(now, id, &sealed);
        }
        self.link(id, true)
    }

    fn link(&self, id: ConnectionId, up: bool) -> Option<Happening> {
        let connection = self.connections.get(&id).filter(|c| !c.closed)?;
        Some(Happening::Link { process: connection.from, connection: id, up })
    }

    fn launch(&mut self, now: Duration, id: ConnectionId, sealed: &Sealed) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let named = connection.identity.is_some();
        if named && self.random.percent(self.config.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(named && self.random.percent(self.config.repeat));
        self.repeated += copies - 1;
        for _ in 0..copies {
            let mut at = now + self.config.latency + self.random.time(self.config.jitter);
            if !self.config.reorder {
                at = at.max(connection.last_arrival);
                connection.last_arrival = at;
            }
            let packet =
                Item::Packet { connection: id, epoch: connection.epoch, sealed: sealed.clone() };
            // Equal times keep the order of sending: the number decides.
            self.items += 1;
            self.agenda.insert((at, self.items), packet);
        }
    }

    fn plan(&mut self, at: Duration, item: Item) {
        self.items += 1;
        self.agenda.insert((at, self.items), item);
    }

    fn shake(&mut self, now: Duration, id: ConnectionId) {
        if !self.is_reachable(id) {
            return;
        }
        let at = now + self.config.latency + self.random.time(self.config.jitter);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.state == State::Waiting {
            connection.state = State::Shaking;
            let epoch = connection.epoch;
            self.plan(at, Item::Up { connection: id, epoch });
        }
    }

    fn sever(&mut self, now: Duration, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let stood = connection.state == State::Up;
        connection.state = State::Waiting;
        connection.epoch += 1;
        if stood {
            self.plan(now + self.config.latency, Item::Down { connection: id });
        }
    }

    fn is_reachable(&self, id: ConnectionId) -> bool {
        // A closed connection flushes what it holds, but needs no other life.
        let wanted = |c: &&Connection| !c.closed || !c.queue.is_empty();
        let Some(connection) = self.connections.get(&id).filter(wanted) else { return false };
        let to = self.listeners.get(&connection.address);
        to.is_some_and(|to| !self.cuts.contains(&(connection.from, *to)))
    }

    fn to(&self, address: &str) -> Vec<ConnectionId> {
        let to = self.connections.iter().filter(|(_, c)| c.address == address);
        to.map(|(id, _)| *id).collect()
    }

    fn between(&self, a: Process, b: Process) -> Vec<ConnectionId> {
        let listens = |connection: &Connection| self.listeners.get(&connection.address).copied();
        let ends = |c: &Connection| {
            [(Some(a), Some(b)), (Some(b), Some(a))].contains(&(Some(c.from), listens(c)))
        };
        self.connections.iter().filter(|(_, c)| ends(c)).map(|(id, _)| *id).collect()
    }

    fn remove(&mut self, now: Duration, process: Process, tell: bool) {
        let addresses: Vec<String> = self
            .listeners
            .iter()
            .filter(|(_, listener)| **listener == process)
            .map(|(address, _)| address.clone())
            .collect();
        for address in addresses {
            self.listeners.remove(&address);
            for id in self.to(&address).into_iter().filter(|_| tell) {
                self.sever(now, id);
            }
        }
        for connection in self.connections.values_mut().filter(|c| c.from == process) {
            connection.closed = true;
        }
    }

    /// Of what the process has sent only what arrives before a moment of chance does arrive.
    fn lose_tail(&mut self, now: Duration, process: Process) {
        let until = now + self.random.time(2 * (self.config.latency + self.config.jitter));
        for connection in self.connections.values_mut().filter(|c| c.from == process) {
            connection.queue.clear();
        }
        let connections = &self.connections;
        self.agenda.retain(|(at, _), item| match item {
            Item::Packet { connection, .. } => {
                *at <= until || connections.get(connection).is_none_or(|c| c.from != process)
            }
            _ => true,
        });
    }
}
