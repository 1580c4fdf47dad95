//! Attaches new connections to sessions on the receiving side, and drains closed ones: what is left
//! in a closed connection is still read, so that a channel that keeps breaking makes progress.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::epoll::{EpollEvent, EpollFlags};
use smallvec::SmallVec;

use super::windows::Inflow;
use super::{Entry, InConnection, OF_RING, Receiver, SessionKey};
use crate::native::counters::add;
use crate::native::greeting::greeting;
use crate::native::handshake::is_gone;
use crate::native::pipe::{InPipe, socket_write_with};
use crate::native::plane::Introduced;
use crate::native::reader::Reader;
use crate::native::receipt::Receipt;
use crate::native::session::Session;
use crate::native::shared::Shared;
use crate::sync::lock;
use crate::sys::tcp::stays_on_host;
use pslite_core::wire::native::{Kind, Welcome};
use pslite_observe::awake;
use pslite_observe::log::{self, Level};

/// Channels of peers that are remembered.
const SESSIONS_MAX: usize = 4096;
/// For how long a channel without a connection is remembered.
const SESSION_KEPT: Duration = Duration::from_secs(300);
/// Connections of one channel.
const LANES_MAX: usize = 16;
/// Numbers of messages that a greeting lists; the others come again and are dropped.
const BEYOND_MAX: usize = 256;
/// What is read from a connection that has ended, in reads and in bytes: more than a kernel keeps.
const LAST_READS: usize = 1 << 16;
const LAST_BYTES: u64 = 64 << 20;

impl Receiver {
    pub(super) fn welcome_arrivals(&mut self, shared: &Shared) {
        let arrivals = std::mem::take(&mut *lock(&self.plane.arrivals));
        for arrival in arrivals {
            let address = Arc::clone(&arrival.address);
            if let Err(error) = self.attach(arrival, shared)
                && !is_gone(&error)
            {
                log::write(
                    Level::Warning,
                    &format!("refused a connection from {address}: {error}"),
                );
            }
        }
    }

    fn attach(&mut self, arrival: Introduced, shared: &Shared) -> io::Result<()> {
        let Introduced { socket, hello, descriptors, address } = arrival;
        let now = awake::now();
        let key = SessionKey { incarnation: hello.incarnation, channel: hello.channel };
        if !self.sessions.contains_key(&key) {
            self.forget_sessions(now, shared);
            if self.sessions.len() >= SESSIONS_MAX {
                return Err(io::Error::other("too many channels"));
            }
        }
        let entry = self.sessions.entry(key).or_insert_with(|| {
            let receipt = Arc::new(Receipt::new(hello.incarnation, hello.channel, hello.node));
            shared.receipts.insert(Arc::clone(&receipt));
            Entry {
                session: Session::new(hello.incarnation, hello.node, address),
                attempt: 0,
                tokens: SmallVec::new(),
                receipt,
                untold_bytes: 0,
                inflow: Inflow::default(),
                lanes_in_use: 0,
                reverse: None,
                last_connected: now,
            }
        });
        if hello.stripe == 0 {
            if hello.attempt <= entry.attempt {
                return Err(io::Error::other("it is older than one that stands"));
            }
            entry.attempt = hello.attempt;
            self.end_all(key, shared);
        } else if hello.attempt != entry.attempt || entry.tokens.len() >= LANES_MAX {
            return Err(io::Error::other("its channel has changed"));
        }
        let Some(entry) = self.sessions.get_mut(&key) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if hello.stripe == 0 {
            entry.session.node = hello.node;
        }
        let pipe = if hello.shared_memory {
            InPipe::over_ring(socket, descriptors)?
        } else {
            InPipe::over_socket(socket)
        };
        let data_max = shared.options.data_max;
        entry.session.lender = pipe.lender().map(|lender| (Arc::clone(lender), data_max));
        let mut beyond = entry.session.beyond();
        beyond.truncate(BEYOND_MAX);
        let welcome = Welcome {
            incarnation: shared.options.incarnation,
            received: entry.session.received(),
            beyond,
        };
        entry.receipt.note(entry.session.received());
        entry.receipt.tell();
        socket_write_with(&pipe.socket, &greeting(Kind::Welcome, &welcome.encode()), &[])?;
        let token = self.next_token;
        self.next_token += 1;
        self.epoll.add(&pipe.socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        if let Some(bell) = pipe.data() {
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
            self.epoll.add(bell, EpollEvent::new(flags, token | OF_RING))?;
            self.rings.push(token);
        }
        entry.tokens.push(token);
        entry.receipt.carries(pipe.carrier());
        // Not before it stands: the sender counts none that was not welcomed.
        add(&entry.receipt.counters.connections, 1);
        let reader = Reader::new(pipe.ring().is_some());
        let through_a_card = pipe.ring().is_none() && !stays_on_host(pipe.socket.as_fd());
        let (inflow, window) = (Inflow::default(), None);
        let connection = InConnection {
            pipe,
            reader,
            session: key,
            active: true,
            through_a_card,
            inflow,
            window,
        };
        self.connections.insert(token, connection);
        Ok(())
    }

    /// One connection broke: its channel makes all of them anew.
    pub(super) fn close(&mut self, token: u64, shared: &Shared) {
        let Some(connection) = self.connections.remove(&token) else { return };
        self.rings.retain(|ring| *ring != token);
        self.end_all(connection.session, shared);
    }

    /// Ends all connections of a channel, after what they still have.
    fn end_all(&mut self, key: SessionKey, shared: &Shared) {
        let Some(entry) = self.sessions.get_mut(&key) else { return };
        let tokens = std::mem::take(&mut entry.tokens);
        tokens.iter().for_each(|token| self.read_last(*token, shared));
        for token in tokens {
            self.connections.remove(&token);
            self.rings.retain(|ring| *ring != token);
        }
        let Some(entry) = self.sessions.get_mut(&key) else { return };
        entry.last_connected = awake::now();
        entry.session.forget_fragments();
        entry.receipt.carries("none");
    }

    /// Forgets channels that have had no connection for long.
    pub(super) fn forget_sessions(&mut self, now: Instant, shared: &Shared) {
        self.sessions.retain(|key, entry| {
            let silent = now.saturating_duration_since(entry.last_connected);
            let keep = !entry.tokens.is_empty() || silent < SESSION_KEPT;
            if !keep {
                shared.receipts.remove(key.incarnation, key.channel);
            }
            keep
        });
    }

    /// Reads what an ended connection still has, so that a channel that breaks again and again
    /// still makes progress. Reads a limited amount, since the writer may not have noticed the end.
    pub(super) fn read_last(&mut self, token: u64, shared: &Shared) {
        let bytes = |receiver: &Self| {
            let connection = receiver.connections.get(&token)?;
            let entry = receiver.sessions.get(&connection.session)?;
            Some(entry.receipt.counters.bytes.load(Relaxed))
        };
        let before = bytes(self);
        for _ in 0..LAST_READS {
            let now = bytes(self);
            let read = now.zip(before).map(|(now, before)| now.wrapping_sub(before));
            if read.is_none_or(|read| read > LAST_BYTES)
                || !self.read_some(token, shared).is_ok_and(|came| came)
            {
                return;
            }
        }
    }
}
