//! A tensor's value, lent to answers without copying it.

use std::sync::Arc;

use bytes::Bytes;

use super::Buffer;

/// Memory that answers on their way may still read. Who writes gets memory of its own if they do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    shared: Arc<Buffer>,
}

/// Lends a buffer to [`Bytes`].
struct LentBuffer(Arc<Buffer>);

impl AsRef<[u8]> for LentBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Value {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self { shared: Arc::new(buffer) }
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.shared
    }

    /// What it holds now, whatever is written later.
    pub(crate) fn lend(&self) -> Bytes {
        Bytes::from_owner(LentBuffer(Arc::clone(&self.shared)))
    }

    /// Lets go of readers that are done.
    fn reclaim(&mut self) {
        if Arc::get_mut(&mut self.shared).is_none() {
            self.shared.reclaim();
        }
    }

    /// To change it.
    pub(crate) fn change(&mut self) -> &mut Buffer {
        self.reclaim();
        Arc::make_mut(&mut self.shared)
    }

    /// To write all of it anew: what is in there does not matter.
    pub(crate) fn overwrite(&mut self) -> &mut Buffer {
        self.reclaim();
        if Arc::get_mut(&mut self.shared).is_none() {
            self.shared = Arc::new(self.shared.another());
        }
        Arc::make_mut(&mut self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_does_not_change() {
        let mut value = Value::new(Buffer::copy_of(&[1, 2, 3]));
        let before = value.lend();
        value.change().bytes_mut()[0] = 9;
        let after = value.lend();
        value.overwrite().bytes_mut().copy_from_slice(&[7, 7, 7]);
        assert_eq!((&before[..], &after[..]), (&[1, 2, 3][..], &[9, 2, 3][..]));
        assert_eq!(value.buffer().bytes(), [7, 7, 7]);
    }

    #[test]
    fn memory_that_nobody_reads_is_used_again() {
        let mut value = Value::new(Buffer::zeroed(64));
        let memory = value.buffer().bytes().as_ptr();
        drop(value.lend());
        value.change();
        value.overwrite();
        assert_eq!(value.buffer().bytes().as_ptr(), memory);
    }
}
