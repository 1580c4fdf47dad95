//! What the threads of the native data plane share: its options, channels, events and commands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::channel::Channel;
use super::io_thread::Command;
use super::lock;
use super::pipe::Bell;
use super::pool::Pool;
use super::rates::Rates;
use super::receipt::Receipts;
use super::receiver::Arrival;
use super::receiver_handoff::ReceiverHandoff;
use super::same_host::SameHost;
use super::types::{Carriers, NativeOptions, Sink};
use crate::sys::arena::Arena;
use crate::zmq::ChannelEvent;
use pslite_core::wire::native::TOKEN_BYTES;
use pslite_observe::log::{self, Level};

/// Channel events that nobody fetched; older ones are dropped then.
const CHANNEL_EVENTS_MAX: usize = 65_536;

/// See the module.
pub(super) struct Shared {
    pub(super) options: NativeOptions,
    /// The job's token, once it is known.
    token: OnceLock<[u8; TOKEN_BYTES]>,
    pub(super) pool: Arc<Pool>,
    pub(super) sink: OnceLock<Arc<dyn Sink>>,
    pub(super) receipts: Receipts,
    pub(super) rates: Rates,
    /// Bytes per second that this node can receive; 0: not known.
    pub(super) inflow: AtomicU64,
    /// Bytes per second that this node can send, if what it sends to servers goes first; 0: it does
    /// not.
    pub(super) outflow: AtomicU64,
    /// Connections on their way from the I/O thread to the receiving one.
    pub(super) arrivals: Mutex<Vec<Arrival>>,
    pub(super) receive_bell: Bell,
    pub(super) handoff: ReceiverHandoff,
    /// Waits of the receiving thread.
    pub(super) receive_syscalls: AtomicU64,
    pub(super) io_bell: Bell,
    pub(super) same_host: SameHost,
    /// Memory that is lent to peers of this host; made when it is first asked for.
    arena: OnceLock<Option<Arc<Arena>>>,
    commands: Mutex<Vec<Command>>,
    channels: RwLock<BTreeMap<u32, Arc<Channel>>>,
    events: Mutex<Vec<ChannelEvent>>,
    stopping: AtomicBool,
    /// Some connection is so slow that the kernel takes less of it (`channel::unsent`).
    pub(super) has_slow: AtomicBool,
    /// It was said that memory cannot be shared with a node of this host.
    said_no_memory: AtomicBool,
}

impl Shared {
    pub(super) fn new(options: NativeOptions) -> std::io::Result<Self> {
        Ok(Self {
            pool: Pool::new(options.pool_bytes),
            sink: OnceLock::new(),
            token: options.token.map(OnceLock::from).unwrap_or_default(),
            receipts: Receipts::default(),
            rates: Rates::default(),
            inflow: AtomicU64::new(0),
            outflow: AtomicU64::new(0),
            arrivals: Mutex::default(),
            receive_bell: Bell::new()?,
            handoff: ReceiverHandoff::default(),
            receive_syscalls: AtomicU64::new(0),
            io_bell: Bell::new()?,
            same_host: SameHost::new(&options),
            arena: OnceLock::new(),
            commands: Mutex::default(),
            channels: RwLock::default(),
            events: Mutex::default(),
            stopping: AtomicBool::new(false),
            has_slow: AtomicBool::new(false),
            said_no_memory: AtomicBool::new(false),
            options,
        })
    }

    /// The job's token; `None` if this node does not know it yet.
    pub(super) fn token(&self) -> Option<&[u8; TOKEN_BYTES]> {
        self.token.get()
    }

    /// Learns it; true if that is news.
    pub(super) fn set_token(&self, token: [u8; TOKEN_BYTES]) -> bool {
        self.token.set(token).is_ok()
    }

    /// True for the first caller only, so that it is logged once.
    pub(super) fn say_no_memory(&self) -> bool {
        !self.said_no_memory.swap(true, Ordering::Relaxed)
    }

    /// The memory that is lent; `None` if the system gives none, or none is shared here.
    pub(super) fn arena(&self) -> Option<&Arc<Arena>> {
        let make = || {
            if self.options.carriers == Carriers::Tcp {
                return None;
            }
            let arena = Arena::new();
            if let Err(error) = &arena {
                let text = format!("no memory to lend, large data goes through rings: {error}");
                log::write(Level::Verbose, &text);
            }
            arena.ok()
        };
        self.arena.get_or_init(make).as_ref()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Frees the receiving thread and senders that wait.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.receive_bell.ring();
        self.handoff.call();
        self.all_channels().iter().for_each(|channel| channel.wake());
    }

    pub(super) fn command(&self, command: Command) {
        lock(&self.commands).push(command);
        self.io_bell.ring();
    }

    pub(super) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.commands))
    }

    pub(super) fn event(&self, channel: &Channel, up: bool) {
        let mut events = lock(&self.events);
        if events.len() >= CHANNEL_EVENTS_MAX {
            events.remove(0);
        }
        events.push(ChannelEvent { key: channel.key.load(Ordering::Relaxed), up });
    }

    pub(super) fn take_events(&self, out: &mut Vec<ChannelEvent>) {
        out.append(&mut lock(&self.events));
    }

    /// One of this node's channels, by its number.
    pub(super) fn channel(&self, number: u32) -> Option<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub(super) fn add_channel(&self, channel: Arc<Channel>) {
        self.channels
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(channel.number, channel);
    }

    pub(super) fn remove_channel(&self, number: u32) {
        self.channels.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    pub(super) fn all_channels(&self) -> Vec<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
