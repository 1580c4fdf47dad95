//! Options and statistics of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};

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

/// Lets a socket send at most so many bytes per second; `None`: as fast as it can.
pub(crate) fn limit_pace(socket: BorrowedFd<'_>, rate: Option<u32>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.unwrap_or(u32::MAX))
}

/// Lets at most so many bytes be under way on a TCP connection towards this end, whatever the
/// kernel would allow by itself; `None`: it decides again. To be repeated now and then: where the
/// kernel's buffer is too small for that, the kernel first has to make it larger, as it does for
/// connections that need it, and then takes the limit for its own.
pub(crate) fn limit_window(socket: BorrowedFd<'_>, bytes: Option<u32>) -> io::Result<()> {
    /// Linux 5.14 (asm-generic/socket.h, net/sock.h): the kernel no longer changes the size by
    /// itself.
    const SO_BUF_LOCK: i32 = 72;
    const SOCK_RCVBUF_LOCK: u32 = 2;
    const NO_LIMIT: u32 = 1 << 30;
    let lock = match bytes {
        Some(bytes) if receive_buffer(socket)? >= bytes.saturating_mul(BUFFER_OF_WINDOW) => {
            SOCK_RCVBUF_LOCK
        }
        _ => 0,
    };
    set_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, lock)?;
    set_tcp(socket, libc::TCP_WINDOW_CLAMP, bytes.unwrap_or(NO_LIMIT))
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
    /// The shortest time in which what was sent was confirmed, of the last minutes; `None`: nothing
    /// was yet.
    pub(crate) shortest_round_trip: Option<Duration>,
}

/// See [`TcpInfo`]. `None`: the socket is not connected any more, or the kernel is older than Linux
/// 4.10.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    /// Where these begin (linux/tcp.h, `tcp_info`); they never move. Times are in microseconds.
    const BYTES_ACKED: usize = 120;
    const MIN_RTT: usize = 148;
    const BUSY_TIME: usize = 168;
    let mut info = [0_u8; BUSY_TIME + size_of::<u64>()];
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
    if result != 0 || (length as usize) < info.len() {
        return None;
    }
    let number = |at: usize| Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk()?));
    let micros = u32::from_ne_bytes(*info.get(MIN_RTT..)?.first_chunk()?);
    Some(TcpInfo {
        confirmed: number(BYTES_ACKED)?,
        busy: Duration::from_micros(number(BUSY_TIME)?),
        shortest_round_trip: (micros != u32::MAX).then(|| Duration::from_micros(micros.into())),
    })
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

/// All TCP sockets of this process, each with the limit of its window.
#[cfg(test)]
pub(crate) fn window_limits() -> io::Result<Vec<(std::os::fd::OwnedFd, u32)>> {
    use nix::fcntl::{FcntlArg, fcntl};
    use std::os::fd::{FromRawFd, OwnedFd};
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
        let mut limit = 0_u32;
        let mut length = size_of::<u32>() as libc::socklen_t;
        // SAFETY: an open descriptor; the kernel writes at most `length` bytes, which is the
        // number's length.
        let result = unsafe {
            libc::getsockopt(
                copy.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                (&raw mut limit).cast(),
                &raw mut length,
            )
        };
        if result == 0 {
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

    #[test]
    fn a_window_becomes_wider_than_the_buffer_it_was_limited_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut to, _) = listener.accept().unwrap();
        limit_window(to.as_fd(), Some(NARROW)).unwrap();
        let data = vec![1; 4 << 20];
        let mut read = vec![0; data.len()];
        let mut carry = || {
            std::thread::scope(|scope| {
                scope.spawn(|| from.write_all(&data).unwrap());
                to.read_exact(&mut read).unwrap();
            });
            to.as_fd().try_clone_to_owned().unwrap()
        };
        let to = carry();
        let before = receive_buffer(to.as_fd()).unwrap();
        carry();
        assert_eq!(receive_buffer(to.as_fd()).unwrap(), before, "the kernel goes beyond a limit");
        // As long as it grows it has no other limit than the kernel's; then it has this one.
        // Whether the kernel sees a reason to make it grow depends on how the two threads take
        // turns: on a machine that does other things beside, some hundred rounds may pass without
        // one.
        let mut locked = false;
        for round in 0..2000 {
            if round % 100 == 99 {
                std::thread::sleep(Duration::from_millis(20));
            }
            limit_window(to.as_fd(), Some(WIDE)).unwrap();
            let held = receive_buffer(to.as_fd()).unwrap();
            carry();
            locked = held >= WIDE * BUFFER_OF_WINDOW;
            if locked {
                assert_eq!(receive_buffer(to.as_fd()).unwrap(), held);
                break;
            }
        }
        assert!(
            locked,
            "the buffer stays too small: {} bytes",
            receive_buffer(to.as_fd()).unwrap()
        );
    }
}
