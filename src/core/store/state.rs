//! What a store has: what this server holds, and what it knows of pieces elsewhere. What it does
//! with them is in `mxnet` and the files around, which may name this one. Pure.

use std::sync::Arc;

use super::config::StoreConfig;
use super::holdings::Holdings;
use super::moving::{Elsewhere, Mover, Whereabouts};
use super::outbound::Outbound;
use super::pieces::tensor::Piece;
use crate::values::Allocator;

/// The server's tensors and how it treats them.
pub struct Store {
    pub(super) held: Holdings,
    /// Of a job whose pieces do not move nothing. Boxed, since the simulator's ledger has a store
    /// for each key, in a map.
    pub(super) known: Box<Elsewhere>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> Self {
        Self { held: Holdings::new(config), known: Box::new(Elsewhere::new(&config)) }
    }

    /// Values are in memory of that maker from now on.
    pub fn use_memory(&mut self, memory: Arc<dyn Allocator>) {
        self.held.memory = Some(memory);
    }

    /// True in a job whose pieces move.
    pub(super) const fn moves(&self) -> bool {
        self.held.config.elastic
    }

    /// Where pieces are.
    pub(super) fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts { held: &self.held, known: &self.known }
    }

    /// What moves them. What is due goes there.
    pub(super) fn mover<'a>(&'a mut self, out: &'a mut Outbound) -> Mover<'a> {
        Mover { held: &mut self.held, known: &mut self.known, out }
    }

    // ---- what operators and tests ask -----------------------------------------------------------

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.tensors.len()
    }

    /// True if it holds no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.tensors.is_empty()
    }

    /// Bytes of values, and of what the optimizer keeps.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        (
            self.held.pieces().map(Piece::bytes).sum(),
            self.held.pieces().map(Piece::state_bytes).sum(),
        )
    }
}
