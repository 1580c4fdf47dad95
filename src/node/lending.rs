//! Gives the store memory that peers of this host may read: then a pull is answered without a copy. May touch
//! `store` and `transport`, which do not know each other.

use std::sync::Arc;

use crate::store::{Allocator, Memory};
use crate::transport::native::{Arena, Block, LEND_MIN};

/// The memory that a transport lends.
pub(super) struct Lending(pub(super) Arc<Arena>);

#[derive(Debug)]
struct Lendable {
    block: Block,
    arena: Arc<Arena>,
}

impl Allocator for Lending {
    fn take(&self, len: usize) -> Option<Box<dyn Memory>> {
        // Smaller ones are copied all the same.
        let block = self.0.take(len).filter(|_| len >= LEND_MIN)?;
        Some(Box::new(Lendable { block, arena: Arc::clone(&self.0) }))
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
        Lending(Arc::clone(&self.arena)).take(self.block.bytes().len())
    }
}
