//! The handshake of a connection made to this node. Until it has introduced itself, the connection
//! is a guest. A guest without the job's token is told so and refused; nothing but one short
//! greeting is read from it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::greeting::greeting;
use super::pipe::socket_write_with;
use super::shared::Shared;
use super::types::Carriers;
use crate::sys::memory::{DESCRIPTORS_MAX, receive_with_descriptors};
use pslite_core::wire::native::{HEADER, Hello, Kind, Parsed, VERSION, parse};
use pslite_observe::log::{self, Level, RateLimit};

/// How long a greeting may take.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The longest greeting, in bytes.
const GREETING_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) socket: OwnedFd,
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) address: Arc<str>,
    pub(super) until: Instant,
    buffer: Vec<u8>,
}

/// What a guest wants.
#[derive(Debug)]
pub(super) enum Wish {
    /// Nothing yet.
    Wait,
    /// To send messages.
    Attach(Hello),
}

impl Handshake {
    pub(super) fn new(socket: OwnedFd, address: Arc<str>, now: Instant) -> Self {
        Self {
            socket,
            descriptors: Vec::new(),
            address,
            until: now + GREETING_LIMIT,
            buffer: Vec::new(),
        }
    }

    /// Reads what came.
    ///
    /// # Errors
    /// The guest is gone, or not welcome.
    pub(super) fn step(&mut self, shared: &Shared) -> io::Result<Wish> {
        let mut bytes = [0; GREETING_MAX];
        // No more than one greeting: what follows it belongs to the receiving thread.
        let room = self.wanted()?;
        let read = receive_with_descriptors(
            self.socket.as_fd(),
            &mut bytes[..room],
            &mut self.descriptors,
        );
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.buffer.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Wish::Wait),
            Err(error) => return Err(error),
        }
        if self.descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Parsed::Head(head) = parse(&self.buffer, 0).map_err(io::Error::other)? else {
            return Ok(Wish::Wait);
        };
        if head.header.kind != Kind::Hello {
            return Err(refused("no greeting"));
        }
        let hello = Hello::decode(&self.buffer[HEADER..]).map_err(io::Error::other)?;
        self.buffer.clear();
        check(&hello, shared)?;
        if !hello.query {
            return Ok(Wish::Attach(hello));
        }
        let bytes = greeting(Kind::Info, &shared.same_host.info().encode());
        socket_write_with(&self.socket, &bytes, &[])?;
        Ok(Wish::Wait)
    }

    /// How many bytes the greeting still needs.
    fn wanted(&self) -> io::Result<usize> {
        match parse(&self.buffer, 0).map_err(io::Error::other)? {
            Parsed::Need(bytes) if bytes <= GREETING_MAX => Ok(bytes - self.buffer.len()),
            _ => Err(refused("a greeting that is too long")),
        }
    }

    /// Tells the guest, and the log, why it is sent away.
    pub(super) fn say_why(&self, error: &io::Error) {
        static GREETING_LIMIT: std::sync::OnceLock<RateLimit> = std::sync::OnceLock::new();
        if is_gone(error) {
            return;
        }
        let text = error.to_string();
        let _ = socket_write_with(&self.socket, &greeting(Kind::Refuse, text.as_bytes()), &[]);
        if error.kind() == io::ErrorKind::Unsupported {
            return; // No stranger: it goes another way, and says so.
        }
        if let Some(total) =
            GREETING_LIMIT.get_or_init(|| RateLimit::new(Duration::from_secs(5))).hit()
        {
            let address = &self.address;
            log::write(
                Level::Warning,
                &format!("refused a connection from {address}: {text} ({total} so far)"),
            );
        }
    }
}

/// True if the guest has left by itself, so that nobody refused it. The kernel reports a reset
/// in place of the end if the guest left before it had read our answer.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn check(hello: &Hello, shared: &Shared) -> io::Result<()> {
    if hello.version != VERSION {
        return Err(refused("another version of the native data plane"));
    }
    let Some(token) = shared.token() else { return Err(refused("not in a job yet")) };
    // Every byte is looked at, so that the time says nothing about where they differ.
    let pairs = hello.token.iter().zip(token);
    if pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) != 0 {
        return Err(refused("its token is not the one of this job"));
    }
    let over_tcp = !hello.query && !hello.shared_memory;
    if over_tcp && shared.options.carriers == Carriers::Shm
        || hello.shared_memory && shared.options.carriers == Carriers::Tcp
    {
        let text = "PSLITE_TRANSPORT forbids this transport there";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    if hello.channel == 0 {
        return Err(refused("a channel without a number"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;
    use crate::native::attempt::hello_of;
    use crate::native::types::NativeOptions;

    /// A guest and its handshake.
    fn guest() -> (TcpStream, Handshake) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let guest = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = listener.accept().unwrap();
        let address = Arc::from(address.to_string());
        (guest, Handshake::new(OwnedFd::from(socket), address, Instant::now()))
    }

    /// What the next step says once something has come.
    fn step(handshake: &mut Handshake, shared: &Shared) -> io::Result<Wish> {
        let mut socket = [PollFd::new(handshake.socket.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut socket, PollTimeout::from(10_000_u16)), Ok(1));
        handshake.step(shared)
    }

    /// With or without an answer that it has not read: the kernel reports them differently.
    #[test]
    fn a_guest_that_leaves_is_not_refused() {
        let shared = Shared::new(NativeOptions::new(1, Some([5; 16]))).unwrap();
        let hello = Hello { query: true, ..hello_of(&shared, 1, None, 1) };
        let asks = greeting(Kind::Hello, &hello.encode());
        // A greeting is read in two steps, its head and the rest. It is answered in the second.
        for (said, steps) in [(&[][..], 0), (&asks[..10], 1), (&asks, 1), (&asks, 2)] {
            let (mut guest, mut handshake) = guest();
            guest.write_all(said).unwrap();
            for _ in 0..steps {
                assert!(matches!(step(&mut handshake, &shared), Ok(Wish::Wait)));
            }
            drop(guest);
            let last = (0..3).map(|_| step(&mut handshake, &shared)).find_map(Result::err);
            let error = last.expect("it has left");
            assert!(is_gone(&error), "{} bytes, {steps} steps: {error}", said.len());
        }
    }

    #[test]
    fn a_guest_without_the_token_is_refused() {
        let shared = Shared::new(NativeOptions::new(1, Some([5; 16]))).unwrap();
        let hello = Hello { token: [6; 16], ..hello_of(&shared, 1, None, 1) };
        let (mut guest, mut handshake) = guest();
        guest.write_all(&greeting(Kind::Hello, &hello.encode())).unwrap();
        let error = step(&mut handshake, &shared).and_then(|_| step(&mut handshake, &shared));
        let error = error.unwrap_err();
        assert!(!is_gone(&error), "{error}");
    }
}
