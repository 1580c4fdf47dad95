//! The native data plane between two of our own nodes: TCP, or shared memory on one host.
//!
//! It has the shape of the stock transport (`zmq`): a node listens, connects to each of its peers
//! under a key, sends to a key, and one thread receives. Unlike there, no thread of ours is
//! between: a small message leaves on the thread that sends it, and is handled on the thread that
//! receives it. A channel to a peer outlives its connections, so each message arrives once,
//! whatever happens to them.
//!
//! State machines without I/O: `outbox` (what a sender keeps and what goes next), `session` (what a
//! receiver has), `landing` (where a message is put together), `lend` (data that stays in the
//! sender's memory). I/O: `pipe` (one end of a connection), `ring` (shared memory), `reader`,
//! `channel` (sending), `receiver` (receiving; `receiver_handoff` says which thread does,
//! `adaptive_poll` when it looks before it sleeps, `waiting` is for those that wait), `io_thread`
//! with `task`, `attempt` and `handshake` (connections come and go) and `pace_for_copies`. All of
//! them know `shared`; `plane` is what threads hand each other. It knows frames of bytes and node
//! ids, not what they mean.

mod adaptive_poll;
mod attempt;
mod bell;
mod channel;
mod counters;
mod greeting;
mod handshake;
mod io_thread;
mod landing;
mod lend;
mod lent_memory;
mod outbox;
mod pace_for_copies;
mod pipe;
mod plane;
mod pool;
mod probe;
mod rates;
mod reader;
mod receipt;
mod receiver;
mod receiver_handoff;
mod ring;
mod same_host;
mod session;
mod shared;
mod spin;
mod task;
mod types;
mod waiting;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use pslite_core::wire::native::{GRANULE, TOKEN_BYTES};

pub use self::rates::{RateSample, SampleOf};
use super::carrier::{
    ChannelEvent, Endpoint, RecvError, SendError, SendMode, TransportError, bind_error,
    bind_in_range,
};
pub use super::counters::PeerCounters;
use super::dial::DialledWay;
use super::sync::lock;
pub use super::sys::arena::Block;
pub(crate) use bell::Bell;
use channel::Channel;
use io_thread::IoThread;
pub use lend::LEND_MIN;
pub use lent_memory::LentMemory;
use outbox::Limits;
pub(crate) use pipe::{socket_read, socket_write, socket_write_with};
use plane::{Plane, PlaneCommand};
use pslite_observe::awake;
use receiver::Receiver;
pub use receiver_handoff::Stay;
use shared::Shared;
pub use types::{
    Carriers, Memory, NativeIncoming, NativeOptions, Place, ProbeOf, SentOverTcp, Sink, TakenBack,
    Unsent,
};

/// The class of messages that go before all others ([`NativeTransport::send`]).
pub const FIRST_CLASS: i32 = i32::MAX;

/// How long a replaced connection may take to flush what it holds.
const FLUSH: Duration = Duration::from_secs(1);

type Peers = BTreeMap<i32, Arc<Channel>>;

/// All native connections of a node.
pub struct NativeTransport {
    shared: Arc<Shared>,
    plane: Arc<Plane>,
    peers: RwLock<Peers>,
    receiver: Mutex<Receiver>,
    io_thread: Mutex<Option<JoinHandle<()>>>,
    next_channel: AtomicU32,
    sent: AtomicU64,
    received: AtomicU64,
    by_waiters: AtomicU64,
}

impl std::fmt::Debug for NativeTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeTransport")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

fn failure(what: &str) -> impl FnOnce(io::Error) -> TransportError + '_ {
    move |source| TransportError::Io { what: what.to_owned(), source }
}

impl NativeTransport {
    /// A transport that does not listen yet, except to nodes of this host.
    ///
    /// # Errors
    /// The system has no resources left.
    pub fn new(options: NativeOptions) -> Result<Self, TransportError> {
        let make = || -> io::Result<Self> {
            let shared = Arc::new(Shared::new(options)?);
            let plane = Arc::new(Plane::new(Arc::clone(&shared)));
            let receiver = Receiver::new(Arc::clone(&plane))?;
            let io_thread = IoThread::new(Arc::clone(&plane))?;
            let handle = std::thread::Builder::new()
                .name("pslite-native".to_owned())
                .spawn(move || io_thread.run())?;
            Ok(Self {
                shared,
                plane,
                peers: RwLock::new(BTreeMap::new()),
                receiver: Mutex::new(receiver),
                io_thread: Mutex::new(Some(handle)),
                next_channel: AtomicU32::new(1),
                sent: AtomicU64::new(0),
                received: AtomicU64::new(0),
                by_waiters: AtomicU64::new(0),
            })
        };
        make().map_err(failure("cannot start the native data plane"))
    }

    /// Sets the job's token, for a node that learns it only when it has joined. Until then peers
    /// wait. Can be set once.
    pub fn set_token(&self, token: [u8; TOKEN_BYTES]) {
        if self.shared.set_token(token) {
            self.plane.command(PlaneCommand::Joined);
        }
    }

    /// True if there is a channel of that key.
    #[must_use]
    pub fn is_connected(&self, key: i32) -> bool {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).contains_key(&key)
    }

    /// Sets what decides where the data of large messages go. Can be set once.
    pub fn set_sink(&self, sink: Arc<dyn Sink>) {
        let _ = self.shared.sink.set(sink);
    }

    /// Listens on that host and port, for TCP. Returns the port.
    ///
    /// # Errors
    /// The address cannot be used. The text says who holds the port, or which addresses there are.
    pub fn bind(&self, endpoint: &Endpoint) -> Result<u16, TransportError> {
        let Endpoint::Tcp { host, port } = endpoint else {
            return Err(failure("cannot listen")(io::ErrorKind::Unsupported.into()));
        };
        let fail = |error| bind_error(endpoint, error);
        let listener = TcpListener::bind((host.as_str(), *port)).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let port = listener.local_addr().map_err(fail)?.port();
        crate::sys::fork::note_listening(port);
        self.plane.command(PlaneCommand::Listen(listener));
        Ok(port)
    }

    /// Listens on the first free port of a range.
    ///
    /// # Errors
    /// All are taken, or the host is not ours.
    pub fn bind_in_range(&self, host: &str, low: u16, high: u16) -> Result<u16, TransportError> {
        bind_in_range(host, low..=high, |endpoint| self.bind(endpoint))
    }

    /// Connects to a peer under that key. An earlier channel of the key is flushed and replaced.
    /// Does not wait: what is sent meanwhile is kept. `identity`: the node id that this node has.
    /// `connections`: how many the channel has over TCP, at least one; the receiver takes up to 16.
    ///
    /// # Errors
    /// It is not an address, or the name is unknown.
    pub fn connect(
        &self,
        key: i32,
        endpoint: &Endpoint,
        identity: Option<i32>,
        connections: u8,
    ) -> Result<(), TransportError> {
        let Endpoint::Tcp { host, port } = endpoint else {
            return Err(failure("cannot connect")(io::ErrorKind::Unsupported.into()));
        };
        let addresses = (host.as_str(), *port)
            .to_socket_addrs()
            .map_err(|error| failure(&format!("cannot connect to {endpoint}"))(error))?;
        self.connect_by(key, addresses.map(DialledWay::straight).collect(), identity, connections);
        Ok(())
    }

    /// The same by any of these ways, the best first. If tunnels lead there, the channel has a
    /// connection by each way, at least.
    pub fn connect_by(
        &self,
        key: i32,
        ways: Vec<DialledWay>,
        identity: Option<i32>,
        connections: u8,
    ) {
        let options = &self.shared.options;
        let limits = Limits {
            queue: options.send_queue,
            bytes: options.send_bytes,
            fragment_bytes: match ways.first() {
                // Ways that differ share a message fairly.
                Some(way) if !way.then.is_empty() => GRANULE,
                _ => options.fragment_bytes,
            },
        };
        let number = self.next_channel.fetch_add(1, Ordering::Relaxed);
        let channel = Arc::new(Channel::new(number, key, identity, ways, connections, limits));
        self.plane.add_channel(Arc::clone(&channel));
        let old = self.peers_mut().insert(key, Arc::clone(&channel));
        self.plane.command(PlaneCommand::Connect(channel));
        if let Some(old) = old {
            self.give_up(&old, FLUSH);
        }
    }

    fn give_up(&self, channel: &Channel, linger: Duration) {
        channel.give_up();
        self.plane.command(PlaneCommand::GiveUp(channel.number, awake::now() + linger));
    }

    /// Gives a channel another key.
    pub fn rename(&self, from: i32, to: i32) {
        let old = {
            let mut peers = self.peers_mut();
            let Some(channel) = peers.remove(&from) else { return };
            channel.key.store(to, Ordering::Relaxed);
            peers.insert(to, channel)
        };
        if let Some(old) = old {
            self.give_up(&old, FLUSH);
        }
    }

    /// Gives a channel up. What was sent is flushed for at most `linger`, in the background.
    pub fn disconnect(&self, key: i32, linger: Duration) {
        let old = self.peers_mut().remove(&key);
        if let Some(old) = old {
            self.give_up(&old, linger);
        }
    }

    /// If a channel never had a connection: takes back what it was to send. Senders are told to use
    /// another way. [`Self::is_connected`] stays true until [`Self::taken_back`] is called.
    #[must_use]
    pub fn take_back(&self, key: i32) -> Option<TakenBack> {
        let channel = self.peer(key)?;
        let messages = channel.take_back()?;
        self.plane.command(PlaneCommand::GiveUp(channel.number, awake::now()));
        Some(TakenBack { channel: channel.number, messages, why: channel.why() })
    }

    /// True if the channel of that key has never had a connection.
    #[must_use]
    pub fn never_connected(&self, key: i32) -> bool {
        self.peer(key).is_some_and(|channel| channel.peer_life.load(Ordering::Acquire) == 0)
    }

    /// What was taken back has been sent: forgets the channel, unless another one has its key.
    pub fn taken_back(&self, key: i32, taken: &TakenBack) {
        let mut peers = self.peers_mut();
        if peers.get(&key).is_some_and(|channel| channel.number == taken.channel) {
            peers.remove(&key);
        }
    }

    /// Where a peer's channel connects to.
    #[must_use]
    pub fn address(&self, key: i32) -> Option<SocketAddr> {
        self.peer(key)?.ways.first().map(|way| way.first)
    }

    /// What carries messages to a peer now: `tcp`, `shm` or `none`.
    #[must_use]
    pub fn carrier(&self, key: i32) -> &'static str {
        self.peer(key).map_or("none", |channel| channel.carrier())
    }

    /// As [`Self::carrier`]; if there is no connection any more, what carried messages last.
    #[must_use]
    pub fn last_carrier(&self, key: i32) -> &'static str {
        self.peer(key).map_or("none", |channel| channel.last_carrier())
    }

    fn peers_mut(&self) -> RwLockWriteGuard<'_, Peers> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self, key: i32) -> Option<Arc<Channel>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Sends one message. Returns its size in bytes. Of the messages that wait for one peer, the
    /// highest class goes first; within a class, the oldest.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(
        &self,
        key: i32,
        meta: &[u8],
        data: &[Bytes],
        class: i32,
        mode: SendMode,
    ) -> Result<usize, SendError> {
        let shared = &self.shared;
        let channel = self.peer(key).ok_or(SendError::NoSuchPeer)?;
        if shared.is_stopping() && mode != SendMode::Control {
            return Err(SendError::Stopped);
        }
        let bytes = meta.len() + data.iter().map(Bytes::len).sum::<usize>();
        if bytes as u64 > shared.options.data_max {
            // The peer would close the connection over it.
            let text = format!("a message of {bytes} bytes is larger than any may be");
            return Err(SendError::Io(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let stopping = || shared.is_stopping();
        if channel.send(shared, meta, data, class, mode, stopping)? {
            self.plane.command(PlaneCommand::Look(channel.number));
        }
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Waits for a message. For one thread at a time.
    ///
    /// # Errors
    /// [`RecvError::Stopped`] after [`Self::stop`].
    pub fn recv(&self) -> Result<NativeIncoming, RecvError> {
        self.shared.handoff.make_way(|| self.shared.is_stopping());
        let incoming = loop {
            if let Some(incoming) = lock(&self.receiver).next(&self.shared, None)? {
                break incoming;
            }
        };
        self.shared.handoff.note_message();
        self.note_received(&incoming);
        Ok(incoming)
    }

    fn note_received(&self, incoming: &NativeIncoming) {
        let bytes: usize = incoming.frames.iter().map(Bytes::len).sum();
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The channels that came up and went down since the last call, without breaks that were mended
    /// soon. For one thread only.
    pub fn channel_events(&self, out: &mut Vec<ChannelEvent>) {
        self.shared.take_events(out);
    }

    /// Ends [`Self::recv`] and senders that wait.
    pub fn stop(&self) {
        self.plane.stop();
    }

    /// Closes every connection. What was sent is flushed, for at most `linger`.
    pub fn close(&self, linger: Duration) {
        let Some(io_thread) = lock(&self.io_thread).take() else { return };
        self.plane.stop();
        let until = awake::now() + linger;
        self.plane.command(PlaneCommand::StopListening);
        lock(&self.receiver).say_goodbye();
        let channels = self.plane.all_channels();
        channels.iter().for_each(|channel| channel.flush(&self.shared.receipts));
        channels.iter().for_each(|channel| channel.wait_until_empty(until));
        self.peers_mut().clear();
        channels.iter().for_each(|channel| channel.give_up());
        self.plane.command(PlaneCommand::End);
        // A panic there has been reported already, by the panic itself.
        let _ = io_thread.join();
        channels.iter().for_each(|channel| channel.disconnected());
        lock(&self.receiver).close_all();
        self.shared.same_host.clean_up();
    }

    /// Memory that is lent to peers of this host instead of being copied; `None` if there is none.
    #[must_use]
    pub fn lent_memory(&self) -> Option<LentMemory> {
        LentMemory::of(&self.plane)
    }

    /// Bytes sent and received so far.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Sends a peer padding, by which it can tell how fast the link is
    /// ([`pslite_core::wire::native::Kind::Probe`]). Only over TCP, while nothing else is to be
    /// sent, and, of an idle link, while no other channel of this node is probed. True if it was
    /// begun.
    pub fn probe(&self, key: i32, of: ProbeOf) -> bool {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        // The links of trees are no common card's.
        if of == ProbeOf::Idle && peers.values().any(|channel| channel.is_probing()) {
            return false;
        }
        let Some(channel) = peers.get(&key).cloned() else { return false };
        drop(peers);
        let (begun, broken) = channel.probe(of, &self.shared);
        if broken {
            self.plane.command(PlaneCommand::Look(channel.number));
        }
        begun
    }

    /// The nodes that send to this one over TCP.
    #[must_use]
    pub fn senders_over_tcp(&self) -> Vec<i32> {
        let receipts = self.shared.receipts.all();
        receipts.iter().filter(|receipt| receipt.is_over_tcp()).filter_map(|r| r.node).collect()
    }

    /// Sets what this node can receive over TCP from all peers together, in bytes per second. Then
    /// peers that send at the same time share it equally, and no queue on the way overflows
    /// (`receiver/windows`). 0: unknown; the kernel decides.
    pub fn set_inflow(&self, bytes_per_second: u64) {
        self.shared.inflow.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Sets what this node can send over TCP to all peers together, in bytes per second, so that
    /// data for servers go before data for workers (`pace_for_copies`). 0: unknown, or not wanted;
    /// the connections share the link as they can.
    pub fn set_outflow(&self, bytes_per_second: u64) {
        self.shared.outflow.store(bytes_per_second, Ordering::Relaxed);
    }

    /// What went to each peer over TCP since its connections were made. Without those that are
    /// reached by a detour: that says nothing of the link.
    #[must_use]
    pub fn sent_over_tcp(&self) -> Vec<SentOverTcp> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        let channels: Vec<_> = peers.values().cloned().collect();
        drop(peers);
        let straight = channels.iter().filter(|channel| !channel.is_detoured());
        straight.filter_map(|channel| channel.sent_over_tcp()).collect()
    }

    /// The peers to which there is no connection, or a detour where there is a link.
    #[must_use]
    pub fn unconnected(&self) -> Vec<i32> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        let without =
            peers.iter().filter(|(_, channel)| !channel.is_connected() || channel.is_detoured());
        without.map(|(key, _)| *key).collect()
    }

    /// How fast fragments of messages came in over TCP since the last call.
    #[must_use]
    pub fn take_rates(&self) -> std::collections::VecDeque<RateSample> {
        self.shared.rates.take()
    }

    /// What was counted about each peer.
    #[must_use]
    pub fn counters(&self) -> Vec<PeerCounters> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        let sent = peers.values().map(|channel| channel.read_counters());
        let received = self.shared.receipts.all();
        sent.chain(received.iter().map(|receipt| receipt.read_counters())).collect()
    }

    /// True if some connection is known to be slow: it carries less than 192 Mbit/s through a card.
    #[must_use]
    pub fn has_slow_connections(&self) -> bool {
        self.shared.has_slow.load(Ordering::Relaxed)
    }

    /// How often the receiving thread waited: system calls that belong to no single peer.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.shared.receive_syscalls.load(Ordering::Relaxed)
    }
}

impl Drop for NativeTransport {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

#[cfg(test)]
mod adaptive_poll_tests;
#[cfg(test)]
mod landing_tests;
#[cfg(test)]
mod meeting_tests;
#[cfg(test)]
mod once_tests;
#[cfg(test)]
mod pace_for_copies_tests;
#[cfg(test)]
mod probe_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unsent_tests;
#[cfg(test)]
mod window_tests;
