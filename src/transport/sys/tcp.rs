//! Options of TCP sockets, and the kernel's statistics about them.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{SockaddrStorage, getpeername, getsockname, getsockopt, sockopt};

/// Bytes that have arrived at a socket and are not read; 0 if that cannot be told.
pub(crate) fn readable(socket: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: an open socket, and FIONREAD writes one int to where it is told.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Limits how much a TCP socket takes that is not sent yet, so that what is urgent can still
/// overtake.
pub(crate) fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_tcp(socket, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Lets the kernel choose the port of an address that the socket is bound to when it knows where
/// the socket connects to: a port that is free for that place, not for all.
pub(crate) fn choose_port_late(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Lets a socket send at most so many bytes per second; `None`: as fast as it can.
pub(crate) fn limit_pace(socket: BorrowedFd<'_>, rate: Option<u32>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.unwrap_or(u32::MAX))
}

/// Lets at most so many bytes be under way on a TCP connection towards this end, whatever the
/// kernel would allow by itself; `None`: it decides again. To be repeated now and then: where the
/// kernel's buffer is too small for that, the kernel first has to make it larger, as it does for
/// connections that need it, and then takes the limit for its own.
///
/// Never less than [`SEGMENTS_MIN`] segments: in a window smaller than one segment the sender's
/// kernel sends only when its timer for closed windows expires (200 ms and more). A segment has
/// 64 KB on loopback.
pub(crate) fn limit_window(socket: BorrowedFd<'_>, bytes: Option<u32>) -> io::Result<()> {
    /// Linux 5.14 (asm-generic/socket.h, net/sock.h): the kernel no longer changes the size by
    /// itself.
    const SO_BUF_LOCK: i32 = 72;
    const SOCK_RCVBUF_LOCK: u32 = 2;
    const NO_LIMIT: u32 = 1 << 30;
    let least = || segment_max(socket).unwrap_or(0).saturating_mul(SEGMENTS_MIN);
    let bytes = bytes.map(|bytes| bytes.max(least()));
    let lock = match bytes {
        Some(bytes) if receive_buffer(socket)? >= bytes.saturating_mul(BUFFER_OF_WINDOW) => {
            SOCK_RCVBUF_LOCK
        }
        _ => 0,
    };
    set_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, lock)?;
    set_tcp(socket, libc::TCP_WINDOW_CLAMP, bytes.unwrap_or(NO_LIMIT))
}

/// Segments that always may be under way: one that is read, and one that follows.
const SEGMENTS_MIN: u32 = 2;

/// True if both ends of a TCP connection have the same address: no network card is involved.
pub(crate) fn stays_on_host(socket: BorrowedFd<'_>) -> bool {
    let address = |ip: SockaddrStorage| {
        let four = ip.as_sockaddr_in().map(|ip| IpAddr::V4(ip.ip()));
        four.or_else(|| ip.as_sockaddr_in6().map(|ip| IpAddr::V6(ip.ip())))
    };
    let own = getsockname(socket.as_raw_fd()).ok().and_then(address);
    own.is_some() && own == getpeername(socket.as_raw_fd()).ok().and_then(address)
}

/// Of a receive buffer at least that part is window (tcp_win_from_space in net/tcp.h; the rest is
/// what packets cost).
const BUFFER_OF_WINDOW: u32 = 2;

/// Bytes that the kernel keeps for what arrives at a socket and is not read, with what packets
/// cost.
fn receive_buffer(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let bytes = getsockopt(&socket, sockopt::RcvBuf)?;
    Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// What the kernel knows of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Bytes that the other end has confirmed.
    pub(crate) confirmed: u64,
    /// For how long something was on its way to the other end, or waited for that.
    pub(crate) busy: Duration,
    /// Segments that were sent and are not confirmed.
    pub(crate) unconfirmed: u32,
    /// Bytes that it was given and has not sent yet.
    pub(crate) unsent: u32,
    /// The shortest time in which what was sent was confirmed, of the last minutes; `None`: nothing
    /// was yet.
    pub(crate) shortest_round_trip: Option<Duration>,
    /// The time in which it was confirmed lately, smoothed.
    pub(crate) round_trip: Duration,
    /// After that time without a confirmation what was sent is sent again, for the first time.
    pub(crate) timeout: Duration,
    /// Segments that may be unconfirmed, as far as the network is concerned.
    pub(crate) window: u32,
    /// Bytes that may be, as the other end says; `None`: the kernel is older than Linux 5.4.
    pub(crate) peer_window: Option<u32>,
    /// The most bytes of one segment.
    pub(crate) segment: u32,
    /// Bytes per second at which the kernel sends at most, whatever the windows let through;
    /// `None`: as fast as it can.
    pub(crate) pace: Option<u64>,
    /// Something got lost, and its window became narrower for that.
    pub(crate) recovers: bool,
}

impl TcpInfo {
    /// A connection over a way that takes so long, on which nothing was sent yet.
    #[cfg(test)]
    pub(crate) const fn of(round_trip: Duration) -> Self {
        Self {
            confirmed: 0,
            busy: Duration::ZERO,
            unconfirmed: 0,
            unsent: 0,
            shortest_round_trip: Some(round_trip),
            round_trip,
            timeout: Duration::from_millis(200),
            window: INITIAL_WINDOW,
            pace: None,
            peer_window: Some(64 << 10),
            segment: 1448,
            recovers: false,
        }
    }

    /// True if what is sent waits in the network: so that holds it back, not TCP's window.
    pub(crate) fn fills_the_link(&self) -> bool {
        let waits = |shortest: Duration| self.round_trip > shortest + shortest / 2 + WAITS_LEAST;
        self.shortest_round_trip.is_some_and(waits)
    }

    /// Bytes that may be unconfirmed by TCP's windows, its own and the other end's.
    pub(crate) fn window_bytes(&self) -> u64 {
        let own = u64::from(self.window) * u64::from(self.segment);
        self.peer_window.map_or(own, |window| own.min(window.into()))
    }

    /// True if these windows are in use (two thirds of them, as the kernel defers what is less than
    /// a third), or become narrower after a loss.
    pub(crate) fn uses_window(&self) -> bool {
        let bytes = u64::from(self.unconfirmed) * u64::from(self.segment);
        self.recovers || bytes * 3 >= self.window_bytes() * 2
    }

    /// True if what is sent waits in the network for a part of its way, however short.
    pub(crate) fn is_late(&self) -> bool {
        let late = |shortest: Duration| self.round_trip > shortest + shortest / 4;
        self.shortest_round_trip.is_none_or(late)
    }

    /// The time until the third timeout in a row, each twice as long as the one before: after that
    /// it is no chance any more that nothing was confirmed. A queue on a short way makes timeouts
    /// longer, too; but a cut of it is to be found as fast as without.
    pub(crate) fn three_timeouts(&self) -> Duration {
        let way = self.shortest_round_trip.map(|shortest| 2 * shortest + TIMEOUT_LEAST);
        self.timeout.min(way.unwrap_or(Duration::MAX)) * (1 + 2 + 4)
    }
}

/// Segments that TCP sends before anything is confirmed (RFC 6928).
pub(crate) const INITIAL_WINDOW: u32 = 10;
/// The kernel's shortest timeout (`TCP_RTO_MIN`).
const TIMEOUT_LEAST: Duration = Duration::from_millis(200);
/// A round trip that is longer than the shortest one by less than that says nothing.
const WAITS_LEAST: Duration = Duration::from_millis(1);

/// See [`TcpInfo`]. `None`: the socket is not connected any more, or the kernel is older than Linux
/// 4.10.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let (info, length) = raw_tcp_info(socket)?;
    let number = |at: usize| Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk()?));
    let micros = info_u32(&info, MIN_RTT)?;
    Some(TcpInfo {
        confirmed: number(BYTES_ACKED)?,
        busy: Duration::from_micros(number(BUSY_TIME)?),
        unconfirmed: info_u32(&info, UNCONFIRMED)?,
        unsent: info_u32(&info, NOT_SENT)?,
        timeout: {
            // The kernel doubles it with each timeout.
            let doubled = u32::from(*info.get(BACKOFF)?).min(u32::BITS - 1);
            Duration::from_micros((info_u32(&info, TIMEOUT)? >> doubled).into())
        },
        window: info_u32(&info, WINDOW)?,
        pace: Some(number(PACE)?).filter(|pace| *pace != u64::MAX),
        peer_window: (length >= PEER_WINDOW + size_of::<u32>())
            .then(|| info_u32(&info, PEER_WINDOW))
            .flatten(),
        segment: info_u32(&info, SEGMENT)?,
        recovers: *info.get(CONGESTION_STATE)? >= CWR,
        shortest_round_trip: (micros != u32::MAX).then(|| Duration::from_micros(micros.into())),
        round_trip: Duration::from_micros(info_u32(&info, ROUND_TRIP)?.into()),
    })
}

/// The most bytes in one segment towards this end; `None` as for [`tcp_info`].
fn segment_max(socket: BorrowedFd<'_>) -> Option<u32> {
    info_u32(&raw_tcp_info(socket)?.0, ADVERTISED_SEGMENT)
}

/// Where these begin (linux/tcp.h, `tcp_info`); they never move. Times are in microseconds.
const CONGESTION_STATE: usize = 1;
const BACKOFF: usize = 4;
const TIMEOUT: usize = 8;
const SEGMENT: usize = 16;
const UNCONFIRMED: usize = 24;
const ROUND_TRIP: usize = 68;
const WINDOW: usize = 80;
const ADVERTISED_SEGMENT: usize = 84;
const PACE: usize = 104;
const BYTES_ACKED: usize = 120;
const NOT_SENT: usize = 144;
const MIN_RTT: usize = 148;
const BUSY_TIME: usize = 168;
const PEER_WINDOW: usize = 228;
/// The first of the states in which the window becomes narrower (linux/tcp.h, `TCP_CA_CWR`).
const CWR: u8 = 2;
/// What every kernel with [`BUSY_TIME`] has, and what is asked for.
const INFO_LEAST: usize = BUSY_TIME + size_of::<u64>();
const INFO_LENGTH: usize = PEER_WINDOW + size_of::<u32>();

fn info_u32(info: &[u8; INFO_LENGTH], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

/// The kernel's `tcp_info`, up to what is read of it, and how much of that the kernel has.
fn raw_tcp_info(socket: BorrowedFd<'_>) -> Option<([u8; INFO_LENGTH], usize)> {
    let mut info = [0_u8; INFO_LENGTH];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: an open socket; the kernel writes at most `length` bytes, which is the array's
    // length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let length = length as usize;
    (result == 0 && length >= INFO_LEAST).then_some((info, length))
}

/// Lets the kernel wait with the acknowledgement of what was read, as it does by itself on a
/// connection with answers. It forgets that now and then.
pub(crate) fn delay_acknowledgements(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_tcp(socket, libc::TCP_QUICKACK, 0)
}

fn set_tcp(socket: BorrowedFd<'_>, option: i32, value: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, option, value)
}

fn set_option(socket: BorrowedFd<'_>, level: i32, option: i32, value: u32) -> io::Result<()> {
    // SAFETY: an open socket, and `value` is as long as is said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What [`limit_unsent`] has set; 0: nothing has.
#[cfg(test)]
pub(crate) fn unsent_limit(socket: BorrowedFd<'_>) -> io::Result<u32> {
    tcp_option(socket, libc::TCP_NOTSENT_LOWAT)
}

#[cfg(test)]
fn tcp_option(socket: BorrowedFd<'_>, option: i32) -> io::Result<u32> {
    let mut value = 0_u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: an open socket; the kernel writes at most `length` bytes, which is the number's
    // length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// All TCP sockets of this process, each with the limit of its window.
#[cfg(test)]
pub(crate) fn window_limits() -> io::Result<Vec<(std::os::fd::OwnedFd, u32)>> {
    use nix::fcntl::{FcntlArg, fcntl};
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // SAFETY: one that was closed since then is refused by fcntl, which is all that the borrow
        // is used for.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let Ok(copy) = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(0)) else { continue };
        // SAFETY: the kernel just made it for us.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        if let Ok(limit) = tcp_option(copy.as_fd(), libc::TCP_WINDOW_CLAMP) {
            found.push((copy, limit));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    /// More than the buffer that a connection begins with can be.
    const WIDE: u32 = 1 << 20;
    const NARROW: u32 = 32 << 10;
    /// A buffer that holds a narrow window: two segments of loopback. The kernel doubles it.
    const BEGIN: usize = 256 << 10;
    const LIMIT: Duration = Duration::from_secs(30);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (to, _) = listener.accept().unwrap();
        to.set_read_timeout(Some(LIMIT)).unwrap();
        from.set_write_timeout(Some(LIMIT)).unwrap();
        (from, to)
    }

    fn carry(from: &mut TcpStream, to: &mut TcpStream) {
        let data = vec![1; 4 << 20];
        let mut read = vec![0; data.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&data).unwrap());
            to.read_exact(&mut read).unwrap();
        });
    }

    /// Limits the window until the limit is the kernel's own; then the buffer stays. Whether the
    /// kernel sees a reason to make it grow depends on how the two threads take turns: on a machine
    /// that does other things beside, some hundred rounds may pass without one.
    fn limits(from: &mut TcpStream, to: &mut TcpStream, window: u32) -> u32 {
        for round in 0..2000 {
            if round % 100 == 99 {
                std::thread::sleep(Duration::from_millis(20));
            }
            limit_window(to.as_fd(), Some(window)).unwrap();
            let held = receive_buffer(to.as_fd()).unwrap();
            carry(from, to);
            if held >= window * BUFFER_OF_WINDOW && receive_buffer(to.as_fd()).unwrap() == held {
                return held;
            }
        }
        panic!("the buffer stays too small: {} bytes", receive_buffer(to.as_fd()).unwrap());
    }

    #[test]
    fn a_window_becomes_wider_than_the_buffer_it_was_limited_in() {
        let (mut from, mut to) = pair();
        // Else the kernel may make it larger than WIDE needs, before the first limit holds.
        nix::sys::socket::setsockopt(&to, sockopt::RcvBuf, &BEGIN).unwrap();
        let before = limits(&mut from, &mut to, NARROW);
        assert_eq!(before, receive_buffer(to.as_fd()).unwrap());
        assert!(before < WIDE * BUFFER_OF_WINDOW, "too large to begin with: {before}");
        assert!(limits(&mut from, &mut to, WIDE) > before);
    }

    #[test]
    fn a_narrow_window_lets_whole_segments_through() {
        let (mut from, mut to) = pair();
        // From now on segments are as large as they can be: the kernel has seen wide windows.
        (0..8).for_each(|_| carry(&mut from, &mut to));
        let segment = segment_max(to.as_fd()).unwrap();
        assert!(segment > NARROW, "loopback has large segments: {segment}");
        limit_window(to.as_fd(), Some(NARROW)).unwrap();
        let limits = window_limits().unwrap();
        assert!(limits.iter().any(|(_, limit)| *limit == SEGMENTS_MIN * segment), "{limits:?}");
        // Without that each of these takes the sender's timer, and all of them minutes.
        (0..8).for_each(|_| carry(&mut from, &mut to));
    }

    #[test]
    fn one_address_is_one_host() {
        let (from, to) = pair();
        assert!(stays_on_host(from.as_fd()) && stays_on_host(to.as_fd()));
        let other = TcpListener::bind("127.0.0.2:0").unwrap();
        let from = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        assert!(!stays_on_host(from.as_fd()));
    }
}
