//! One attempt to make a connection of a channel, from the first packet to the peer's welcome. The
//! I/O thread drives it; it never waits.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, setsockopt, socket,
    sockopt,
};

use super::pipe::{OutPipe, socket_read, socket_write_with};
use super::receiver::greeting;
use super::shared::Shared;
use super::types::Carriers;
use crate::sys::fork::{KEEP_ALIVE_S, note_connected};
use pslite_core::wire::native::{HEADER, Head, Hello, Info, Kind, Parsed, VERSION, Welcome, parse};

/// How long an attempt may take. A peer answers on its receiving thread, which may have other work.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// The longest answer: a [`Welcome`] with as many numbers as a receiver lists.
const ANSWER_MAX: usize = 16 << 10;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
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
    stage: Stage,
    hello: Hello,
    ask_first: bool,
    buffer: Vec<u8>,
}

/// How far an attempt has come.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Wait for more.
    Pending,
    /// The peer says what it can do.
    Told(Info),
    /// The connection stands; bytes behind the welcome.
    Welcome(Welcome, Vec<u8>),
    /// It failed.
    Failed(io::Error),
}

fn options_of(fd: &OwnedFd) -> io::Result<()> {
    setsockopt(fd, sockopt::TcpNoDelay, &true)?;
    setsockopt(fd, sockopt::KeepAlive, &true)?;
    setsockopt(fd, sockopt::TcpKeepIdle, &KEEP_ALIVE_S.0.into())?;
    setsockopt(fd, sockopt::TcpKeepInterval, &KEEP_ALIVE_S.1.into())?;
    setsockopt(fd, sockopt::TcpKeepCount, &KEEP_ALIVE_S.2.into())?;
    Ok(())
}

impl Attempt {
    /// Begins a TCP connection. `ask_first`: the peer is asked what it can do before it is greeted.
    pub(super) fn tcp(
        address: SocketAddr,
        hello: Hello,
        ask_first: bool,
        token: u64,
    ) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family, SockType::Stream, flags, None)?;
        options_of(&fd)?;
        note_connected(address.port());
        match connect(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            pipe: OutPipe::over_socket(fd),
            token,
            until: Instant::now() + ATTEMPT_LIMIT,
            stage: Stage::Connecting,
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
            until: Instant::now() + ATTEMPT_LIMIT,
            stage: Stage::Greeting,
            hello,
            ask_first: false,
            buffer: Vec::new(),
        })
    }

    /// Something happened on the socket.
    pub(super) fn step(&mut self, writable: bool) -> Outcome {
        self.try_step(writable).unwrap_or_else(Outcome::Failed)
    }

    fn try_step(&mut self, writable: bool) -> io::Result<Outcome> {
        if self.stage == Stage::Connecting {
            let error = getsockopt(&self.pipe.socket, sockopt::SocketError)?;
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            if !writable {
                return Ok(Outcome::Pending);
            }
            if self.ask_first {
                self.say(true)?;
            } else {
                self.greet()?;
            }
        }
        self.read_answer()
    }

    /// Greets after the peer said what it can do.
    pub(super) fn greet(&mut self) -> io::Result<()> {
        self.say(false)
    }

    fn say(&mut self, query: bool) -> io::Result<()> {
        self.stage = if query { Stage::Asking } else { Stage::Greeting };
        let bytes = greeting(Kind::Hello, &Hello { query, ..self.hello }.encode());
        socket_write_with(&self.pipe.socket, &bytes, &[])
    }

    fn read_answer(&mut self) -> io::Result<Outcome> {
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
        match parse(&self.buffer, 0).map_err(io::Error::other)? {
            Parsed::Head(head) => self.answer(&head),
            Parsed::Need(_) if ended => Err(io::ErrorKind::UnexpectedEof.into()),
            Parsed::Need(_) => Ok(Outcome::Pending),
        }
    }

    /// True if the peer's host has answered.
    pub(super) fn has_reached(&self) -> bool {
        self.stage != Stage::Connecting
    }

    fn answer(&mut self, head: &Head) -> io::Result<Outcome> {
        let rest = self.buffer.split_off(head.size);
        let frame = std::mem::replace(&mut self.buffer, rest);
        let content = &frame[HEADER..];
        match (head.header.kind, self.stage) {
            (Kind::Info, Stage::Asking) => {
                Info::decode(content).map(Outcome::Told).map_err(io::Error::other)
            }
            (Kind::Welcome, Stage::Greeting) => {
                let welcome = Welcome::decode(content).map_err(io::Error::other)?;
                Ok(Outcome::Welcome(welcome, std::mem::take(&mut self.buffer)))
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
