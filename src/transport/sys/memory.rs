//! Memory that two processes share, and descriptors that come over a Unix socket.
//!
//! The other process may write to shared memory at any time. So no reference to its bytes is ever
//! handed out: bytes are copied in and out, and the words at its beginning are atomic.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// Descriptors of a ring: memory, and a bell for each end.
pub(crate) const DESCRIPTORS_MAX: usize = 3;
/// Bytes at the beginning that are words, not content.
pub(crate) const WORDS_BYTES: usize = 4096;
const WORDS: usize = WORDS_BYTES / 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    address: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping lives until the drop, and every access to it is atomic or a raw copy; callers
// that need an order between copies make it with the atomic words.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

impl SharedMemory {
    /// New memory with so many bytes of content, and the descriptor by which another process finds it.
    pub(crate) fn create(content: usize) -> io::Result<(OwnedFd, Self)> {
        let len = content.checked_add(WORDS_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let descriptor =
            memfd_create(c"pslite", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let file = File::from(descriptor);
        file.set_len(len as u64)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(size_seals()))?;
        let memory = Self::map(&file, len)?;
        Ok((OwnedFd::from(file), memory))
    }

    /// The memory behind a descriptor that another process sent.
    pub(crate) fn open(descriptor: OwnedFd, content_max: usize) -> io::Result<Self> {
        let file = File::from(descriptor);
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        // Without the seals the other process could cut it, and the next access would end this one.
        if !seals.contains(size_seals()) || len <= WORDS_BYTES || len - WORDS_BYTES > content_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(&file, len)
    }

    fn map(file: &File, len: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, of an open file at least as long,
        // sealed against becoming shorter.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, len })
    }

    /// Bytes of content.
    pub(crate) const fn content_len(&self) -> usize {
        self.len - WORDS_BYTES
    }

    /// The words at its beginning.
    pub(crate) const fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is page aligned and longer than the words (`create`, `open`); it lives as
        // long as the borrow, and these bytes are accessed as atomics only.
        unsafe { self.address.cast().as_ref() }
    }

    fn content(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: within the mapping, as just compared.
        (end <= self.content_len()).then(|| unsafe { self.address.add(WORDS_BYTES + offset) })
    }

    /// Copies bytes in; false if there is no such place.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(target) = self.content(offset, bytes.len()) else { return false };
        // SAFETY: `content` checked that so many bytes are mapped there, and no reference to them exists.
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
    // As many as the kernel lets anybody send at once (SCM_MAX_FD): what is cut off would be ours, but
    // unknown to us.
    let mut space = nix::cmsg_space!([RawFd; 253]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    if let Ok(all) = message.cmsgs() {
        for control in all {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                // SAFETY: the kernel just made these descriptors for us, and nobody else knows them.
                let owned = numbers.into_iter().map(|n| unsafe { OwnedFd::from_raw_fd(n) });
                descriptors.extend(owned);
            }
        }
    }
    Ok(message.bytes)
}

/// Limits how much a TCP socket takes that is not sent yet, so that what is urgent can still overtake.
pub(crate) fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_tcp(socket, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Lets the kernel wait with the acknowledgement of what was read, as it does by itself on a connection
/// with answers. It forgets that now and then.
pub(crate) fn delay_acknowledgements(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_tcp(socket, libc::TCP_QUICKACK, 0)
}

fn set_tcp(socket: BorrowedFd<'_>, option: i32, value: u32) -> io::Result<()> {
    // SAFETY: an open socket, and `value` is as long as is said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
