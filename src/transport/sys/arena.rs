//! Memory of this process that other processes of the host may read, so that large data reach them
//! without a copy.
//!
//! An [`Arena`] is one in-memory file, far larger than what is used of it; blocks are taken from it
//! and given back. Another process maps it read-only ([`BorrowedMemory`]) and is told which block
//! holds what. References to these bytes are sound on both sides by this rule: **only its owner
//! writes a block, before the block is lent, and not again until it was given back.** Here `Block`
//! and the lender keep the rule (`native::lend`). Over there the peer does: it has the token of the
//! job and runs the same code. A peer that broke the rule could only garble its own values, which
//! it can do in other ways too. The bytes are plain numbers, since only values are lent
//! (`wire::native::LENDABLE`); no length, key or text is read from them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};

use super::memory::{Mapping, check_file, new_file};
use crate::sync::lock;

/// Blocks begin at multiples of this many bytes: a page.
const PAGE: usize = 4096;
/// The address range is that many times the machine's memory: it is only used where it is written.
const RANGE_FACTOR: usize = 4;
/// The largest address range, of 2^47 that a process has.
const RANGE_MAX: usize = 1 << 44;

/// See the module.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Mapping,
    file: File,
    /// The same, to be read only.
    readable: OwnedFd,
    state: Mutex<ArenaState>,
    /// Bytes of blocks that are taken at most.
    taken_max: usize,
    /// Bytes of unused blocks that keep their memory.
    warm_max: usize,
}

/// What a block is used again for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockClass {
    /// Whom it was lent to.
    home: u32,
    /// All of its bytes: a step of `size_class`.
    size: usize,
}

/// Offsets of blocks.
type UnusedBlocks = BTreeMap<BlockClass, Vec<usize>>;

#[derive(Debug, Default)]
struct ArenaState {
    /// The first byte that no block ever had.
    fresh: usize,
    taken: usize,
    warm: UnusedBlocks,
    warm_bytes: usize,
    /// Their memory was given back to the kernel.
    cold: UnusedBlocks,
}

/// Memory of its owner alone; goes back to the arena when dropped. Its content is what was there
/// last.
#[derive(Debug)]
pub struct Block {
    arena: Arc<Arena>,
    class: BlockClass,
    offset: usize,
    len: usize,
}

impl Arena {
    /// An arena of which at most half of the machine's memory is used.
    ///
    /// # Errors
    /// The system gives no such memory.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let pages = sysconf(SysconfVar::_PHYS_PAGES)?.unwrap_or(0);
        let memory = usize::try_from(pages).unwrap_or(0).saturating_mul(PAGE).max(1 << 30);
        // A file beyond the limit would end the process (SIGXFSZ).
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let range = memory.saturating_mul(RANGE_FACTOR).min(RANGE_MAX).min(limit);
        Self::with_limits(range / PAGE * PAGE, memory / 2, memory / 16)
    }

    fn with_limits(range: usize, taken_max: usize, warm_max: usize) -> io::Result<Arc<Self>> {
        let file = new_file(range)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let readable = OwnedFd::from(OpenOptions::new().read(true).open(path)?);
        let mapping = Mapping::new(&file, range, true)?;
        let state = Mutex::default();
        Ok(Arc::new(Self { mapping, file, readable, state, taken_max, warm_max }))
    }

    /// What another process opens it by.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    /// Memory of that many bytes; `None` if there is none left. Blocks of one home are used again
    /// there alone: so a peer comes to see what is lent to it, and not in time all that is lent to
    /// anybody.
    pub(crate) fn take(self: &Arc<Self>, home: u32, len: usize) -> Option<Block> {
        let size = size_class(len)?;
        let class = BlockClass { home, size };
        let offset = lock(&self.state).take(class, self.mapping.len, self.taken_max)?;
        Some(Block { arena: Arc::clone(self), class, offset, len })
    }

    /// Where bytes are in the arena; `None` if they are elsewhere.
    pub(crate) fn locate(&self, bytes: &[u8]) -> Option<usize> {
        let offset =
            (bytes.as_ptr() as usize).checked_sub(self.mapping.address.as_ptr() as usize)?;
        (offset < self.mapping.len).then_some(offset)
    }

    fn give_back(&self, class: BlockClass, offset: usize) {
        let size = class.size;
        let mut state = lock(&self.state);
        state.taken -= size;
        if state.warm_bytes + size <= self.warm_max {
            state.warm_bytes += size;
            state.warm.entry(class).or_default().push(offset);
            return;
        }
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // If it fails, the memory stays in use until the end of the process.
        let _ = fallocate(&self.file, flags, offset as i64, size as i64);
        state.cold.entry(class).or_default().push(offset);
    }
}

impl ArenaState {
    fn take(&mut self, class: BlockClass, range: usize, taken_max: usize) -> Option<usize> {
        let size = class.size;
        if self.taken + size > taken_max {
            return None;
        }
        let offset = if let Some(offset) = pop(&mut self.warm, class) {
            self.warm_bytes -= size;
            offset
        } else if let Some(offset) = pop(&mut self.cold, class) {
            offset
        } else {
            let end = self.fresh.checked_add(size).filter(|end| *end <= range)?;
            std::mem::replace(&mut self.fresh, end)
        };
        self.taken += size;
        Some(offset)
    }
}

fn pop(unused: &mut UnusedBlocks, class: BlockClass) -> Option<usize> {
    unused.get_mut(&class).and_then(Vec::pop)
}

/// Whole pages, in steps of an eighth: so a block fits many lengths, and little is wasted.
fn size_class(len: usize) -> Option<usize> {
    let step = (len.max(1).ilog2() as usize).saturating_sub(3);
    len.max(1).checked_next_multiple_of((1 << step).max(PAGE))
}

impl Block {
    /// Its bytes, to write. Only before it is lent: see the module.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the arena gave these bytes to this block alone, they are within the mapping,
        // which the block keeps, and memory of the kernel is never uninitialised. Nobody reads them
        // in another process: it is told of blocks that are shared (`Bytes`), of which no `&mut`
        // can be had.
        unsafe {
            let begin = self.arena.mapping.address.as_ptr().add(self.offset);
            std::slice::from_raw_parts_mut(begin, self.len)
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`; other processes map the arena for reading only.
        unsafe {
            let begin = self.arena.mapping.address.as_ptr().add(self.offset);
            std::slice::from_raw_parts(begin, self.len)
        }
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.give_back(self.class, self.offset);
    }
}

/// Another process's arena.
#[derive(Debug)]
pub(crate) struct BorrowedMemory(Mapping);

impl BorrowedMemory {
    /// The arena behind a descriptor that another process sent.
    ///
    /// # Errors
    /// It could be cut, or is too large.
    pub(crate) fn open(descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        let len = check_file(&file)?;
        if len == 0 || len > RANGE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Mapping::new(&file, len, false).map(Self)
    }

    /// Bytes that are lent; `None` if there is no such place.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let end = offset.checked_add(len)?;
        if end > self.0.len {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as the borrow and cannot be cut. The peer
        // does not write there until the bytes are given back: the rule of the module.
        unsafe { Some(std::slice::from_raw_parts(self.0.address.as_ptr().add(offset), len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(warm_max: usize) -> Arc<Arena> {
        Arena::with_limits(64 * PAGE, 32 * PAGE, warm_max).unwrap()
    }

    #[test]
    fn another_mapping_reads_what_a_block_has() {
        let arena = arena(1 << 20);
        let mut block = arena.take(1, 5000).unwrap();
        block.bytes_mut()[4999] = 7;
        let there = BorrowedMemory::open(arena.descriptor().try_clone_to_owned().unwrap()).unwrap();
        let offset = arena.locate(&block.bytes()[4998..]).unwrap();
        assert_eq!(there.bytes(offset, 2), Some(&[0, 7][..]));
        assert!(there.bytes(64 * PAGE - 1, 2).is_none() && there.bytes(usize::MAX, 2).is_none());
        assert!(arena.locate(&[1, 2]).is_none());
    }

    #[test]
    fn blocks_are_used_again_and_never_twice() {
        let arena = arena(1 << 20);
        let (a, b) = (arena.take(1, PAGE).unwrap(), arena.take(1, PAGE).unwrap());
        let place = |block: &Block| arena.locate(block.bytes()).unwrap();
        assert_ne!(place(&a), place(&b));
        let first = place(&a);
        drop(a);
        assert_eq!(place(&arena.take(1, 10).unwrap()), first);
        drop(b);
        let all: Vec<_> = std::iter::from_fn(|| arena.take(1, PAGE)).collect();
        assert_eq!(all.len(), 32);
        let mut places: Vec<_> = all.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 32);
        drop(all);
        assert!(arena.take(1, 33 * PAGE).is_none() && arena.take(1, usize::MAX).is_none());
        assert!(arena.take(1, 32 * PAGE).is_some());
    }

    #[test]
    fn memory_beyond_what_is_kept_goes_back_to_the_kernel() {
        let arena = arena(2 * PAGE);
        let mut block = arena.take(1, 8 * PAGE).unwrap();
        block.bytes_mut().fill(1);
        drop(block);
        assert!(arena.take(1, 8 * PAGE).unwrap().bytes().iter().all(|byte| *byte == 0));
        let mut block = arena.take(1, 2 * PAGE).unwrap();
        block.bytes_mut().fill(1);
        drop(block);
        assert!(arena.take(1, 2 * PAGE).unwrap().bytes().iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_reader_cannot_write() {
        let arena = arena(0);
        let file = File::from(arena.descriptor().try_clone_to_owned().unwrap());
        assert!(Mapping::new(&file, PAGE, true).is_err());
    }

    #[test]
    fn classes_hold_what_is_asked() {
        for len in [0, 1, PAGE, PAGE + 1, 100_000, (4 << 20) + 1, 1 << 40] {
            let size = size_class(len).unwrap();
            assert!(size >= len && size.is_multiple_of(PAGE) && size <= len + len / 8 + PAGE);
        }
    }
}
