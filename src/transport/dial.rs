//! Begins TCP connections, straight or through tunnels (docs/tunnels.md). Never waits; whoever
//! dials waits for the socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, setsockopt,
    socket, sockopt,
};

use crate::sys::fork::{KEEP_ALIVE_S, note_connected};
use crate::sys::tcp::choose_port_late;
use pslite_core::wire::socks::{self, Reply, SAID_MAX, Target};

/// Gateways on one way, at most: more than any way through a graph of sites needs.
pub(crate) const GATEWAYS_MAX: usize = 64;

/// A way to a peer: where to connect to, and where the tunnels from there lead, one by one.
/// Straight if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialledWay {
    pub(crate) first: SocketAddr,
    pub(crate) then: Vec<Target>,
    /// The address to connect from; `None`: the kernel chooses.
    pub(crate) from: Option<IpAddr>,
}

impl DialledWay {
    /// Straight to an address.
    #[must_use]
    pub const fn straight(first: SocketAddr) -> Self {
        Self { first, then: Vec::new(), from: None }
    }

    /// Through these stops, of which the last is the peer and all others are tunnels. Asks the
    /// resolver for the first one if that is a name.
    ///
    /// # Errors
    /// There are none, or more than a way may have; or the first one is unknown.
    pub fn through(stops: &[Target], from: Option<IpAddr>) -> io::Result<Self> {
        let [first, then @ ..] = stops else { return Err(io::ErrorKind::InvalidInput.into()) };
        if then.len() > GATEWAYS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { first: resolve(first)?, then: then.to_vec(), from })
    }

    /// All that is said to the tunnels.
    ///
    /// # Errors
    /// A host's name is too long.
    pub(crate) fn asks(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.then.len() * SAID_MAX / 8);
        for stop in &self.then {
            socks::ask(stop, &mut bytes).map_err(io::Error::other)?;
        }
        Ok(bytes)
    }
}

/// The address of a host, by the resolver if it is a name.
pub(crate) fn resolve(target: &Target) -> io::Result<SocketAddr> {
    if let Ok(address) = target.host.parse::<Ipv4Addr>() {
        return Ok((address, target.port).into());
    }
    let mut found = (target.host.as_str(), target.port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Begins a connection. It stands, or has failed, once the socket can be written.
pub(crate) fn dial(address: SocketAddr, from: Option<IpAddr>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, SockType::Stream, flags, None)?;
    keep(&fd)?;
    if let Some(from) = from.filter(|from| from.is_loopback() == address.ip().is_loopback()) {
        let _ = choose_port_late(fd.as_fd());
        // Where the host has no such address the kernel chooses one.
        let _ = bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)));
    }
    note_connected(address.port());
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Why a connection that was begun has failed, if it has.
pub(crate) fn failure(fd: &OwnedFd) -> io::Result<()> {
    match getsockopt(fd, sockopt::SocketError)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Options of all connections: small messages leave at once, and a host that is gone shows.
pub(crate) fn keep(fd: &OwnedFd) -> io::Result<()> {
    setsockopt(fd, sockopt::TcpNoDelay, &true)?;
    setsockopt(fd, sockopt::KeepAlive, &true)?;
    setsockopt(fd, sockopt::TcpKeepIdle, &KEEP_ALIVE_S.0.into())?;
    setsockopt(fd, sockopt::TcpKeepInterval, &KEEP_ALIVE_S.1.into())?;
    setsockopt(fd, sockopt::TcpKeepCount, &KEEP_ALIVE_S.2.into())?;
    Ok(())
}

/// Takes the answers of `left` tunnels off the beginning of what was heard, as far as they are
/// there. True: all of them lead on, and what is left was said by the peer.
///
/// # Errors
/// One does not; the kind is that of the connection that failed.
pub(crate) fn take_answers(heard: &mut Vec<u8>, left: &mut usize) -> io::Result<bool> {
    while *left > 0 {
        let Some((length, reply)) = socks::answers(heard).map_err(io::Error::other)? else {
            return Ok(false);
        };
        if reply != Reply::Through {
            return Err(io::Error::new(kind_of(reply), "a tunnel does not lead there"));
        }
        heard.drain(..length);
        *left -= 1;
    }
    Ok(true)
}

const fn kind_of(reply: Reply) -> io::ErrorKind {
    match reply {
        Reply::Refused => io::ErrorKind::ConnectionRefused,
        Reply::Forbidden => io::ErrorKind::PermissionDenied,
        Reply::Unreachable => io::ErrorKind::HostUnreachable,
        Reply::Through | Reply::Failed => io::ErrorKind::Other,
    }
}

/// What a tunnel says of a connection that failed like that.
pub(crate) fn reply_of(error: &io::Error) -> Reply {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reply::Refused,
        io::ErrorKind::PermissionDenied => Reply::Forbidden,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut
        | io::ErrorKind::NotFound => Reply::Unreachable,
        _ => Reply::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(host: &str) -> Target {
        Target { host: host.into(), port: 7 }
    }

    #[test]
    fn answers_may_come_in_pieces_and_together() {
        let said = [&socks::CHOICE[..], &Reply::Through.encode()].concat();
        let all = [&said[..], &said, b"peer"].concat();
        for cut in 0..all.len() {
            let (mut heard, mut left) = (all[..cut].to_vec(), 2);
            let early = take_answers(&mut heard, &mut left).unwrap();
            assert_eq!(early, cut >= 24, "{cut}");
            heard.extend_from_slice(&all[cut..]);
            assert!(take_answers(&mut heard, &mut left).unwrap());
            assert_eq!(heard, b"peer");
        }
    }

    #[test]
    fn a_tunnel_that_does_not_lead_there_says_why() {
        for (reply, kind) in [
            (Reply::Refused, io::ErrorKind::ConnectionRefused),
            (Reply::Unreachable, io::ErrorKind::HostUnreachable),
            (Reply::Forbidden, io::ErrorKind::PermissionDenied),
        ] {
            let mut heard = [&socks::CHOICE[..], &reply.encode()].concat();
            let error = take_answers(&mut heard, &mut 1).unwrap_err();
            assert_eq!((error.kind(), reply_of(&error)), (kind, reply));
        }
        assert!(take_answers(&mut b"HTTP/1.1 400".to_vec(), &mut 1).is_err());
    }

    #[test]
    fn a_way_says_all_its_stops_but_the_first() {
        let way = DialledWay::through(&[stop("10.0.0.1"), stop("b"), stop("c")], None).unwrap();
        assert_eq!(way.first, "10.0.0.1:7".parse().unwrap());
        let said = way.asks().unwrap();
        let (length, _) = socks::greeting(&said).unwrap().unwrap();
        let (_, first) = socks::request(&said[length..]).unwrap().unwrap();
        assert_eq!(first, stop("b"));
        assert!(DialledWay::through(&[], None).is_err());
        assert!(DialledWay::through(&vec![stop("10.0.0.1"); 99], None).is_err());
    }
}
