//! Memory of a tensor: bytes that are aligned for every element type.

use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;

/// Zeroed or copied bytes, aligned to eight; readable as elements of any type.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    words: Vec<u64>,
    len: usize,
}

impl Buffer {
    /// So many zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(8)], len }
    }

    /// A copy; `bytes` may be unaligned.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// Makes it so many bytes long. Memory is only ever added; what is in there is undefined.
    pub fn resize(&mut self, len: usize) {
        let words = len.div_ceil(8);
        if words > self.words.len() {
            self.words.resize(words, 0);
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
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
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
