//! Large data that stays in place: the sender tells the receiver where a frame lies in its
//! [`Arena`], and does not touch the frame until the receiver has given it back.
//!
//! Every ring has slots, words that both ends see. The sender lends a frame under a free slot. The
//! receiver marks the slot when it takes the frame, and again when the frame's last reader is gone.
//! This takes no message.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::sys::arena::{Arena, BorrowedMemory};
use crate::sys::memory::SharedMemory;
use pslite_core::wire::native::{LENT, Lent};

/// Frames of fewer bytes are copied into the ring: to lend them would cost more.
pub const LEND_MIN: usize = 32 << 10;
/// The words of a ring that are slots. Those before belong to the ring itself.
const SLOTS: Range<usize> = 64..512;

/// What a slot says. Whatever else a peer writes there means none of these.
const FREE: u64 = 0;
const OFFERED: u64 = 1;
const TAKEN: u64 = 2;
const RETURNED: u64 = 3;

fn slot(memory: &SharedMemory, number: usize) -> &AtomicU64 {
    &memory.words()[number]
}

/// What a sender has lent over one ring.
#[derive(Debug)]
pub(super) struct Leases {
    memory: Arc<SharedMemory>,
    arena: Arc<Arena>,
    free: Vec<usize>,
    out: Vec<(usize, Bytes)>,
}

impl Leases {
    pub(super) fn new(memory: Arc<SharedMemory>, arena: Arc<Arena>) -> Self {
        Self { memory, arena, free: SLOTS.rev().collect(), out: Vec::new() }
    }

    /// Lends a frame: what the receiver is told instead. `None` if the frame is not in the arena,
    /// is small, or too many are lent.
    pub(super) fn lend(&mut self, frame: &Bytes) -> Option<[u8; LENT]> {
        if frame.len() < LEND_MIN {
            return None;
        }
        let offset = self.arena.locate(frame)?;
        let number = self.free.pop()?;
        slot(&self.memory, number).store(OFFERED, Ordering::Relaxed);
        self.out.push((number, frame.clone()));
        let lent = Lent { slot: number as u32, offset: offset as u64, length: frame.len() as u64 };
        Some(lent.encode())
    }

    /// Takes back what the receiver gave back.
    pub(super) fn collect(&mut self) {
        let Self { memory, free, out, .. } = self;
        out.retain(|(number, _)| {
            let word = slot(memory, *number);
            // Acquire: the reader is done before the memory is written again.
            let returned = word.load(Ordering::Acquire) == RETURNED;
            if returned {
                word.store(FREE, Ordering::Relaxed);
                free.push(*number);
            }
            !returned
        });
    }

    /// The receiver reads this ring no more: takes back what it never took.
    pub(super) fn collect_offered(&mut self) {
        let memory = &self.memory;
        self.out.retain(|(number, _)| slot(memory, *number).load(Ordering::Acquire) != OFFERED);
        self.collect();
    }

    /// True if nothing is lent.
    pub(super) const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}

/// The memory of a peer, of which it lends.
#[derive(Debug)]
pub(super) struct Lender {
    pub(super) memory: BorrowedMemory,
    pub(super) slots: Arc<SharedMemory>,
}

impl Lender {
    /// The frame that a peer lends; `None` if there is no such place.
    pub(super) fn borrow(self: &Arc<Self>, lent: &[u8], length_max: u64) -> Option<Bytes> {
        let lent = Lent::decode(lent.try_into().ok()?)?;
        let number = usize::try_from(lent.slot).ok().filter(|number| SLOTS.contains(number))?;
        let offset = usize::try_from(lent.offset).ok()?;
        let len = usize::try_from(lent.length).ok().filter(|_| lent.length <= length_max)?;
        self.memory.bytes(offset, len)?;
        slot(&self.slots, number).store(TAKEN, Ordering::Relaxed);
        Some(Bytes::from_owner(Borrowed { lender: Arc::clone(self), number, offset, len }))
    }
}

/// A frame in a peer's memory; given back when dropped.
struct Borrowed {
    lender: Arc<Lender>,
    number: usize,
    offset: usize,
    len: usize,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // `borrow` has looked that it is there.
        self.lender.memory.bytes(self.offset, self.len).unwrap_or_default()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // Release: what was read is read before the peer may write there again.
        slot(&self.lender.slots, self.number).store(RETURNED, Ordering::Release);
    }
}

/// The frame in the arena, where it can be lent over that channel: copied there unless it is there
/// already. The frame as it is, if it is small or the arena has no room.
pub(super) fn adopt(arena: &Arc<Arena>, channel: u32, frame: &Bytes) -> Bytes {
    if frame.len() < LEND_MIN || arena.locate(frame).is_some() {
        return frame.clone();
    }
    let Some(mut block) = arena.take(channel, frame.len()) else { return frame.clone() };
    block.bytes_mut().copy_from_slice(frame);
    Bytes::from_owner(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        leases: Leases,
        lender: Arc<Lender>,
        arena: Arc<Arena>,
    }

    fn rig() -> Rig {
        let arena = Arena::new().unwrap();
        let (descriptor, memory) = SharedMemory::create(4096).unwrap();
        let slots = Arc::new(SharedMemory::open(descriptor, 4096).unwrap());
        let there = BorrowedMemory::open(arena.descriptor().try_clone_to_owned().unwrap()).unwrap();
        Rig {
            leases: Leases::new(Arc::new(memory), Arc::clone(&arena)),
            lender: Arc::new(Lender { memory: there, slots }),
            arena,
        }
    }

    fn frame(arena: &Arc<Arena>, byte: u8) -> Bytes {
        adopt(arena, 1, &Bytes::from(vec![byte; LEND_MIN]))
    }

    #[test]
    fn a_frame_is_lent_until_its_last_reader_is_gone() {
        let Rig { mut leases, lender, arena } = rig();
        let bytes = frame(&arena, 5);
        let place = bytes.as_ptr();
        let lent = leases.lend(&bytes.slice(1..).slice(..LEND_MIN - 1));
        assert!(lent.is_none(), "it is small");
        let lent = leases.lend(&bytes).unwrap();
        drop(bytes);
        let there = lender.borrow(&lent, u64::MAX).unwrap();
        let part = there.slice(10..12);
        drop(there);
        leases.collect();
        assert!(!leases.is_empty());
        assert_ne!(frame(&arena, 6).as_ptr(), place, "a block that is lent is not taken");
        assert_eq!(&part[..], [5, 5]);
        drop(part);
        leases.collect();
        assert!(leases.is_empty());
        // The last block given back is the first to be used.
        assert_eq!(frame(&arena, 7).as_ptr(), place);
    }

    #[test]
    fn slots_are_used_again_and_have_a_limit() {
        let Rig { mut leases, lender, arena } = rig();
        let bytes = frame(&arena, 1);
        let lent: Vec<_> = std::iter::from_fn(|| leases.lend(&bytes)).collect();
        assert_eq!(lent.len(), SLOTS.len());
        let there: Vec<_> =
            lent.iter().map(|lent| lender.borrow(lent, u64::MAX).unwrap()).collect();
        drop(there);
        leases.collect();
        assert!(leases.is_empty() && leases.lend(&bytes).is_some());
    }

    #[test]
    fn what_was_not_taken_comes_back_when_the_ring_ends() {
        let Rig { mut leases, lender, arena } = rig();
        let (a, b) = (frame(&arena, 1), frame(&arena, 2));
        let taken = leases.lend(&a).unwrap();
        leases.lend(&b).unwrap();
        let there = lender.borrow(&taken, u64::MAX).unwrap();
        leases.collect_offered();
        assert_eq!(leases.out.len(), 1);
        drop(there);
        leases.collect();
        assert!(leases.is_empty());
    }

    #[test]
    fn a_place_that_is_not_there_is_refused() {
        let Rig { mut leases, lender, arena } = rig();
        let lent = leases.lend(&frame(&arena, 1)).unwrap();
        assert!(lender.borrow(&lent, LEND_MIN as u64).is_some());
        assert!(lender.borrow(&lent, LEND_MIN as u64 - 1).is_none());
        assert!(lender.borrow(&lent[1..], u64::MAX).is_none());
        let bad = |lent: Lent| lender.borrow(&lent.encode(), u64::MAX).is_none();
        assert!(bad(Lent { slot: 3, offset: 0, length: 1 }));
        assert!(bad(Lent { slot: 512, offset: 0, length: 1 }));
        assert!(bad(Lent { slot: 64, offset: u64::MAX, length: 2 }));
        assert!(bad(Lent { slot: 64, offset: 0, length: 1 << 60 }));
    }
}
