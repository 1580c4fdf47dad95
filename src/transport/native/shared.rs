//! What all of the native data plane shares: its options, memory, measurements and events. Must not
//! know channels or connections, which know it; `plane` has those.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::bell::Bell;
use super::pool::Pool;
use super::rates::ReceivedRates;
use super::receipt::Receipts;
use super::receiver_handoff::ReceiverHandoff;
use super::same_host::SameHost;
use super::types::{Carriers, NativeOptions, Sink};
use crate::carrier::ChannelEvent;
use crate::sync::lock;
use crate::sys::arena::Arena;
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
    pub(super) rates: ReceivedRates,
    /// Bytes per second that this node can receive; 0: not known.
    pub(super) inflow: AtomicU64,
    /// Bytes per second that this node can send, if what it sends to servers goes first; 0: it does
    /// not.
    pub(super) outflow: AtomicU64,
    pub(super) receive_bell: Bell,
    pub(super) handoff: ReceiverHandoff,
    /// Waits of the receiving thread.
    pub(super) receive_syscalls: AtomicU64,
    pub(super) io_bell: Bell,
    pub(super) same_host: SameHost,
    /// Memory that is lent to peers of this host; made when it is first asked for.
    arena: OnceLock<Option<Arc<Arena>>>,
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
            rates: ReceivedRates::default(),
            inflow: AtomicU64::new(0),
            outflow: AtomicU64::new(0),
            receive_bell: Bell::new()?,
            handoff: ReceiverHandoff::default(),
            receive_syscalls: AtomicU64::new(0),
            io_bell: Bell::new()?,
            same_host: SameHost::new(&options),
            arena: OnceLock::new(),
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

    /// Frees the receiving thread.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.receive_bell.ring();
        self.handoff.call();
    }

    pub(super) fn event(&self, key: i32, up: bool) {
        let mut events = lock(&self.events);
        if events.len() >= CHANNEL_EVENTS_MAX {
            events.remove(0);
        }
        events.push(ChannelEvent { key, up });
    }

    pub(super) fn take_events(&self, out: &mut Vec<ChannelEvent>) {
        out.append(&mut lock(&self.events));
    }
}
