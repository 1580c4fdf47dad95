//! The stock wire on libzmq: one ROUTER that receives, one DEALER for each peer that sends
//! (zmq_van.h; the spec of the frames is in docs/wire.md).
//!
//! Unlike stock there is no lock across peers, and a control message never waits: if its peer has
//! no room it is put aside. `priority` mode (p3) keeps the messages of each peer in order of
//! priority until libzmq has room.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::port_holder::{self, Holder};
use super::sys::{Context, Frame, Kind, Outgoing, Socket};
use crate::delivery::queue::PriorityFifo;

/// Messages that wait aside for one peer; control messages beyond it are refused.
const ASIDE_MAX: usize = 4096;
/// Messages that wait in priority mode for one peer; senders wait beyond it.
const PRIORITY_MAX: usize = 1024;
/// Frames of one message; more are dropped and the message is marked.
const FRAMES_MAX: usize = 16;
/// How long a replaced or closed connection may take to flush what it holds.
const FLUSH: Duration = Duration::from_secs(1);
/// The first and the longest wait before connecting again (stock waits 100 ms at once).
const RECONNECT_MS: (i32, i32) = (5, 200);
/// TCP keepalive: seconds of silence, seconds between probes, probes without an answer.
const KEEP_ALIVE_S: (i32, i32, i32) = (10, 5, 3);
/// The identity of our own wake-up connection; no node has an empty number.
const WAKE: &[u8] = b"ps-wake";

/// How the sockets behave.
#[derive(Clone, Debug)]
pub struct ZmqOptions {
    /// Messages that may wait in one connection (ZMQ_SNDHWM).
    pub send_queue: i32,
    /// The same for receiving.
    pub recv_queue: i32,
    /// Messages go in order of priority (the p3 van).
    pub priority_mode: bool,
    /// The largest frame that is accepted, in bytes.
    pub max_frame: usize,
}

/// Where a socket is bound or connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP; port 0 lets the system choose.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Ipc {
        /// Its file.
        path: String,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port: 0 } => write!(f, "tcp://{host}:*"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Ipc { path } => write!(f, "ipc://{path}"),
        }
    }
}

/// Why a socket cannot be made.
#[derive(Debug, Error)]
pub enum TransportError {
    /// Somebody listens there already.
    #[error("cannot listen on {address}: the port is held by {}", holder_text(.holder.as_ref()))]
    PortBusy {
        /// `host:port`.
        address: String,
        /// Who, if that can be seen.
        holder: Option<Holder>,
    },
    /// The address is not one of this host.
    #[error("cannot listen on {address}: no such address on this host; it has {local}")]
    NotLocal {
        /// `host:port`.
        address: String,
        /// What it has instead.
        local: String,
    },
    /// Every port of a range is taken.
    #[error("every port from {low} to {high} of {host} is taken")]
    RangeBusy {
        /// Where.
        host: String,
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// Anything else that libzmq reports.
    #[error("{what}: {source}")]
    Zmq {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

fn holder_text(holder: Option<&Holder>) -> String {
    holder.map_or_else(
        || "another process (whose name only its owner can see)".to_owned(),
        Holder::to_string,
    )
}

/// Why a message was not sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// There is no connection of that key.
    #[error("there is no connection to it")]
    NoSuchPeer,
    /// The transport is closed.
    #[error("this node is closing")]
    Stopped,
    /// A control message found everything full.
    #[error("{ASIDE_MAX} control messages wait for it already")]
    QueueFull,
    /// The connection was given up while the message waited.
    #[error("its connection was given up")]
    PeerGone,
    /// Anything else that libzmq reports.
    #[error("{0}")]
    Zmq(io::Error),
}

/// Why receiving ended.
#[derive(Debug, Error)]
pub enum RecvError {
    /// [`ZmqTransport::stop`] was called.
    #[error("this node is closing")]
    Stopped,
    /// Anything else that libzmq reports.
    #[error("{0}")]
    Zmq(io::Error),
}

/// What a full connection means to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// The sender waits.
    Block,
    /// The message waits aside; the sender never does.
    Control,
}

/// A message as it came.
#[derive(Debug)]
pub struct Incoming {
    /// The sender, if its connection is named `ps<id>`.
    pub from: Option<i32>,
    /// Metadata first, then data.
    pub frames: SmallVec<[Bytes; 4]>,
    /// It had more frames than any message may have.
    pub oversized: bool,
    named: Frame,
}

impl Incoming {
    /// The network address of the sender, for warnings.
    #[must_use]
    pub fn address(&self) -> String {
        self.named.peer_address().unwrap_or_else(|| "an unknown address".to_owned())
    }
}

/// A connection came up or went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// The key of the connection.
    pub key: i32,
    /// It stands.
    pub up: bool,
}

/// A message that waits.
#[derive(Debug)]
struct Waiting {
    meta: Vec<u8>,
    data: SmallVec<[Bytes; 3]>,
}

#[derive(Debug)]
struct Link {
    socket: Socket,
    monitor: Option<Socket>,
    /// Control messages that found no room, in order.
    aside: VecDeque<Waiting>,
    /// Messages in order of priority (p3).
    by_priority: PriorityFifo<Waiting>,
    gone: bool,
}

type Peers = BTreeMap<i32, Arc<Mutex<Link>>>;

/// All sockets of a node.
#[derive(Debug)]
pub struct ZmqTransport {
    options: ZmqOptions,
    receiver: Mutex<Socket>,
    wake: Mutex<Option<Socket>>,
    peers: RwLock<Peers>,
    context: Context,
    stopping: AtomicBool,
    monitors: AtomicU64,
    ipc_file: Mutex<Option<String>>,
    sent: AtomicU64,
    received: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn zmq_error(what: &str) -> impl FnOnce(io::Error) -> TransportError + '_ {
    move |source| TransportError::Zmq { what: what.to_owned(), source }
}

impl ZmqTransport {
    /// Sockets that are not bound yet.
    ///
    /// # Errors
    /// libzmq has no resources left.
    pub fn new(options: ZmqOptions) -> Result<Self, TransportError> {
        let fail = zmq_error("cannot make the receiving socket");
        let context = Context::new().map_err(zmq_error("cannot make a context"))?;
        let make = || -> io::Result<(Socket, Socket)> {
            let mut receiver = context.socket(Kind::Router)?;
            receiver.set_int(zmq_sys::ZMQ_LINGER, 0)?;
            receiver.set_int(zmq_sys::ZMQ_RCVHWM, options.recv_queue)?;
            keep_alive(&mut receiver)?;
            let limit = i64::try_from(options.max_frame).unwrap_or(i64::MAX);
            receiver.set(zmq_sys::ZMQ_MAXMSGSIZE, &limit.to_ne_bytes())?;
            receiver.bind("inproc://wake")?;
            let mut wake = context.socket(Kind::Dealer)?;
            wake.set_int(zmq_sys::ZMQ_LINGER, 0)?;
            wake.set(zmq_sys::ZMQ_ROUTING_ID, WAKE)?;
            wake.connect("inproc://wake")?;
            Ok((receiver, wake))
        };
        let (receiver, wake) = make().map_err(fail)?;
        Ok(Self {
            options,
            receiver: Mutex::new(receiver),
            wake: Mutex::new(Some(wake)),
            peers: RwLock::new(BTreeMap::new()),
            context,
            stopping: AtomicBool::new(false),
            monitors: AtomicU64::new(0),
            ipc_file: Mutex::new(None),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        })
    }

    /// Listens there; the port.
    ///
    /// # Errors
    /// Names who holds the port, or which addresses this host has.
    pub fn bind(&self, endpoint: &Endpoint) -> Result<u16, TransportError> {
        let mut receiver = lock(&self.receiver);
        receiver.bind(&endpoint.to_string()).map_err(|error| bind_error(endpoint, error))?;
        match endpoint {
            Endpoint::Ipc { path } => {
                *lock(&self.ipc_file) = Some(path.clone());
                Ok(0)
            }
            Endpoint::Tcp { port, .. } if *port != 0 => Ok(*port),
            Endpoint::Tcp { .. } => {
                let what = "cannot read the port";
                let text = receiver.last_endpoint().map_err(zmq_error(what))?;
                let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
                port.ok_or_else(|| zmq_error(what)(io::Error::other(text)))
            }
        }
    }

    /// Listens on the first free port of a range.
    ///
    /// # Errors
    /// All are taken, or the host is not ours.
    pub fn bind_in_range(&self, host: &str, low: u16, high: u16) -> Result<u16, TransportError> {
        for port in low..=high {
            match self.bind(&Endpoint::Tcp { host: host.to_owned(), port }) {
                Err(TransportError::PortBusy { .. }) => {}
                other => return other,
            }
        }
        Err(TransportError::RangeBusy { host: host.to_owned(), low, high })
    }

    /// Opens the connection of that key, in place of an earlier one, whose messages are flushed.
    ///
    /// # Errors
    /// libzmq cannot parse the address or has no resources left.
    pub fn connect(
        &self,
        key: i32,
        endpoint: &Endpoint,
        identity: Option<i32>,
    ) -> Result<(), TransportError> {
        let fail = zmq_error("cannot connect");
        let make = || -> io::Result<Link> {
            let mut socket = self.context.socket(Kind::Dealer)?;
            socket.set_int(zmq_sys::ZMQ_LINGER, FLUSH.as_millis() as i32)?;
            socket.set_int(zmq_sys::ZMQ_SNDHWM, self.options.send_queue)?;
            keep_alive(&mut socket)?;
            socket.set_int(zmq_sys::ZMQ_RECONNECT_IVL, RECONNECT_MS.0)?;
            socket.set_int(zmq_sys::ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS.1)?;
            if let Some(id) = identity {
                socket.set(zmq_sys::ZMQ_ROUTING_ID, format!("ps{id}").as_bytes())?;
            }
            let monitor = self.watch(&mut socket)?;
            socket.connect(&endpoint.to_string())?;
            Ok(Link {
                socket,
                monitor: Some(monitor),
                aside: VecDeque::new(),
                by_priority: PriorityFifo::new(),
                gone: false,
            })
        };
        let link = Arc::new(Mutex::new(make().map_err(fail)?));
        let old = self.peers_mut().insert(key, link);
        if let Some(old) = old {
            close_link(&old, FLUSH);
        }
        Ok(())
    }

    fn watch(&self, socket: &mut Socket) -> io::Result<Socket> {
        let number = self.monitors.fetch_add(1, Ordering::Relaxed);
        let address = format!("inproc://monitor-{number}");
        let events = zmq_sys::ZMQ_EVENT_CONNECTED | zmq_sys::ZMQ_EVENT_DISCONNECTED;
        socket.monitor(&address, events)?;
        let mut monitor = self.context.socket(Kind::Pair)?;
        monitor.set_int(zmq_sys::ZMQ_LINGER, 0)?;
        monitor.connect(&address)?;
        Ok(monitor)
    }

    /// Gives a connection another key.
    pub fn rename(&self, from: i32, to: i32) {
        let mut peers = self.peers_mut();
        if let Some(link) = peers.remove(&from)
            && let Some(old) = peers.insert(to, link)
        {
            close_link(&old, FLUSH);
        }
    }

    /// Closes a connection.
    pub fn disconnect(&self, key: i32, linger: Duration) {
        if let Some(link) = self.peers_mut().remove(&key) {
            close_link(&link, linger);
        }
    }

    fn peers_mut(&self) -> std::sync::RwLockWriteGuard<'_, Peers> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self, key: i32) -> Option<Arc<Mutex<Link>>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Sends one message; its size in bytes. First in, first out per peer, unless priorities say
    /// otherwise in priority mode.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(
        &self,
        key: i32,
        meta: &[u8],
        data: &[Bytes],
        priority: i32,
        mode: SendMode,
    ) -> Result<usize, SendError> {
        let peer = self.peer(key).ok_or(SendError::NoSuchPeer)?;
        let bytes = meta.len() + data.iter().map(Bytes::len).sum::<usize>();
        let mut pause = Duration::from_micros(20);
        loop {
            if self.stopping.load(Ordering::Relaxed) && mode == SendMode::Block {
                return Err(SendError::Stopped);
            }
            {
                let mut link = lock(&peer);
                if link.gone {
                    return Err(SendError::PeerGone);
                }
                if self.options.priority_mode {
                    let aside = if mode == SendMode::Control { ASIDE_MAX } else { 0 };
                    if link.by_priority.len() < PRIORITY_MAX + aside {
                        link.by_priority.push(priority, waiting(meta, data));
                        link.drain().map_err(SendError::Zmq)?;
                        break;
                    }
                    if mode == SendMode::Control {
                        return Err(SendError::QueueFull);
                    }
                } else if link.drain().map_err(SendError::Zmq)? {
                    match link.send_now(meta, data) {
                        Ok(()) => break,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(SendError::Zmq(error)),
                    }
                }
                if mode == SendMode::Control {
                    if link.aside.len() >= ASIDE_MAX {
                        return Err(SendError::QueueFull);
                    }
                    link.aside.push_back(waiting(meta, data));
                    break;
                }
            }
            // Back-pressure: the peer, or the network, is slower than we are.
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Sends what waits aside, as far as there is room. True if nothing waits any more.
    pub fn flush(&self) -> bool {
        let peers: Vec<_> =
            self.peers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut empty = true;
        for peer in peers {
            let mut link = lock(&peer);
            empty &= link.gone || link.drain().unwrap_or(true);
        }
        empty
    }

    /// Waits for a message. For one thread only.
    ///
    /// # Errors
    /// [`RecvError::Stopped`] after [`Self::stop`].
    pub fn recv(&self) -> Result<Incoming, RecvError> {
        let mut receiver = lock(&self.receiver);
        loop {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(RecvError::Stopped);
            }
            let named = match receiver.receive(true) {
                Ok(frame) => frame,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(RecvError::Zmq(error)),
            };
            let incoming = rest(&mut receiver, named)?;
            if incoming.named.as_ref() == WAKE {
                continue;
            }
            let bytes: usize = incoming.frames.iter().map(Bytes::len).sum();
            self.received.fetch_add(bytes as u64, Ordering::Relaxed);
            return Ok(incoming);
        }
    }

    /// What happened to connections since the last call. For one thread only.
    pub fn link_events(&self, out: &mut Vec<LinkEvent>) {
        let peers: Vec<_> = self
            .peers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(key, peer)| (*key, Arc::clone(peer)))
            .collect();
        for (key, peer) in peers {
            let mut link = lock(&peer);
            let Some(monitor) = &mut link.monitor else { continue };
            while let Ok(event) = monitor.receive(false) {
                let number =
                    event.as_ref().first_chunk::<2>().map(|head| u16::from_ne_bytes(*head));
                // The second frame is the address.
                let _ = monitor.receive(false);
                match number.map(i32::from) {
                    Some(n) if n == zmq_sys::ZMQ_EVENT_CONNECTED as i32 => {
                        out.push(LinkEvent { key, up: true })
                    }
                    Some(n) if n == zmq_sys::ZMQ_EVENT_DISCONNECTED as i32 => {
                        out.push(LinkEvent { key, up: false });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Ends [`Self::recv`] and senders that wait.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(wake) = &mut *lock(&self.wake) {
            let _ = wake.send(Outgoing::Copy(b""), false, false);
        }
    }

    /// Closes every socket. What was sent is flushed, for at most `linger`.
    pub fn close(&self, linger: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        let until = Instant::now() + linger;
        while !self.flush() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let peers = std::mem::take(&mut *self.peers_mut());
        for link in peers.into_values() {
            close_link(&link, linger);
        }
        *lock(&self.wake) = None;
        if let Some(path) = lock(&self.ipc_file).take() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Bytes sent and received so far.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

impl Link {
    /// Sends what waits; false if some of it found no room.
    fn drain(&mut self) -> io::Result<bool> {
        while let Some(front) = self.aside.pop_front() {
            match send_frames(&mut self.socket, &front.meta, &front.data) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.aside.push_front(front);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        while let Some(next) = self.by_priority.pop() {
            match send_frames(&mut self.socket, &next.meta, &next.data) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // It was the most urgent and stays that: ahead of all that come later.
                    self.aside.push_front(next);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send_now(&mut self, meta: &[u8], data: &[Bytes]) -> io::Result<()> {
        send_frames(&mut self.socket, meta, data)
    }
}

/// Sends all frames of a message; only the first can find no room (libzmq counts messages).
fn send_frames(socket: &mut Socket, meta: &[u8], data: &[Bytes]) -> io::Result<()> {
    socket.send(Outgoing::Copy(meta), !data.is_empty(), false)?;
    for (i, frame) in data.iter().enumerate() {
        socket.send(Outgoing::Share(frame), i + 1 < data.len(), true)?;
    }
    Ok(())
}

/// Lets the kernel find out that a peer's machine is gone. A process that takes the place of a dead one
/// has the same name, and a ROUTER ignores a second connection of a name for as long as the first one
/// seems to live. (It could be told to prefer the second one, ZMQ_ROUTER_HANDOVER: then any stranger
/// who claims a member's name would cut that member off.)
fn keep_alive(socket: &mut Socket) -> io::Result<()> {
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE, 1)?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_IDLE, KEEP_ALIVE_S.0)?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_INTVL, KEEP_ALIVE_S.1)?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_CNT, KEEP_ALIVE_S.2)
}

fn waiting(meta: &[u8], data: &[Bytes]) -> Waiting {
    Waiting { meta: meta.to_vec(), data: data.iter().cloned().collect() }
}

fn close_link(link: &Mutex<Link>, linger: Duration) {
    let mut link = lock(link);
    let _ = link.drain();
    link.gone = true;
    link.monitor = None;
    let _ = link.socket.set_int(zmq_sys::ZMQ_LINGER, linger.as_millis() as i32);
}

fn rest(receiver: &mut Socket, named: Frame) -> Result<Incoming, RecvError> {
    let mut frames = SmallVec::new();
    let mut oversized = false;
    let mut more = named.more();
    while more {
        // The frames of one message arrive together: this does not wait.
        let frame = receiver.receive(true).map_err(RecvError::Zmq)?;
        more = frame.more();
        if frames.len() < FRAMES_MAX {
            frames.push(frame.into_bytes());
        } else {
            oversized = true;
        }
    }
    Ok(Incoming { from: id_of(named.as_ref()), frames, oversized, named })
}

/// The id behind a connection's name (zmq_van.h:234).
fn id_of(name: &[u8]) -> Option<i32> {
    let digits = name.strip_prefix(b"ps").filter(|digits| !digits.is_empty())?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn bind_error(endpoint: &Endpoint, source: io::Error) -> TransportError {
    let Endpoint::Tcp { host, port } = endpoint else {
        return TransportError::Zmq { what: format!("cannot listen on {endpoint}"), source };
    };
    let address = format!("{host}:{port}");
    match source.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            TransportError::PortBusy { address, holder: port_holder::find(*port) }
        }
        Some(libc::EADDRNOTAVAIL | libc::ENODEV) => {
            TransportError::NotLocal { address, local: super::address::local_addresses_text() }
        }
        _ => TransportError::Zmq { what: format!("cannot listen on {address}"), source },
    }
}

#[cfg(test)]
#[path = "zmq_tests.rs"]
mod tests;
