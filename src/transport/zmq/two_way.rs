//! Answers that go back over the connection that brought the request, as BytePS's ps-lite sends
//! them (zmq_van.h of its source archive 0.2.5.post15, `NonWorkerSendMsg`). The answering node's
//! ROUTER sends `ps<to> | ps<me> | metadata | data` and consumes the first frame; the asking node
//! receives the rest, after the number of its connection.
//!
//! So this transport receives from several sockets, and all of them send as well. A libzmq socket
//! is for one thread at a time, so each has a lock here. The receiver sleeps on the sockets'
//! descriptors without holding a lock. A descriptor signals new data only once, and any use of its
//! socket may consume the signal. So after sending, a thread checks whether there is something to
//! receive, and rings the bell if the receiver sleeps ([`ZmqTransport::used`]). (Stock's threads
//! never sleep instead.)

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::channel::{StockChannel, send_frames};
use super::names::id_of;
use super::out::{Out, number_of};
use super::{RecvError, SendError, SendMode, Socket, WAKE, ZmqIncoming, ZmqTransport, rest};
use crate::sync::lock;
use crate::sys::Outgoing;
use crate::sys::fork::Marked;
use pslite_observe::awake;

/// Messages from one socket before the others have their turn.
const BURST: usize = 32;
/// The longest sleep. Nothing is found only by this: it bounds what a fault of ours, or libzmq's,
/// would cost.
const SLEEP_MS: u16 = 1000;
/// How long an answer waits for a peer whose connection broke to come back. Who is gone for good is
/// noticed meanwhile, and has no channel any more.
const RETURN: Duration = Duration::from_secs(10);

/// What a transport whose answers go back needs besides.
#[derive(Debug)]
pub(super) struct TwoWay {
    /// Answers come over the connections that this node made.
    asks: bool,
    signal: Marked<OwnedFd>,
    bell: Marked<EventFd>,
    /// The receiver looks at all sockets once more before it sleeps, or sleeps.
    sleeps: AtomicBool,
    /// The socket that had the last message, and how many in a row: 0 is the ROUTER.
    turn: Mutex<(usize, usize)>,
}

impl TwoWay {
    pub(super) fn new(receiver: &mut Socket, asks: bool) -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            asks,
            signal: receiver.signal()?,
            bell: Marked::new(EventFd::from_flags(flags)?),
            sleeps: AtomicBool::new(false),
            turn: Mutex::default(),
        })
    }

    fn ring(&self) {
        // Full means that it rings already.
        let _ = self.bell.write(1);
    }
}

/// A socket to receive from.
enum SocketSource {
    Router,
    Out(Arc<Out>),
}

impl ZmqTransport {
    /// True if answers come over a connection of that name. Over an anonymous one none do.
    pub(super) fn hears(&self, identity: Option<i32>) -> bool {
        identity.is_some() && self.two_way.as_ref().is_some_and(|two_way| two_way.asks)
    }

    /// After every use of a channel's socket but by the receiver: see the module.
    pub(super) fn used(&self, channel: &StockChannel) {
        if let Some(two_way) = &self.two_way
            && channel.route.out.signal.is_some()
            && two_way.sleeps.load(Ordering::SeqCst)
            && lock(&channel.route.out.socket).has_message().unwrap_or(true)
        {
            two_way.ring();
        }
    }

    /// The receiver is to look at everything anew.
    pub(super) fn look_again(&self) {
        if let Some(two_way) = &self.two_way {
            two_way.ring();
        }
    }

    pub(super) fn recv_two_way(&self, two_way: &TwoWay) -> Result<ZmqIncoming, RecvError> {
        loop {
            if let Some(incoming) = self.receive_now(two_way)? {
                return Ok(incoming);
            }
            two_way.sleeps.store(true, Ordering::SeqCst);
            // Who sends from here on sees that it sleeps; what came before is found now.
            let last_look = self.receive_now(two_way);
            if let Ok(None) = last_look {
                self.sleep(two_way)?;
            }
            two_way.sleeps.store(false, Ordering::SeqCst);
            if let Some(incoming) = last_look? {
                return Ok(incoming);
            }
        }
    }

    fn sleep(&self, two_way: &TwoWay) -> Result<(), RecvError> {
        let sources = self.sources(two_way);
        let signals = sources.iter().filter_map(|source| match source {
            SocketSource::Router => None,
            SocketSource::Out(out) => out.signal.as_deref(),
        });
        let own = [two_way.signal.as_fd(), two_way.bell.as_fd()];
        let fds = own.into_iter().chain(signals.map(AsFd::as_fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::from(SLEEP_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(RecvError::Io(error.into())),
        }
        // Nothing to read means that it did not ring.
        let _ = two_way.bell.read();
        Ok(())
    }

    /// The ROUTER, then the sockets over which answers come.
    fn sources(&self, two_way: &TwoWay) -> Vec<SocketSource> {
        let mut all = vec![SocketSource::Router];
        if two_way.asks {
            let outs = self.outs.all().into_iter().filter(|out| out.signal.is_some());
            all.extend(outs.map(SocketSource::Out));
        }
        all
    }

    /// A message that is here, if one is. Sockets take turns.
    fn receive_now(&self, two_way: &TwoWay) -> Result<Option<ZmqIncoming>, RecvError> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(RecvError::Stopped);
        }
        let sources = self.sources(two_way);
        let (last, row) = *lock(&two_way.turn);
        let first = if row >= BURST { last + 1 } else { last };
        for step in 0..sources.len() {
            let at = (first + step) % sources.len();
            let came = match &sources[at] {
                SocketSource::Router => self.take_from_router()?,
                SocketSource::Out(out) => self.take_from_out(out)?,
            };
            if let Some(incoming) = came {
                *lock(&two_way.turn) = (at, if at == last && step == 0 { row + 1 } else { 0 });
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }

    fn take_from_router(&self) -> Result<Option<ZmqIncoming>, RecvError> {
        let mut receiver = lock(&self.receiver);
        loop {
            let named = match receiver.socket.receive(false) {
                Ok(frame) => frame,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(RecvError::Io(error)),
            };
            let incoming = rest(&mut receiver.socket, named)?;
            if incoming.named.as_ref() == WAKE {
                continue;
            }
            self.note_received(&mut receiver, &incoming);
            return Ok(Some(incoming));
        }
    }

    /// An answer. Whoever answers says his name first; it has to be that of the peer.
    fn take_from_out(&self, out: &Out) -> Result<Option<ZmqIncoming>, RecvError> {
        let mut socket = lock(&out.socket);
        loop {
            let route = match socket.receive(false) {
                Ok(frame) => frame,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(RecvError::Io(error)),
            };
            // The frames of one message arrive together: this does not wait.
            let named = socket.receive(true).map_err(RecvError::Io)?;
            let incoming = rest(&mut socket, named)?;
            let key =
                number_of(route.as_ref()).and_then(|number| lock(&self.keys).get(&number).copied());
            if key.is_none() || id_of(incoming.named.as_ref()) != key {
                continue;
            }
            self.note_received(&mut lock(&self.receiver), &incoming);
            return Ok(Some(incoming));
        }
    }

    /// Sends an answer to the node of that id over the connection that it made; the size of the
    /// answer in bytes. `me`: my id.
    ///
    /// # Errors
    /// See [`SendError`]; also if it has made none, and makes none within 10 s.
    pub fn reply(
        &self,
        to: i32,
        me: i32,
        meta: &[u8],
        data: &[Bytes],
        mode: SendMode,
    ) -> Result<usize, SendError> {
        let Some(two_way) = &self.two_way else { return Err(SendError::NoSuchPeer) };
        let bytes = meta.len() + data.iter().map(Bytes::len).sum::<usize>();
        let names = [format!("ps{to}"), format!("ps{me}")];
        let begun = awake::now();
        let mut pause = Duration::from_micros(20);
        loop {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(SendError::Stopped);
            }
            let peer = self.peer(to).ok_or(SendError::NoSuchPeer)?;
            match self.reply_now(two_way, &names, meta, data) {
                Ok(()) => {
                    lock(&peer).count(bytes);
                    self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error() == Some(libc::EHOSTUNREACH) => {
                    if awake::since(begun) > RETURN {
                        return Err(SendError::PeerGone);
                    }
                }
                Err(error) => return Err(SendError::Io(error)),
            }
            if mode != SendMode::Block {
                return Err(SendError::QueueFull);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    /// All frames or none: only the first can find no room, or no peer.
    fn reply_now(
        &self,
        two_way: &TwoWay,
        [to, me]: &[String; 2],
        meta: &[u8],
        data: &[Bytes],
    ) -> io::Result<()> {
        let mut receiver = lock(&self.receiver);
        let socket = &mut receiver.socket;
        let sent = socket
            .send(Outgoing::Copy(to.as_bytes()), true, false)
            .and_then(|()| socket.send(Outgoing::Copy(me.as_bytes()), true, true))
            .and_then(|()| send_frames(socket, meta, data, None));
        if two_way.sleeps.load(Ordering::SeqCst) && socket.has_message().unwrap_or(true) {
            two_way.ring();
        }
        sent
    }
}

#[cfg(test)]
#[path = "two_way_tests.rs"]
mod tests;
