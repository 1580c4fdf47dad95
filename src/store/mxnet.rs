//! MXNet's server (kvstore_dist_server.h), without MXNet: what it does with each push, pull and command.
//!
//! May touch `wire` types; the store's owner sends the answers. One call at a time: whoever owns a store
//! locks it. `rows` has what is about row_sparse arrays, `hand_over` what is about another server that takes
//! over. Where this differs from MXNet is said at the place, and in docs/divergences.md.

mod hand_over;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::command::Generations;
use super::compression::{Compression, TwoBit};
use super::error::StoreError;
use super::kind::{RequestKind, kind_of};
use super::optimizer::{Gradient, Optimizer};
use super::part::{Part, Sum};
use super::round::{Complete, Quorum};
use super::tensor::{Layout, Piece, Tensor};
use super::{Allocator, Buffer, Dtype, precision};
use crate::kv::{KEY_SIZE, KvPairs, key_at};
use crate::wire::{Key, Meta};

/// Keys that one server holds; more are refused.
pub const TENSORS_MAX: usize = 1 << 22;
/// Bytes of one value; MXNet's lengths are 32-bit.
const BYTES_MAX: usize = i32::MAX as usize;

/// What a store is told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Workers of the job.
    pub workers: usize,
    /// The first key of this server's range: keys are counted from here.
    pub first_key: Key,
    /// Sum in the order of ranks instead of arrival, so that runs repeat bit for bit.
    pub deterministic: bool,
}

/// An answer to be sent.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request, with the reason in `error` if it was refused.
    pub request: Meta,
    /// The pulled values; empty for a push.
    pub kv: KvPairs,
}

/// The server's tensors and how it treats them.
pub struct Store {
    config: StoreConfig,
    /// `dist_sync`: MXNet's server is asynchronous until it is told otherwise.
    sync: bool,
    /// Values of other types than float32 have a float32 copy, which the optimizer works on.
    multi_precision: bool,
    compression: Compression,
    /// Sums for the optimizer: as long as the longest value.
    scratch: Buffer,
    optimizer: Option<Optimizer>,
    /// Makes the memory of values, if not this process.
    memory: Option<Arc<dyn Allocator>>,
    pub(super) generations: Generations,
    tensors: BTreeMap<i64, Tensor>,
}

/// One request's frames, checked.
struct Frames {
    keys: Bytes,
    vals: Bytes,
    lens: Vec<usize>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> Self {
        Self {
            config,
            sync: false,
            multi_precision: false,
            compression: Compression::None,
            scratch: Buffer::default(),
            optimizer: None,
            memory: None,
            generations: Generations::default(),
            tensors: BTreeMap::new(),
        }
    }

    /// Values are in memory of that maker from now on.
    pub fn use_memory(&mut self, memory: Arc<dyn Allocator>) {
        self.memory = Some(memory);
    }

    /// Serves a push, a pull, or both in one. The answers that are due now, of earlier requests too.
    pub fn request(&mut self, request: Meta, frames: &[Bytes], answers: &mut Vec<Answer>) {
        let meta = request.clone();
        if let Err(error) = self.try_request(request, frames, answers) {
            let request = Meta { error: error.to_string(), ..meta };
            answers.push(Answer { request, kv: KvPairs::default() });
        }
    }

    fn try_request(
        &mut self,
        request: Meta,
        frames: &[Bytes],
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let (kind, dtype) = kind_of(request.head)?;
        let frames = Frames::read(frames)?;
        match (kind, request.push) {
            (RequestKind::RowSparse, true) => self.push_rows(request, &frames, dtype, answers),
            (RequestKind::RowSparse, false) => {
                answers.push(self.pull_rows(request, &frames, dtype)?);
                Ok(())
            }
            (RequestKind::Compressed, true) => self.push_compressed(request, &frames, answers),
            (RequestKind::Default, true) => self.push_dense(request, &frames, dtype, answers),
            (_, false) => {
                answers.push(self.pull(request, &frames.keys)?);
                Ok(())
            }
        }
    }

    // ---- dense ---------------------------------------------------------------------------------

    /// DataHandleDefault.
    fn push_dense(
        &mut self,
        request: Meta,
        frames: &Frames,
        dtype: Dtype,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        if frames.lens.len() != 1 || frames.lens[0] != frames.vals.len() {
            return Err(StoreError::Malformed("a push has one key, one length and as many bytes"));
        }
        if !frames.vals.len().is_multiple_of(dtype.size()) {
            return Err(StoreError::Malformed("a value is no whole number of elements"));
        }
        let key = self.key(&frames.keys, 0)?;
        if !self.tensors.contains_key(&key) {
            let piece = Piece::new(self.copy(&frames.vals), dtype, Layout::Dense);
            return self.init(key, piece, request, answers);
        }
        self.check(key, Layout::Dense, dtype, Some(frames.vals.len()))?;
        self.push(key, request, Part::Dense(frames.vals.clone()), answers)
    }

    /// DataHandleCompressed.
    fn push_compressed(
        &mut self,
        request: Meta,
        frames: &Frames,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let &[0, size] = &frames.lens[..] else {
            return Err(StoreError::Malformed("a compressed push has two keys, the first empty"));
        };
        if size != frames.vals.len() {
            return Err(StoreError::Malformed("a length is not that of the value"));
        }
        // The first key is no key, but how many elements there were before they were compressed.
        let elements = usize::try_from(self.key(&frames.keys, 0)?)
            .ok()
            .filter(|elements| *elements <= BYTES_MAX / Dtype::F32.size())
            .ok_or(StoreError::Malformed("the length of a compressed push is out of range"))?;
        let key = self.key(&frames.keys, 1)?;
        let Compression::TwoBit(compression) = self.compression else {
            return Err(StoreError::Malformed("a compressed push, and no compression was set"));
        };
        if frames.vals.len() != TwoBit::compressed_bytes(elements) {
            return Err(StoreError::Malformed(
                "the length of a compressed push is not its value's",
            ));
        }
        let mut gradient = Buffer::zeroed(elements * Dtype::F32.size());
        compression.decompress(&frames.vals, gradient.elements_mut())?;
        if !self.tensors.contains_key(&key) {
            return self.init(
                key,
                Piece::new(self.copy(gradient.bytes()), Dtype::F32, Layout::Dense),
                request,
                answers,
            );
        }
        self.check(key, Layout::Dense, Dtype::F32, Some(gradient.len()))?;
        self.push(key, request, Part::Dense(gradient.into_bytes()), answers)
    }

    /// DefaultStorageResponse.
    fn pull(&self, request: Meta, keys: &Bytes) -> Result<Answer, StoreError> {
        let key = self.key(keys, 0)?;
        let piece = self.piece(key)?;
        let vals = piece.value.lend();
        let lens = Bytes::copy_from_slice(&(vals.len() as i32).to_ne_bytes());
        Ok(Answer { request, kv: KvPairs { keys: keys.slice(..KEY_SIZE), vals, lens } })
    }

    // ---- all kinds -----------------------------------------------------------------------------

    /// A value's memory with those bytes.
    fn copy(&self, bytes: &[u8]) -> Buffer {
        Buffer::copy_in(self.memory.as_deref(), bytes)
    }

    /// The first push of a key: its value.
    fn init(
        &mut self,
        key: i64,
        mut piece: Piece,
        request: Meta,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        if self.tensors.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        if self.multi_precision && piece.dtype != Dtype::F32 {
            piece.master = Some(precision::to_f32(piece.dtype, piece.value.buffer().bytes()));
        }
        let wants_value = request.pull;
        self.tensors.insert(key, Tensor::whole(piece));
        answers.push(if wants_value {
            self.answer_with_value(key, request)?
        } else {
            done(request)
        });
        Ok(())
    }

    fn push(
        &mut self,
        key: i64,
        request: Meta,
        part: Part,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let quorum = Quorum {
            workers: if self.sync { self.config.workers.max(1) } else { 1 },
            keeps_order: self.sync && self.config.deterministic,
        };
        let mut next = Some((request, part));
        while let Some((request, part)) = next.take() {
            let piece = piece_mut(&mut self.tensors, key)?;
            let part = if piece.master.is_some() { part.into_f32(piece.dtype) } else { part };
            let dtype = if piece.master.is_some() { Dtype::F32 } else { piece.dtype };
            let Piece { round, value, .. } = piece;
            let complete = round.push(request, part, dtype, &quorum, value.buffer())?;
            let Some(complete) = complete else { continue };
            self.apply(key, dtype, complete, answers)?;
            next = piece_mut(&mut self.tensors, key)?.round.next_push();
        }
        Ok(())
    }

    /// ApplyUpdates. All that the round brought is answered, also if it cannot be applied.
    fn apply(
        &mut self,
        key: i64,
        dtype: Dtype,
        complete: Complete,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let Complete { sum, askers } = complete;
        let applied = self.apply_sum(key, dtype, sum);
        for request in askers {
            answers.push(match &applied {
                Ok(()) if request.pull => self.answer_with_value(key, request)?,
                Ok(()) => done(request),
                Err(error) => Answer {
                    request: Meta { error: error.to_string(), ..request },
                    kv: KvPairs::default(),
                },
            });
        }
        Ok(())
    }

    fn apply_sum(&mut self, key: i64, dtype: Dtype, sum: Sum) -> Result<(), StoreError> {
        let piece = piece_mut(&mut self.tensors, key)?;
        let Some(optimizer) = &self.optimizer else {
            if !self.sync {
                return Err(StoreError::NoOptimizer);
            }
            return piece.replace(sum, dtype);
        };
        let rows;
        let gradient = match piece.layout {
            Layout::Dense => {
                self.scratch.resize(piece.length() * dtype.size());
                sum.write(dtype, &mut self.scratch)?;
                Gradient::Dense(&self.scratch)
            }
            Layout::Rows { row_len } => {
                rows = sum.rows(dtype)?;
                Gradient::RowSparse { rows: &rows.0, values: &rows.1, row_len }
            }
        };
        let target = match &mut piece.master {
            Some(master) => master,
            None => piece.value.change(),
        };
        optimizer.update(key, dtype, target, &gradient, &mut piece.state)?;
        piece.master_to_value();
        piece.version += 1;
        Ok(())
    }

    fn answer_with_value(&self, key: i64, request: Meta) -> Result<Answer, StoreError> {
        let wire_key = self.config.first_key.wrapping_add(key as u64);
        self.pull(request, &Bytes::copy_from_slice(&wire_key.to_ne_bytes()))
    }

    /// What the request says must be what the key is.
    fn check(
        &self,
        key: i64,
        layout: Layout,
        dtype: Dtype,
        bytes: Option<usize>,
    ) -> Result<(), StoreError> {
        let piece = self.piece(key)?;
        if piece.layout != layout {
            return Err(StoreError::Storage { key, is: piece.layout.name() });
        }
        if piece.dtype != dtype {
            return Err(StoreError::Type { key, expected: piece.dtype, got: dtype });
        }
        let expected = piece.value.buffer().len();
        match bytes {
            Some(got) if got != expected => Err(StoreError::Size { key, expected, got }),
            _ => Ok(()),
        }
    }

    /// The key at an index of the frame of keys, counted from the start of this server's range.
    fn key(&self, keys: &[u8], index: usize) -> Result<i64, StoreError> {
        let key = key_at(keys, index).ok_or(StoreError::Malformed("a key is missing"))?;
        key.checked_sub(self.config.first_key)
            .and_then(|key| i64::try_from(key).ok())
            .ok_or(StoreError::Malformed("a key is not in this server's range"))
    }

    fn piece(&self, key: i64) -> Result<&Piece, StoreError> {
        let tensor = self.tensors.get(&key).ok_or(StoreError::Unknown { key })?;
        tensor.pieces.first().ok_or(StoreError::Unknown { key })
    }

    // ---- commands ------------------------------------------------------------------------------

    /// kSyncMode.
    pub fn set_sync(&mut self) {
        self.sync = true;
    }

    /// kSetMultiPrecision: CreateMultiPrecisionCopies.
    ///
    /// # Errors
    /// Pushes are under way: their sum has the wrong type (a CHECK in MXNet).
    pub fn set_multi_precision(&mut self) -> Result<(), StoreError> {
        if self.multi_precision {
            return Ok(());
        }
        if self.pieces().any(|piece| piece.dtype != Dtype::F32 && piece.round.is_open()) {
            return Err(StoreError::Command(
                "multi-precision cannot be set while pushes are under way".to_owned(),
            ));
        }
        self.multi_precision = true;
        let pieces = self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces);
        for piece in pieces.filter(|piece| piece.dtype != Dtype::F32) {
            piece.master = Some(precision::to_f32(piece.dtype, piece.value.buffer().bytes()));
        }
        Ok(())
    }

    /// kSetGradientCompression.
    ///
    /// # Errors
    /// The text names no compression that MXNet has.
    pub fn set_compression(&mut self, body: &[u8]) -> Result<(), StoreError> {
        self.compression = Compression::from_body(body)?;
        Ok(())
    }

    /// kController: from now on this applies gradients, and it begins without any state.
    pub fn set_optimizer(&mut self, optimizer: Optimizer) {
        self.optimizer = Some(optimizer);
        for piece in self.tensors.values_mut().flat_map(|tensor| &mut tensor.pieces) {
            piece.state = None;
        }
    }

    /// True while pushes wait for others.
    #[must_use]
    pub fn has_open_rounds(&self) -> bool {
        self.pieces().any(|piece| piece.round.is_open())
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.tensors.values().flat_map(|tensor| &tensor.pieces)
    }

    // ---- what operators and tests ask ------------------------------------------------------------

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

fn piece_mut(tensors: &mut BTreeMap<i64, Tensor>, key: i64) -> Result<&mut Piece, StoreError> {
    let tensor = tensors.get_mut(&key).ok_or(StoreError::Unknown { key })?;
    tensor.pieces.first_mut().ok_or(StoreError::Unknown { key })
}

fn done(request: Meta) -> Answer {
    Answer { request, kv: KvPairs::default() }
}

impl Frames {
    /// Keys, values and lens; no length is believed before it is checked.
    fn read(frames: &[Bytes]) -> Result<Self, StoreError> {
        let keys = frames.first().cloned().unwrap_or_default();
        if keys.is_empty() || !keys.len().is_multiple_of(KEY_SIZE) {
            return Err(StoreError::Malformed("the frame of keys has no whole number of keys"));
        }
        let vals = frames.get(1).cloned().unwrap_or_default();
        let lens = frames.get(2).cloned().unwrap_or_default();
        let mut all = Vec::with_capacity(lens.len() / size_of::<i32>());
        for len in lens.chunks(size_of::<i32>()) {
            let len = len.try_into().map(i32::from_ne_bytes).ok();
            let len = len.and_then(|len| usize::try_from(len).ok());
            all.push(len.ok_or(StoreError::Malformed("the frame of lens holds no lengths"))?);
        }
        Ok(Self { keys, vals, lens: all })
    }
}

#[cfg(test)]
#[path = "mxnet_tests.rs"]
mod tests;
