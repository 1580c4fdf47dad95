//! The only unsafe code besides `ffi`, behind safe types. Here is libzmq: a context, sockets and
//! frames. `memory` and `arena` have what processes of one host share; `callers` has memory that
//! the application lends; `fork` closes descriptors in a child; `tcp` has options of sockets; `cut`
//! breaks a connection; `heap` is about the process's heap.
//!
//! A [`Socket`] may move between threads but not be used by two at once; its methods take `&mut
//! self` where they touch it, so the borrow checker keeps that rule of libzmq.
#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod callers;
pub(crate) mod cut;
pub(crate) mod fork;
pub mod heap;
pub(crate) mod memory;
pub(crate) mod tcp;

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::threads::make_sure_of;
use fork::{ForkMark, Marked, marking};

/// Eventfds and epolls that libzmq makes: for a context, for its two threads (each a queue and an
/// epoll), and for a socket.
const OF_CONTEXT: usize = 1;
const OF_THREADS: usize = 4;
const OF_SOCKET: usize = 1;
/// The threads of a context: one that sends and receives, one that closes sockets.
const THREADS: usize = 2;

/// Frames up to here are copied into libzmq's message: an owner that is counted costs more.
const COPY_MAX: usize = 1024;

/// What kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    Router,
    Dealer,
    Pair,
}

/// A libzmq context; ends when the last of its sockets and clones is gone.
#[derive(Clone, Debug)]
pub(crate) struct Context(Arc<RawContext>);

#[derive(Debug)]
struct RawContext {
    raw: *mut c_void,
    /// Its own eventfds and epolls, and those of its threads once they run.
    marks: Mutex<Vec<ForkMark>>,
    runs: AtomicBool,
}

// SAFETY: zmq_ctx_* functions are thread safe (zmq_ctx_new(3)).
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

impl Drop for RawContext {
    fn drop(&mut self) {
        self.marks().clear();
        // SAFETY: created by zmq_ctx_new, ended once; every socket holds a clone of the Arc, so
        // all are closed. Each has a finite linger, so that this returns.
        while unsafe { zmq_sys::zmq_ctx_term(self.raw) } != 0 && errno() == libc::EINTR {}
    }
}

impl RawContext {
    fn marks(&self) -> MutexGuard<'_, Vec<ForkMark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no arguments.
        let (raw, marks) = marking(OF_CONTEXT, || unsafe { zmq_sys::zmq_ctx_new() });
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        let context = Self(Arc::new(RawContext {
            raw,
            marks: Mutex::new(marks),
            runs: AtomicBool::new(false),
        }));
        // As stock (zmq_van.h:41): a scheduler needs a socket for each node.
        // SAFETY: a live context.
        unsafe { zmq_sys::zmq_ctx_set(raw, zmq_sys::ZMQ_MAX_SOCKETS as c_int, 65_536) };
        Ok(context)
    }

    pub(crate) fn socket(&self, kind: SocketKind) -> io::Result<Socket> {
        let number = match kind {
            SocketKind::Router => zmq_sys::ZMQ_ROUTER,
            SocketKind::Dealer => zmq_sys::ZMQ_DEALER,
            SocketKind::Pair => zmq_sys::ZMQ_PAIR,
        };
        let make = || {
            // SAFETY: a live context.
            unsafe { zmq_sys::zmq_socket(self.0.raw, number as c_int) }
        };
        // The threads begin with the first socket.
        if !self.0.runs.load(Ordering::Relaxed) {
            make_sure_of(THREADS)?;
        }
        let others = if self.0.runs.swap(true, Ordering::Relaxed) { 0 } else { OF_THREADS };
        let (raw, marks) = marking(others + OF_SOCKET, make);
        if raw.is_null() {
            return Err(last_error());
        }
        let mut socket =
            Socket { raw, marks: Vec::new(), monitor: Vec::new(), _context: self.clone() };
        let own = socket.option(zmq_sys::ZMQ_FD)?;
        for mark in marks {
            let to = if mark.number() == own { &mut socket.marks } else { &mut *self.0.marks() };
            to.push(mark);
        }
        Ok(socket)
    }
}

/// A libzmq socket.
#[derive(Debug)]
pub(crate) struct Socket {
    raw: *mut c_void,
    /// Its eventfd, and that of the socket that reports.
    marks: Vec<ForkMark>,
    monitor: Vec<ForkMark>,
    _context: Context,
}

// SAFETY: a socket may migrate between threads with a full fence (zmq_socket(3)); moving a value
// to another thread in Rust is one.
unsafe impl Send for Socket {}

impl Drop for Socket {
    fn drop(&mut self) {
        self.marks.clear();
        self.monitor.clear();
        // SAFETY: created by zmq_socket, closed once.
        unsafe { zmq_sys::zmq_close(self.raw) };
    }
}

impl Socket {
    pub(crate) fn set_int(&mut self, option: u32, value: i32) -> io::Result<()> {
        self.set(option, &value.to_ne_bytes())
    }

    pub(crate) fn set(&mut self, option: u32, value: &[u8]) -> io::Result<()> {
        // SAFETY: a live socket and `value.len()` readable bytes.
        check(unsafe {
            zmq_sys::zmq_setsockopt(self.raw, option as c_int, value.as_ptr().cast(), value.len())
        })
    }

    pub(crate) fn bind(&mut self, endpoint: &str) -> io::Result<()> {
        let endpoint = c_string(endpoint)?;
        // SAFETY: a live socket and a C string.
        check(unsafe { zmq_sys::zmq_bind(self.raw, endpoint.as_ptr()) })
    }

    pub(crate) fn connect(&mut self, endpoint: &str) -> io::Result<()> {
        let endpoint = c_string(endpoint)?;
        // SAFETY: a live socket and a C string.
        check(unsafe { zmq_sys::zmq_connect(self.raw, endpoint.as_ptr()) })
    }

    /// Ends the connections to an address; what they hold is flushed for as long as ZMQ_LINGER
    /// says.
    pub(crate) fn disconnect(&mut self, endpoint: &str) -> io::Result<()> {
        let endpoint = c_string(endpoint)?;
        // SAFETY: a live socket and a C string.
        check(unsafe { zmq_sys::zmq_disconnect(self.raw, endpoint.as_ptr()) })
    }

    /// Where the socket is bound, as libzmq writes it.
    pub(crate) fn last_endpoint(&mut self) -> io::Result<String> {
        let mut buffer = [0_u8; 512];
        let mut size = buffer.len();
        // SAFETY: a live socket, and `size` says how much room there is.
        check(unsafe {
            zmq_sys::zmq_getsockopt(
                self.raw,
                zmq_sys::ZMQ_LAST_ENDPOINT as c_int,
                buffer.as_mut_ptr().cast(),
                &raw mut size,
            )
        })?;
        let text = CStr::from_bytes_until_nul(&buffer).map_err(io::Error::other)?;
        Ok(text.to_string_lossy().into_owned())
    }

    /// A descriptor that can be read when the socket may have something new: one to sleep on while
    /// others use the socket. Each call of any function of the socket may take the news away, so
    /// whoever used it has to look at [`Self::has_message`] (ZMQ_FD in zmq_getsockopt(3)).
    pub(crate) fn signal(&mut self) -> io::Result<Marked<OwnedFd>> {
        let fd: RawFd = self.option(zmq_sys::ZMQ_FD)?;
        // SAFETY: libzmq keeps the descriptor open as long as the socket, which the borrow of
        // `self` outlives.
        unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map(Marked::new)
    }

    /// True if a message can be received now.
    pub(crate) fn has_message(&mut self) -> io::Result<bool> {
        let events: c_int = self.option(zmq_sys::ZMQ_EVENTS)?;
        Ok(events & zmq_sys::ZMQ_POLLIN as c_int != 0)
    }

    fn option(&mut self, option: u32) -> io::Result<c_int> {
        let mut value: c_int = 0;
        let mut size = size_of::<c_int>();
        // SAFETY: a live socket, and `size` says how much room there is.
        check(unsafe {
            zmq_sys::zmq_getsockopt(
                self.raw,
                option as c_int,
                (&raw mut value).cast(),
                &raw mut size,
            )
        })?;
        Ok(value)
    }

    /// Reports what happens to this socket's connections to `inproc` address `endpoint`.
    pub(crate) fn monitor(&mut self, endpoint: &str, events: u32) -> io::Result<()> {
        let endpoint = c_string(endpoint)?;
        let (made, marks) = marking(OF_SOCKET, || {
            // SAFETY: a live socket and a C string.
            check(unsafe {
                zmq_sys::zmq_socket_monitor(self.raw, endpoint.as_ptr(), events as c_int)
            })
        });
        self.monitor = marks;
        made
    }

    /// Ends the reports, so that their reader may go. (A report that nobody can take any more stops
    /// libzmq's I/O thread, and with it every connection of the process:
    /// `socket_base_t::monitor_event` waits for a reader.)
    pub(crate) fn stop_monitor(&mut self) -> io::Result<()> {
        self.monitor.clear();
        // SAFETY: a live socket; no address means that the reports end (zmq_socket_monitor(3)).
        check(unsafe { zmq_sys::zmq_socket_monitor(self.raw, std::ptr::null(), 0) })
    }

    /// Sends one frame; `WouldBlock` if `wait` is false and there is no room.
    pub(crate) fn send(&mut self, frame: Outgoing<'_>, more: bool, wait: bool) -> io::Result<()> {
        let mut message = Frame::outgoing(frame)?;
        let mut flags = 0;
        if more {
            flags |= zmq_sys::ZMQ_SNDMORE;
        }
        if !wait {
            flags |= zmq_sys::ZMQ_DONTWAIT;
        }
        // SAFETY: a live socket and an initialised message, which libzmq owns on success; on
        // failure it stays ours and is closed by the drop.
        let sent = unsafe { zmq_sys::zmq_msg_send(message.0.as_mut(), self.raw, flags as c_int) };
        if sent < 0 { Err(last_error()) } else { Ok(()) }
    }

    /// Receives one frame.
    pub(crate) fn receive(&mut self, wait: bool) -> io::Result<Frame> {
        let mut frame = Frame::empty();
        let flags = if wait { 0 } else { zmq_sys::ZMQ_DONTWAIT };
        // SAFETY: a live socket and an initialised message.
        let size = unsafe { zmq_sys::zmq_msg_recv(frame.0.as_mut(), self.raw, flags as c_int) };
        if size < 0 { Err(last_error()) } else { Ok(frame) }
    }
}

/// A frame to send.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing<'a> {
    /// Copied.
    Copy(&'a [u8]),
    /// Shared with libzmq until it has written it.
    Share(&'a Bytes),
    /// Likewise, and counted until then.
    Counted(Bytes, &'a Unwritten),
}

/// How many frames libzmq has and has not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten(Arc<AtomicUsize>);

/// One of them.
#[derive(Debug)]
pub(crate) struct OneUnwritten(Unwritten);

impl Unwritten {
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// One more, as long as the value is there.
    pub(crate) fn one(&self) -> OneUnwritten {
        self.0.fetch_add(1, Ordering::Relaxed);
        OneUnwritten(self.clone())
    }
}

impl Drop for OneUnwritten {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// What libzmq has of ours, until it has written it.
struct Handed {
    bytes: Bytes,
    _counted: Option<OneUnwritten>,
}

/// A libzmq message. Boxed, because libzmq must not see it move.
pub(crate) struct Frame(Box<zmq_sys::zmq_msg_t>);

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes)", self.as_ref().len())
    }
}

// SAFETY: a message may be used by any one thread at a time (zmq_msg_init(3)).
unsafe impl Send for Frame {}
// SAFETY: shared access only reads its data, which does not change any more.
unsafe impl Sync for Frame {}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: every Frame is initialised; closing a message that was sent is allowed.
        unsafe { zmq_sys::zmq_msg_close(self.0.as_mut()) };
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        let message = std::ptr::from_ref(self.0.as_ref()).cast_mut();
        // SAFETY: an initialised message; both functions only read it.
        let (data, size) =
            unsafe { (zmq_sys::zmq_msg_data(message), zmq_sys::zmq_msg_size(message)) };
        if size == 0 {
            return &[];
        }
        // SAFETY: libzmq keeps `size` bytes at `data` until the message is closed, which the
        // borrow of `self` prevents.
        unsafe { std::slice::from_raw_parts(data.cast(), size) }
    }
}

impl Frame {
    fn empty() -> Self {
        // SAFETY: zmq_msg_t is plain bytes; zmq_msg_init makes them a message.
        let mut frame = Self(Box::new(unsafe { std::mem::zeroed() }));
        // SAFETY: room for one message.
        unsafe { zmq_sys::zmq_msg_init(frame.0.as_mut()) };
        frame
    }

    fn outgoing(frame: Outgoing<'_>) -> io::Result<Self> {
        match frame {
            Outgoing::Share(bytes) if bytes.len() > COPY_MAX => {
                Self::share(Handed { bytes: bytes.clone(), _counted: None })
            }
            Outgoing::Share(bytes) => Self::copy(bytes),
            Outgoing::Counted(bytes, unwritten) => {
                Self::share(Handed { bytes, _counted: Some(unwritten.one()) })
            }
            Outgoing::Copy(bytes) => Self::copy(bytes),
        }
    }

    fn copy(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: as in `empty`.
        let mut frame = Self(Box::new(unsafe { std::mem::zeroed() }));
        // SAFETY: room for one message.
        let made = unsafe { zmq_sys::zmq_msg_init_size(frame.0.as_mut(), bytes.len()) };
        if made != 0 {
            let error = last_error();
            // So that the drop closes a sound message.
            // SAFETY: room for one message.
            unsafe { zmq_sys::zmq_msg_init(frame.0.as_mut()) };
            return Err(error);
        }
        // SAFETY: zmq_msg_init_size made room for exactly these bytes.
        unsafe {
            let target = zmq_sys::zmq_msg_data(frame.0.as_mut()).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        Ok(frame)
    }

    fn share(handed: Handed) -> io::Result<Self> {
        // SAFETY: as in `empty`.
        let mut frame = Self(Box::new(unsafe { std::mem::zeroed() }));
        let (data, size) = (handed.bytes.as_ptr().cast_mut().cast(), handed.bytes.len());
        let hint = Box::into_raw(Box::new(handed));
        // SAFETY: the bytes live until `release` drops the box; libzmq does not write to them.
        let made = unsafe {
            zmq_sys::zmq_msg_init_data(frame.0.as_mut(), data, size, Some(release), hint.cast())
        };
        if made == 0 {
            return Ok(frame);
        }
        let error = last_error();
        // SAFETY: libzmq refused, so the box is still ours; and the drop needs a sound message.
        unsafe {
            drop(Box::from_raw(hint));
            zmq_sys::zmq_msg_init(frame.0.as_mut());
        }
        Err(error)
    }

    /// True if more frames of the same message follow.
    pub(crate) fn more(&self) -> bool {
        let message = std::ptr::from_ref(self.0.as_ref()).cast_mut();
        // SAFETY: an initialised message; the function only reads it.
        unsafe { zmq_sys::zmq_msg_more(message) != 0 }
    }

    /// The address of the peer that sent it, if libzmq knows.
    pub(crate) fn peer_address(&self) -> Option<String> {
        let message = std::ptr::from_ref(self.0.as_ref()).cast_mut();
        // SAFETY: an initialised message and a C string; the answer lives as long as the message.
        let text = unsafe { zmq_sys::zmq_msg_gets(message, c"Peer-Address".as_ptr()) };
        if text.is_null() {
            return None;
        }
        // SAFETY: not null, so a C string (zmq_msg_gets(3)).
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// The content: shared if it is worth it.
    pub(crate) fn into_bytes(self) -> Bytes {
        const COPY: usize = 64;
        if self.as_ref().len() <= COPY {
            return Bytes::copy_from_slice(self.as_ref());
        }
        Bytes::from_owner(self)
    }
}

unsafe extern "C" fn release(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the box that `share` gave away, and libzmq calls this once.
    drop(unsafe { Box::from_raw(hint.cast::<Handed>()) });
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn errno() -> i32 {
    // SAFETY: no arguments.
    unsafe { zmq_sys::zmq_errno() }
}

fn last_error() -> io::Error {
    io::Error::from_raw_os_error(errno())
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(last_error()) }
}
