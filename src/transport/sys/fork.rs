//! Closes the library's descriptors in a child of `fork`. Code that runs in the child calls the
//! kernel and reads atomics and nothing else: another thread of the parent may have held any lock.
//!
//! libzmq does not say which descriptors are its own, so a socket is recognized by its address:
//! where this process listens, or where it connected to. Eventfds and epolls have no address and
//! are recognized by their numbers ([`ForkMark`]); those of libzmq are the new ones after a call
//! that creates a known number of them. Mappings stay: a child may read an array in one of them,
//! and a mapping does not hide that a process died.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once};

use super::super::owner::{is_forked, note_process};
use crate::sync::lock;

/// Of how many of the latest Unix sockets of libzmq the names are kept.
const NAMES: usize = 1024;
/// TCP keepalive of each connection of the library: seconds of silence, seconds between probes,
/// probes without an answer.
pub(crate) const KEEP_ALIVE_S: (u16, u16, u16) = (3, 2, 3);
/// Descriptors that are looked at where `/proc` is not there.
const DESCRIPTORS: c_int = 65_536;
/// How the names of the native plane's Unix sockets and memory begin (`native/same_host`,
/// `memory`).
const OURS: &[u8] = b"pslite-";
const MEMORY: &[u8] = b"/memfd:pslite";
/// How the names of eventfds and epolls begin.
const EVENT: &[u8] = b"anon_inode:[event";

/// One bit for each port, or each descriptor below 65,536.
struct Bits([AtomicU64; 1024]);

static LISTENING: Bits = Bits::new();
/// How often each of these ports was noted, and not taken back: a port may be given out anew while
/// connections of the former listener stand. Not for children.
static LISTENERS: Mutex<BTreeMap<u16, u32>> = Mutex::new(BTreeMap::new());
static CONNECTED: Bits = Bits::new();
/// Eventfds and epolls.
static MARKED: Bits = Bits::new();
static PATHS: [AtomicU64; NAMES] = [const { AtomicU64::new(0) }; NAMES];
static NEXT_PATH: AtomicUsize = AtomicUsize::new(0);

impl Bits {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 1024])
    }

    fn word(&self, number: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(number / 64)?, 1 << (number % 64)))
    }

    fn add(&self, number: usize) {
        if let Some((word, bit)) = self.word(number) {
            word.fetch_or(bit, Relaxed);
        }
    }

    fn remove(&self, number: usize) {
        if let Some((word, bit)) = self.word(number) {
            word.fetch_and(!bit, Relaxed);
        }
    }

    fn has(&self, number: usize) -> bool {
        self.word(number).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }
}

/// An eventfd or epoll of the library, to be closed in children. To be dropped before the
/// descriptor is closed: its number may be another's then.
#[derive(Debug)]
pub(crate) struct ForkMark(RawFd);

impl ForkMark {
    pub(crate) fn new(descriptor: &impl AsFd) -> Self {
        Self::of_number(descriptor.as_fd().as_raw_fd())
    }

    /// Of a descriptor that has no owner here.
    fn of_number(number: RawFd) -> Self {
        if let Ok(number) = usize::try_from(number) {
            MARKED.add(number);
        }
        Self(number)
    }
}

/// An eventfd of the library, with its mark in front: it has to be dropped first.
#[derive(Debug)]
pub(crate) struct Marked<T> {
    _mark: ForkMark,
    descriptor: T,
}

impl<T: AsFd> Marked<T> {
    pub(crate) fn new(descriptor: T) -> Self {
        Self { _mark: ForkMark::new(&descriptor), descriptor }
    }
}

impl<T> Deref for Marked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.descriptor
    }
}

impl ForkMark {
    pub(super) const fn number(&self) -> RawFd {
        self.0
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // The table of a child is its own.
        if !is_forked()
            && let Ok(number) = usize::try_from(self.0)
        {
            MARKED.remove(number);
        }
    }
}

/// Calls what makes `count` eventfds and epolls, marks them, and has them closed when a program is
/// started (libzmq's epolls would stay open). If another thread makes some at the same time, nobody
/// knows whose is which, and they stay open in children.
pub(super) fn marking<T>(count: usize, make: impl FnOnce() -> T) -> (T, Vec<ForkMark>) {
    let before = events();
    let made = make();
    let is_known = |number: &RawFd| usize::try_from(*number).is_ok_and(|n| MARKED.has(n));
    let after = events();
    let new: Vec<_> = after.difference(&before).copied().filter(|n| !is_known(n)).collect();
    let new = if new.len() == count { new } else { Vec::new() };
    for number in &new {
        // SAFETY: a flag of a descriptor of this process. If it is closed meanwhile, the call
        // fails.
        unsafe { libc::fcntl(*number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    (made, new.into_iter().map(ForkMark::of_number).collect())
}

/// The open eventfds and epolls of this process.
fn events() -> BTreeSet<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| is_named(*number, EVENT)).collect()
}

/// This process listens, or will at once, on a TCP port, until it ends.
pub(crate) fn note_listening(port: u16) {
    *lock(&LISTENERS).entry(port).or_default() += 1;
    LISTENING.add(port.into());
}

/// This process listens on a TCP port for as long as this is held, by the listener and by all that
/// it accepted: a child that is forked closes them.
#[derive(Debug)]
pub(crate) struct Listening(u16);

impl Listening {
    pub(crate) fn new(port: u16) -> Self {
        note_listening(port);
        Self(port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The table of a child is its own, and another thread may have held its lock.
        if is_forked() {
            return;
        }
        let mut listeners = lock(&LISTENERS);
        let Some(count) = listeners.get_mut(&self.0) else { return };
        *count -= 1;
        if *count == 0 {
            listeners.remove(&self.0);
            LISTENING.remove(self.0.into());
        }
    }
}

/// This process connects to a TCP port.
pub(crate) fn note_connected(port: u16) {
    CONNECTED.add(port.into());
}

/// This process listens on, or connects to, a Unix socket by libzmq.
pub(crate) fn note_path(path: &str) {
    let at = NEXT_PATH.fetch_add(1, Relaxed) % NAMES;
    if let Some(place) = PATHS.get(at) {
        place.store(hash(path.as_bytes()), Relaxed);
    }
}

/// FNV-1a; never 0.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }) | 1
}

/// From now on each child that is forked closes what is ours. Once for a process.
pub(crate) fn close_in_children() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function that lives as long as the library, which is never unloaded: its
        // threads run in it.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    note_process();
    if is_forked() {
        // What the interrupted program reads is as before.
        // SAFETY: the address of this thread's own errno.
        let errno = unsafe { *libc::__errno_location() };
        close_all();
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// Closes, and never shuts down: the parent uses the same sockets.
fn close_all() {
    // SAFETY: a C string.
    let list = unsafe {
        libc::open(c"/proc/self/fd".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC)
    };
    if list < 0 {
        (0..DESCRIPTORS).for_each(close_ours);
        return;
    }
    let mut buffer = [0_u64; 256];
    loop {
        // SAFETY: an open folder and a buffer of that many bytes, aligned as the records are.
        let bytes = unsafe {
            libc::syscall(libc::SYS_getdents64, list, buffer.as_mut_ptr(), size_of::<[u64; 256]>())
        };
        let Ok(bytes) = usize::try_from(bytes) else { break };
        if bytes == 0 {
            break;
        }
        let records: &[u8] = bytemuck::cast_slice(&buffer);
        numbers(records.get(..bytes).unwrap_or_default(), |fd| {
            if fd != list {
                close_ours(fd);
            }
        });
    }
    // SAFETY: opened above, closed once.
    unsafe { libc::close(list) };
}

/// Calls `each` with the names in records of getdents64(2) that are numbers.
fn numbers(mut records: &[u8], each: impl Fn(c_int)) {
    /// Where a record has its length and its name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    while let Some(&[low, high]) = records.get(LENGTH..LENGTH + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(record) = records.get(..length) else { return };
        let name = record.get(NAME..).unwrap_or_default();
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.clone().fold(0_i32, |number, digit| {
            number.wrapping_mul(10).wrapping_add(c_int::from(digit - b'0'))
        });
        if digits.count() > 0 {
            each(number);
        }
        if length == 0 {
            return;
        }
        records = records.get(length..).unwrap_or_default();
    }
}

fn close_ours(fd: c_int) {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for one answer.
    if unsafe { libc::fstat(fd, status.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: written by the call above.
    let kind = unsafe { status.assume_init() }.st_mode & libc::S_IFMT;
    let is_ours = match kind {
        libc::S_IFSOCK => is_our_socket(fd),
        libc::S_IFREG => is_our_memory(fd),
        // What has no file.
        0 => is_our_event(fd),
        _ => false,
    };
    if is_ours {
        // SAFETY: a descriptor of the child's own table; nothing of ours uses it in a child.
        unsafe { libc::close(fd) };
    }
}

fn is_our_memory(fd: c_int) -> bool {
    is_named(fd, MEMORY)
}

/// True if the parent made it. From here on the number is free for the child's own.
fn is_our_event(fd: c_int) -> bool {
    let Ok(number) = usize::try_from(fd) else { return false };
    let is_marked = MARKED.has(number);
    MARKED.remove(number);
    is_marked && is_named(fd, EVENT)
}

/// True if the name of what is open begins so.
fn is_named(fd: c_int, beginning: &[u8]) -> bool {
    // "/proc/self/fd/" and at most ten digits, backwards.
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let (mut digits, mut count, mut rest) = ([0_u8; 10], 0, fd);
    while let Some(digit) = digits.get_mut(count) {
        *digit = b'0' + (rest % 10) as u8;
        (rest, count) = (rest / 10, count + 1);
        if rest == 0 {
            break;
        }
    }
    let number = digits.iter().take(count).rev();
    path.iter_mut().skip(14).zip(number).for_each(|(to, digit)| *to = *digit);
    let mut target = [0_u8; 32];
    // SAFETY: a C string, and room for so many bytes.
    let bytes =
        unsafe { libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len()) };
    let bytes = usize::try_from(bytes).unwrap_or(0);
    target.get(..bytes).is_some_and(|target| target.starts_with(beginning))
}

fn is_our_socket(fd: c_int) -> bool {
    let local = address(fd, libc::getsockname);
    let peer = address(fd, libc::getpeername);
    match (&local, &peer) {
        (Some(ForkAddress::Tcp(port)), _) if LISTENING.has(usize::from(*port)) => true,
        (_, Some(ForkAddress::Tcp(port))) => CONNECTED.has(usize::from(*port)) && is_kept_alive(fd),
        (local, peer) => {
            [local, peer].into_iter().flatten().any(|end| end == &ForkAddress::OurPath)
        }
    }
}

#[derive(PartialEq, Eq)]
enum ForkAddress {
    Tcp(u16),
    OurPath,
    Other,
}

type Ask = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;

fn address(fd: c_int, ask: Ask) -> Option<ForkAddress> {
    // SAFETY: all bits zero are a value of it.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: room for any address, and its size.
    if unsafe { ask(fd, (&raw mut storage).cast(), &raw mut length) } != 0 {
        return None;
    }
    // SAFETY: as many bytes as the value has.
    let bytes: &[u8] = unsafe {
        std::slice::from_raw_parts(
            (&raw const storage).cast(),
            (length as usize).min(size_of::<libc::sockaddr_storage>()),
        )
    };
    let rest = bytes.get(2..)?;
    Some(match c_int::from(storage.ss_family) {
        // The port is the first field of both, in network order.
        libc::AF_INET | libc::AF_INET6 => {
            ForkAddress::Tcp(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]))
        }
        libc::AF_UNIX if is_our_path(rest) => ForkAddress::OurPath,
        _ => ForkAddress::Other,
    })
}

fn is_our_path(path: &[u8]) -> bool {
    if let Some(name) = path.strip_prefix(b"\0") {
        return name.starts_with(OURS);
    }
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let hash = hash(path);
    name.starts_with(OURS) && name.ends_with(b".sock")
        || !path.is_empty() && PATHS.iter().any(|known| known.load(Relaxed) == hash)
}

/// True if the socket has the library's keepalive, which the connections of others hardly have.
fn is_kept_alive(fd: c_int) -> bool {
    let (idle, interval, count) = KEEP_ALIVE_S;
    [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle.into()),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, interval.into()),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, count.into()),
    ]
    .iter()
    .all(|(level, option, expected)| number_of(fd, *level, *option) == Some(*expected))
}

fn number_of(fd: c_int, level: c_int, option: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: room for one int, and its size.
    let result =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut length) };
    (result == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn sockets_of_the_application_are_not_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let name = SocketAddr::from_abstract_name("other").unwrap();
        let unix = UnixListener::bind_addr(&name).unwrap();
        assert!(!is_our_socket(listener.as_raw_fd()) && !is_our_socket(unix.as_raw_fd()));
        note_connected(port);
        assert!(!is_our_socket(stream.as_raw_fd()), "a port alone does not make it ours");
    }

    #[test]
    fn our_sockets_and_memory_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        note_listening(port);
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(is_our_socket(listener.as_raw_fd()) && is_our_socket(accepted.as_raw_fd()));
        assert!(!is_our_socket(stream.as_raw_fd()));
        let name = SocketAddr::from_abstract_name("pslite-0123").unwrap();
        assert!(is_our_socket(UnixListener::bind_addr(&name).unwrap().as_raw_fd()));
        let memory = super::super::memory::new_file(4096).unwrap();
        assert!(is_our_memory(memory.as_raw_fd()));
    }

    #[test]
    fn our_eventfds_and_epolls_are_found_and_no_others() {
        let other = nix::sys::eventfd::EventFd::new().unwrap();
        let (ours, marks) = marking(1, || nix::sys::eventfd::EventFd::new().unwrap());
        let number = ours.as_fd().as_raw_fd();
        assert!(!is_our_event(other.as_fd().as_raw_fd()));
        // Tests that run beside this one, in threads of one process, may make some too.
        if !marks.is_empty() {
            assert!(is_our_event(number) && !is_our_event(number), "a number is free once told");
        }
        let mark = ForkMark::new(&ours);
        drop(mark);
        assert!(!is_our_event(number));
        let (_, none) = marking(2, || nix::sys::eventfd::EventFd::new().unwrap());
        assert!(none.len() != 1);
        let file = std::fs::File::open("/dev/null").unwrap();
        let _mark = ForkMark::new(&file);
        assert!(!is_our_event(file.as_raw_fd()));
    }

    #[test]
    fn numbers_are_read_out_of_records() {
        let mut records = Vec::new();
        for name in [&b".\0"[..], b"7\0", b"1234\0"] {
            let length = (19 + name.len()).next_multiple_of(8);
            let mut record = vec![0; length];
            record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
            record[19..19 + name.len()].copy_from_slice(name);
            records.extend(record);
        }
        let seen = std::cell::RefCell::new(Vec::new());
        numbers(&records, |fd| seen.borrow_mut().push(fd));
        assert_eq!(*seen.borrow(), [7, 1234]);
    }
}
