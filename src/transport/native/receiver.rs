//! The receiving side: all connections on which peers send to this node, and the sessions of their
//! channels. Whoever calls `next` does all the work on its own thread: waits, reads, confirms.

mod adaptive_poll;
mod attach;
mod windows;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use smallvec::SmallVec;

use super::adaptive_poll::AdaptivePoll;
use super::channel::Channel;
use super::pipe::{InPipe, socket_read, socket_write};
use super::plane::Plane;
use super::reader::{Asides, Reader, Surroundings};
use super::receipt::Receipt;
use super::session::Session;
use super::shared::Shared;
use super::spin::Spin;
use super::types::NativeIncoming;
use crate::carrier::RecvError;
use crate::sys::fork::ForkMark;
use crate::sys::tcp::delay_acknowledgements;
use pslite_core::wire::native::{Header, Kind};
use pslite_observe::awake;
use pslite_observe::log::{self, Level};

use adaptive_poll::Partner;
use windows::Inflow;

/// After that many messages, or bytes of data, a peer is told what arrived, if no message to it did
/// so.
const ACK_MESSAGES: u64 = 64;
const ACK_BYTES: u64 = 2 << 20;
/// The same after that time.
const ACK_AFTER: Duration = Duration::from_millis(5);
const MILLISECOND: Duration = Duration::from_millis(1);
/// Reads from one connection before the others have their turn.
const READS_MAX: usize = 16;
/// Messages from rings before the sockets have their turn.
const RINGS_TURN: u32 = 64;
/// A message with no more data is small: it comes as a whole.
const SMALL: usize = 64 << 10;
/// Events of one wait.
const EVENTS_MAX: usize = 64;
/// The token of the bell that wakes the receiving thread.
const BELL: u64 = 0;
/// Added to the token of a connection: it is only the bell of its ring.
const OF_RING: u64 = 1 << 63;

/// Which session it is: the channel, of all that peers have to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SessionKey {
    /// The life of the peer's process.
    incarnation: u64,
    /// Its number there.
    channel: u32,
}

struct InConnection {
    pipe: InPipe,
    reader: Reader,
    session: SessionKey,
    /// Something came since the last tick.
    active: bool,
    /// It is TCP from another host.
    through_a_card: bool,
    inflow: Inflow,
    /// What it may have under way.
    window: Option<u32>,
}

struct Entry {
    session: Session,
    attempt: u32,
    tokens: SmallVec<[u64; 1]>,
    receipt: Arc<Receipt>,
    /// Bytes of data since the peer was told what arrived.
    untold_bytes: u64,
    inflow: Inflow,
    /// Connections that brought something lately.
    lanes_in_use: u64,
    /// Our channel to the same peer, where its acknowledgements belong.
    reverse: Option<Arc<Channel>>,
    last_connected: Instant,
}

/// What a wait brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitResult {
    Nothing,
    Something,
    Bell,
}

/// See the module.
pub(super) struct Receiver {
    /// In front of it, as it has to be dropped first.
    _mark: ForkMark,
    epoll: Epoll,
    connections: BTreeMap<u64, InConnection>,
    sessions: BTreeMap<SessionKey, Entry>,
    ready: VecDeque<NativeIncoming>,
    /// Tokens of the connections with a ring.
    rings: Vec<u64>,
    /// Messages from rings since the sockets had their turn.
    from_rings: u32,
    spin: Spin,
    poll: AdaptivePoll,
    partner: Partner,
    /// There is a core for the peer, while this thread waits on another one.
    can_stay_awake: bool,
    next_token: u64,
    /// Some peer has not been told of all that arrived.
    untold: bool,
    last_told: Instant,
    windows_looked: Instant,
    /// Looks at which somebody had sent much.
    windows_look: u64,
    events: Vec<EpollEvent>,
    plane: Arc<Plane>,
}

impl Receiver {
    pub(super) fn new(plane: Arc<Plane>) -> io::Result<Self> {
        let shared = plane.shared();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.receive_bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        Ok(Self {
            _mark: ForkMark::new(&epoll.0),
            epoll,
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ready: VecDeque::new(),
            rings: Vec::new(),
            from_rings: 0,
            spin: Spin::default(),
            poll: AdaptivePoll::default(),
            partner: Partner::default(),
            can_stay_awake: std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
            next_token: BELL + 1,
            untold: false,
            last_told: awake::now(),
            windows_looked: awake::now(),
            windows_look: 0,
            events: vec![EpollEvent::empty(); EVENTS_MAX],
            plane,
        })
    }

    /// The next message; `None` if the bell rang, or if that time has come.
    pub(super) fn next(
        &mut self,
        shared: &Shared,
        until: Option<Instant>,
    ) -> Result<Option<NativeIncoming>, RecvError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if shared.is_stopping() {
                return Err(RecvError::Stopped);
            }
            self.acknowledge(shared);
            // A ring that is never empty must not keep the sockets, and those who arrive, waiting.
            let is_turn_of_rings = self.from_rings < RINGS_TURN;
            if is_turn_of_rings && (self.read_rings(shared) || self.spin(shared)) {
                self.from_rings += 1;
                continue;
            }
            self.from_rings = 0;
            match self.stay_awake(shared).map_err(RecvError::Io)? {
                WaitResult::Nothing => {}
                WaitResult::Something => continue,
                WaitResult::Bell => return Ok(None),
            }
            let seen = self.sleep(shared, until).map_err(RecvError::Io)?;
            if seen == WaitResult::Bell || until.is_some_and(|until| awake::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// True if a message is there already.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    // ---- waiting ------------------------------------------------------------------------------

    /// Reads from the rings until one brought a message; true if any had something.
    fn read_rings(&mut self, shared: &Shared) -> bool {
        let mut any = false;
        for index in 0..self.rings.len() {
            let Some(token) = self.rings.get(index).copied() else { break };
            let has_bytes = |connection: &InConnection| {
                connection.pipe.ring().is_some_and(|ring| ring.has_bytes())
            };
            if self.connections.get(&token).is_some_and(has_bytes) {
                any = true;
                self.read(token, shared);
                // The next one begins where this one ended, so that none is forgotten.
                if !self.ready.is_empty() {
                    self.rings.rotate_left(index + 1);
                    return true;
                }
            }
        }
        any
    }

    /// Looks at the rings for a short while before sleeping; true if one has something.
    fn spin(&mut self, shared: &Shared) -> bool {
        if self.rings.is_empty() {
            return false;
        }
        let Self { rings, connections, spin, .. } = self;
        let pipes: SmallVec<[_; 8]> =
            rings.iter().filter_map(|token| connections.get(token)?.pipe.ring()).collect();
        spin.until(|| shared.is_stopping() || pipes.iter().any(|ring| ring.has_bytes()))
    }

    /// Waits until something can be read, or that time has come.
    fn sleep(&mut self, shared: &Shared, until: Option<Instant>) -> io::Result<WaitResult> {
        let rings =
            || self.rings.iter().filter_map(|token| self.connections.get(token)?.pipe.ring());
        let all_asleep = rings().all(|ring| ring.sleep());
        let longest = self.untold.then_some(ACK_AFTER);
        // The kernel counts whole milliseconds. One more, or it would be asked again and again.
        let left = |until: Instant| awake::left(until) + MILLISECOND;
        let timeout = match longest.into_iter().chain(until.map(left)).min() {
            _ if !all_asleep => EpollTimeout::ZERO,
            Some(time) => EpollTimeout::try_from(time).unwrap_or(EpollTimeout::MAX),
            None => EpollTimeout::NONE,
        };
        let began = self.falls_asleep();
        let seen = self.poll(timeout, shared)?;
        self.has_slept(began);
        Ok(seen)
    }

    /// Reads what can be read, from all.
    fn poll(&mut self, timeout: EpollTimeout, shared: &Shared) -> io::Result<WaitResult> {
        shared.receive_syscalls.fetch_add(1, Relaxed);
        let waited = self.epoll.wait(&mut self.events, timeout);
        let rings = self.rings.iter().filter_map(|token| self.connections.get(token)?.pipe.ring());
        rings.for_each(super::ring::RingReader::awake);
        let count = match waited {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut seen = if count > 0 { WaitResult::Something } else { WaitResult::Nothing };
        for index in 0..count {
            let token = self.events[index].data();
            if token == BELL {
                seen = WaitResult::Bell;
                shared.receive_bell.silence();
                self.welcome_arrivals(shared);
            } else if self.rings.contains(&token) {
                self.end_of_ring(token, shared);
            } else if token & OF_RING == 0 {
                self.read(token, shared);
            }
        }
        Ok(seen)
    }

    /// The socket beside a ring has come to its end.
    fn end_of_ring(&mut self, token: u64, shared: &Shared) {
        let Some(connection) = self.connections.get(&token) else { return };
        shared.receive_syscalls.fetch_add(1, Relaxed);
        match socket_read(&connection.pipe.socket, &mut [0; 64]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Nothing is said there: the peer is gone. What it wrote before is still in the ring.
            _ => {
                self.read_last(token, shared);
                self.close(token, shared);
            }
        }
    }

    // ---- reading ------------------------------------------------------------------------------

    /// Reads a bit from a connection, or closes it; true if something came.
    fn read(&mut self, token: u64, shared: &Shared) -> bool {
        match self.read_some(token, shared) {
            Ok(came) => came,
            Err(error) => {
                self.say_why(token, &error);
                self.close(token, shared);
                true
            }
        }
    }

    /// Reads a bit from a connection; true if something came.
    fn read_some(&mut self, token: u64, shared: &Shared) -> io::Result<bool> {
        let Self { connections, sessions, ready, .. } = self;
        let Some(connection) = connections.get_mut(&token) else { return Ok(false) };
        let Some(entry) = sessions.get_mut(&connection.session) else { return Ok(false) };
        connection.active = true;
        let is_ring = connection.pipe.ring().is_some();
        let receipt = Arc::clone(&entry.receipt);
        let mut asides = Asides::default();
        let mut around = Surroundings {
            session: &mut entry.session,
            pool: &shared.pool,
            sink: shared.sink.get().map(|sink| &**sink),
            data_max: shared.options.data_max,
            counters: &receipt.counters,
            rates: &shared.rates,
            ready,
        };
        let mut result = Ok(false);
        let before = around.ready.len();
        for _ in 0..READS_MAX {
            let step = connection.reader.step(&mut connection.pipe, &mut around, &mut asides);
            match step {
                Ok(more) => {
                    result = Ok(true);
                    if !more || is_ring && !around.ready.is_empty() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // What is lent does not come through the connection, but the sender keeps it until it is
        // told.
        let complete: usize =
            ready.iter().skip(before).flat_map(|message| &message.frames).map(Bytes::len).sum();
        let over_tcp = if is_ring { 0 } else { asides.data };
        entry.inflow.bytes += over_tcp;
        connection.inflow.bytes += over_tcp;
        asides.data = asides.data.max(complete as u64);
        entry.note(asides, &self.plane);
        let is_small =
            ready.len() == before + 1 && complete <= SMALL && connection.reader.is_idle();
        self.untold |= asides.fragments > 0;
        let key = connection.session;
        if matches!(result, Ok(true)) {
            self.note_partner(token, !is_ring && is_small);
        }
        if asides.flush {
            self.tell(key, shared);
        }
        result
    }

    fn say_why(&self, token: u64, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidData
            && let Some(connection) = self.connections.get(&token)
            && let Some(entry) = self.sessions.get(&connection.session)
        {
            let address = &entry.session.address;
            log::write(Level::Warning, &format!("closed a connection from {address}: {error}"));
        }
    }

    // ---- acknowledgements ---------------------------------------------------------------------

    /// Tells peers what arrived, if no message to them has done so for long enough.
    fn acknowledge(&mut self, shared: &Shared) {
        if !self.untold {
            return;
        }
        let now = awake::now();
        let all = now.saturating_duration_since(self.last_told) >= ACK_AFTER;
        let mut due: SmallVec<[SessionKey; 8]> = SmallVec::new();
        let mut later = false;
        for (key, entry) in &mut self.sessions {
            match entry.receipt.untold() {
                0 => entry.untold_bytes = 0,
                n if all || n >= ACK_MESSAGES || entry.untold_bytes >= ACK_BYTES => due.push(*key),
                _ => later = true,
            }
        }
        due.into_iter().for_each(|key| self.tell(key, shared));
        // If nobody is to be told later, the next wait needs no timer, which would cost as much as
        // a copy.
        self.untold = later;
        if all {
            self.last_told = now;
            self.delay_tcp();
            self.set_windows(now, shared);
            self.forget_sessions(now, shared);
        }
    }

    /// Without this the kernel would answer every small message with a packet of its own, which
    /// costs as much as the message.
    fn delay_tcp(&mut self) {
        for connection in self.connections.values_mut().filter(|connection| connection.active) {
            connection.active = false;
            if connection.pipe.ring().is_none() {
                let _ = delay_acknowledgements(connection.pipe.socket.as_fd());
            }
        }
    }

    fn tell(&mut self, key: SessionKey, shared: &Shared) {
        let Some(entry) = self.sessions.get_mut(&key) else { return };
        let Some(connection) = entry.tokens.first().and_then(|token| self.connections.get(token))
        else {
            return;
        };
        let (ack_channel, ack) = entry.receipt.tell();
        entry.untold_bytes = 0;
        let header = Header { ack, ack_channel, ..Header::new(Kind::Ack) };
        entry.receipt.counters.syscalls.fetch_add(1, Relaxed);
        // If there is no room now, a later one says the same. One that is cut would be the end of
        // it.
        let sent = socket_write(&connection.pipe.socket, &[IoSlice::new(&header.encode())]);
        if sent.is_ok_and(|n| n < pslite_core::wire::native::HEADER) {
            let tokens = entry.tokens.clone();
            tokens.into_iter().for_each(|token| self.close(token, shared));
        }
    }

    // ---- the end --------------------------------------------------------------------------------

    /// Tells all peers what arrived, and that nothing more will be read.
    pub(super) fn say_goodbye(&mut self) {
        for entry in self.sessions.values_mut() {
            let (ack_channel, ack) = entry.receipt.tell();
            let header = Header { ack, ack_channel, ..Header::new(Kind::Bye) };
            for token in &entry.tokens {
                if let Some(connection) = self.connections.get(token) {
                    let _ =
                        socket_write(&connection.pipe.socket, &[IoSlice::new(&header.encode())]);
                }
            }
        }
    }

    /// Closes all connections.
    pub(super) fn close_all(&mut self) {
        self.connections.clear();
        self.rings.clear();
        self.sessions.values_mut().for_each(|entry| entry.tokens.clear());
    }
}

impl Entry {
    fn note(&mut self, asides: Asides, plane: &Plane) {
        self.receipt.note(self.session.received());
        self.untold_bytes += asides.data;
        let Some((channel, upto)) = asides.ack else { return };
        if self.reverse.as_ref().is_none_or(|reverse| reverse.number != channel) {
            self.reverse = plane.channel(channel);
        }
        if let Some(reverse) = &self.reverse {
            reverse.acknowledged(self.session.incarnation, upto);
        }
    }
}
