//! One attempt to make a connection of a channel, from the first packet to the peer's welcome. The
//! I/O thread drives it; it never waits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::greeting::greeting;
use super::pipe::{OutPipe, socket_read, socket_write_with};
use super::shared::Shared;
use super::types::Carriers;
use crate::dial::{DialledWay, dial, failure, take_answers};
use pslite_core::wire::native::{HEADER, Head, Hello, Info, Kind, Parsed, VERSION, Welcome, parse};
use pslite_observe::awake;

/// How long an attempt may take. A peer answers on its receiving thread, which may have other work.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to reach a gateway, and from there the peer, where there are other ways.
const DETOUR_AFTER: Duration = Duration::from_secs(3);
/// The longest answer: a [`Welcome`] with as many numbers as a receiver lists.
const ANSWER_MAX: usize = 16 << 10;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptStage {
    Connecting,
    /// The answers of so many tunnels.
    Tunnels(usize),
    /// What the peer can do.
    Asking,
    /// The peer's welcome.
    Greeting,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) pipe: OutPipe,
    pub(super) token: u64,
    pub(super) until: Instant,
    stage: AttemptStage,
    /// Which of the channel's ways it takes.
    pub(super) way: usize,
    /// Tunnels on the way, and all that is said to them.
    tunnels: usize,
    asks: Vec<u8>,
    /// There are other ways.
    detours: bool,
    hello: Hello,
    ask_first: bool,
    buffer: Vec<u8>,
}

/// One of a channel's ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenWay<'a> {
    /// Its place among them.
    pub(super) place: usize,
    pub(super) way: &'a DialledWay,
    /// There are others, which may do if this one does not.
    pub(super) detours: bool,
}

/// How far an attempt has come.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// Wait for more.
    Pending,
    /// The peer says what it can do.
    Told(Info),
    /// The connection stands; bytes behind the welcome.
    Welcome(Welcome, Vec<u8>),
    /// It failed.
    Failed(io::Error),
}

impl Attempt {
    /// Begins a TCP connection by that way of the channel, and its place. `ask_first`: the peer is
    /// asked what it can do before it is greeted.
    pub(super) fn tcp(
        ChosenWay { place, way, detours }: ChosenWay<'_>,
        hello: Hello,
        ask_first: bool,
        token: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            pipe: OutPipe::over_socket(dial(way.first, way.from)?),
            token,
            until: awake::now() + if detours { DETOUR_AFTER } else { ATTEMPT_LIMIT },
            stage: AttemptStage::Connecting,
            way: place,
            tunnels: way.then.len(),
            asks: way.asks()?,
            detours,
            hello,
            ask_first,
            buffer: Vec::new(),
        })
    }

    /// Greets over a Unix socket and hands over a ring.
    pub(super) fn shared_memory(
        shared: &Shared,
        socket: OwnedFd,
        hello: Hello,
        token: u64,
    ) -> io::Result<Self> {
        let (pipe, descriptors) =
            OutPipe::over_ring(socket, shared.options.ring_bytes, shared.arena())?;
        let hello = Hello { shared_memory: true, ..hello };
        let bytes = greeting(Kind::Hello, &hello.encode());
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        socket_write_with(&pipe.socket, &bytes, &descriptors)?;
        Ok(Self {
            pipe,
            token,
            until: awake::now() + ATTEMPT_LIMIT,
            stage: AttemptStage::Greeting,
            way: 0,
            tunnels: 0,
            asks: Vec::new(),
            detours: false,
            hello,
            ask_first: false,
            buffer: Vec::new(),
        })
    }

    /// Something happened on the socket.
    pub(super) fn step(&mut self, writable: bool) -> AttemptOutcome {
        self.try_step(writable).unwrap_or_else(AttemptOutcome::Failed)
    }

    fn try_step(&mut self, writable: bool) -> io::Result<AttemptOutcome> {
        if self.stage == AttemptStage::Connecting {
            failure(&self.pipe.socket)?;
            if !writable {
                return Ok(AttemptOutcome::Pending);
            }
            if self.tunnels == 0 {
                self.begin()?;
            } else {
                let limit = if self.detours { DETOUR_AFTER } else { ATTEMPT_LIMIT };
                self.until = awake::now() + limit;
                self.stage = AttemptStage::Tunnels(self.tunnels);
                socket_write_with(&self.pipe.socket, &self.asks, &[])?;
            }
        }
        self.read_answer()
    }

    /// The peer is reached.
    fn begin(&mut self) -> io::Result<()> {
        self.until = awake::now() + ATTEMPT_LIMIT;
        if self.ask_first { self.say(true) } else { self.greet() }
    }

    /// Greets after the peer said what it can do.
    pub(super) fn greet(&mut self) -> io::Result<()> {
        self.say(false)
    }

    fn say(&mut self, query: bool) -> io::Result<()> {
        self.stage = if query { AttemptStage::Asking } else { AttemptStage::Greeting };
        let bytes = greeting(Kind::Hello, &Hello { query, ..self.hello }.encode());
        socket_write_with(&self.pipe.socket, &bytes, &[])
    }

    fn read_answer(&mut self) -> io::Result<AttemptOutcome> {
        let mut bytes = [0; 4096];
        let mut ended = false;
        loop {
            match socket_read(&self.pipe.socket, &mut bytes) {
                // Before it ended it may have said why.
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => self.buffer.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.buffer.len() > ANSWER_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        if let AttemptStage::Tunnels(left) = &mut self.stage {
            let leads = take_answers(&mut self.buffer, left)?;
            if leads {
                self.begin()?;
            } else if ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // The peer says nothing before it is greeted.
            return Ok(AttemptOutcome::Pending);
        }
        match parse(&self.buffer, 0).map_err(io::Error::other)? {
            Parsed::Head(head) => self.answer(&head),
            Parsed::Need(_) if ended => Err(io::ErrorKind::UnexpectedEof.into()),
            Parsed::Need(_) => Ok(AttemptOutcome::Pending),
        }
    }

    /// True if it is to be the channel's first connection, in place of all that it has.
    pub(super) const fn is_first(&self) -> bool {
        self.hello.stripe == 0
    }

    /// True if the peer's host has answered.
    pub(super) const fn has_reached(&self) -> bool {
        !matches!(self.stage, AttemptStage::Connecting | AttemptStage::Tunnels(_))
    }

    /// True if it is the peer's turn to answer: a refusal is the peer's, not that of a gateway.
    pub(super) const fn asks_peer(&self) -> bool {
        match self.stage {
            AttemptStage::Connecting => self.tunnels == 0,
            AttemptStage::Tunnels(left) => left == 1,
            AttemptStage::Asking | AttemptStage::Greeting => true,
        }
    }

    fn answer(&mut self, head: &Head) -> io::Result<AttemptOutcome> {
        let rest = self.buffer.split_off(head.size);
        let frame = std::mem::replace(&mut self.buffer, rest);
        let content = &frame[HEADER..];
        match (head.header.kind, self.stage) {
            (Kind::Info, AttemptStage::Asking) => {
                Info::decode(content).map(AttemptOutcome::Told).map_err(io::Error::other)
            }
            (Kind::Welcome, AttemptStage::Greeting) => {
                let welcome = Welcome::decode(content).map_err(io::Error::other)?;
                Ok(AttemptOutcome::Welcome(welcome, std::mem::take(&mut self.buffer)))
            }
            (Kind::Refuse, _) => {
                let text = String::from_utf8_lossy(content);
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text.into_owned()))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The greeting of a channel's first connection.
pub(super) fn hello_of(
    shared: &Shared,
    channel: u32,
    identity: Option<i32>,
    attempt: u32,
) -> Hello {
    Hello {
        version: VERSION,
        query: false,
        shared_memory: false,
        node: identity,
        incarnation: shared.options.incarnation,
        token: shared.token().copied().unwrap_or_default(),
        channel,
        attempt,
        stripe: 0,
    }
}

/// True if the peer shall be asked whether it is on this host.
pub(super) fn asks_first(shared: &Shared) -> bool {
    shared.options.carriers != Carriers::Tcp
}
