//! The channel to one peer on the stock wire: its connection, and the messages that wait for room
//! in it. May touch the socket that sends (`out`); knows nothing of what is received.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use super::super::sys::{Outgoing, Socket, Unwritten};
use super::out::OutRoute;
use crate::entrance::Entrance;
use crate::sync::lock;
use pslite_core::fifo::PriorityFifo;

/// Messages that wait aside for one peer; control messages beyond it are refused.
pub(super) const ASIDE_MAX: usize = 4096;
/// Of these the ones that are no control messages ([`super::SendMode::Queue`]).
pub(super) const QUEUED_MAX: usize = ASIDE_MAX / 2;

/// A message that waits.
#[derive(Debug)]
pub(super) struct WaitingMessage {
    meta: Vec<u8>,
    data: SmallVec<[Bytes; 3]>,
}

#[derive(Debug)]
pub(super) struct StockChannel {
    pub(super) route: OutRoute,
    /// Control messages that found no room, in order.
    pub(super) aside: VecDeque<WaitingMessage>,
    /// Messages in order of priority (p3).
    pub(super) by_priority: PriorityFifo<WaitingMessage>,
    pub(super) gone: bool,
    /// It leads through this entrance of tunnels, which is open as long as the channel is there.
    pub(super) entrance: Option<Arc<Entrance>>,
    /// It was reported up, and not down since.
    pub(super) stands: bool,
    /// It never stood yet.
    pub(super) is_new: bool,
    /// Something was to be sent.
    pub(super) is_used: bool,
    pub(super) counts: SentCounts,
}

/// What was counted about what is sent to one peer; the channel's lock guards it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentCounts {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) connections: u64,
    pub(super) waiting_max: u64,
}

impl StockChannel {
    pub(super) fn new(route: OutRoute, entrance: Option<Arc<Entrance>>) -> Self {
        Self {
            route,
            aside: VecDeque::new(),
            by_priority: PriorityFifo::new(),
            gone: false,
            entrance,
            stands: false,
            is_new: true,
            is_used: false,
            counts: SentCounts::default(),
        }
    }

    /// How many messages wait here for room.
    pub(super) fn waiting(&self) -> u64 {
        (self.aside.len() + self.by_priority.len()) as u64
    }

    /// Notes a message that was taken, to be sent now or later.
    pub(super) fn count(&mut self, bytes: usize) {
        self.counts.messages += 1;
        self.counts.bytes += bytes as u64;
        self.counts.waiting_max = self.counts.waiting_max.max(self.waiting());
    }

    /// Sends what waits; false if some of it found no room.
    pub(super) fn drain(&mut self) -> io::Result<bool> {
        while let Some(front) = self.aside.pop_front() {
            match self.route.send(&front.meta, &front.data) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.aside.push_front(front);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        while let Some(next) = self.by_priority.pop() {
            match self.route.send(&next.meta, &next.data) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // It was the most urgent and stays that: ahead of all that come later.
                    self.aside.push_front(next);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    pub(super) fn send_now(&self, meta: &[u8], data: &[Bytes]) -> io::Result<()> {
        self.route.send(meta, data)
    }
}

/// Sends the frames of a message behind those that say where it goes: there was room for the whole
/// then. `unwritten` counts the message until libzmq has written it.
pub(super) fn send_frames(
    socket: &mut Socket,
    meta: &[u8],
    data: &[Bytes],
    unwritten: Option<&Unwritten>,
) -> io::Result<()> {
    let Some((last, others)) = data.split_last() else {
        let counted = |unwritten| Outgoing::Counted(Bytes::copy_from_slice(meta), unwritten);
        return socket.send(unwritten.map_or(Outgoing::Copy(meta), counted), false, true);
    };
    socket.send(Outgoing::Copy(meta), true, true)?;
    for frame in others {
        socket.send(Outgoing::Share(frame), true, true)?;
    }
    let counted = |unwritten| Outgoing::Counted(last.clone(), unwritten);
    socket.send(unwritten.map_or(Outgoing::Share(last), counted), false, true)
}

pub(super) fn waiting(meta: &[u8], data: &[Bytes]) -> WaitingMessage {
    WaitingMessage { meta: meta.to_vec(), data: data.iter().cloned().collect() }
}

pub(super) fn close_channel(channel: &Mutex<StockChannel>, linger: Duration) {
    let mut channel = lock(channel);
    let _ = channel.drain();
    channel.gone = true;
    channel.route.close(linger);
}
