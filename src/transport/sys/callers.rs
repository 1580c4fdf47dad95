//! Memory of the application into which the answer to its own request may be received.
//!
//! The application lends the memory to one request (`include/pslite.h`, `pslite_destination`) and
//! must not touch it until the request has ended. Only claims made here write to it, each to its
//! own bytes and under the lock; after the memory is withdrawn nothing writes to it. Code that ends
//! a request withdraws its memory first, and reads no frame of it afterwards.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use smallvec::SmallVec;

/// See the module. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct CallersMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: *mut u8,
    len: usize,
    /// It belongs to this: made by `owned`, freed with it.
    owned: bool,
    state: Mutex<CallersState>,
}

#[derive(Debug, Default)]
struct CallersState {
    withdrawn: bool,
    claimed: SmallVec<[Range<usize>; 4]>,
}

// SAFETY: the pointer is used by claims alone, each for bytes that no other one has, under the
// lock, and not after the memory was withdrawn; until then `new`'s caller lets any thread write to
// it.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owned {
            let all = std::ptr::slice_from_raw_parts_mut(self.start, self.len);
            // SAFETY: it came out of a box of that many bytes (`owned`), and nobody refers to it
            // any more.
            drop(unsafe { Box::from_raw(all) });
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, CallersState> {
        // A panic in between leaves a state that is sound: each change is a single step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallersMemory {
    /// Memory of `len` bytes at `start`.
    ///
    /// # Safety
    /// Any thread may write to these bytes, and nobody else reads or writes them, until
    /// [`Self::withdraw`] has returned.
    #[must_use]
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self(Arc::new(Inner { start, len, owned: false, state: Mutex::default() }))
    }

    /// Memory of its own, which lives as long as anything refers to it.
    #[must_use]
    pub fn owned(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let start = Box::into_raw(bytes).cast::<u8>();
        Self(Arc::new(Inner { start, len, owned: true, state: Mutex::default() }))
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len
    }

    /// These bytes of it, to receive into; `None` if they are not all in it, if somebody has some
    /// of them, or if it was withdrawn.
    #[must_use]
    pub fn claim(&self, range: Range<usize>) -> Option<MemoryClaim> {
        let mut state = self.0.state();
        let free = |taken: &Range<usize>| taken.end <= range.start || range.end <= taken.start;
        let sound = range.start < range.end && range.end <= self.0.len;
        if state.withdrawn || !sound || !state.claimed.iter().all(free) {
            return None;
        }
        state.claimed.push(range.clone());
        Some(MemoryClaim { memory: Arc::clone(&self.0), range })
    }

    /// True if nothing is written to it any more.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.0.state().withdrawn
    }

    /// True if those bytes begin there: so they are in place, and need not be copied.
    #[must_use]
    pub fn is_at(&self, at: usize, bytes: &[u8]) -> bool {
        (self.0.start as usize).checked_add(at) == Some(bytes.as_ptr() as usize)
    }

    /// True if some of those bytes are in it.
    #[must_use]
    pub fn overlaps(&self, bytes: &[u8]) -> bool {
        let (mine, others) = (self.0.start as usize, bytes.as_ptr() as usize);
        !bytes.is_empty() && mine < others + bytes.len() && others < mine + self.0.len
    }

    /// Memory of a test, which keeps it until the claims are gone.
    #[cfg(test)]
    pub(crate) fn of_test(bytes: &mut [u8]) -> Self {
        // SAFETY: the test touches the bytes again only when it is done with this.
        unsafe { Self::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// True if those bytes are claimed, and it was not withdrawn.
    #[must_use]
    pub fn has(&self, frame: &Bytes) -> bool {
        let Some(start) = (frame.as_ptr() as usize).checked_sub(self.0.start as usize) else {
            return false;
        };
        let state = self.0.state();
        let is_it = |taken: &Range<usize>| taken.start == start && taken.len() == frame.len();
        !state.withdrawn && state.claimed.iter().any(is_it)
    }

    /// Nothing is written to it from now on. Waits for whoever is about to: for one read of a
    /// socket that has data.
    pub fn withdraw(&self) {
        self.0.state().withdrawn = true;
    }
}

/// Some bytes of a [`CallersMemory`], of which nobody else has any.
#[derive(Debug)]
pub struct MemoryClaim {
    memory: Arc<Inner>,
    range: Range<usize>,
}

impl MemoryClaim {
    /// How many bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.range.len()
    }

    /// Lets `write` write to them; false if the memory was withdrawn.
    pub fn with(&mut self, write: &mut dyn FnMut(&mut [u8])) -> bool {
        let state = self.memory.state();
        if state.withdrawn {
            return false;
        }
        // SAFETY: inside the memory (`claim`), which is the library's until it is withdrawn, for
        // which the lock is needed that is held here; no other claim has these bytes, and `self` is
        // borrowed exclusively.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.start.add(self.range.start),
                self.range.len(),
            )
        };
        write(bytes);
        drop(state);
        true
    }

    /// They are written: a frame that refers to them, for as long as the memory is not withdrawn.
    /// If it was already, a frame of zeros.
    #[must_use]
    pub fn into_frame(self) -> Bytes {
        let memory = Arc::clone(&self.memory);
        let state = memory.state();
        if state.withdrawn {
            drop(state);
            return Bytes::from(vec![0; self.size()]);
        }
        let frame = Bytes::from_owner(Written(self));
        drop(state);
        frame
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        state.claimed.retain(|taken| *taken != self.range);
    }
}

/// A claim that is only read from now on.
struct Written(MemoryClaim);

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        let MemoryClaim { memory, range } = &self.0;
        // SAFETY: inside the memory (`claim`), which is the library's until it is withdrawn
        // (`into_frame`, the only caller, holds the lock), and nobody writes to a claim that was
        // given up for a frame.
        unsafe { std::slice::from_raw_parts(memory.start.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn each_byte_is_claimed_once() {
        let mut own = vec![0; 100];
        let all = CallersMemory::of_test(&mut own);
        let first = all.claim(0..40).unwrap();
        for wrong in [0..40, 39..50, 0..100, 10..20, 90..101, 50..50, usize::MAX - 1..usize::MAX] {
            assert!(all.claim(wrong.clone()).is_none(), "{wrong:?}");
        }
        let mut second = all.claim(40..100).unwrap();
        assert!(second.with(&mut |bytes| bytes.fill(7)));
        let frame = second.into_frame();
        assert!(all.has(&frame) && all.claim(40..100).is_none());
        assert!(!all.has(&frame.slice(1..)) && !all.has(&Bytes::from_static(&[7; 60])));
        assert_eq!(frame[..], [7; 60]);
        drop(frame);
        assert!(all.claim(40..100).is_some());
        drop(first);
        assert!(all.claim(0..100).is_some());
        all.withdraw();
        assert_eq!((own[39], own[40]), (0, 7));
    }

    #[test]
    fn nothing_is_written_after_it_was_withdrawn() {
        let mut own = vec![1; 1000];
        let all = CallersMemory::of_test(&mut own);
        let mut claim = all.claim(0..1000).unwrap();
        let writing = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut step = 0_u8;
                while claim.with(&mut |bytes| bytes.fill(step)) {
                    writing.store(true, Ordering::SeqCst);
                    step = step.wrapping_add(1);
                }
            });
            while !writing.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            all.withdraw();
            own.fill(255);
        });
        assert!(own.iter().all(|byte| *byte == 255));
        assert!(!claim.with(&mut |_| unreachable!()) && all.claim(0..1).is_none());
        let frame = claim.into_frame();
        assert_eq!(frame, vec![0; 1000]);
        assert!(!all.has(&frame));
    }
}
