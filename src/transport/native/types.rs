//! The types of the transport's interface: options, addresses, messages, places to land.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::sys::callers::MemoryClaim;
use pslite_core::wire::native::TOKEN_BYTES;

/// What may carry the messages (`PSLITE_TRANSPORT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carriers {
    /// Shared memory where the peer is on this host, else TCP.
    #[default]
    Auto,
    /// TCP alone.
    Tcp,
    /// Shared memory alone: a peer on another host cannot be reached.
    Shm,
}

/// How the transport behaves.
#[derive(Clone)]
pub struct NativeOptions {
    /// This process's life: a number that no other process of the job has.
    pub incarnation: u64,
    /// The job's token, hard to guess. Only peers with the same token are let in. `None`: it is set
    /// later, and until then no peer is let in.
    pub token: Option<[u8; TOKEN_BYTES]>,
    /// What may carry the messages to peers, and is offered to them.
    pub carriers: Carriers,
    /// Messages are of several classes ([`super::NativeTransport::send`]), and overtake each other
    /// so often that no connection should take more than it can send soon.
    pub overtaking: bool,
    /// Messages to one peer that wait or are not confirmed; senders wait beyond it.
    pub send_queue: usize,
    /// Bytes of them. One message may be larger.
    pub send_bytes: u64,
    /// The largest data of a message that is accepted, in bytes.
    pub data_max: u64,
    /// Large messages are cut into fragments of this many bytes (a multiple of 64 KB), so that an
    /// urgent message need not wait for a whole one.
    pub fragment_bytes: usize,
    /// Size of a shared ring in bytes; a power of two from 64 KB to 1 GB.
    pub ring_bytes: usize,
    /// Received memory that is kept for reuse, in bytes.
    pub pool_bytes: usize,
    /// For how long a channel may be without a connection before it counts as down.
    pub down_after: Duration,
    /// Where the file of the Unix socket is put, for peers in other containers.
    pub socket_directory: PathBuf,
}

impl NativeOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(incarnation: u64, token: Option<[u8; TOKEN_BYTES]>) -> Self {
        Self {
            incarnation,
            token,
            carriers: Carriers::Auto,
            overtaking: false,
            send_queue: 4096,
            send_bytes: 1 << 30,
            data_max: 1 << 32,
            fragment_bytes: 512 << 10,
            ring_bytes: 1 << 20,
            pool_bytes: 256 << 20,
            down_after: Duration::from_millis(300),
            socket_directory: PathBuf::from("/dev/shm"),
        }
    }
}

impl fmt::Debug for NativeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret: whatever else is printed, it is not.
        f.debug_struct("NativeOptions")
            .field("incarnation", &self.incarnation)
            .field("carriers", &self.carriers)
            .field("overtaking", &self.overtaking)
            .finish_non_exhaustive()
    }
}

/// A message as it came.
#[derive(Debug)]
pub struct NativeIncoming {
    /// The sender's node id, if it had one when it connected.
    pub from: Option<i32>,
    /// The sender's life.
    pub incarnation: u64,
    /// Metadata first, then data; each begins at a multiple of eight bytes in memory.
    pub frames: SmallVec<[Bytes; 4]>,
    /// A data frame is where a [`Sink`] said.
    pub landed: bool,
    pub(super) address: Arc<str>,
}

impl NativeIncoming {
    /// The network address of the sender, for warnings.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// What went to a peer over the TCP connections to it, since these were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentOverTcp {
    /// The peer.
    pub peer: i32,
    /// Bytes that it has confirmed.
    pub bytes: u64,
    /// Padding of probes that was sent there, in bytes, since there is a channel.
    pub padding: u64,
    /// For how long something was on its way there, or waited for that.
    pub busy: Duration,
    /// For how long what waited was held back by the link: on a long way that is less.
    pub held: Duration,
    /// After so long without a confirmation it is no chance any more that there is none.
    pub patience: Duration,
    /// The shortest time to it and back, if it is known.
    pub round_trip: Option<Duration>,
}

/// A message that was kept for a peer and never sent.
#[derive(Debug)]
pub struct Unsent {
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its data.
    pub data: SmallVec<[Bytes; 3]>,
    /// Its priority; 0 where priorities do not count.
    pub priority: i32,
}

/// What was taken back from a channel.
#[derive(Debug)]
pub struct TakenBack {
    pub(super) channel: u32,
    /// The messages, in the order in which they came.
    pub messages: Vec<Unsent>,
    /// Why there never was a connection.
    pub why: String,
}

/// Memory of another owner, into which one frame of a message is received.
pub trait Memory: Send + Sync {
    /// How many bytes it has.
    fn size(&self) -> usize;
    /// Lets `write` write to all of it. False, without a call, if its owner has taken it back: what
    /// comes is received elsewhere then.
    fn with(&mut self, write: &mut dyn FnMut(&mut [u8])) -> bool;
    /// All of it is written: the frame.
    fn into_frame(self: Box<Self>) -> Bytes;
}

impl Memory for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn with(&mut self, write: &mut dyn FnMut(&mut [u8])) -> bool {
        write(self);
        true
    }

    fn into_frame(self: Box<Self>) -> Bytes {
        Bytes::from(*self)
    }
}

impl Memory for MemoryClaim {
    fn size(&self) -> usize {
        Self::size(self)
    }

    fn with(&mut self, write: &mut dyn FnMut(&mut [u8])) -> bool {
        Self::with(self, write)
    }

    fn into_frame(self: Box<Self>) -> Bytes {
        (*self).into_frame()
    }
}

/// Where one data frame of a message is to go.
pub struct Place {
    /// Which data frame, from 0.
    pub frame: usize,
    /// The memory, as long as the frame. Dropped unused if the connection breaks meanwhile; then
    /// the sink is asked again when the message comes again.
    pub memory: Box<dyn Memory>,
}

/// Says where the data of large messages go. It is asked on the receiving thread as soon as a
/// message's metadata are there, and must answer at once.
pub trait Sink: Send + Sync {
    /// A place for one of the data frames of this message, or `None` for memory of the transport.
    /// The frame that is delivered then refers to that very memory.
    fn place(&self, from: Option<i32>, meta: &[u8], lengths: &[u64]) -> Option<Place>;
}

/// Which links are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOf {
    /// One that carries nothing else meanwhile: what is sent ends the probe.
    Idle,
    /// One that data use now and then: the probe is longer, and goes on after them.
    InUse,
}
