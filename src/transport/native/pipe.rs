//! One end of a connection: a socket, and with shared memory a ring as well. Data go through the
//! ring if there is one. Two things always use the socket: acknowledgements, which go against the
//! data, and the news that the ring has room again, which is rare (an eventfd for it would cost a
//! descriptor at each end). When the other process ends, the socket shows it in both cases.

#![allow(
    clippy::disallowed_methods,
    reason = "microseconds, compared within a call: no pause is a limit"
)]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
use nix::sys::uio::readv;

use super::bell::Bell;
use super::counters::{Counters, add};
use super::lend::{Leases, Lender};
use super::ring::{RingReader, RingWriter};
use crate::sys::arena::{Arena, BorrowedMemory};
use crate::sys::tcp::readable;
use pslite_core::wire::native::{Header, Kind};

/// Writes to a socket without waiting.
pub(crate) fn socket_write(socket: &OwnedFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    Ok(sendmsg::<()>(socket.as_raw_fd(), slices, &[], flags, None)?)
}

/// Writes a few bytes to a socket, together with descriptors; as a whole or not at all.
pub(crate) fn socket_write_with(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let n = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?;
    if n == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads from a socket without waiting; 0 bytes are its end.
pub(crate) fn socket_read(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT)?)
}

/// The end that data are written to.
#[derive(Debug)]
pub(super) struct OutPipe {
    pub(super) socket: OwnedFd,
    ring: Option<OutRing>,
}

#[derive(Debug)]
struct OutRing {
    writer: RingWriter,
    data: Bell,
    leases: Option<Leases>,
}

impl OutPipe {
    pub(super) const fn over_socket(socket: OwnedFd) -> Self {
        Self { socket, ring: None }
    }

    /// A new ring beside a Unix socket, and the descriptors for the other end.
    pub(super) fn over_ring(
        socket: OwnedFd,
        ring_bytes: usize,
        arena: Option<&Arc<Arena>>,
    ) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (memory, writer) = RingWriter::create(ring_bytes)?;
        let data = Bell::new()?;
        let mut descriptors = vec![memory, data.as_fd().try_clone_to_owned()?];
        let mut leases = None;
        if let Some(arena) = arena {
            descriptors.push(arena.descriptor().try_clone_to_owned()?);
            leases = Some(Leases::new(writer.memory(), Arc::clone(arena)));
        }
        let ring = OutRing { writer, data, leases };
        Ok((Self { socket, ring: Some(ring) }, descriptors))
    }

    pub(super) const fn carrier(&self) -> &'static str {
        if self.ring.is_some() { "shm" } else { "tcp" }
    }

    /// What is lent over it, if anything may be.
    pub(super) fn leases(&mut self) -> Option<&mut Leases> {
        self.ring.as_mut()?.leases.as_mut()
    }

    /// The same, of a connection that has ended.
    pub(super) fn into_leases(self) -> Option<Leases> {
        self.ring?.leases
    }

    /// Writes as much as there is room for. With shared memory it may wait for the reader for as
    /// long as `patience`, busily: that is shorter than any sleep.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; it will be told when there is. Else the connection is
    /// broken.
    pub(super) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        patience: Duration,
        counters: &Counters,
    ) -> io::Result<usize> {
        let Some(OutRing { writer, data, .. }) = &mut self.ring else {
            add(&counters.syscalls, 1);
            return socket_write(&self.socket, slices);
        };
        let mut until = None;
        loop {
            let written = writer.write(slices, || {
                add(&counters.syscalls, 1);
                data.ring();
            });
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            while !writer.has_room() && Instant::now() < until {
                (0..32).for_each(|_| std::hint::spin_loop());
            }
            if writer.ask_for_room() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

/// The end that data are read from.
#[derive(Debug)]
pub(super) struct InPipe {
    pub(super) socket: OwnedFd,
    ring: Option<InRing>,
}

#[derive(Debug)]
struct InRing {
    reader: RingReader,
    data: Bell,
    lender: Option<Arc<Lender>>,
}

impl InPipe {
    /// Bytes that have arrived at the socket and are not read.
    pub(super) fn readable(&self) -> usize {
        readable(self.socket.as_fd())
    }

    pub(super) const fn over_socket(socket: OwnedFd) -> Self {
        Self { socket, ring: None }
    }

    /// The other end of a ring, from the descriptors that came.
    pub(super) fn over_ring(socket: OwnedFd, descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::Error::from(io::ErrorKind::InvalidData));
        let (memory, data) = (next()?, next()?);
        let reader = RingReader::open(memory)?;
        let lender = match descriptors.next() {
            Some(arena) => {
                let memory = BorrowedMemory::open(arena)?;
                Some(Arc::new(Lender { memory, slots: reader.memory() }))
            }
            None => None,
        };
        let ring = InRing { reader, data: Bell::of(data), lender };
        Ok(Self { socket, ring: Some(ring) })
    }

    pub(super) const fn carrier(&self) -> &'static str {
        if self.ring.is_some() { "shm" } else { "tcp" }
    }

    /// The peer's memory, if it lends.
    pub(super) fn lender(&self) -> Option<&Arc<Lender>> {
        self.ring.as_ref()?.lender.as_ref()
    }

    /// What rings when there are data, if that does not show on the socket.
    pub(super) fn data(&self) -> Option<&Bell> {
        self.ring.as_ref().map(|ring| &ring.data)
    }

    /// The ring's reader.
    pub(crate) fn ring(&self) -> Option<&RingReader> {
        self.ring.as_ref().map(|ring| &ring.reader)
    }

    /// Reads what there is; 0 bytes are the end.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing. Else the connection is broken.
    pub(super) fn read(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        counters: &Counters,
    ) -> io::Result<usize> {
        if let Some(InRing { reader, .. }) = &mut self.ring {
            let socket = &self.socket;
            return reader.read(slices, || {
                counters.syscalls.fetch_add(1, Relaxed);
                // Without room there, the other end has not read what woke it, and looks at the
                // ring after that. (A Unix socket takes so few bytes as a whole or not at all.)
                let _ = socket_write(socket, &[IoSlice::new(&Header::new(Kind::Room).encode())]);
            });
        }
        counters.syscalls.fetch_add(1, Relaxed);
        match slices {
            // The kernel does less for it.
            [only] => socket_read(&self.socket, only),
            _ => Ok(readv(&self.socket, slices)?),
        }
    }
}
