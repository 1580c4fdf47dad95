//! A stream of bytes from one process to another through shared memory: a ring with one writer and
//! one reader. Each end keeps its own position to itself, and checks the position that the other
//! end reports.
//!
//! An end with nothing to do sets a flag and checks once more before it sleeps; the other end reads
//! the flag after each step. Two fences make sure that at least one of them sees the other's
//! change.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::memory::SharedMemory;

/// The largest content of a ring that is accepted, in bytes.
pub(super) const RING_MAX: usize = 1 << 30;
/// The smallest.
pub(super) const RING_MIN: usize = 64 << 10;
/// So many bytes are copied before the other end sees them: both copy at the same time.
const COPIED_AT_ONCE: usize = 32 << 10;

/// Words of the memory, each in a cache line of its own: how many bytes were ever written and read,
/// and who waits.
const WRITTEN: usize = 0;
const READ: usize = 16;
const READER_SLEEPS: usize = 32;
const WRITER_WAITS: usize = 48;

#[derive(Debug)]
struct Ring {
    memory: Arc<SharedMemory>,
    size: u64,
}

/// The writing end.
#[derive(Debug)]
pub(super) struct RingWriter {
    ring: Ring,
    written: u64,
    read_seen: u64,
}

/// The reading end.
#[derive(Debug)]
pub(super) struct RingReader {
    ring: Ring,
    read: u64,
    written_seen: u64,
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the other end of the shared ring contradicts itself",
    )
}

impl Ring {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.words()[index]
    }

    /// Where a place of the stream is, and how many bytes there are until the end of the memory.
    fn at(&self, place: u64) -> (usize, usize) {
        let offset = place & (self.size - 1);
        (offset as usize, (self.size - offset) as usize)
    }

    /// Raises a flag; true if the other end had not moved on before it can see the flag.
    fn raise(&self, flag: usize, unmoved: impl Fn() -> bool) -> bool {
        self.word(flag).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if unmoved() {
            return true;
        }
        self.word(flag).store(0, Ordering::Relaxed);
        false
    }

    /// Lowers the other end's flag; true if it was up.
    fn lower(&self, flag: usize) -> bool {
        fence(Ordering::SeqCst);
        self.word(flag).load(Ordering::Relaxed) != 0
            && self.word(flag).swap(0, Ordering::AcqRel) != 0
    }
}

impl RingWriter {
    /// A new ring, and the descriptor for the reader.
    pub(super) fn create(size: usize) -> io::Result<(OwnedFd, Self)> {
        let size = size.clamp(RING_MIN, RING_MAX).next_power_of_two();
        let (descriptor, memory) = SharedMemory::create(size)?;
        let ring = Ring { memory: Arc::new(memory), size: size as u64 };
        Ok((descriptor, Self { ring, written: 0, read_seen: 0 }))
    }

    /// The memory, whose other words serve what is lent.
    pub(super) fn memory(&self) -> Arc<SharedMemory> {
        Arc::clone(&self.ring.memory)
    }

    fn room(&mut self, wanted: u64) -> io::Result<u64> {
        if self.ring.size - (self.written - self.read_seen) < wanted {
            let read = self.ring.word(READ).load(Ordering::Acquire);
            if read < self.read_seen || read > self.written {
                return Err(broken());
            }
            self.read_seen = read;
        }
        Ok(self.ring.size - (self.written - self.read_seen))
    }

    /// Writes as much as there is room for. `knock` wakes the reader if it sleeps.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; `InvalidData` if the reader does not keep to the rules.
    pub(super) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut knock: impl FnMut(),
    ) -> io::Result<usize> {
        let mut total = 0;
        let mut unseen = 0;
        'all: for slice in slices {
            let mut bytes: &[u8] = slice;
            while !bytes.is_empty() {
                let room = self.room(bytes.len().min(COPIED_AT_ONCE) as u64)?;
                let (offset, until_end) = self.ring.at(self.written);
                let n = bytes.len().min(COPIED_AT_ONCE).min(until_end).min(room as usize);
                if n == 0 {
                    break 'all;
                }
                let (now, later) = bytes.split_at(n);
                if !self.ring.memory.write(offset, now) {
                    return Err(broken());
                }
                bytes = later;
                self.written += n as u64;
                total += n;
                unseen += n;
                if unseen >= COPIED_AT_ONCE {
                    self.publish(&mut knock);
                    unseen = 0;
                }
            }
        }
        if unseen > 0 {
            self.publish(&mut knock);
        }
        if total == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(total) }
    }

    fn publish(&self, knock: &mut impl FnMut()) {
        self.ring.word(WRITTEN).store(self.written, Ordering::Release);
        if self.ring.lower(READER_SLEEPS) {
            knock();
        }
    }

    /// True if there is room now.
    pub(super) fn has_room(&self) -> bool {
        self.written - self.ring.word(READ).load(Ordering::Acquire).min(self.written)
            < self.ring.size
    }

    /// Asks the reader to say when there is room; false if there is some already.
    pub(super) fn ask_for_room(&self) -> bool {
        self.ring.raise(WRITER_WAITS, || !self.has_room())
    }
}

impl RingReader {
    /// The ring that a writer made.
    ///
    /// # Errors
    /// The descriptor is no such ring.
    pub(super) fn open(descriptor: OwnedFd) -> io::Result<Self> {
        let memory = SharedMemory::open(descriptor, RING_MAX)?;
        let size = memory.content_len();
        if !size.is_power_of_two() || size < RING_MIN {
            return Err(broken());
        }
        Ok(Self {
            ring: Ring { memory: Arc::new(memory), size: size as u64 },
            read: 0,
            written_seen: 0,
        })
    }

    /// The memory, whose other words serve what is lent.
    pub(super) fn memory(&self) -> Arc<SharedMemory> {
        Arc::clone(&self.ring.memory)
    }

    fn available(&mut self) -> io::Result<u64> {
        if self.written_seen == self.read {
            let written = self.ring.word(WRITTEN).load(Ordering::Acquire);
            if written < self.written_seen || written - self.read > self.ring.size {
                return Err(broken());
            }
            self.written_seen = written;
        }
        Ok(self.written_seen - self.read)
    }

    /// Reads what there is, as far as the slices take it. `knock` wakes the writer, who waits for
    /// room.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; `InvalidData` if the writer does not keep to the rules.
    pub(super) fn read(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        mut knock: impl FnMut(),
    ) -> io::Result<usize> {
        let mut total = 0;
        'all: for slice in slices {
            let mut bytes: &mut [u8] = slice;
            while !bytes.is_empty() {
                let available = self.available()? as usize;
                let (offset, until_end) = self.ring.at(self.read);
                let n = bytes.len().min(COPIED_AT_ONCE).min(until_end).min(available);
                if n == 0 {
                    break 'all;
                }
                let (now, later) = bytes.split_at_mut(n);
                if !self.ring.memory.read(offset, now) {
                    return Err(broken());
                }
                bytes = later;
                self.read += n as u64;
                total += n;
                self.ring.word(READ).store(self.read, Ordering::Release);
                // Waking it for a little room would cost more than it brings.
                if n == COPIED_AT_ONCE || self.written_seen == self.read {
                    self.knock_if_roomy(&mut knock);
                }
            }
        }
        if total == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(total) }
    }

    fn knock_if_roomy(&mut self, knock: &mut impl FnMut()) {
        let filled = self.ring.word(WRITTEN).load(Ordering::Relaxed).saturating_sub(self.read);
        if filled <= self.ring.size / 2 && self.ring.lower(WRITER_WAITS) {
            knock();
        }
    }

    /// True if there is something to read.
    pub(super) fn has_bytes(&self) -> bool {
        self.ring.word(WRITTEN).load(Ordering::Acquire) != self.read
    }

    /// Asks the writer to wake this end; false if there is something to read already.
    pub(super) fn sleep(&self) -> bool {
        self.ring.raise(READER_SLEEPS, || !self.has_bytes())
    }

    /// Takes that back.
    pub(super) fn awake(&self) {
        self.ring.word(READER_SLEEPS).store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
