//! MXNet's server (kvstore_dist_server.h), without MXNet: what it does with each push, pull and
//! command.
//!
//! May touch `wire` types; the store's owner sends the answers. One call at a time: whoever owns a
//! store locks it. `apply` has rounds and updates, `mode` what commands set, `rows` what is about
//! row_sparse arrays, `hand_over` what is about another server that takes over; what is about
//! pieces that move is in [`super::moving`]. Where this differs from MXNet is said at the place,
//! and in docs/divergences.md.

pub(super) mod apply;
mod command;
mod hand_over;
mod mode;
mod rows;
mod sparse;
mod waits;

use bytes::Bytes;

use super::command::modes::space_of;
use super::error::StoreError;
use super::moving::{Asked, Place};
use super::outbound::{Answer, Outbound, refused};
use super::pieces::limits::TENSORS_MAX;
use super::pieces::tensor::{Layout, Piece, Tensor};
use super::state::{At, Store};
use crate::store::pieces::sums::Addend;
use crate::values::compression::{Compression, TwoBit};
use crate::values::kind::{RequestKind, kind_of};
use crate::values::{Buffer, Dtype, KEY_SIZE, KvPairs, is_whole_and_cut, key_at};
use crate::wire::{Key, Meta, id_to_rank, server_id};

/// Bytes of one value; MXNet's lengths are 32-bit.
const BYTES_MAX: usize = i32::MAX as usize;

/// One request's frames, checked.
struct RequestFrames {
    keys: Bytes,
    vals: Bytes,
    lens: Vec<usize>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
struct RequestTarget {
    key: Key,
    /// `None`: the push makes the key.
    at: Option<At>,
}

impl Store {
    /// Serves a push, a pull, or both in one, of a job whose pieces do not move. The answers that
    /// are due now, of earlier requests too.
    pub fn request(&mut self, request: Meta, frames: &[Bytes], answers: &mut Vec<Answer>) {
        let mut out = Outbound { answers: std::mem::take(answers), ..Outbound::default() };
        self.serve(request, frames, &mut out);
        *answers = out.answers;
    }

    /// Serves a push, a pull, or both in one. What is due now: answers, of earlier requests too,
    /// and transfers.
    pub fn serve(&mut self, request: Meta, frames: &[Bytes], out: &mut Outbound) {
        self.serve_now(request, frames, out);
        self.unpark_cut(out);
        self.look_at_request(frames);
    }

    /// The same in the middle of something else.
    pub(super) fn serve_now(&mut self, request: Meta, frames: &[Bytes], out: &mut Outbound) {
        let meta = request.clone();
        if let Err(error) = self.try_serve(request, frames, out) {
            self.answer(refused(meta, &error), out);
        }
    }

    fn try_serve(
        &mut self,
        request: Meta,
        raw: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if request.hop.is_none() && self.is_of_the_dead(&request) {
            return Ok(());
        }
        let (kind, dtype) = kind_of(request.head)?;
        self.check_exchanged(kind, request.push)?;
        let frames = RequestFrames::read(raw)?;
        let compressed = kind == RequestKind::Compressed && request.push;
        let key = self.key(&frames.keys, usize::from(compressed))?;
        self.check_space(key, &request)?;
        let mut place = match self.misfit(key, kind, &request) {
            Some(index) => Place::Here(index),
            None => self.place(key, &request)?,
        };
        if let Place::Within(index) = place {
            place = self.place_within(At { key, index }, &request, out)?;
        }
        let at = match place {
            Place::Here(index) => Some(At { key, index }),
            Place::New => None,
            Place::Later | Place::Within(_) => {
                self.park(key, request, raw, out);
                return Ok(());
            }
            Place::Again(_) if asks(&request) => {
                self.asked_of_others(key, request, out);
                return Ok(());
            }
            Place::Again(routes) => {
                self.answer_again(request, routes, out);
                return Ok(());
            }
        };
        if let Some(at) = at.filter(|_| makes_key(&request)) {
            // Somebody has made it, and what it is has been trained since.
            return self.answer_duplicate(at, request, out);
        }
        if asks(&request) {
            match at {
                Some(at) => return self.asked(at, request, Asked::Now, out),
                None => self.answer_again(request, Vec::new(), out),
            }
            return Ok(());
        }
        if at.is_none() && request.hop.is_some() {
            self.answer_again(request, Vec::new(), out);
            return Ok(());
        }
        let target = RequestTarget { key, at };
        match (kind, request.push) {
            (RequestKind::RowSparse, true) => self.push_rows(request, &frames, dtype, target, out),
            (RequestKind::RowSparse, false) => self.pull_rows(request, &frames, dtype, target, out),
            (RequestKind::Compressed, true) => self.push_compressed(request, &frames, target, out),
            (RequestKind::Default, true) => self.push_dense(request, &frames, dtype, target, out),
            (_, false) => {
                let at = self.known(target)?;
                let answer = self.pull(request, &frames.keys, at)?;
                self.deliver(key, answer, out);
                Ok(())
            }
        }
    }

    // ---- dense ---------------------------------------------------------------------------------

    /// DataHandleDefault.
    fn push_dense(
        &mut self,
        request: Meta,
        frames: &RequestFrames,
        dtype: Dtype,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if frames.lens.len() != 1 || frames.lens[0] != frames.vals.len() {
            return Err(StoreError::Malformed("a push has one key, one length and as many bytes"));
        }
        if !frames.vals.len().is_multiple_of(dtype.size()) {
            return Err(StoreError::Malformed("a value is no whole number of elements"));
        }
        let Some(at) = target.at else {
            let piece = Piece::new(self.copy(&frames.vals), dtype, Layout::Dense);
            return self.init(target.key, piece, request, out);
        };
        let fits = self.check(at, &request, Layout::Dense, dtype, Some(frames.vals.len()));
        let addend = fits.map(|()| Addend::Dense(frames.vals.clone()));
        self.push(at, request, Addend::of(addend), out)
    }

    /// DataHandleCompressed.
    fn push_compressed(
        &mut self,
        request: Meta,
        frames: &RequestFrames,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let &[0, size] = &frames.lens[..] else {
            return Err(StoreError::Malformed("a compressed push has two keys, the first empty"));
        };
        if size != frames.vals.len() {
            return Err(StoreError::Malformed("a length is not that of the value"));
        }
        // The first key is no key, but how many elements there were before they were compressed.
        let elements = key_at(&frames.keys, 0)
            .and_then(|count| count.checked_sub(self.view.begin(target.key)))
            .and_then(|elements| usize::try_from(elements).ok())
            .filter(|elements| *elements <= BYTES_MAX / Dtype::F32.size())
            .ok_or(StoreError::Malformed("the length of a compressed push is out of range"))?;
        let Compression::TwoBit(compression) = self.mode(target.key).compression else {
            return Err(StoreError::Malformed("a compressed push, and no compression was set"));
        };
        if frames.vals.len() != TwoBit::compressed_bytes(elements) {
            return Err(StoreError::Malformed(
                "the length of a compressed push is not its value's",
            ));
        }
        let mut gradient = Buffer::zeroed(elements * Dtype::F32.size());
        compression.decompress(&frames.vals, gradient.elements_mut())?;
        let Some(at) = target.at else {
            let piece = Piece::new(self.copy(gradient.bytes()), Dtype::F32, Layout::Dense);
            return self.init(target.key, piece, request, out);
        };
        let fits = self.check(at, &request, Layout::Dense, Dtype::F32, Some(gradient.len()));
        let addend = fits.map(|()| Addend::Dense(gradient.into_bytes()));
        self.push(at, request, Addend::of(addend), out)
    }

    /// DefaultStorageResponse.
    fn pull(&self, request: Meta, keys: &Bytes, at: At) -> Result<Answer, StoreError> {
        let vals = self.piece(at)?.value.lend();
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
        key: Key,
        mut piece: Piece,
        request: Meta,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if self.tensors.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        if self.mode(key).widens(piece.dtype) {
            piece.make_master();
        }
        self.tensors.insert(key, Tensor::whole(piece));
        let at = At { key, index: 0 };
        let answer = self.answer_push(at, request)?;
        self.made(at, answer, out);
        Ok(())
    }

    /// What the request says must be what the piece is.
    fn check(
        &self,
        at: At,
        request: &Meta,
        layout: Layout,
        dtype: Dtype,
        bytes: Option<usize>,
    ) -> Result<(), StoreError> {
        let (piece, key) = (self.piece(at)?, self.view.name(at.key));
        let worker = id_to_rank(request.sender);
        match (piece.layout, layout) {
            (Layout::Rows { .. }, Layout::Dense) => {
                return Err(StoreError::DenseToRows { key });
            }
            (Layout::Dense, Layout::Rows { .. }) => {
                return Err(StoreError::RowsToDense { key });
            }
            _ => {}
        }
        if piece.dtype != dtype {
            return Err(StoreError::Type { key, worker, expected: piece.dtype, got: dtype });
        }
        let expected = piece.value.buffer().len();
        match bytes {
            Some(got) if got != expected => {
                let (size, rank) = (dtype.size(), self.view.rank(at.key).unwrap_or(0));
                let [whole, part] = [expected, got].map(|bytes| (bytes / size) as u64);
                let cut = is_whole_and_cut(whole, part, rank, self.view.ranks());
                Err(StoreError::Size { key, worker, expected, got, cut })
            }
            _ => Ok(()),
        }
    }

    /// A key must lie where its customer's keys are. (Of a sum each worker's own was looked at
    /// where it was made.)
    fn check_space(&self, key: Key, request: &Meta) -> Result<(), StoreError> {
        if request.hop.is_some() || self.view.space(key) == space_of(request) {
            return Ok(());
        }
        Err(StoreError::TooLarge { key })
    }

    /// The key at an index of the frame of keys, which must be one that the application can have,
    /// and, where nothing moves, in this server's range.
    fn key(&self, keys: &[u8], index: usize) -> Result<Key, StoreError> {
        let key = key_at(keys, index).ok_or(StoreError::Malformed("a key is missing"))?;
        let rank = self.view.checked_local(key).and_then(|_| self.view.rank(key));
        let mine = |rank| self.elastic.is_some() || server_id(rank) == self.config.id;
        match rank.is_some_and(mine) {
            true => Ok(key),
            false => Err(StoreError::Malformed("a key is not in this server's range")),
        }
    }

    /// The piece at which a push is refused that is dense where the key is row_sparse, or the other
    /// way round: its worker counts in another unit than this server, and the part that it names
    /// may never be here.
    fn misfit(&self, key: Key, kind: RequestKind, request: &Meta) -> Option<usize> {
        let piece = self.tensors.get(&key).filter(|_| request.push)?.pieces.first()?;
        let has_rows = matches!(piece.layout, Layout::Rows { .. });
        (has_rows != (kind == RequestKind::RowSparse)).then_some(0)
    }

    /// The piece that a request needs.
    fn known(&self, target: RequestTarget) -> Result<At, StoreError> {
        target.at.ok_or_else(|| StoreError::Unknown { key: self.view.name(target.key) })
    }
}

/// True if a request only asks whether a push has counted.
fn asks(request: &Meta) -> bool {
    request.push && request.placed.as_ref().is_some_and(|placed| placed.asks)
}

/// True for a push that is only to make its key.
fn makes_key(request: &Meta) -> bool {
    request.push && request.placed.as_ref().is_some_and(|placed| placed.init)
}

impl RequestFrames {
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
mod tests;
