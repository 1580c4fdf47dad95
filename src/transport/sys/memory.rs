//! Memory that two processes share, and descriptors that come over a Unix socket.
//!
//! Both processes write to [`SharedMemory`] at any time. So no reference to its bytes is ever
//! handed out: bytes are copied in and out, and the words at its beginning are atomic. What a
//! process lends (`arena`) is written by it alone, and not while it is lent.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// Descriptors of a ring: memory, the reader's bell, and what the writer lends.
pub(crate) const DESCRIPTORS_MAX: usize = 3;
/// Bytes at the beginning that are words, not content.
pub(crate) const WORDS_BYTES: usize = 4096;
const WORDS: usize = WORDS_BYTES / 8;

/// A file in memory, mapped whole.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) address: NonNull<u8>,
    pub(super) len: usize,
}

// SAFETY: the mapping lives until the drop, and who has it says how its bytes are accessed:
// `SharedMemory` by atomics and raw copies, `Arena` and `BorrowedMemory` by the rules of `arena`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, unmapped once.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

impl Mapping {
    /// Maps so many bytes of a file that is at least as long.
    pub(super) fn new(file: &File, len: usize, writable: bool) -> io::Result<Self> {
        let write = if writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses, of an open file at least as
        // long, sealed against becoming shorter (`new_file`, `check_file`).
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | write,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, len })
    }
}

/// A new file in memory, whose length can't change.
pub(super) fn new_file(len: usize) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(c"pslite", flags)?);
    file.set_len(len as u64)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(size_seals()))?;
    Ok(file)
}

/// The length of a file that another process sent.
///
/// # Errors
/// Its length could change: the other process could cut it, and the next access would end this one.
pub(super) fn check_file(file: &File) -> io::Result<usize> {
    let seals = SealFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GET_SEALS)?);
    if !seals.contains(size_seals()) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedMemory(Mapping);

impl SharedMemory {
    /// New memory with so many bytes of content, and the descriptor by which another process finds
    /// it.
    pub(crate) fn create(content: usize) -> io::Result<(OwnedFd, Self)> {
        let len = content.checked_add(WORDS_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let file = new_file(len)?;
        let memory = Self(Mapping::new(&file, len, true)?);
        Ok((OwnedFd::from(file), memory))
    }

    /// The memory behind a descriptor that another process sent.
    pub(crate) fn open(descriptor: OwnedFd, content_max: usize) -> io::Result<Self> {
        let file = File::from(descriptor);
        let len = check_file(&file)?;
        if len <= WORDS_BYTES || len - WORDS_BYTES > content_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Mapping::new(&file, len, true).map(Self)
    }

    /// Bytes of content.
    pub(crate) const fn content_len(&self) -> usize {
        self.0.len - WORDS_BYTES
    }

    /// The words at its beginning.
    pub(crate) const fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is page aligned and longer than the words (`create`, `open`); it
        // lives as long as the borrow, and these bytes are accessed as atomics only.
        unsafe { self.0.address.cast().as_ref() }
    }

    fn content(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: within the mapping, as just compared.
        (end <= self.content_len()).then(|| unsafe { self.0.address.add(WORDS_BYTES + offset) })
    }

    /// Copies bytes in; false if there is no such place.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(target) = self.content(offset, bytes.len()) else { return false };
        // SAFETY: `content` checked that so many bytes are mapped there, and no reference to them
        // exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes out; false if there is no such place.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(source) = self.content(offset, bytes.len()) else { return false };
        // SAFETY: as in `write`; the target is borrowed for us alone.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        true
    }
}

fn size_seals() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW
}

/// Receives bytes, and the descriptors that came with them.
pub(crate) fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut slices = [IoSliceMut::new(bytes)];
    // As many as the kernel lets anybody send at once (SCM_MAX_FD): what is cut off would be ours,
    // but unknown to us.
    let mut space = nix::cmsg_space!([RawFd; 253]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    if let Ok(all) = message.cmsgs() {
        for control in all {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                // SAFETY: the kernel just made these descriptors for us, and nobody else knows
                // them.
                let owned = numbers.into_iter().map(|n| unsafe { OwnedFd::from_raw_fd(n) });
                descriptors.extend(owned);
            }
        }
    }
    Ok(message.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let (descriptor, here) = SharedMemory::create(8192).unwrap();
        let there = SharedMemory::open(descriptor, 8192).unwrap();
        assert!(
            here.write(8190, b"ab") && !here.write(8191, b"ab") && !here.write(usize::MAX, b"a")
        );
        here.words()[511].store(7, Ordering::Release);
        let mut bytes = [0; 3];
        assert!(there.read(8189, &mut bytes) && !there.read(8190, &mut bytes));
        assert_eq!((bytes, there.words()[511].load(Ordering::Acquire)), (*b"\0ab", 7));
    }

    #[test]
    fn memory_that_can_shrink_or_is_too_large_is_refused() {
        let unsealed = memfd_create(c"x", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        let file = File::from(unsealed);
        file.set_len(1 << 16).unwrap();
        assert!(SharedMemory::open(file.into(), 1 << 20).is_err());
        let (descriptor, _) = SharedMemory::create(8192).unwrap();
        assert!(SharedMemory::open(descriptor, 8191).is_err());
        let plain = File::open("/dev/null").unwrap();
        assert!(SharedMemory::open(plain.into(), 8192).is_err());
    }
}
