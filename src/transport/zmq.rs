//! The stock wire on libzmq: one ROUTER receives, and one or few send (`out`), where stock has a
//! DEALER for each peer (zmq_van.h; docs/wire.md has the frames).
//!
//! Unlike in stock, sending to one peer never waits until another peer has room, and a control
//! message never waits at all: if its peer has no room, it is set aside. `priority` mode (p3) keeps
//! the messages to each peer in order of priority until libzmq has room. With BytePS's ps-lite,
//! answers go back over the connection of the request: `two_way`. So do those to somebody who asks
//! from outside the job: `question`.

mod channel;
mod ending;
mod keep_alive;
mod names;
mod out;
mod question;
mod received;
mod two_way;
mod types;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;

use super::carrier::{Endpoint, RecvError, SendError, SendMode, TransportError};
use super::carrier::{bind_error, bind_in_range};
use super::counters::PeerCounters;
use super::entrance::Entrance;
use super::sync::lock;
use super::sys::fork;
use super::sys::{Context, Frame, Outgoing, Socket, SocketKind};
use channel::{ASIDE_MAX, QUEUED_MAX, StockChannel, close_channel, waiting};
use keep_alive::keep_alive;
use names::{Names, id_of};
use out::{ConnectionReport, FLUSH, Outs};
use pslite_observe::awake;
use received::{CARRIER, Received, Receiver};
use two_way::TwoWay;

pub use question::Question;
pub use types::{Answers, Flushed, NumberedEvent, ZmqIncoming, ZmqOptions};

/// Messages that wait in priority mode for one peer; senders wait beyond it.
const PRIORITY_MAX: usize = 1024;
/// Frames of one message; more are dropped and the message is marked.
const FRAMES_MAX: usize = 16;
/// The identity of our own wake-up connection; no node has an empty number.
const WAKE: &[u8] = b"ps-wake";

type Peers = BTreeMap<i32, Arc<Mutex<StockChannel>>>;

/// All sockets of a node.
#[derive(Debug)]
pub struct ZmqTransport {
    options: ZmqOptions,
    receiver: Mutex<Receiver>,
    received_from: Arc<Received>,
    wake: Mutex<Option<Socket>>,
    peers: RwLock<Peers>,
    /// The key of each connection, by its number.
    keys: Mutex<BTreeMap<u64, i32>>,
    outs: Outs,
    context: Context,
    stopping: AtomicBool,
    names: Mutex<Names>,
    ipc_file: Mutex<Option<String>>,
    sent: AtomicU64,
    received: AtomicU64,
    /// Where answers take the way back.
    two_way: Option<TwoWay>,
}

fn zmq_error(what: &str) -> impl FnOnce(io::Error) -> TransportError + '_ {
    move |source| TransportError::Io { what: what.to_owned(), source }
}

impl ZmqTransport {
    /// Sockets that are not bound yet.
    ///
    /// # Errors
    /// libzmq has no resources left.
    pub fn new(options: ZmqOptions) -> Result<Self, TransportError> {
        let what = "cannot make the receiving socket";
        let context = Context::new().map_err(zmq_error("cannot make a context"))?;
        let make = || -> io::Result<(Socket, Socket)> {
            let mut receiver = context.socket(SocketKind::Router)?;
            receiver.set_int(zmq_sys::ZMQ_LINGER, 0)?;
            receiver.set_int(zmq_sys::ZMQ_RCVHWM, options.recv_queue)?;
            receiver.set_int(zmq_sys::ZMQ_ROUTER_HANDOVER, 1)?;
            if options.answers != Answers::OwnWay {
                // An answer that finds no room waits, instead of being dropped.
                receiver.set_int(zmq_sys::ZMQ_ROUTER_MANDATORY, 1)?;
                receiver.set_int(zmq_sys::ZMQ_SNDHWM, options.send_queue)?;
            }
            keep_alive(&mut receiver)?;
            let limit = i64::try_from(options.max_frame).unwrap_or(i64::MAX);
            receiver.set(zmq_sys::ZMQ_MAXMSGSIZE, &limit.to_ne_bytes())?;
            receiver.bind("inproc://wake")?;
            let mut wake = context.socket(SocketKind::Dealer)?;
            wake.set_int(zmq_sys::ZMQ_LINGER, 0)?;
            wake.set(zmq_sys::ZMQ_ROUTING_ID, WAKE)?;
            wake.connect("inproc://wake")?;
            Ok((receiver, wake))
        };
        let (mut receiver, wake) = make().map_err(zmq_error(what))?;
        let two_way = match options.answers {
            Answers::OwnWay => None,
            Answers::Back { asks } => {
                Some(TwoWay::new(&mut receiver, asks).map_err(zmq_error(what))?)
            }
        };
        let received_from = Arc::new(Received::default());
        Ok(Self {
            names: Mutex::new(Names::new(two_way.is_none().then_some(options.name_seed))),
            two_way,
            options,
            receiver: Mutex::new(Receiver::new(receiver, Arc::clone(&received_from))),
            received_from,
            wake: Mutex::new(Some(wake)),
            peers: RwLock::new(BTreeMap::new()),
            keys: Mutex::default(),
            outs: Outs::default(),
            context,
            stopping: AtomicBool::new(false),
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
        if let Endpoint::Ipc { path } = endpoint {
            fork::note_path(path);
        }
        let receiver = &mut lock(&self.receiver).socket;
        receiver.bind(&endpoint.to_string()).map_err(|error| bind_error(endpoint, error))?;
        match endpoint {
            Endpoint::Ipc { path } => {
                *lock(&self.ipc_file) = Some(path.clone());
                Ok(0)
            }
            Endpoint::Tcp { port, .. } if *port != 0 => {
                fork::note_listening(*port);
                Ok(*port)
            }
            Endpoint::Tcp { .. } => {
                let what = "cannot read the port";
                let text = receiver.last_endpoint().map_err(zmq_error(what))?;
                let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
                let port = port.ok_or_else(|| zmq_error(what)(io::Error::other(text)))?;
                fork::note_listening(port);
                Ok(port)
            }
        }
    }

    /// Listens on the first free port of a range.
    ///
    /// # Errors
    /// All are taken, or the host is not ours.
    pub fn bind_in_range(&self, host: &str, low: u16, high: u16) -> Result<u16, TransportError> {
        bind_in_range(host, low..=high, |endpoint| self.bind(endpoint))
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
        self.connect_through(key, endpoint, None, identity)
    }

    /// The same, if there is one, through an entrance of tunnels that leads to that address and no
    /// other ([`crate::tunnel::Tunnels::entrance`]). Whoever connects there is let in before the
    /// peer is reached: so the connection is up once the peer has answered.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_through(
        &self,
        key: i32,
        endpoint: &Endpoint,
        entrance: Option<Arc<Entrance>>,
        identity: Option<i32>,
    ) -> Result<(), TransportError> {
        let fail = zmq_error("cannot connect");
        let place = entrance.as_ref().map_or_else(
            || endpoint.clone(),
            |entrance| {
                let address = entrance.address();
                Endpoint::Tcp { host: address.ip().to_string(), port: address.port() }
            },
        );
        match &place {
            Endpoint::Tcp { port, .. } => fork::note_connected(*port),
            Endpoint::Ipc { path } => fork::note_path(path),
        }
        let name = identity.map(|id| lock(&self.names).next(endpoint, id));
        // What happens to the connection is not looked up before it is there.
        let mut peers = self.peers_mut();
        let route = self
            .outs
            .connect(&self.context, &self.options, &place, name.as_deref(), self.hears(identity))
            .map_err(fail)?;
        let mut keys = lock(&self.keys);
        keys.retain(|_, former| *former != key);
        keys.insert(route.number(), key);
        drop(keys);
        let channel = StockChannel::new(route, entrance);
        let old = peers.insert(key, Arc::new(Mutex::new(channel)));
        drop(peers);
        if let Some(old) = old {
            close_channel(&old, FLUSH);
        }
        self.look_again();
        Ok(())
    }

    /// Gives a connection another key.
    pub fn rename(&self, from: i32, to: i32) {
        let mut peers = self.peers_mut();
        let Some(channel) = peers.remove(&from) else { return };
        let mut keys = lock(&self.keys);
        keys.retain(|_, key| *key != to);
        keys.values_mut().filter(|key| **key == from).for_each(|key| *key = to);
        drop(keys);
        let old = peers.insert(to, channel);
        drop(peers);
        if let Some(old) = old {
            close_channel(&old, FLUSH);
            self.look_again();
        }
    }

    /// Closes a connection.
    pub fn disconnect(&self, key: i32, linger: Duration) {
        let removed = self.peers_mut().remove(&key);
        if let Some(channel) = removed {
            lock(&self.keys).retain(|_, other| *other != key);
            close_channel(&channel, linger);
            self.look_again();
        }
    }

    fn peers_mut(&self) -> std::sync::RwLockWriteGuard<'_, Peers> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self, key: i32) -> Option<Arc<Mutex<StockChannel>>> {
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
        let aside = match mode {
            SendMode::Block => 0,
            SendMode::Queue => QUEUED_MAX,
            SendMode::Control => ASIDE_MAX,
        };
        loop {
            if self.stopping.load(Ordering::Relaxed) && mode != SendMode::Control {
                return Err(SendError::Stopped);
            }
            {
                let mut channel = lock(&peer);
                if channel.gone {
                    return Err(SendError::PeerGone);
                }
                channel.is_used = true;
                if self.options.priority_mode {
                    if channel.by_priority.len() < PRIORITY_MAX + aside {
                        channel.by_priority.push(priority, waiting(meta, data));
                        channel.count(bytes);
                        channel.drain().map_err(SendError::Io)?;
                        self.used(&channel);
                        break;
                    }
                    if mode != SendMode::Block {
                        return Err(SendError::QueueFull);
                    }
                } else if channel.drain().map_err(SendError::Io)? {
                    match channel.send_now(meta, data) {
                        Ok(()) => {
                            channel.count(bytes);
                            self.used(&channel);
                            break;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(SendError::Io(error)),
                    }
                }
                if mode != SendMode::Block {
                    if channel.aside.len() >= aside {
                        return Err(SendError::QueueFull);
                    }
                    channel.aside.push_back(waiting(meta, data));
                    channel.count(bytes);
                    self.used(&channel);
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

    /// Sends what waits aside, as far as there is room.
    pub fn flush(&self) -> Flushed {
        let peers: Vec<_> =
            self.peers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut flushed = Flushed::default();
        for peer in peers {
            let mut channel = lock(&peer);
            let before = channel.waiting();
            flushed.left |= !(channel.gone || channel.drain().unwrap_or(true));
            flushed.sent |= channel.waiting() < before;
            self.used(&channel);
        }
        flushed
    }

    /// Waits for a message. For one thread only.
    ///
    /// # Errors
    /// [`RecvError::Stopped`] after [`Self::stop`].
    pub fn recv(&self) -> Result<ZmqIncoming, RecvError> {
        if let Some(two_way) = &self.two_way {
            return self.recv_two_way(two_way);
        }
        let mut receiver = lock(&self.receiver);
        loop {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(RecvError::Stopped);
            }
            let named = match receiver.socket.receive(true) {
                Ok(frame) => frame,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(RecvError::Io(error)),
            };
            let incoming = rest(&mut receiver.socket, named)?;
            if incoming.named.as_ref() == WAKE {
                continue;
            }
            self.note_received(&mut receiver, &incoming);
            return Ok(incoming);
        }
    }

    fn note_received(&self, receiver: &mut Receiver, incoming: &ZmqIncoming) {
        let bytes: usize = incoming.frames.iter().map(Bytes::len).sum();
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        receiver.count(incoming.from, bytes);
    }

    /// What happened to connections since the last call. For one thread only. They are named by
    /// number: until somebody looks at what happened, a connection may get another key
    /// ([`Self::key_of`]).
    pub fn channel_events(&self, out: &mut Vec<NumberedEvent>) {
        let (reports, used) = self.outs.reports();
        if used {
            self.look_again();
        }
        for (number, report) in reports {
            // Without one it was closed meanwhile.
            let Some(peer) = self.key_of(number).and_then(|key| self.peer(key)) else { continue };
            let mut channel = lock(&peer);
            if report == ConnectionReport::Shaken {
                channel.is_new = false;
            }
            let by_entrance = channel.entrance.is_some();
            let stands = if by_entrance { ConnectionReport::Shaken } else { ConnectionReport::Up };
            if report == stands {
                channel.counts.connections += 1;
                channel.stands = true;
                out.push(NumberedEvent { number, up: true });
            } else if report == ConnectionReport::Down && std::mem::take(&mut channel.stands) {
                out.push(NumberedEvent { number, up: false });
            }
        }
    }

    /// The key of a connection now; `None`: it is closed. It stays as long as nobody connects,
    /// renames or disconnects.
    #[must_use]
    pub fn key_of(&self, number: u64) -> Option<i32> {
        lock(&self.keys).get(&number).copied()
    }

    /// Waits until every connection stands, or has nothing to send. libzmq loses what is to be sent
    /// over one that is closed before its handshake is done.
    fn wait_for_handshakes(&self, until: Instant) {
        let mut events = Vec::new();
        loop {
            self.channel_events(&mut events);
            let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
            let would_lose = |peer: &Arc<Mutex<StockChannel>>| {
                let channel = lock(peer);
                channel.is_new && channel.is_used
            };
            if !peers.values().any(would_lose) || awake::now() >= until {
                return;
            }
            drop(peers);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends [`Self::recv`] and senders that wait.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(wake) = &mut *lock(&self.wake) {
            let _ = wake.send(Outgoing::Copy(b""), false, false);
        }
        self.look_again();
    }

    /// Closes every socket. What was sent is flushed, for at most `linger`.
    pub fn close(&self, linger: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        let until = awake::now() + linger;
        while self.flush().left && awake::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait_for_handshakes(until);
        let peers = std::mem::take(&mut *self.peers_mut());
        for channel in peers.into_values() {
            close_channel(&channel, linger);
        }
        let until = awake::now() + linger + ending::GIVE_UP;
        while self.outs.end_some() && awake::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        lock(&self.keys).clear();
        self.outs.close(linger);
        *lock(&self.wake) = None;
        if let Some(path) = lock(&self.ipc_file).take() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What was counted about each peer that is connected, and each that has sent something.
    #[must_use]
    pub fn counters(&self) -> Vec<PeerCounters> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = peers.iter().map(|(key, peer)| {
            let channel = lock(peer);
            PeerCounters {
                peer: Some(*key),
                outgoing: true,
                carrier: CARRIER,
                data_messages: channel.counts.messages,
                bytes: channel.counts.bytes,
                connections: channel.counts.connections,
                waiting: channel.waiting(),
                waiting_max: channel.counts.waiting_max,
                ..PeerCounters::default()
            }
        });
        sent.chain(self.received_from.read()).collect()
    }

    /// Bytes sent and received so far.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

fn rest(receiver: &mut Socket, named: Frame) -> Result<ZmqIncoming, RecvError> {
    let mut frames = SmallVec::new();
    let mut oversized = false;
    let mut more = named.more();
    while more {
        // The frames of one message arrive together: this does not wait.
        let frame = receiver.receive(true).map_err(RecvError::Io)?;
        more = frame.more();
        if frames.len() < FRAMES_MAX {
            frames.push(frame.into_bytes());
        } else {
            oversized = true;
        }
    }
    Ok(ZmqIncoming { from: id_of(named.as_ref()), frames, oversized, named })
}

#[cfg(test)]
mod tests;
