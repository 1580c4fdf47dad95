//! Gives the store memory that peers of this host may read: then a pull is answered without a copy.
//! May touch `store` and `transport`, which do not know each other.

use pslite_core::values::{Allocator, Memory};
use pslite_transport::native::{Block, LEND_MIN, LentMemory};

/// The memory that a transport lends.
pub(super) struct Lending(pub(super) LentMemory);

#[derive(Debug)]
struct Lendable {
    block: Block,
    memory: LentMemory,
}

impl Allocator for Lending {
    fn take(&self, len: usize) -> Option<Box<dyn Memory>> {
        // Smaller ones are copied all the same.
        let block = if len < LEND_MIN { None } else { self.0.take(len) }?;
        Some(Box::new(Lendable { block, memory: self.0.clone() }))
    }
}

impl Memory for Lendable {
    fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.bytes_mut()
    }

    fn another(&self) -> Option<Box<dyn Memory>> {
        Lending(self.memory.clone()).take(self.block.bytes().len())
    }

    fn reclaim(&self) {
        self.memory.reclaim();
    }
}
