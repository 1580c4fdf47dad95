//! Connections that are given up while libzmq may hold something for them.
//!
//! libzmq ends the process (`session_base.cpp:260`) if a connection breaks when its end has begun
//! and only the first frames of a message are written. Its linger would bring that about: a peer
//! takes nothing any more, the linger passes, the peer's process ends. So a connection is taken out
//! of its socket only when all is written, or when it is broken: this breaks it. Until then the
//! socket keeps it. May touch descriptors; the socket is `out`'s.

use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::SockaddrStorage;

use super::super::sys::Unwritten;
use super::super::sys::cut::cut;
use super::Endpoint;

/// For how long a connection that was broken, or cannot be, is waited for.
pub(super) const GIVE_UP: Duration = Duration::from_secs(1);

/// A connection that nobody sends over any more.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) number: u64,
    pub(super) place: Endpoint,
    /// What libzmq has not written yet.
    pub(super) unwritten: Unwritten,
    /// Until then it may be written.
    pub(super) until: Instant,
}

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndingDue {
    /// Nothing yet.
    Later,
    /// To be broken: it has that descriptor.
    Break(RawFd),
    /// To be taken out of its socket; libzmq may flush it for so long.
    Now(Duration),
}

impl Ending {
    /// `standing`: its descriptor, if it is connected.
    pub(super) fn due(&self, now: Instant, standing: Option<u32>, flush: Duration) -> EndingDue {
        if self.unwritten.is_none() {
            return EndingDue::Now(flush);
        }
        if now < self.until {
            return EndingDue::Later;
        }
        match standing.and_then(|number| RawFd::try_from(number).ok()) {
            Some(descriptor) if now < self.until + GIVE_UP => EndingDue::Break(descriptor),
            // Without a connection nothing is half written.
            _ => EndingDue::Now(Duration::ZERO),
        }
    }

    /// Breaks the connection. False if the descriptor is none of it.
    pub(super) fn cut(&self, descriptor: RawFd) -> bool {
        cut(descriptor, |peer| is_at(peer, &self.place))
    }
}

/// True if a connection's other end may be that place. A name is looked up by libzmq alone: of such
/// a place the port is compared.
fn is_at(peer: &SockaddrStorage, place: &Endpoint) -> bool {
    match place {
        Endpoint::Tcp { host, port } => peer.as_sockaddr_in().is_some_and(|peer| {
            let same_host = host.parse::<Ipv4Addr>().map_or(true, |host| host == peer.ip());
            peer.port() == *port && same_host
        }),
        Endpoint::Ipc { path } => peer
            .as_unix_addr()
            .and_then(nix::sys::socket::UnixAddr::path)
            .is_some_and(|peer| peer.as_os_str() == path.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_all_is_written_or_when_it_is_broken() {
        const FLUSH: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let unwritten = Unwritten::default();
        let place = Endpoint::Tcp { host: "10.0.0.1".to_owned(), port: 5 };
        let ending = Ending { number: 1, place, unwritten: unwritten.clone(), until: now + FLUSH };
        assert_eq!(ending.due(now, Some(7), FLUSH), EndingDue::Now(FLUSH));
        let one = unwritten.one();
        assert_eq!(ending.due(now, Some(7), FLUSH), EndingDue::Later);
        assert_eq!(ending.due(now, None, FLUSH), EndingDue::Later, "it may be connected again");
        assert_eq!(ending.due(now + FLUSH, Some(7), FLUSH), EndingDue::Break(7));
        assert_eq!(ending.due(now + FLUSH, None, FLUSH), EndingDue::Now(Duration::ZERO));
        let late = now + FLUSH + GIVE_UP;
        assert_eq!(ending.due(late, Some(7), FLUSH), EndingDue::Now(Duration::ZERO));
        drop(one);
        assert_eq!(ending.due(now, Some(7), FLUSH), EndingDue::Now(FLUSH));
    }

    #[test]
    fn only_a_connection_to_the_place_is_broken() {
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsRawFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (other_end, _) = listener.accept().unwrap();
        let at = |host: &str, port| Ending {
            number: 1,
            place: Endpoint::Tcp { host: host.to_owned(), port },
            unwritten: Unwritten::default(),
            until: Instant::now(),
        };
        let descriptor = connection.as_raw_fd();
        for elsewhere in [at("127.0.0.2", port), at("127.0.0.1", port ^ 1), at("name", port ^ 1)] {
            assert!(!elsewhere.cut(descriptor), "{elsewhere:?}");
        }
        assert!(!at("127.0.0.1", port).cut(listener.as_raw_fd()), "it is no connection");
        assert!(!at("127.0.0.1", port).cut(-1));
        drop(other_end);
        assert!(at("name", port).cut(descriptor));
        assert_eq!(std::io::Read::read(&mut connection, &mut [0]).unwrap_or(0), 0);
    }
}
