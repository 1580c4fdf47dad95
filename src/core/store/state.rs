//! What a store has, and how its tensors are found. What it does with them is in the files around,
//! in `mxnet` first of all: each of them may name this one, which must name none of them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::agreements::Agreements;
use super::command::exchanging::Exchanging;
use super::command::modes::{Mode, Modes};
use super::config::StoreConfig;
use super::error::StoreError;
use super::moving::Elastic;
use super::pieces::stalls::OpenRounds;
use super::pieces::tensor::{Piece, Tensor};
use super::view::RankRanges;
use crate::values::{Allocator, Buffer, Space};
use crate::wire::Key;

/// The server's tensors and how it treats them.
pub struct Store {
    pub(super) config: StoreConfig,
    pub(super) view: RankRanges,
    /// What commands have set.
    pub(super) modes: Modes,
    /// Sums for the optimizer: as long as the longest value.
    pub(super) scratch: Buffer,
    /// Makes the memory of values, if not this process.
    pub(super) memory: Option<Arc<dyn Allocator>>,
    /// What workers say alike.
    pub(super) agreements: Agreements,
    pub(super) tensors: BTreeMap<Key, Tensor>,
    /// Which rounds wait.
    pub(super) stalls: OpenRounds,
    /// What a job needs whose pieces move; no other has it.
    pub(super) elastic: Option<Box<Elastic>>,
    /// What a job needs whose workers exchange deltas; no other has it.
    pub(super) exchanging: Option<Box<Exchanging>>,
}

/// A piece of this server.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) key: Key,
    /// Its place among the key's pieces here.
    pub(super) index: usize,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> Self {
        Self {
            config,
            view: RankRanges::new(config.servers),
            modes: Modes::default(),
            scratch: Buffer::default(),
            memory: None,
            agreements: Agreements::default(),
            tensors: BTreeMap::new(),
            stalls: OpenRounds::default(),
            elastic: config.elastic.then(|| Box::new(Elastic::new(&config))),
            exchanging: None,
        }
    }

    /// Values are in memory of that maker from now on.
    pub fn use_memory(&mut self, memory: Arc<dyn Allocator>) {
        self.memory = Some(memory);
    }

    /// What commands have set for a key.
    pub(super) fn mode(&self, key: Key) -> &Mode {
        self.modes.of(self.view.space(key))
    }

    /// The key space that a key is in.
    pub(super) const fn space_of_key(&self, key: Key) -> Space {
        self.view.space(key)
    }

    pub(super) fn piece(&self, at: At) -> Result<&Piece, StoreError> {
        let piece = self.tensors.get(&at.key).and_then(|tensor| tensor.pieces.get(at.index));
        piece.ok_or_else(|| StoreError::Unknown { key: self.view.name(at.key) })
    }

    pub(super) fn piece_mut(&mut self, at: At) -> Result<&mut Piece, StoreError> {
        let unknown = StoreError::Unknown { key: self.view.name(at.key) };
        let tensor = self.tensors.get_mut(&at.key);
        tensor.and_then(|tensor| tensor.pieces.get_mut(at.index)).ok_or(unknown)
    }

    /// All pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.tensors.values().flat_map(|tensor| &tensor.pieces)
    }

    // ---- what operators and tests ask -----------------------------------------------------------

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// True if it holds no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Bytes of values, and of what the optimizer keeps.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        (self.pieces().map(Piece::bytes).sum(), self.pieces().map(Piece::state_bytes).sum())
    }
}
