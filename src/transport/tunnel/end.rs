//! One end of a passage: a socket, and what is still to be written to it. Reads no more from one
//! end while the other one has no room, so a passage holds at most what one read brought.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{Shutdown, shutdown};

use crate::native::{socket_read, socket_write};
use crate::stuck::ConnectionProgress;
use crate::sys::tcp::limit_unsent;

/// What the kernel takes that is not sent yet. What waits here is overtaken by nothing.
const UNSENT_MAX: u32 = 64 << 10;
/// Reads of one end before others have their turn.
const READS_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct TunnelEnd {
    pub(super) socket: OwnedFd,
    /// What is to be written here, from `written`.
    waiting: Vec<u8>,
    written: usize,
    /// Nothing more comes from here.
    pub(super) ended: bool,
    /// Nothing more goes there.
    shut: bool,
    progress: ConnectionProgress,
}

impl TunnelEnd {
    pub(super) fn new(socket: OwnedFd) -> Self {
        let progress = ConnectionProgress::default();
        // One that cannot be limited passes all the same.
        let _ = limit_unsent(socket.as_fd(), UNSENT_MAX);
        Self { socket, waiting: Vec::new(), written: 0, ended: false, shut: false, progress }
    }

    /// Writes that, or keeps what finds no room.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        if self.is_empty() {
            while !rest.is_empty() {
                match socket_write(&self.socket, &[IoSlice::new(rest)]) {
                    Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.waiting.extend_from_slice(rest);
        Ok(())
    }

    /// True if nothing is to be written.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what waits; false if some of it still found no room.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while let Some(rest) = self.waiting.get(self.written..).filter(|rest| !rest.is_empty()) {
            match socket_write(&self.socket, &[IoSlice::new(rest)]) {
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Most connections are idle most of the time: they keep no buffer.
        (self.waiting, self.written) = (Vec::new(), 0);
        Ok(true)
    }

    /// After the last word to it: true once it has ended, too. Till then what it says is dropped;
    /// if it were closed before, the word might be lost.
    pub(super) fn finish(&mut self, space: &mut [u8]) -> io::Result<bool> {
        if !self.flush()? {
            return Ok(false);
        }
        self.shut();
        for _ in 0..READS_MAX {
            match socket_read(&self.socket, space) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // It does not listen.
        Ok(true)
    }

    /// Nothing more is written there.
    fn shut(&mut self) {
        if !std::mem::replace(&mut self.shut, true) {
            // Fails if that end is gone; reading from it shows that.
            let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
        }
    }

    /// True if both directions have ended, and all is written.
    pub(super) const fn is_done(&self) -> bool {
        self.ended && self.shut && self.is_empty()
    }

    /// True if what is sent there gets through no more ([`ConnectionProgress::is_stuck`]).
    pub(super) fn is_stuck(&mut self) -> bool {
        self.progress.is_stuck(self.socket.as_fd())
    }
}

/// What carrying from one end to the other came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) bytes: usize,
    /// There may be more, though nobody will say so.
    pub(super) more: bool,
}

/// Carries what came at one end to the other.
pub(super) fn carry(
    from: &mut TunnelEnd,
    to: &mut TunnelEnd,
    space: &mut [u8],
) -> io::Result<Carried> {
    let mut carried = Carried::default();
    for _ in 0..READS_MAX {
        if !to.flush()? {
            return Ok(carried);
        }
        if from.ended {
            to.shut();
            return Ok(carried);
        }
        match socket_read(&from.socket, space) {
            Ok(0) => from.ended = true,
            Ok(n) => {
                carried.bytes += n;
                to.write(space.get(..n).unwrap_or_default())?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(carried),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    carried.more = true;
    Ok(carried)
}
