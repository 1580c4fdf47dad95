//! What one server holds: its tensors, what commands and policies have set about them, and whom
//! their rounds wait for. `commands` obeys commands, `answers` has what a push is told.
//!
//! Pure. May touch pieces and the books of commands. Must know no other server: where pieces are
//! that are not here is `moving`'s.

mod answers;
mod commands;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::agreements::Agreements;
use super::command::exchanging::Exchanging;
use super::command::modes::{Mode, Modes};
use super::config::StoreConfig;
use super::error::StoreError;
use super::pieces::awaited::Attendance;
use super::pieces::limits::PIECES_MAX;
use super::pieces::stalls::OpenRounds;
use super::pieces::tensor::{Piece, Tensor};
use super::view::RankRanges;
use crate::invariant::{Valid, disjoint, require};
use crate::values::{Allocator, Buffer, KeyPart};
use crate::wire::Key;

/// See the module.
pub(super) struct Holdings {
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
    /// For whom.
    pub(super) attendance: Attendance,
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

impl Holdings {
    /// Nothing.
    pub(super) fn new(config: StoreConfig) -> Self {
        Self {
            config,
            view: RankRanges::new(config.servers),
            modes: Modes::default(),
            scratch: Buffer::default(),
            memory: None,
            agreements: Agreements::default(),
            tensors: BTreeMap::new(),
            stalls: OpenRounds::default(),
            attendance: Attendance::default(),
            exchanging: None,
        }
    }

    /// What commands have set for a key.
    pub(super) fn mode(&self, key: Key) -> &Mode {
        self.modes.of(self.view.space(key))
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

    /// The pieces of a key.
    pub(super) fn pieces_of(&self, key: Key) -> &[Piece] {
        self.tensors.get(&key).map(|tensor| &tensor.pieces[..]).unwrap_or_default()
    }

    /// The same, to be changed.
    pub(super) fn pieces_of_mut(&mut self, key: Key) -> &mut [Piece] {
        self.tensors.get_mut(&key).map(|tensor| &mut tensor.pieces[..]).unwrap_or_default()
    }

    /// All pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> + Clone {
        self.tensors.values().flat_map(|tensor| &tensor.pieces)
    }

    /// The same, to be changed.
    pub(super) fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece> {
        self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces)
    }

    /// The piece of a key that begins there.
    pub(super) fn begins_at(&self, key: Key, from: u64) -> Option<At> {
        let index = self.tensors.get(&key)?.begins_at(from)?;
        Some(At { key, index })
    }

    /// Of each piece here what `has` gives, and where the piece is.
    pub(in crate::store) fn pieces_that<T>(
        &self,
        has: impl Fn(&Piece) -> Option<T>,
    ) -> Vec<(At, T)> {
        let mut found = Vec::new();
        for (key, tensor) in &self.tensors {
            let pieces = tensor.pieces.iter().enumerate();
            found.extend(pieces.filter_map(|(index, piece)| {
                has(piece).map(|what| (At { key: *key, index }, what))
            }));
        }
        found
    }

    /// The pieces here that lie within a part of a key.
    pub(in crate::store) fn within(&self, part: KeyPart) -> &[Piece] {
        let KeyPart { key, from, to } = part;
        let tensor = self.tensors.get(&key);
        tensor.and_then(|tensor| tensor.pieces.get(tensor.within(from, to))).unwrap_or_default()
    }

    /// What is promised of what is here of a key.
    pub(in crate::store) fn validate_key(&self, key: Key) -> Valid {
        let Some(Tensor { length, pieces }) = self.tensors.get(&key) else { return Ok(()) };
        require(!pieces.is_empty(), || "it has no piece, and is kept".to_owned())?;
        require(pieces.len() <= PIECES_MAX, || format!("it is in {} pieces", pieces.len()))?;
        disjoint(pieces.iter().map(|piece| (piece.from, piece.to)), *length)?;
        let quorum = self.quorum(key);
        for piece in pieces {
            let named = |broken: String| format!("piece {}..{}: {broken}", piece.from, piece.to);
            piece.validate().map_err(named)?;
            piece.round.validate(&quorum).map_err(named)?;
            let number = piece.round.number();
            require(number.is_none_or(|number| self.stalls.has(number, key, piece.from)), || {
                named(format!("its round {number:?} is none of those that wait"))
            })?;
            require(number.is_some() == piece.round.is_open(), || {
                named(format!("it has the place {number:?} among the rounds that wait"))
            })?;
        }
        Ok(())
    }
}
