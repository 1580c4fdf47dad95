//! A message of somebody who has no place in a job, over a connection of its own, and the answer
//! that comes back over the same. May touch libzmq; knows no message.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use super::super::sys::{Context, Outgoing, Socket, SocketKind};
use super::{Endpoint, FRAMES_MAX, TransportError, ZmqIncoming, ZmqTransport, zmq_error};

/// See the module. Whoever drops it waits for what has not gone out, for as long as was said.
#[derive(Debug)]
pub struct Question {
    socket: Socket,
    /// Closed behind its socket.
    _context: Context,
}

impl Question {
    /// Connects there, and asks. `stay`: how long the end waits until the question has gone out.
    ///
    /// # Errors
    /// libzmq cannot parse the address, or has no resources left.
    pub fn ask(endpoint: &Endpoint, meta: &[u8], stay: Duration) -> Result<Self, TransportError> {
        let make = || -> io::Result<Self> {
            let context = Context::new()?;
            let mut socket = context.socket(SocketKind::Dealer)?;
            let linger = i32::try_from(stay.as_millis()).unwrap_or(i32::MAX);
            socket.set_int(zmq_sys::ZMQ_LINGER, linger)?;
            socket.connect(&endpoint.to_string())?;
            socket.send(Outgoing::Copy(meta), false, false)?;
            Ok(Self { socket, _context: context })
        };
        make().map_err(zmq_error("cannot ask"))
    }

    /// One more question over the same connection.
    ///
    /// # Errors
    /// There is no room for it, or libzmq's.
    pub fn again(&mut self, meta: &[u8]) -> Result<(), TransportError> {
        let sent = self.socket.send(Outgoing::Copy(meta), false, false);
        sent.map_err(zmq_error("cannot ask"))
    }

    /// The frames of an answer, if one comes within that time. The longest frame that is taken has
    /// `most` bytes.
    pub fn answer(&mut self, within: Duration, most: usize) -> Option<SmallVec<[Bytes; 4]>> {
        let wait = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
        self.socket.set_int(zmq_sys::ZMQ_RCVTIMEO, wait).ok()?;
        let mut frames = SmallVec::new();
        loop {
            let frame = self.socket.receive(true).ok()?;
            let more = frame.more();
            if frames.len() < FRAMES_MAX && frame.as_ref().len() <= most {
                frames.push(frame.into_bytes());
            }
            if !more {
                return Some(frames);
            }
        }
    }
}

impl ZmqTransport {
    /// Answers a message over the connection by which it came: nothing is connected to. For the
    /// thread that receives. If the asker is gone, the answer is dropped.
    ///
    /// # Errors
    /// Another thread receives now, or libzmq's.
    pub fn answer(&self, to: &ZmqIncoming, meta: &[u8]) -> io::Result<()> {
        let Ok(mut receiver) = self.receiver.try_lock() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let socket = &mut receiver.socket;
        socket.send(Outgoing::Copy(to.named.as_ref()), true, false)?;
        socket.send(Outgoing::Copy(meta), false, false)
    }
}
