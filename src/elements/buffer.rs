//! Memory of a tensor: bytes that are aligned for every element type. It is the process's own, or
//! of a kind that the store is given, such as memory that other processes read.

use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;

/// Memory of somebody else's making.
pub trait Memory: std::fmt::Debug + Send + Sync {
    /// Its bytes, aligned to eight.
    fn bytes(&self) -> &[u8];
    /// Its bytes, to write.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// As much memory of the same kind, whatever is in there.
    fn another(&self) -> Option<Box<dyn Memory>>;
    /// Sees which readers of lent memory are done, so that they don't count as readers any more.
    fn reclaim(&self);
}

/// Makes memory for values.
pub trait Allocator: Send + Sync {
    /// Memory of that many bytes, whatever is in there; `None` to use the process's own.
    fn take(&self, len: usize) -> Option<Box<dyn Memory>>;
}

/// Zeroed or copied bytes, aligned to eight; readable as elements of any type.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    memory: BufferKind,
    len: usize,
}

#[derive(Debug)]
enum BufferKind {
    Own(Vec<u64>),
    Given(Box<dyn Memory>),
}

impl Default for BufferKind {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Clone for BufferKind {
    fn clone(&self) -> Self {
        let mut copy = self.another();
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

impl BufferKind {
    fn own(len: usize) -> Self {
        Self::Own(vec![0; len.div_ceil(8)])
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(words) => bytemuck::cast_slice(words),
            Self::Given(memory) => memory.bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(words) => bytemuck::cast_slice_mut(words),
            Self::Given(memory) => memory.bytes_mut(),
        }
    }

    /// As much of the same kind.
    fn another(&self) -> Self {
        let len = self.bytes().len();
        let given = match self {
            Self::Own(_) => None,
            Self::Given(memory) => memory.another().filter(|other| other.bytes().len() == len),
        };
        // What was given may end at any byte: then the copy is a copy of those alone.
        given.map_or_else(|| Self::own(len), Self::Given)
    }
}

impl Buffer {
    /// So many zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self { memory: BufferKind::own(len), len }
    }

    /// A copy; `bytes` may be unaligned.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// A copy in memory of that maker, if it has any.
    #[must_use]
    pub fn copy_in(maker: Option<&dyn Allocator>, bytes: &[u8]) -> Self {
        let mut buffer = Self::new_in(maker, bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// So many bytes in memory of that maker, if it has any; whatever is in there.
    #[must_use]
    pub fn new_in(maker: Option<&dyn Allocator>, len: usize) -> Self {
        let given = maker.and_then(|maker| maker.take(len));
        match given.filter(|memory| memory.bytes().len() == len) {
            Some(memory) => Self { memory: BufferKind::Given(memory), len },
            None => Self::zeroed(len),
        }
    }

    /// Sees which readers of memory of this kind are done.
    pub fn reclaim(&self) {
        if let BufferKind::Given(memory) = &self.memory {
            memory.reclaim();
        }
    }

    /// As many bytes in memory of the same kind, whatever is in there.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { memory: self.memory.another(), len: self.len }
    }

    /// Makes it so many bytes long. Memory is only ever added; what is in there is undefined.
    pub fn resize(&mut self, len: usize) {
        if len > self.memory.bytes().len() {
            self.memory = BufferKind::own(len);
        }
        self.len = len;
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if it has no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }

    /// The same memory, to be shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Owned(self))
    }

    /// The elements; what is left of an incomplete last one is not among them.
    #[must_use]
    pub fn elements<T: AnyBitPattern + NoUninit>(&self) -> &[T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice(&self.bytes()[..whole])
    }

    /// The elements, to write.
    pub fn elements_mut<T: AnyBitPattern + NoUninit>(&mut self) -> &mut [T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.bytes_mut()[..whole])
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Buffer {}

/// Gives a buffer to [`Bytes`].
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Page(Vec<u64>, usize);

    impl Memory for Page {
        fn bytes(&self) -> &[u8] {
            &bytemuck::cast_slice(&self.0)[..self.1]
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut bytemuck::cast_slice_mut(&mut self.0)[..self.1]
        }

        fn another(&self) -> Option<Box<dyn Memory>> {
            Pages.take(self.1)
        }

        fn reclaim(&self) {}
    }

    struct Pages;

    impl Allocator for Pages {
        fn take(&self, len: usize) -> Option<Box<dyn Memory>> {
            (len > 4).then(|| Box::new(Page(vec![u64::MAX; len.div_ceil(8)], len)) as Box<_>)
        }
    }

    #[test]
    fn memory_of_another_kind_holds_the_same_and_begets_its_kind() {
        let is_given = |buffer: &Buffer| matches!(buffer.memory, BufferKind::Given(_));
        let buffer = Buffer::copy_in(Some(&Pages), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(is_given(&buffer) && is_given(&buffer.another()));
        let mut copy = buffer.clone();
        copy.elements_mut::<i32>()[1] = 0;
        assert!(is_given(&copy));
        assert_eq!(buffer.bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(copy.bytes(), [1, 2, 3, 4, 0, 0, 0, 0, 9]);
        assert!(!is_given(&Buffer::copy_in(Some(&Pages), &[1, 2, 3, 4])), "the maker has none");
        copy.resize(100);
        assert_eq!(copy.len(), 100);
    }

    #[test]
    fn bytes_and_elements_are_the_same_memory() {
        let mut buffer = Buffer::zeroed(14);
        buffer.elements_mut::<f32>()[2] = 1.5;
        assert_eq!(buffer.bytes()[8..12], 1.5_f32.to_ne_bytes());
        assert_eq!((buffer.elements::<f32>().len(), buffer.elements::<f64>().len()), (3, 1));
        assert_eq!(Buffer::copy_of(&buffer.bytes()[1..]).bytes(), &buffer.bytes()[1..]);
        buffer.resize(4);
        assert_eq!((buffer.len(), &buffer), (4, &Buffer::zeroed(4)));
        assert!(Buffer::zeroed(0).is_empty() && Buffer::zeroed(0).elements::<i64>().is_empty());
    }
}
